"""Collectives for MLX, run by a daemon that owns the network connections.

    import mlxcomm
    mlxcomm.install()            # from here on mx.distributed uses the daemon

Or leave the program unchanged: run ``python -m mlxcomm script.py``, or set ``MLXCOMM_INSTALL=all``. The
package adds what mx.distributed lacks: `all_to_all`, `broadcast`, tags, deadlines, ... (see
help(mlxcomm.operations)), groups (`split`, `shrink`), and errors that name the failed rank.
"""

from typing import TYPE_CHECKING, ClassVar, Optional


class Error(RuntimeError):
    """A call or an operation failed. The message says why and what to do.

    Usually a subclass is raised; this class itself means an internal error. A group in which an operation
    failed stays failed: `shrink` makes a group of the remaining ranks.

    Attributes:
        code: the failure's name in mlxcomm.h, without its prefix: "RANK_LOST".
        rank: the failed rank, in `group`; None if no single rank failed.
        node: the machine of that rank; None if unknown.
        pid: the process id of that rank; None if unknown.
        group: the group's name, as in `mlxcommctl status`; None if no group was involved.

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
    """The daemon refused an argument. Nothing has changed: correct it and call again.

    Example:
        >>> try: mlxcomm.shrink()
        ... except mlxcomm.InvalidArgumentError: print("the group has not failed")
        the group has not failed
    """

    code = "INVALID_ARGUMENT"


class MismatchError(Error):
    """Ranks of the group made different calls: operation, shape, dtype or order. The message lists each call.

    Example:
        >>> try: mx.eval(mlxcomm.all_reduce(mx.ones(3)))
        ... except mlxcomm.MismatchError as error: print(error)  # Each rank's call.
    """

    code = "MISMATCH"


class DeadlineExceededError(Error):
    """Other ranks did not make the call in time; the message names them. See `set_timeout`.

    Example:
        >>> try: mlxcomm.barrier(timeout=60)
        ... except mlxcomm.DeadlineExceededError as error: print("too late:", error)
    """

    code = "DEADLINE_EXCEEDED"


class RankLostError(Error):
    """A rank's process died, its daemon died, or no connection to it is left.

    Example:
        >>> try:
        ...     mlxcomm.barrier(timeout=60)
        ... except mlxcomm.RankLostError as error:
        ...     print(f"rank {error.rank} on {error.node} (pid {error.pid}) is lost")
        ...     world = mlxcomm.shrink()
    """

    code = "RANK_LOST"


class DaemonLostError(Error):
    """This machine's daemon died. Once it runs again, `init` joins again.

    Example:
        >>> try: mlxcomm.barrier()
        ... except mlxcomm.DaemonLostError: world = mlxcomm.init()
    """

    code = "DAEMON_LOST"


class DaemonStoppingError(Error):
    """A daemon of the job is stopping; the message names its node. Once it runs again, `init` joins again.

    Example:
        >>> try: mlxcomm.barrier()
        ... except mlxcomm.DaemonStoppingError: world = mlxcomm.init()
    """

    code = "DAEMON_STOPPING"


class ResourceExhaustedError(Error):
    """A limit was reached; the message has the usage, the limit and the setting to raise.

    If results have filled the daemon's memory, drop some of them; the group remains usable.

    Example:
        >>> try: mx.eval(mlxcomm.all_gather(mx.ones(3)))
        ... except mlxcomm.ResourceExhaustedError: cache = None  # Then call again.
    """

    code = "RESOURCE_EXHAUSTED"


class CancelledError(Error):
    """A rank of the group cancelled the operation: by Ctrl-C, or because its process is exiting.

    Example:
        >>> try: mlxcomm.barrier()
        ... except mlxcomm.CancelledError as error: print("cancelled by rank", error.rank)
    """

    code = "CANCELLED"


class AlreadyExistsError(Error):
    """This rank of the job is already taken: the job is running, or another job has the same name.

    Example:
        >>> try: world = mlxcomm.init()
        ... except mlxcomm.AlreadyExistsError as error: print("choose another job name:", error)
    """

    code = "ALREADY_EXISTS"


class UnavailableError(Error):
    """No daemon can be reached or started, or a node of the job cannot be reached.

    Example:
        >>> try: world = mlxcomm.init()
        ... except mlxcomm.UnavailableError as error: print("no daemon:", error)
    """

    code = "UNAVAILABLE"


class PermissionDeniedError(Error):
    """The daemon does not accept this user, or it runs as another user who is not root.

    Example:
        >>> try: world = mlxcomm.init()
        ... except mlxcomm.PermissionDeniedError as error: print("try as another user:", error)
    """

    code = "PERMISSION_DENIED"


from ._check_mlx import fits as _fits  # noqa: E402 - these modules import the errors above.
from ._check_mlx import mpi_library  # noqa: E402

__all__ = [
    "AlreadyExistsError", "CancelledError", "DaemonLostError", "DaemonStoppingError", "DeadlineExceededError",
    "Error", "InvalidArgumentError", "MismatchError", "PermissionDeniedError", "RankLostError",
    "ResourceExhaustedError", "UnavailableError", "install", "mpi_library", "uninstall",
]

if TYPE_CHECKING or _fits:
    from . import _mlxcomm, call_checks, groups, operations, signals, uneven
    from .backends import install, uninstall
    from .call_checks import *  # noqa: F403
    from .fused import average_gradients, crossings
    from .groups import *  # noqa: F403
    from .operations import *  # noqa: F403
    from .uneven import *  # noqa: F403

    __all__ += ["average_gradients", "crossings"]
    __all__ += groups.__all__
    __all__ += operations.__all__
    __all__ += uneven.__all__
    __all__ += call_checks.__all__
    __version__: str = _mlxcomm.version
    signals.install()
elif _fits is not None:
    from .other_mlx import __getattr__, __version__, install, uninstall  # noqa: F401
