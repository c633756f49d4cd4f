"""Joins a job, creates its groups, and leaves it when the program exits."""

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

# Keyed by process id and place: a forked child must not use its parent's group.
_worlds: dict[tuple, mx.distributed.Group] = {}
_default_places: dict[int, Place] = {}  # Keyed by process id.
# A lock for each place: threads that call init at once join once, and one process may be several ranks.
# Reentrant, because a signal handler may call init while its thread joins.
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
        raise ValueError("group: expected a group from mlxcomm.init() or split(), got one of MLX's backends")
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
    """Joins a job and waits until all its ranks have joined. A second call returns the same group.

    Args:
        job, rank, size: this process's place. By default the launcher's variables (`mlxcommctl launch`,
            mlx.launch, mpirun, srun or torchrun), then the only job that this process has joined. Otherwise
            the group has one rank, and its operations return their input.
        socket: the daemon's Unix socket. By default $MLXCOMM_SOCKET, then the service's; if neither exists, a
            private daemon is started, which exits with its last client.
        timeout: seconds to wait for the other ranks; by default the daemon's setting (5 minutes).
        arena_bytes: address space for this process's buffers, in bytes. The default, and the maximum, is what
            the daemon allows: the machine's memory, unless configured otherwise.

    Returns:
        A real ``mx.distributed.Group``, which all of ``mx.distributed`` accepts.

    Raises:
        ValueError, TypeError: an argument or variable is wrong.
        mlxcomm.DeadlineExceededError: ranks are missing; the message names them.
        mlxcomm.UnavailableError: no daemon is running, and none could be started.
        mlxcomm.Error: any other failure.

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
    """Returns this process's place from its environment (read again until it has joined), or the only job
    that it has joined. Raises ValueError if it has joined several."""
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
    key = (os.getpid(), place)
    if place.size == 1:
        return _worlds.setdefault(key, _mlxcomm.alone())
    with _joining.setdefault(key, threading.RLock()):
        world = _worlds.get(key)
        if world is not None:
            try:
                _mlxcomm.check(world)
                return world
            except _DAEMON_GONE:  # Join again.
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
    """Logs once if results are copied."""
    global _reported_copies
    if _reported_copies:
        return
    why = _mlxcomm.why_results_are_copied(world, False)
    if not why:
        return
    _reported_copies = True
    asked_for = "MLXCOMM_RESULTS" in why
    _log.log(logging.INFO if asked_for else logging.WARNING,
             "results are copied out of the daemon's shared memory: %s. mlxcommctl status shows how many "
             "copies were made and how long they took", why)


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
    """Splits a group: ranks with the same color form a new group.

    Every rank of `group` must call it, in the same order as its other operations; it returns when all have.
    ``group.split(color, key)`` of MLX does the same. The new groups can be split again.

    Args:
        color: 0 or more; None if this rank does not take part.
        key: the ranks of the new group are sorted by key, then by old rank; by default the old rank.
        name: appended to the parent's name in errors and `mlxcommctl status`.
        group: the group to split; by default ``init()``.
        timeout: seconds until DeadlineExceededError; by default the group's, which the new group inherits.

    Returns:
        The new group, or None if this rank does not take part.

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
    """Makes a new group of the remaining ranks after a failure, in the old order.

    Every remaining rank must call it; it returns when all of them have called it or died. If `group` was that
    of the whole job, ``init()`` and ``group=None`` mean the new group from then on.

    Args:
        group: a group that has failed; by default ``init()``.
        timeout: seconds until DeadlineExceededError; by default the group's.

    Raises:
        mlxcomm.InvalidArgumentError: the group has not failed.
        mlxcomm.DeadlineExceededError: remaining ranks did not call it; the message names them.

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
    for key, world in list(_worlds.items()):  # Other threads may join in the meantime.
        if world is group:
            _worlds[key] = rest
    return rest


@ends_at_caller
def set_timeout(group: Optional[mx.distributed.Group], seconds: Optional[float]) -> None:
    """Sets the default timeout of this rank's later operations on a group.

    Groups that are split off later inherit it, so setting it on ``init()`` covers the whole job.

    Args:
        group: None for ``init()``.
        seconds: None for the daemon's default, which waits as long as the missing ranks may still call.

    Example:
        >>> mlxcomm.set_timeout(None, 60)
    """
    wait = arguments.nanoseconds(seconds, "seconds")
    group = _ours(group)
    if _mlxcomm.is_ours(group):
        _mlxcomm.set_timeout(group, wait)


@ends_at_caller
def rank(group: Optional[mx.distributed.Group] = None) -> int:
    """Returns this process's rank in a group (by default ``init()``), from 0 to size - 1.

    Example (rank 0 of 2):
        >>> mlxcomm.rank()
        0
    """
    return _any(group).rank()


@ends_at_caller
def size(group: Optional[mx.distributed.Group] = None) -> int:
    """Returns the number of ranks of a group; by default of ``init()``.

    Example (rank 0 of 2):
        >>> mlxcomm.size()
        2
    """
    return _any(group).size()


@ends_at_caller
def name(group: Optional[mx.distributed.Group] = None) -> str:
    """Returns a group's name (by default of ``init()``), as in errors and `mlxcommctl status`.

    A group of one rank, which needs no daemon, is called "alone".

    Example:
        >>> mlxcomm.name()
        'train'
    """
    group = _ours(group)
    return _mlxcomm.name(group) if _mlxcomm.is_ours(group) else "alone"


@ends_at_caller
def check(group: Optional[mx.distributed.Group] = None) -> None:
    """Raises a group's failure again, if an operation of this rank has failed.

    It asks no other process: a failure of another rank is reported by this rank's next operation.

    Args:
        group: by default ``init()``.

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
        group: by default ``init()``.
        timeout: seconds until DeadlineExceededError; by default the group's.

    Raises:
        ValueError: the group belongs to one of MLX's own backends and has more than one rank.
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
    """Returns whether a group's operations use a daemon: not with one rank, or with MLX's own backends.

    Example (rank 0 of 2):
        >>> mlxcomm.is_ours(mlxcomm.init())
        True
    """
    if arguments.group(group) is None:
        raise arguments.wrong("group", "an mx.distributed.Group", group)
    return _mlxcomm.is_ours(group)


@ends_at_caller
def counters() -> dict[str, int]:
    """Returns counts for this process so far.

    Returns:
        operations; inputs_copied into the daemon's memory; inputs_in_arena, which were there already;
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
    """Reports an uncaught exception to the other ranks at once, even if the process then hangs."""
    global _hooked_into
    if _hooked_into is not None or hasattr(sys, "ps1") or sys.flags.interactive:
        return  # At a prompt an exception does not end the process.
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
        _log.debug("cannot report the error to other ranks", exc_info=True)


def _let_threads_go_on():
    """Lets threads whose operation has ended take the GIL before Python finalizes: before Python 3.14, taking
    it later aborts the process."""
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
    """Leaves every job cleanly. After a crash this does not run, and the other ranks see RANK_LOST."""
    try:
        # Python sets it even if the program has replaced sys.excepthook.
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
