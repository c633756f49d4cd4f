"""Joining a job, and its groups: making them, ending them, and their facts."""

import atexit
import logging
import math
import operator
import os
import sys
import threading
from traceback import format_exception_only
from typing import Optional

import mlx.core as mx

from . import _mlxcomm
from .environment import Place, find_place
from .errors import DaemonLostError, DaemonStoppingError, Error
from .tracebacks import ends_at_caller

# A process has one place in a job, so asking again gives the same group. The process is part of the
# key, because a forked child must not use its parent's group.
_worlds: dict[tuple, mx.distributed.Group] = {}
_default_places: dict[int, Place] = {}  # By process.
# Threads that ask at the same time join once. A lock for each place, because a process may be several
# ranks; it may be taken twice, because a signal handler may ask while its thread joins.
_joining: dict = {}
_DAEMON_GONE = (DaemonLostError, DaemonStoppingError)
_NO_GROUP = -1  # mlxcomm.h
_log = logging.getLogger("mlxcomm")
_told_of_copies = False


def nanoseconds(timeout: Optional[float]) -> int:
    """0 for None, which stands for the default."""
    if timeout is None:
        return 0
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout: expected seconds, more than 0, got {timeout}")
    return max(1, int(min(timeout * 1e9, 2.0**63)))  # A product may be infinite.


def _ours(name, group):
    group = init() if group is None else group
    if group.size() > 1 and not is_ours(group):
        raise ValueError(f"{name}: expected a group of mlxcomm.init() or split off it, got one of "
                         "MLX's own backends")
    return group


@ends_at_caller
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
            Where nothing names a rank: a group of one rank, whose operations do nothing.
        socket: the daemon's Unix socket; default $MLXCOMM_SOCKET, else the service's, else
            a private daemon that is started now and ends with its last client.
        timeout: seconds to wait for the other ranks; default the daemon's (5 minutes).
        arena_bytes: address space for this process's buffers; default, and at most, what the
            daemon allows: the machine's memory, unless its configuration says otherwise.

    Returns:
        A real ``mx.distributed.Group``: every operation of ``mx.distributed`` takes it.

    Raises:
        ValueError: an argument or variable is wrong.
        mlxcomm.Error: the subclass shows what went wrong, the text what to do.
    """
    if arena_bytes is not None and arena_bytes <= 0:
        raise ValueError(f"arena_bytes: expected more than 0, got {arena_bytes}")
    wait = nanoseconds(timeout)
    if job is None and rank is None and size is None:
        return join_place(default_place(), socket, wait, arena_bytes)
    return join_place(find_place(job, rank, size), socket, wait, arena_bytes)


def default_place() -> Place:
    """This process's place by its environment, which is read again until the process has joined."""
    pid = os.getpid()
    place = _default_places.get(pid)
    if place is None or (pid, place) not in _worlds or not (place.launched or place.size > 1):
        place = _default_places[pid] = find_place()
    return place


def set_default_place(place: Place) -> None:
    _default_places[os.getpid()] = place


def join_place(place: Place, socket: Optional[str] = None, wait: int = 0,
               arena_bytes: Optional[int] = None) -> mx.distributed.Group:
    """The group of the place's job: joined now or before."""
    key = (os.getpid(), place)
    if place.size == 1:
        return _worlds.setdefault(key, _mlxcomm.alone())
    with _joining.setdefault(key, threading.RLock()):
        world = _worlds.get(key)
        if world is not None:
            try:
                _mlxcomm.check(world)
                return world
            except _DAEMON_GONE:  # Once the daemon is back, the process can join again.
                del _worlds[key], world
            except Error:
                return world
        world = _mlxcomm.join(
            place.job, place.rank, place.size, socket or "", wait, arena_bytes or 0)
        _tell_of_copies(world)
        _worlds[key] = world
        _tell_others_of_exceptions()
        return world


def _tell_of_copies(world):
    """Reports once for the process that results are copied, where they are."""
    global _told_of_copies
    if _told_of_copies:
        return
    why = _mlxcomm.why_results_are_copied(world, False)
    if not why:
        return
    _told_of_copies = True
    asked_for = "MLXCOMM_RESULTS" in why
    _log.log(logging.INFO if asked_for else logging.WARNING,
             "results of operations are copied out of the daemon's shared memory, which takes about "
             "as long as reading and writing them once more: %s. mlxcommctl status shows how many, "
             "and the time that it took", why)


@ends_at_caller
def split(color: Optional[int], key: Optional[int] = None, name: Optional[str] = None, *,
          group: Optional[mx.distributed.Group] = None,
          timeout: Optional[float] = None) -> Optional[mx.distributed.Group]:
    """A new group of all ranks of `group` that name the same color.

    Every rank of `group` must call it, in the same order as its other operations; it returns
    when all have. ``group.split(color, key)`` of MLX does the same. Groups can be split again.

    Args:
        color: 0 or more; None for a rank that takes no part.
        key: ranks of the new group are in order of it, then of the old rank; by default the
            old rank.
        name: what `mlxcommctl status` and errors call it, behind its parent's name.
        timeout: seconds until DEADLINE_EXCEEDED; by default the group's, which the new
            group inherits.

    Returns:
        The group, or None for a rank that takes no part.
    """
    if color is not None and not 0 <= operator.index(color) < 2**31:
        raise ValueError(f"color: expected 0 <= color < {2**31} or None, got {color}")
    group = _ours("split", group)
    key = group.rank() if key is None else operator.index(key)
    if not -2**31 <= key < 2**31:
        raise ValueError(f"key: expected {-2**31} <= key < {2**31}, got {key}")
    if not is_ours(group):
        return None if color is None else _mlxcomm.alone()
    return _mlxcomm.split(
        group, _NO_GROUP if color is None else operator.index(color), key, name or "",
        nanoseconds(timeout))


@ends_at_caller
def shrink(group: Optional[mx.distributed.Group] = None, *,
           timeout: Optional[float] = None) -> mx.distributed.Group:
    """After a failure: a new group of the ranks that are left, in the old order.

    Every rank that is left must call it; it returns when all have, or when those that have
    not are gone. For the world group, `init` and ``group=None`` mean the new one from then on.

    Raises:
        InvalidArgumentError: the group has not failed.
        DeadlineExceededError: names the ranks that did not call.
    """
    group = _ours("shrink", group)
    if not is_ours(group):
        raise ValueError("shrink: a group of one rank has nobody to lose")
    rest = _mlxcomm.shrink(group, nanoseconds(timeout))
    for key, world in list(_worlds.items()):  # Other threads may join meanwhile.
        if world is group:
            _worlds[key] = rest
    return rest


@ends_at_caller
def set_timeout(group: Optional[mx.distributed.Group], seconds: Optional[float]) -> None:
    """The deadline of this rank's later operations on the group that name none.

    None is the daemon's default: a call waits as long as the ranks that it waits for may still come.
    Groups split off afterwards inherit it: set on the world group, it holds for the whole job.
    """
    group = _ours("set_timeout", group)
    if is_ours(group):
        _mlxcomm.set_timeout(group, nanoseconds(seconds))


@ends_at_caller
def name(group: Optional[mx.distributed.Group] = None) -> str:
    """What `mlxcommctl status` calls the group: "train", "train/rows"."""
    group = _ours("name", group)
    return _mlxcomm.name(group) if is_ours(group) else "alone"


@ends_at_caller
def check(group: Optional[mx.distributed.Group] = None) -> None:
    """Raises the group's failure again, if an operation of this rank has met one.

    A failed group stays failed. Asks no other process: the next operation reports a failure elsewhere
    since this rank's last one.
    """
    _mlxcomm.check(init() if group is None else group)


@ends_at_caller
def barrier(group: Optional[mx.distributed.Group] = None, *,
            timeout: Optional[float] = None) -> None:
    """Returns when every rank of the group has called it (at once, not lazily).

    Raises:
        ValueError: the group is one of MLX's own backends, of more than one rank.
        mlxcomm.Error: as `check` would.
    """
    group = _ours("barrier", group)
    wait = nanoseconds(timeout)
    if group.size() > 1:
        _mlxcomm.barrier(group, wait)


@ends_at_caller
def is_ours(group: mx.distributed.Group) -> bool:
    """Whether the group's operations go through a daemon."""
    return _mlxcomm.is_ours(group)


@ends_at_caller
def counters() -> dict[str, int]:
    """operations, inputs_copied, inputs_in_arena (needed no copy), results_copied so far."""
    return _mlxcomm.counters()


# --- the end of the process -------------------------------------------------------------

_crashed = False
_hooked_into = None


def _ours_joined():
    return [world for (pid, _), world in list(_worlds.items())
            if pid == os.getpid() and is_ours(world)]


def _tell_others_of_exceptions():
    """A process that an exception ends reports it to the other ranks at once, even where something keeps
    the process from ending."""
    global _hooked_into
    if _hooked_into is not None or hasattr(sys, "ps1") or sys.flags.interactive:
        return  # At a prompt an exception ends nothing.
    _hooked_into = sys.excepthook

    def tell(kind, value, traceback):
        try:
            _leave_for(value)
        finally:
            _hooked_into(kind, value, traceback)

    sys.excepthook = tell


def _leave_for(error):
    global _crashed
    if _crashed:
        return
    _crashed = True
    try:
        text = "".join(format_exception_only(type(error), error)).strip().splitlines()
        words = (text[-1] if text else type(error).__name__).encode(errors="replace").decode()
        for world in _ours_joined():
            _mlxcomm.leave(world, words)
    except Exception:  # The program's own error must stay visible.
        _log.debug("others were not told", exc_info=True)


@atexit.register
def _close_all() -> None:
    """Leaves every job in an orderly way. A crash does not get here, and the peers learn of it."""
    try:
        # Python notes the error even where a program has replaced sys.excepthook.
        error = getattr(sys, "last_value", None)
        if error is not None and _hooked_into is not None:
            _leave_for(error)
        if _ours_joined() and not _crashed:
            _mlxcomm.await_queued()
    except KeyboardInterrupt:
        pass
    finally:
        _worlds.clear()
