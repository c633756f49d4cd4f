"""Makes the daemon MLX's default: mx.distributed.init() and group=None.

The functions of ``mx.distributed`` are wrapped, nothing of MLX itself is touched.
A backend that is named explicitly ("ring", "mpi", ...) stays MLX's own.
"""

import functools

import mlx.core as mx

from .groups import init as _init

_WITH_GROUP = (
    "all_sum", "all_gather", "send", "recv", "recv_like", "all_max", "all_min", "sum_scatter",
)
_originals = {}


def _default_group(original):
    @functools.wraps(original)
    def wrapper(*args, group=None, **kwargs):
        return original(*args, group=_init() if group is None else group, **kwargs)

    return wrapper


def install() -> None:
    """From here on ``mx.distributed`` goes through the daemon. Does nothing the second time."""
    if _originals:
        return
    module = mx.distributed
    for name in _WITH_GROUP + ("init", "is_available"):
        if hasattr(module, name):
            _originals[name] = getattr(module, name)
    for name in _WITH_GROUP:
        if name in _originals:
            setattr(module, name, _default_group(_originals[name]))

    @functools.wraps(_originals["init"])
    def init(strict=False, backend="any", **kwargs):
        if backend in ("any", "mlxcomm"):
            return _init()
        return _originals["init"](strict=strict, backend=backend, **kwargs)

    @functools.wraps(_originals["is_available"])
    def is_available(backend="any"):
        return backend in ("any", "mlxcomm") or _originals["is_available"](backend)

    module.init = init
    module.is_available = is_available


def uninstall() -> None:
    """Puts MLX's own functions back."""
    for name, original in _originals.items():
        setattr(mx.distributed, name, original)
    _originals.clear()
