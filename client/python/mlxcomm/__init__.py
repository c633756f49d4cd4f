"""Collectives for MLX, carried out by a daemon that owns the cables.

    import mlxcomm
    mlxcomm.install()            # mx.distributed goes through the daemon from here on

or, without a line changed, ``python -m mlxcomm script.py``, or ``MLXCOMM_INSTALL=all`` in the
environment. This package has what mx.distributed lacks: `all_to_all`, `broadcast`, tags,
deadlines, ... (mlxcomm/operations.py says how they behave), groups (`split`, `shrink`), and
errors that name the rank at fault.
"""

from typing import TYPE_CHECKING

from ._check_mlx import fits as _fits
from ._check_mlx import mpi_library
from .errors import (
    AlreadyExistsError,
    CancelledError,
    DaemonLostError,
    DaemonStoppingError,
    DeadlineExceededError,
    Error,
    InvalidArgumentError,
    MismatchError,
    PermissionDeniedError,
    RankLostError,
    ResourceExhaustedError,
    UnavailableError,
)

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
    "DaemonLostError",
    "DaemonStoppingError",
    "DeadlineExceededError",
    "Error",
    "InvalidArgumentError",
    "MismatchError",
    "PermissionDeniedError",
    "RankLostError",
    "ResourceExhaustedError",
    "UnavailableError",
    "average_gradients",
    "barrier",
    "check",
    "counters",
    "crossings",
    "init",
    "install",
    "is_ours",
    "mpi_library",
    "name",
    "rank",
    "set_timeout",
    "shrink",
    "size",
    "split",
    "uninstall",
]

if TYPE_CHECKING or _fits:
    from . import _mlxcomm, operations
    from .backends import install, uninstall
    from .fused import average_gradients, crossings
    from .groups import (
        barrier,
        check,
        counters,
        init,
        is_ours,
        name,
        rank,
        set_timeout,
        shrink,
        size,
        split,
    )
    from .operations import *  # noqa: F403

    __all__ += operations.__all__
    __version__ = _mlxcomm.version
elif _fits is not None:
    from .other_mlx import __getattr__, __version__, install, uninstall  # noqa: F401
