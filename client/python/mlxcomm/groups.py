"""Joins a job; makes its groups, ends them, and says what they are."""

import atexit
import logging
import os
import sys
import threading
import time
from typing import Optional, overload

import mlx.core as mx

from . import DaemonLostError, DaemonStoppingError, Error, _mlxcomm, arguments
from .environment import Place, find_place
from .tracebacks import ends_at_caller

__all__ = ["barrier", "check", "counters", "init", "is_ours", "name", "rank", "set_timeout", "shrink", "size",
           "split"]

# A process has one place in a job, so asking again gives the same group. The process is part of the
# key, because a forked child must not use its parent's group.
_worlds: dict[tuple, mx.distributed.Group] = {}
_default_places: dict[int, Place] = {}  # By process.
# Threads that ask at the same time join once. A lock for each place, because a process may be several
# ranks; it may be taken twice, because a signal handler may ask while its thread joins.
_joining: dict = {}
_DAEMON_GONE = (DaemonLostError, DaemonStoppingError)
_NO_GROUP, _NAME_BYTES_MAX = -1, 100  # mlxcomm.h
_LAST_WORDS = 0.1  # Seconds.
_log = logging.getLogger("mlxcomm")
_reported_copies = False


def _any(group):
    return init() if arguments.group(group) is None else group


def _ours(group):
    group = _any(group)
    if group.size() > 1 and not _mlxcomm.is_ours(group):
        raise ValueError("group: expected a group of mlxcomm.init() or split off it, got one of MLX's own "
                         "backends")
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
    """Joins a job and waits until all of its ranks are there. Called again, it returns the same group.

    Args:
        job, rank, size: this process's place. By default the launcher's variables name it: those of
            `mlxcommctl launch`, mlx.launch, mpirun, srun or torchrun. Where nothing names a rank, it is
            the one job that the process has joined before. Else the group has one rank, and its
            operations do nothing.
        socket: the daemon's Unix socket. By default $MLXCOMM_SOCKET, else the service's, else a private
            daemon is started that ends with its last client.
        timeout: seconds to wait for the other ranks; by default the daemon's, 5 minutes.
        arena_bytes: address space for this process's buffers, in bytes. By default, and at most, what the
            daemon allows: the machine's memory, unless its configuration says otherwise.

    Returns:
        A real ``mx.distributed.Group``: every operation of ``mx.distributed`` takes it.

    Raises:
        ValueError, TypeError: an argument or variable is wrong.
        mlxcomm.DeadlineExceededError: ranks are missing; the text names them.
        mlxcomm.UnavailableError: there is no daemon, and none could be started.
        mlxcomm.Error: any other failure; the subclass shows what went wrong, the text what to do.

    Example (rank 0 of 2):
        >>> world = mlxcomm.init()
        >>> world.rank(), world.size()
        (0, 2)
    """
    socket = arguments.text("socket", socket, "the path of the daemon's socket")
    wait = arguments.nanoseconds(timeout)
    if arena_bytes is not None:
        arena_bytes = arguments.whole("arena_bytes", arena_bytes, "a number of bytes, more than 0", 1, 2**63)
    if job is None and rank is None and size is None:
        return join_place(default_place(), socket, wait, arena_bytes)
    return join_place(find_place(job, rank, size), socket, wait, arena_bytes)


def default_place() -> Place:
    """This process's place by its environment, which is read again until the process has joined; where that
    names none, the one job that it has joined.

    Raises ValueError: it has joined several.
    """
    pid = os.getpid()
    place = _default_places.get(pid)
    if place is None or (pid, place) not in _worlds or not (place.launched or place.size > 1):
        place = _default_places[pid] = find_place()
    if place.launched or place.size > 1:
        return place
    joined = [other for process, other in list(_worlds) if process == pid and other.size > 1]
    if len(joined) > 1:
        names = " and ".join(f"{one.job} (rank {one.rank} of {one.size})" for one in joined)
        raise ValueError(f"group: this process has joined {names}: pass the group of one of them")
    return joined[0] if joined else place


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
        _report_copies(world)
        _worlds[key] = world
        _report_exceptions()
        return world


def _report_copies(world):
    """Reports once for the process that results are copied, where they are."""
    global _reported_copies
    if _reported_copies:
        return
    why = _mlxcomm.why_results_are_copied(world, False)
    if not why:
        return
    _reported_copies = True
    asked_for = "MLXCOMM_RESULTS" in why
    _log.log(logging.INFO if asked_for else logging.WARNING,
             "results of operations are copied out of the daemon's shared memory, which takes about "
             "as long as reading and writing them once more: %s. mlxcommctl status shows how many, "
             "and the time that it took", why)


@overload
def split(color: int, key: Optional[int] = None, name: Optional[str] = None, *,
          group: Optional[mx.distributed.Group] = None,
          timeout: Optional[float] = None) -> mx.distributed.Group: ...
@overload
def split(color: Optional[int], key: Optional[int] = None, name: Optional[str] = None, *,
          group: Optional[mx.distributed.Group] = None,
          timeout: Optional[float] = None) -> Optional[mx.distributed.Group]: ...


@ends_at_caller
def split(color: Optional[int], key: Optional[int] = None, name: Optional[str] = None, *,
          group: Optional[mx.distributed.Group] = None,
          timeout: Optional[float] = None) -> Optional[mx.distributed.Group]:
    """Divides a group: the ranks that name the same color become a new one.

    Every rank of `group` must call it, in the same order as its other operations; it returns when all
    have. ``group.split(color, key)`` of MLX does the same. Groups can be split again.

    Args:
        color: 0 or more; None for a rank that takes no part.
        key: the new ranks follow its order, then that of the old ranks; by default the old rank.
        name: what errors and `mlxcommctl status` call the new group, behind its parent's name.
        group: the group to divide; by default ``init()``.
        timeout: seconds until DeadlineExceededError; by default the group's, which the new one inherits.

    Returns:
        The new group, or None for a rank that takes no part.

    Example (rank 0 of 2):
        >>> row = mlxcomm.split(mlxcomm.rank() // 4, name="rows")
        >>> row.size(), mlxcomm.name(row)
        (2, 'train/rows')
    """
    if color is not None:
        color = arguments.whole("color", color, "0 <= color < 2^31, or None", 0, 2**31)
    if key is not None:
        key = arguments.whole("key", key, "-2^31 <= key < 2^31, or None", -2**31, 2**31)
    name = arguments.text("name", name, "the new group's name", _NAME_BYTES_MAX)
    wait = arguments.nanoseconds(timeout)
    group = _ours(group)
    if not _mlxcomm.is_ours(group):
        return None if color is None else _mlxcomm.alone()
    return _mlxcomm.split(
        group, _NO_GROUP if color is None else color, group.rank() if key is None else key, name, wait)


@ends_at_caller
def shrink(group: Optional[mx.distributed.Group] = None, *,
           timeout: Optional[float] = None) -> mx.distributed.Group:
    """After a failure, makes a new group of the ranks that are left, in the old order.

    Every rank that is left must call it; it returns when all have, or when those that have not are gone.
    From then on ``init()`` and ``group=None`` mean the new group, if `group` was that of the whole job.

    Args:
        group: a group that has failed; by default ``init()``.
        timeout: seconds until DeadlineExceededError; by default the group's.

    Raises:
        mlxcomm.InvalidArgumentError: the group has not failed.
        mlxcomm.DeadlineExceededError: ranks that are there did not call; the text names them.

    Example:
        >>> try:
        ...     mlxcomm.barrier(timeout=60)
        ... except mlxcomm.RankLostError:
        ...     world = mlxcomm.shrink()
    """
    wait = arguments.nanoseconds(timeout)
    group = _ours(group)
    if not _mlxcomm.is_ours(group):
        raise ValueError("group: expected more than one rank, got one")
    rest = _mlxcomm.shrink(group, wait)
    for key, world in list(_worlds.items()):  # Other threads may join meanwhile.
        if world is group:
            _worlds[key] = rest
    return rest


@ends_at_caller
def set_timeout(group: Optional[mx.distributed.Group], seconds: Optional[float]) -> None:
    """Sets the deadline of this rank's later operations on a group that name none themselves.

    Groups split off afterwards inherit it: set on the group of ``init()``, it holds for the whole job.

    Args:
        group: None for that of ``init()``.
        seconds: None for the daemon's default: a call waits as long as the missing ranks may still come.

    Example:
        >>> mlxcomm.set_timeout(None, 60)
    """
    wait = arguments.nanoseconds(seconds, "seconds")
    group = _ours(group)
    if _mlxcomm.is_ours(group):
        _mlxcomm.set_timeout(group, wait)


@ends_at_caller
def rank(group: Optional[mx.distributed.Group] = None) -> int:
    """This process's rank in a group, from 0 to its size - 1; by default in that of ``init()``.

    Example (rank 0 of 2):
        >>> mlxcomm.rank()
        0
    """
    return _any(group).rank()


@ends_at_caller
def size(group: Optional[mx.distributed.Group] = None) -> int:
    """The number of ranks of a group; by default of that of ``init()``.

    Example (rank 0 of 2):
        >>> mlxcomm.size()
        2
    """
    return _any(group).size()


@ends_at_caller
def name(group: Optional[mx.distributed.Group] = None) -> str:
    """A group's name, as errors and `mlxcommctl status` show it; by default that of ``init()``.

    A group of one rank that needs no daemon is called "alone".

    Example:
        >>> mlxcomm.name()
        'train'
    """
    group = _ours(group)
    return _mlxcomm.name(group) if _mlxcomm.is_ours(group) else "alone"


@ends_at_caller
def check(group: Optional[mx.distributed.Group] = None) -> None:
    """Raises a group's failure again, if an operation of this rank has met one.

    A failed group stays failed. This asks no other process: if another rank has failed since this rank's
    last operation, the next operation reports it.

    Args:
        group: by default that of ``init()``.

    Raises:
        mlxcomm.Error: the failure.

    Example:
        >>> mlxcomm.check()
    """
    _mlxcomm.check(_any(group))


@ends_at_caller
def barrier(group: Optional[mx.distributed.Group] = None, *,
            timeout: Optional[float] = None) -> None:
    """Waits until every rank of a group has called it. Unlike the operations it is not lazy.

    Args:
        group: by default that of ``init()``.
        timeout: seconds until DeadlineExceededError; by default the group's.

    Raises:
        ValueError: the group is one of MLX's own backends, of more than one rank.
        mlxcomm.Error: the group has failed.

    Example:
        >>> mlxcomm.barrier(timeout=60)
    """
    wait = arguments.nanoseconds(timeout)
    group = _ours(group)
    if group.size() > 1:
        _mlxcomm.barrier(group, wait)


@ends_at_caller
def is_ours(group: mx.distributed.Group) -> bool:
    """Whether a group's operations go through a daemon.

    False for a group of one rank, and for one of MLX's own backends.

    Example (rank 0 of 2):
        >>> mlxcomm.is_ours(mlxcomm.init())
        True
    """
    if arguments.group(group) is None:
        raise arguments.wrong("group", "an mx.distributed.Group", group)
    return _mlxcomm.is_ours(group)


@ends_at_caller
def counters() -> dict[str, int]:
    """What this process has done so far, by name.

    Returns:
        operations; inputs_copied into the daemon's memory; inputs_in_arena, which lay there already;
        results_copied out of it.

    Example (rank 0 of 2):
        >>> before = mlxcomm.counters()["operations"]
        >>> mx.eval(mlxcomm.all_reduce(mx.ones(3)))
        >>> mlxcomm.counters()["operations"] - before
        1
    """
    return _mlxcomm.counters()


_crashed = False
_hooked_into = None


def _ours_joined():
    return [world for (pid, _), world in list(_worlds.items())
            if pid == os.getpid() and _mlxcomm.is_ours(world)]


def _report_exceptions():
    """A process that an exception ends reports it to the other ranks at once, even where something keeps
    the process from ending."""
    global _hooked_into
    if _hooked_into is not None or hasattr(sys, "ps1") or sys.flags.interactive:
        return  # At a prompt an exception ends nothing.
    _hooked_into = sys.excepthook

    def report(kind, value, traceback):
        try:
            _leave_for(value)
        finally:
            _hooked_into(kind, value, traceback)

    sys.excepthook = report


def _leave_for(error):
    global _crashed
    if _crashed:
        return
    _crashed = True
    try:
        words = " ".join(f"{type(error).__name__}: {error}".split()).encode(errors="replace").decode()
        for world in _ours_joined():
            _mlxcomm.leave(world, words)
    except Exception:  # The program's own error must stay visible.
        _log.debug("others were not told", exc_info=True)


def _let_threads_go_on():
    """A thread whose operation has ended must have Python's lock back before Python ends: asking for it later
    aborts the process (before Python 3.14)."""
    _mlxcomm.keep_later_ends()
    waiting = {number: _place_of(frame) for number, frame in sys._current_frames().items()
               if number != threading.get_ident()}
    until = time.monotonic() + _LAST_WORDS
    while waiting and time.monotonic() < until:
        time.sleep(0.001)
        now = sys._current_frames()
        waiting = {number: place for number, place in waiting.items()
                   if number in now and _place_of(now[number]) == place}


def _place_of(frame):
    return id(frame), frame.f_lasti


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
            _let_threads_go_on()
    except KeyboardInterrupt:
        pass
    finally:
        _worlds.clear()
