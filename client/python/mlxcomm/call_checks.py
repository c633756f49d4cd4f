"""MLXCOMM_CHECK: records the program's line for each operation, to detect ranks that pair different calls.

MLX evaluates lazily. If all ranks build a sum but only rank 0 evaluates it (``if rank == 0:
print(loss.item())``), it pairs with the others' next sum, and with equal shapes the values are silently
wrong. With MLXCOMM_CHECK=order this raises a MismatchError that names both lines.
"""

import contextlib
import contextvars
import functools
import hashlib
import os
import sys
from typing import Any, Optional

import mlx.core as mx
from mlx.utils import tree_flatten

from . import MismatchError, _mlxcomm, arguments
from .tracebacks import ends_at_caller

__all__ = ["call_name", "check_equal"]

_EVERY = 100  # MLXCOMM_CHECK=values compares every 100th result.
_NAME_BYTES_MAX = 100
_name = contextvars.ContextVar("name", default="")
_KEPT_MOST = 4096
_places: dict[Any, Any] = {}  # Keyed by the id() of a code object, which the entry keeps alive.
_traces = contextvars.ContextVar("traces", default=False)  # Set while mx.compile traces.


def _wanted(text):
    """Returns N if every Nth result is compared, 0 if only the order is checked, None if checks are off."""
    kind, _, every = text.partition(":")
    if kind in ("", "0", "none"):
        return None
    if kind == "order" and not every:
        return 0
    if kind == "values" and (not every or (every.isascii() and every.isdigit() and int(every) > 0)):
        return int(every or _EVERY)
    raise ValueError(f'MLXCOMM_CHECK: expected order, values or values:N (every Nth result), got "{text}"')


_every = _wanted(os.environ.get("MLXCOMM_CHECK", ""))
enabled = _every is not None
if enabled:
    _mlxcomm.enable_call_checks(_every)
    _compile = mx.compile

    # mx.compile calls the function once for each set of argument shapes, and these may differ between ranks.
    @functools.wraps(_compile)
    def _compile_uncounted(fun, *arguments, **named):
        @functools.wraps(fun)
        def traced(*inputs, **more):
            token = _traces.set(True)
            try:
                return fun(*inputs, **more)
            finally:
                _traces.reset(token)

        return _compile(traced, *arguments, **named)

    mx.compile = _compile_uncounted


def note(function: str) -> None:
    """Records the program's current line for the operations that are built next."""
    frame = sys._getframe(1)
    while (_places.get(id(frame.f_code)) or _is_ours(frame))[1] and frame.f_back is not None:
        frame = frame.f_back
    code, name = frame.f_code, _name.get()
    key = (id(code), frame.f_lasti, function, name)
    if key not in _places:
        place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
        _keep(key, code, _mlxcomm.CallSite(function, place, name))
    _mlxcomm.set_call_site(_places[key][1], not _traces.get())


def _is_ours(frame):
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return _keep(id(frame.f_code), frame.f_code, package in ("mlxcomm", "mlx"))


def _keep(key, code, value):
    if len(_places) > _KEPT_MOST:
        _places.clear()
    _places[key] = (code, value)
    return _places[key]


def call_name(name: str) -> contextlib.AbstractContextManager[None]:
    """Names the operations built inside the block, for MLXCOMM_CHECK. Ranks must use the same names in the
    same order. Use it to tell apart calls on one line, as in a loop over parameters.

    Args:
        name: for example a parameter's name; 1 to 100 bytes.

    Example:
        >>> with mlxcomm.call_name("layer0.weight"):
        ...     total = mlxcomm.all_reduce(mx.ones(2))
    """
    return _named(arguments.text("name", name, "a name for the calls", _NAME_BYTES_MAX))


@contextlib.contextmanager
def _named(name):
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


@ends_at_caller
def check_equal(tree: Any, group: Optional[mx.distributed.Group] = None) -> None:
    """Checks that arrays, such as a model's parameters, are bitwise equal on all ranks.

    Args:
        tree: an array, or lists, tuples and dicts of arrays, of the same structure on all ranks.
        group: from `mlxcomm.init` or `split`; by default ``init()``.

    Raises:
        MismatchError: names the first array that differs, and the ranks that differ from rank 0.

    Example:
        >>> mlxcomm.check_equal({"weight": mx.ones((2, 2))})
    """
    from .operations import all_gather

    leaves = tree_flatten(tree)
    for _, leaf in leaves:
        arguments.array("tree", leaf, "arrays, or lists, tuples and dicts of them")
    mx.eval([leaf for _, leaf in leaves])
    digests = [_digest(key, leaf) for key, leaf in leaves] or [[0, 0]]
    everyone = all_gather(mx.array([digests], dtype=mx.uint32), group=group).tolist()
    for at, (key, leaf) in enumerate(leaves):
        others = [rank for rank, reported in enumerate(everyone) if reported[at] != everyone[0][at]]
        if others:
            ranks = ("rank " if len(others) == 1 else "ranks ") + ", ".join(map(str, others))
            what = f"{key or 'the array'}, {leaf.dtype} of shape {tuple(leaf.shape)}"
            differs = "differs" if len(others) == 1 else "differ"
            raise MismatchError(
                f"MISMATCH: {what}, is not the same on all ranks: {ranks} {differs} from rank 0", others[0])


def _digest(key, leaf):
    data = memoryview(leaf.view(mx.uint8) if leaf.ndim else leaf.reshape(1).view(mx.uint8))
    form = f"{key} {leaf.dtype} {leaf.shape} ".encode()
    hashed = hashlib.blake2b(form, digest_size=8)
    hashed.update(data)
    reported = hashed.digest()
    return [int.from_bytes(reported[:4], "little"), int.from_bytes(reported[4:], "little")]
