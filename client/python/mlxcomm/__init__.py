"""Collectives for MLX, carried out by a daemon that owns the cables.

    import mlxcomm
    mlxcomm.install()            # mx.distributed goes through the daemon from here on

or, without a line changed, ``python -m mlxcomm script.py``, or ``MLXCOMM_INSTALL=all`` in the
environment. This package has what mx.distributed lacks: `all_to_all`, `broadcast`, tags,
deadlines, ... (mlxcomm/operations.py says how they behave), groups (`split`, `shrink`), and
errors that name the rank at fault.
"""

from typing import TYPE_CHECKING, ClassVar, Optional


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
    """An argument is wrong, and only the daemon could see it. Nothing has changed: call again.

    Example:
        >>> try: mlxcomm.shrink()
        ... except mlxcomm.InvalidArgumentError: print("the group has not failed")
        the group has not failed
    """

    code = "INVALID_ARGUMENT"


class MismatchError(Error):
    """Ranks of the group called different things: another operation, shape, dtype or order.

    The text has the call of each rank.

    Example:
        >>> try: mx.eval(mlxcomm.all_reduce(mx.ones(3)))
        ... except mlxcomm.MismatchError as error: print(error)  # Each rank's call.
    """

    code = "MISMATCH"


class DeadlineExceededError(Error):
    """Other ranks did not call in time; the text names them. See `set_timeout`.

    Example:
        >>> try: mlxcomm.barrier(timeout=60)
        ... except mlxcomm.DeadlineExceededError as error: print("too late:", error)
    """

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
    """This machine's daemon has gone. Once it is back, `init` joins again.

    Example:
        >>> try: mlxcomm.barrier()
        ... except mlxcomm.DaemonLostError: world = mlxcomm.init()
    """

    code = "DAEMON_LOST"


class DaemonStoppingError(Error):
    """A daemon of the job was told to stop; the text names its node. Once it is back, `init` joins again.

    Example:
        >>> try: mlxcomm.barrier()
        ... except mlxcomm.DaemonStoppingError: world = mlxcomm.init()
    """

    code = "DAEMON_STOPPING"


class ResourceExhaustedError(Error):
    """A limit was reached; the text has the usage, the limit and the setting to raise.

    Where results have filled the daemon's memory, drop some of them; the group works on.

    Example:
        >>> try: mx.eval(mlxcomm.all_gather(mx.ones(3)))
        ... except mlxcomm.ResourceExhaustedError: cache = None  # And call again.
    """

    code = "RESOURCE_EXHAUSTED"


class CancelledError(Error):
    """A rank of the group gave up: by Ctrl-C, or because its process ends.

    Example:
        >>> try: mlxcomm.barrier()
        ... except mlxcomm.CancelledError as error: print("gave up: rank", error.rank)
    """

    code = "CANCELLED"


class AlreadyExistsError(Error):
    """Another process has this rank of the job: it runs already, or another job has the same name.

    Example:
        >>> try: world = mlxcomm.init()
        ... except mlxcomm.AlreadyExistsError as error: print("start it under another name:", error)
    """

    code = "ALREADY_EXISTS"


class UnavailableError(Error):
    """No daemon could be reached or started, or no link leads to a node of the job.

    Example:
        >>> try: world = mlxcomm.init()
        ... except mlxcomm.UnavailableError as error: print("no daemon:", error)
    """

    code = "UNAVAILABLE"


class PermissionDeniedError(Error):
    """The daemon does not serve this user, or belongs to another user who is not root.

    Example:
        >>> try: world = mlxcomm.init()
        ... except mlxcomm.PermissionDeniedError as error: print("try as another user:", error)
    """

    code = "PERMISSION_DENIED"


from ._check_mlx import fits as _fits  # noqa: E402 - modules of the package take the errors from here.
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
