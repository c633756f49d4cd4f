"""The exceptions of failed calls.

All are RuntimeErrors, raised by mlxcomm's functions and by the evaluation (``mx.eval``,
``.item()``) that met the failure. ``mlxcomm.check(group)`` raises the latched one again.
"""

import signal
import threading
from typing import ClassVar, Optional


class Error(RuntimeError):
    """A call or an operation has failed: the text says why, and what to do.

    Mostly one of the subclasses below; this class itself stands for a mistake of mlxcomm's own. A group
    whose operation has failed stays failed: `shrink` makes a group of the ranks that are left.

    Attributes:
        code: the failure's name in mlxcomm.h, without its prefix: "RANK_LOST".
        rank: the rank at fault, in `group`; None if the failure names none.
        node: the machine on which that rank runs; None if unknown.
        pid: that rank's process; None if unknown.
        group: the group's name, as `mlxcommctl status` shows it; None for a failure outside of one.

    Example:
        >>> try:
        ...     mx.eval(mlxcomm.all_reduce(mx.ones(3), timeout=60))
        ... except mlxcomm.Error as error:
        ...     print(error.code, "on rank", error.rank, "of", error.group)
    """

    code: ClassVar[str] = "INTERNAL"
    rank: Optional[int]
    node: Optional[str]
    pid: Optional[int]
    group: Optional[str]

    def __init__(self, message: str, rank: Optional[int] = None, node: Optional[str] = None,
                 pid: Optional[int] = None, group: Optional[str] = None) -> None:
        super().__init__(message)
        self.rank = rank
        self.node = node
        self.pid = pid
        self.group = group


class InvalidArgumentError(Error):
    """An argument is wrong, and only the daemon could see it. Nothing has changed: call again."""

    code = "INVALID_ARGUMENT"


class MismatchError(Error):
    """Ranks of the group called different things: another operation, shape, dtype or order.

    The text has the call of each rank.
    """

    code = "MISMATCH"


class DeadlineExceededError(Error):
    """Other ranks did not call in time; the text names them. See `set_timeout`."""

    code = "DEADLINE_EXCEEDED"


class RankLostError(Error):
    """A rank's process, its daemon or the last cable to it has gone.

    Example:
        >>> try:
        ...     mlxcomm.barrier(timeout=60)
        ... except mlxcomm.RankLostError as error:
        ...     print(f"rank {error.rank} on {error.node} (pid {error.pid}) is lost")
        ...     world = mlxcomm.shrink()
    """

    code = "RANK_LOST"


class DaemonLostError(Error):
    """This machine's daemon has gone. Once it is back, `init` joins again."""

    code = "DAEMON_LOST"


class DaemonStoppingError(Error):
    """A daemon of the job was told to stop; the text names its node. Once it is back, `init` joins again."""

    code = "DAEMON_STOPPING"


class ResourceExhaustedError(Error):
    """A limit was reached; the text has the usage, the limit and the setting to raise.

    Where results have filled the daemon's memory, drop some of them; the group works on.
    """

    code = "RESOURCE_EXHAUSTED"


class CancelledError(Error):
    """A rank of the group gave up: by Ctrl-C, or because its process ends."""

    code = "CANCELLED"


class AlreadyExistsError(Error):
    """Another process has this rank of the job: it runs already, or another job has the same name."""

    code = "ALREADY_EXISTS"


class UnavailableError(Error):
    """No daemon could be reached or started, or no link leads to a node of the job."""

    code = "UNAVAILABLE"


class PermissionDeniedError(Error):
    """The daemon does not serve this user, or belongs to another user who is not root."""

    code = "PERMISSION_DENIED"


_BY_CODE = {
    cls.code: cls
    for cls in (
        InvalidArgumentError, MismatchError, DeadlineExceededError, RankLostError,
        DaemonLostError, DaemonStoppingError, ResourceExhaustedError, CancelledError,
        AlreadyExistsError, UnavailableError, PermissionDeniedError,
    )
}

# The name that programs catch them by, for tracebacks and pickle: mlxcomm.RankLostError.
for _class in (Error, *_BY_CODE.values()):
    _class.__module__ = "mlxcomm"


def make_error(failure: tuple[int, str, int, str, str, int, str]) -> Error:
    """The exception for a failure that the extension reports."""
    _, code, rank, message, node, pid, group = failure
    return _BY_CODE.get(code, Error)(
        f"{code}: {message}", None if rank < 0 else rank, node or None, pid or None, group or None)


def to_raise(failure: tuple[int, str, int, str, str, int, str], thread: int,
             was_interrupted: bool) -> Optional[type[Error]]:
    """A class that stands for the exception, for PyThreadState_SetAsyncExc. None: a Ctrl-C is about to raise
    KeyboardInterrupt in that thread."""
    handler = signal.getsignal(signal.SIGINT)
    if was_interrupted and thread == threading.main_thread().ident and handler is signal.default_int_handler:
        return None
    error = make_error(failure)
    return type(type(error).__name__, (type(error),), {"__new__": lambda cls: error})
