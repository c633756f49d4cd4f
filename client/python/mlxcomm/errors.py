"""What can go wrong, as exceptions.

Each has ``code`` (the name in mlxcomm.h without its prefix) and ``rank`` (the rank at
fault, or None). All are RuntimeErrors, which is also what MLX raises from an evaluation:
MLX passes on only the text of a failure, so ``mlxcomm.check(group)`` raises the
structured one afterwards.
"""


class Error(RuntimeError):
    """Base of all; raised itself for internal errors."""

    code = "INTERNAL"

    def __init__(self, message, rank=None):
        super().__init__(message)
        self.rank = rank


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
    "DaemonStoppingError", "DAEMON_STOPPING", "This machine's daemon was told to stop.")
ResourceExhaustedError = _error(
    "ResourceExhaustedError", "RESOURCE_EXHAUSTED", "A limit was reached.")
CancelledError = _error("CancelledError", "CANCELLED", "The caller gave up (Ctrl-C).")
AlreadyExistsError = _error(
    "AlreadyExistsError", "ALREADY_EXISTS", "The rank is taken by another process.")
UnavailableError = _error(
    "UnavailableError", "UNAVAILABLE", "No daemon, or no link to a node.")
PermissionDeniedError = _error(
    "PermissionDeniedError", "PERMISSION_DENIED", "The daemon does not serve this user.")

_BY_CODE = {
    cls.code: cls
    for cls in (
        InvalidArgumentError, MismatchError, DeadlineExceededError, RankLostError,
        DaemonLostError, DaemonStoppingError, ResourceExhaustedError, CancelledError,
        AlreadyExistsError, UnavailableError, PermissionDeniedError,
    )
}


def make_error(failure):
    """The exception for (number, code, rank, message) of the extension; None if it is ok."""
    number, code, rank, message = failure
    if number == 0:
        return None
    return _BY_CODE.get(code, Error)(f"{code}: {message}", None if rank < 0 else rank)
