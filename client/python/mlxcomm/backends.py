"""Routes mx.distributed through the daemon.

`install` wraps the functions of ``mx.distributed``; MLX itself is not changed. Every backend name that it
replaces means the same group, that of this process's job. Everything else follows stock MLX
(mlx/distributed/distributed.cpp of 0.32.4): ``strict``, repeated ``init``, the first group as the default of
``group=None``, and a group of one without a launcher.
"""

import functools
import logging
import os
from collections.abc import Iterable
from typing import Optional, Union

import mlx.core as mx

from . import UnavailableError, _mlxcomm, arguments, call_checks, operations
from ._check_mlx import WITH_GROUP
from .arguments import BACKENDS, Backend
from .environment import find_place
from .fused import install_fused, replace_everywhere, uninstall_fused
from .groups import default_place, join_place, set_default_place
from .tracebacks import ends_at_caller

_log = logging.getLogger("mlxcomm")
_OURS = "mlxcomm"
_originals = {}
_wrapped = {}  # Keyed by name, like _originals.
_taken = set()
_reported = set()  # MLX's own backends whose use was logged.
# By process id (a forked child starts empty), then backend: the place that init returned, or None for a group
# of one. As in MLX, a name keeps its first result, except that "any" keeps only a group of more than one
# rank, and the first such group becomes that of "any".
_given: dict[int, dict[str, Optional[object]]] = {}


@ends_at_caller
def install(take: Union[Backend, Iterable[Backend], None] = None) -> None:
    """Makes ``mx.distributed`` use the daemon from here on.

    A second call only changes the backends, if `take` is given.

    Args:
        take: the backends to replace: some of "any", "ring", "jaccl", "mpi", "nccl". "any" includes
            ``group=None``. By default all, except "nccl" if MLX has it.

    Raises:
        ValueError: `take` names an unknown backend.

    Example (rank 0 of 2):
        >>> mlxcomm.install()
        >>> mx.distributed.all_sum(mx.array([1.0, 2.0]))
        array([2, 4], dtype=float32)
    """
    global _taken
    if take is not None or not _originals:
        _taken = arguments.backends(take)
    if _originals:
        return
    module = mx.distributed
    for name in WITH_GROUP + ("init", "is_available", "clear_backends"):
        if hasattr(module, name):
            _originals[name] = getattr(module, name)
    _wrapped.update((name, _with_default_group(name, _originals[name])) for name in WITH_GROUP
                    if name in _originals)
    _wrapped["init"] = functools.wraps(_originals["init"])(ends_at_caller(init))
    _wrapped["is_available"] = functools.wraps(_originals["is_available"])(ends_at_caller(is_available))
    if "clear_backends" in _originals:
        _wrapped["clear_backends"] = functools.wraps(_originals["clear_backends"])(_clear_backends)
    # A program that did ``from mlx.core.distributed import init`` would silently get a group of one.
    replace_everywhere({_originals[name]: function for name, function in _wrapped.items()})
    install_fused()
    _log.info("mx.distributed uses mlxcommd for the backends %s", ", ".join(sorted(_taken)))


def uninstall() -> None:
    """Restores the functions of ``mx.distributed``. Groups that were joined remain usable.

    Example:
        >>> mlxcomm.uninstall()
    """
    global _taken
    uninstall_fused()
    replace_everywhere({function: _originals[name] for name, function in _wrapped.items()})
    for name, original in _originals.items():
        setattr(mx.distributed, name, original)  # A profiler may have wrapped ours.
    _wrapped.clear()
    _originals.clear()
    _given.clear()
    _taken = set()


# MLX's functions as operations of this package, which record the calling line.
_CHECKED = {
    "all_sum": ("all_reduce", "sum"),
    "all_max": ("all_reduce", "max"),
    "all_min": ("all_reduce", "min"),
    "all_gather": ("all_gather", "sum"),
    "sum_scatter": ("reduce_scatter", "sum"),
}


def _with_default_group(name, original):
    checked = _CHECKED.get(name) if call_checks.enabled else None

    @functools.wraps(original)
    @ends_at_caller
    def wrapper(*args, group=None, **kwargs):
        if group is None and _is_ours("any"):
            group = init()
        if checked is not None and group is not None and _mlxcomm.is_ours(group):
            return operations.checked(name, *checked, *args, group=group, **kwargs)
        return original(*args, group=group, **kwargs)

    return wrapper


def _is_ours(backend):
    if backend == "any" and _given.get(os.getpid(), {}).get("any") is not None:
        return True  # init was called with another name.
    return backend in _taken or backend == _OURS


def init(strict=False, backend="any", *, all_gather_factory=None):
    if all_gather_factory is not None and not callable(all_gather_factory):
        raise TypeError("all_gather_factory: expected a function of rank and size, got "
                        f"{type(all_gather_factory).__name__}")
    if all_gather_factory is not None and backend != "jaccl":
        raise ValueError("all_gather_factory is only supported with backend='jaccl'.")
    if _is_ours(backend):
        return _group_of(backend, strict, all_gather_factory)
    if backend not in BACKENDS:
        raise ValueError(
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl', "
            f"'ring' and 'mlxcomm' but '{backend}' was provided.")
    if backend not in _reported:
        _reported.add(backend)
        _log.info("using MLX's own backend %r: mlxcomm.install() replaced only %s", backend,
                  ", ".join(sorted(_taken)))
    more = {} if all_gather_factory is None else {"all_gather_factory": all_gather_factory}
    return _originals["init"](strict=strict, backend=backend, **more)


def is_available(backend="any"):
    return _is_ours(backend) or _originals["is_available"](backend)


def _clear_backends():
    _given.pop(os.getpid(), None)
    _originals["clear_backends"]()


def _group_of(backend, strict, factory):
    given = _given.setdefault(os.getpid(), {})
    if backend in given:
        place = given[backend]
        return _mlxcomm.alone() if place is None else join_place(place)
    place = _place(backend, strict, factory)
    if place is None:
        if backend != "any":
            given[backend] = None
        return _mlxcomm.alone()
    group = join_place(place)  # A failure is not kept.
    set_default_place(place)
    given.setdefault("any", place)
    given[backend] = place
    return group


def _place(backend, strict, factory):
    """Returns this process's place in its job; None without a launcher, unless `strict`."""
    place = default_place()
    if not place.launched and place.size == 1:
        if strict:
            raise UnavailableError(
                "[distributed] Couldn't initialize any backend: no launcher has set this process's rank and "
                "size. Start the program with mlxcommctl launch, mlx.launch, mpirun, torchrun or srun, "
                f"or set MLX_RANK and MLX_WORLD_SIZE (backend {backend!r}, strict=True)")
        return None
    if factory is not None and place.size > 1 and not os.environ.get("MLXCOMM_JOB"):
        return find_place(_agreed_job(factory, place), place.rank, place.size)._replace(launched=True)
    return place


def _agreed_job(factory, place):
    """Returns a unique job name, exchanged between the ranks by the program's own all-gather."""
    own = os.urandom(16)
    everyone = factory(place.rank, place.size)(own, len(own))
    if len(everyone) != place.size * len(own):
        raise RuntimeError(f"Custom all-gather returned {len(everyone)} bytes but expected "
                           f"{place.size * len(own)}")
    return "mlx-" + bytes(everyone[:len(own)]).hex()
