"""mx.distributed through the daemon, whatever backend a program asks for.

`install` wraps the functions of ``mx.distributed``; MLX itself is not changed. The caller chooses
the names that it takes over: by default ``any``, ``ring``, ``jaccl`` and ``mpi``, and ``nccl``
where MLX itself has none. All of them mean one group, that of this process's job.

The behaviour of stock MLX is kept: ``strict``, a second ``init``, ``init`` by another name, the
first group as that of ``group=None``, and a group of one where nothing says that there are more. It
follows mlx/distributed/distributed.cpp of MLX 0.32.4.
"""

import functools
import logging
import os
import sys
from collections.abc import Iterable
from typing import Optional, Union

import mlx.core as mx

from . import UnavailableError, _mlxcomm, arguments, call_checks, operations
from ._check_mlx import WITH_GROUP
from .arguments import BACKENDS, Backend
from .environment import find_place
from .fused import install_fused, uninstall_fused
from .groups import default_place, join_place, set_default_place
from .tracebacks import ends_at_caller

_log = logging.getLogger("mlxcomm")
_OURS = "mlxcomm"
_originals = {}
_replaced = []  # (module, name, original), where a program had imported a function by its name.
_taken = set()
_reported = set()  # MLX's own backends, about which a line was logged.
# What init has returned for each name: the job's place, or None for a group of one. As in MLX, a name
# keeps its first result, but "any" only a group of more than one; and the first such group becomes that
# of "any". For this process only: a forked child starts without any.
_given: dict[int, dict[str, Optional[object]]] = {}


@ends_at_caller
def install(take: Union[Backend, Iterable[Backend], None] = None) -> None:
    """Makes ``mx.distributed`` go through the daemon from here on.

    A second call changes the names, if it gives any, and nothing else.

    Args:
        take: the backends whose names it takes over: some of "any", "ring", "jaccl", "mpi", "nccl".
            "any" is ``group=None`` as well. Default: the first four, and "nccl" where MLX has none.

    Raises:
        ValueError: `take` names something else.

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
    wrapped = {name: _with_default_group(name, _originals[name]) for name in WITH_GROUP
               if name in _originals}
    wrapped["init"] = functools.wraps(_originals["init"])(ends_at_caller(init))
    wrapped["is_available"] = functools.wraps(_originals["is_available"])(ends_at_caller(is_available))
    if "clear_backends" in _originals:
        wrapped["clear_backends"] = functools.wraps(_originals["clear_backends"])(_clear_backends)
    for name, function in wrapped.items():
        setattr(module, name, function)
    _replace_imported(wrapped)
    install_fused()
    _log.info("mx.distributed goes through mlxcommd: backends %s", ", ".join(sorted(_taken)))


def uninstall() -> None:
    """Gives ``mx.distributed`` its own functions back. Groups that were joined stay.

    Example:
        >>> mlxcomm.uninstall()
    """
    global _taken
    uninstall_fused()
    for name, original in _originals.items():
        setattr(mx.distributed, name, original)
    for module, name, original in _replaced:
        setattr(module, name, original)
    _replaced.clear()
    _originals.clear()
    _given.clear()
    _taken = set()


def _replace_imported(wrapped):
    """A module that did ``from mlx.core.distributed import init`` earlier still has the original, which
    would give it a group of one without a word."""
    by_original = {id(_originals[name]): function for name, function in wrapped.items()}
    for module in list(sys.modules.values()):
        names, own = getattr(module, "__dict__", None), getattr(module, "__name__", None)
        is_ours = isinstance(own, str) and own.split(".")[0] == "mlxcomm"
        if module is mx.distributed or not isinstance(names, dict) or is_ours:
            continue
        for name, value in list(names.items()):
            if id(value) in by_original:
                _replaced.append((module, name, value))
                setattr(module, name, by_original[id(value)])


# The same as operations of this package, which know the line that they were called from.
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
        return True  # By another name.
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
        _log.info("backend %r is MLX's own: mlxcomm.install() was asked to take %s", backend,
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
    group = join_place(place)  # What fails is not kept.
    set_default_place(place)
    given.setdefault("any", place)
    given[backend] = place
    return group


def _place(backend, strict, factory):
    """This process's place in its job; None: nothing names it, and it is not needed."""
    place = default_place()
    if not place.launched and place.size == 1:
        if strict:
            raise UnavailableError(
                "[distributed] Couldn't initialize any backend: no launcher has said which rank of how "
                "many this is. Start the program by mlxcommctl launch, mlx.launch, mpirun, torchrun or "
                f"srun, or set MLX_RANK and MLX_WORLD_SIZE (backend {backend!r}, strict=True)")
        return None
    if factory is not None and place.size > 1 and not os.environ.get("MLXCOMM_JOB"):
        return find_place(_agreed_job(factory, place), place.rank, place.size)._replace(launched=True)
    return place


def _agreed_job(factory, place):
    """A name that no other launch has: the ranks agree on it by the program's own means of exchange."""
    own = os.urandom(16)
    everyone = factory(place.rank, place.size)(own, len(own))
    if len(everyone) != place.size * len(own):
        raise RuntimeError(f"Custom all-gather returned {len(everyone)} bytes but expected "
                           f"{place.size * len(own)}")
    return "mlx-" + bytes(everyone[:len(own)]).hex()
