"""The exceptions of failed calls.

All are RuntimeErrors, raised by mlxcomm's functions and by the evaluation (``mx.eval``,
``.item()``) that met the failure. ``mlxcomm.check(group)`` raises the latched one again.
"""


class Error(RuntimeError):
    """Base of all; raised itself for internal errors.

    Attributes:
        code: the name in mlxcomm.h without its prefix.
        rank: the rank at fault, in `group`; None where none can be named.
        node, pid: where that rank runs; None where it is not known.
        group: the group's name; None for a failure outside of one.
    """

    code = "INTERNAL"

    def __init__(self, message, rank=None, node=None, pid=None, group=None):
        super().__init__(message)
        self.rank = rank
        self.node = node
        self.pid = pid
        self.group = group


def _error(name, code, doc):
    # __module__: pickle looks there for it.
    return type(name, (Error,), {"code": code, "__doc__": doc, "__module__": __name__})


InvalidArgumentError = _error(
    "InvalidArgumentError", "INVALID_ARGUMENT", "The caller's mistake; nothing has changed.")
MismatchError = _error(
    "MismatchError", "MISMATCH", "Ranks of the group called different things.")
DeadlineExceededError = _error(
    "DeadlineExceededError", "DEADLINE_EXCEEDED", "Somebody did not come in time.")
RankLostError = _error(
    "RankLostError", "RANK_LOST", "A rank's process, daemon or last cable has gone.")
DaemonLostError = _error(
    "DaemonLostError", "DAEMON_LOST", "This machine's daemon has gone.")
DaemonStoppingError = _error(
    "DaemonStoppingError", "DAEMON_STOPPING",
    "A daemon of the job was told to stop; the message names its node.")
ResourceExhaustedError = _error(
    "ResourceExhaustedError", "RESOURCE_EXHAUSTED", "A limit was reached.")
CancelledError = _error("CancelledError", "CANCELLED", "The caller gave up (Ctrl-C).")
AlreadyExistsError = _error(
    "AlreadyExistsError", "ALREADY_EXISTS", "The rank is taken by another process.")
UnavailableError = _error(
    "UnavailableError", "UNAVAILABLE", "No daemon, or no link to a node.")
PermissionDeniedError = _error(
    "PermissionDeniedError", "PERMISSION_DENIED",
    "The daemon does not serve this user, or is another user's.")

_BY_CODE = {
    cls.code: cls
    for cls in (
        InvalidArgumentError, MismatchError, DeadlineExceededError, RankLostError,
        DaemonLostError, DaemonStoppingError, ResourceExhaustedError, CancelledError,
        AlreadyExistsError, UnavailableError, PermissionDeniedError,
    )
}


def make_error(failure):
    """The exception for a failure that the extension reports."""
    _, code, rank, message, node, pid, group = failure
    return _BY_CODE.get(code, Error)(
        f"{code}: {message}", None if rank < 0 else rank, node or None, pid or None, group or None)
