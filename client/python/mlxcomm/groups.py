"""Joining a job, and what can be asked of its group."""

import atexit
import math
import os
from typing import Dict, Optional

import mlx.core as mx

from . import _mlxcomm
from .environment import find_place
from .errors import CancelledError, make_error

# A process has one place in a job, so asking again gives the same group. The process is
# part of the key, for a forked child must not use its parent's.
_worlds: Dict[tuple, mx.distributed.Group] = {}
# After these the daemon can be joined again, once it is back.
_DAEMON_GONE = ("DAEMON_LOST", "DAEMON_STOPPING")


def init(
    job: Optional[str] = None,
    rank: Optional[int] = None,
    size: Optional[int] = None,
    socket: Optional[str] = None,
    timeout: Optional[float] = None,
    arena_bytes: Optional[int] = None,
) -> mx.distributed.Group:
    """Joins a job and waits until all of its ranks are there.

    Args:
        job, rank, size: this process's place; by default from the environment
            (MLXCOMM_JOB, MLX_RANK, MLX_WORLD_SIZE, or what mpirun, srun and torchrun set).
            Without any: a group of one rank, whose operations do nothing.
        socket: the daemon's Unix socket; default $MLXCOMM_SOCKET, else the service's, else
            a private daemon that is started now and ends with its last client.
        timeout: seconds to wait for the other ranks; default the daemon's (5 minutes).
        arena_bytes: address space for this process's buffers; default the machine's memory.

    Returns:
        A real ``mx.distributed.Group``: every operation of ``mx.distributed`` takes it.

    Raises:
        ValueError: an argument or variable is wrong.
        mlxcomm.Error: the subclass says what went wrong, its text what to do.
    """
    place = find_place(job, rank, size)
    if timeout is not None and not 0 < timeout < math.inf:
        raise ValueError(f"timeout: expected seconds, more than 0, got {timeout}")
    if arena_bytes is not None and arena_bytes <= 0:
        raise ValueError(f"arena_bytes: expected more than 0, got {arena_bytes}")
    key = (os.getpid(), place)
    if place.size == 1:
        return _worlds.setdefault(key, _mlxcomm.alone())
    world = _worlds.get(key)
    if world is not None and _mlxcomm.failure(world)[1] not in _DAEMON_GONE:
        return world
    _worlds.pop(key, None)
    world, failure = _mlxcomm.join(
        place.job, place.rank, place.size, socket or "",
        0 if timeout is None else min(max(1, int(timeout * 1e9)), 2**63), arena_bytes or 0)
    if failure is not None:
        error = make_error(failure)
        if isinstance(error, CancelledError):
            raise KeyboardInterrupt
        raise error
    _worlds[key] = world
    return world


def check(group: mx.distributed.Group) -> None:
    """Raises the failure of the group, with its code and rank, if it has failed.

    MLX raises a failed operation as a RuntimeError with the same text; this tells it as
    the exception class that it is.
    """
    error = make_error(_mlxcomm.failure(group))
    if error is not None:
        raise error


def barrier(group: Optional[mx.distributed.Group] = None) -> None:
    """Returns when every rank of the group has called it (at once, not lazily).

    Raises:
        ValueError: the group is one of MLX's own backends, of more than one rank.
        mlxcomm.Error: as `check` would.
    """
    group = init() if group is None else group
    if group.size() == 1:
        return
    if not is_ours(group):
        raise ValueError("barrier: expected a group of mlxcomm.init(), got one of MLX's own; "
                         "for that one, evaluate an all_sum")
    error = make_error(_mlxcomm.barrier(group))
    if error is not None:
        raise error


def is_ours(group: mx.distributed.Group) -> bool:
    """Whether the group's operations go through a daemon."""
    return _mlxcomm.is_ours(group)


def counters() -> Dict[str, int]:
    """operations, inputs_copied and inputs_in_arena (needed no copy) so far."""
    return _mlxcomm.counters()


@atexit.register
def _close_all() -> None:
    """Leaves every job in order; a crash does not come by here, and peers are told so."""
    _worlds.clear()
