"""Collectives for MLX, carried out by a daemon that owns the cables.

    import mlxcomm
    mlxcomm.install()            # mx.distributed goes through the daemon from here on

or, without a line changed, ``python -m mlxcomm script.py``, or ``MLXCOMM_INSTALL=all`` in the
environment. This package has what mx.distributed lacks: `all_to_all`, `broadcast`, tags,
deadlines, ... (mlxcomm/operations.py says how they behave), groups (`split`, `shrink`), and
errors that name the rank at fault.
"""

from . import _check_mlx, _mlxcomm, operations  # noqa: F401 - first whether this MLX fits.
from ._check_mlx import mpi_library
from .backends import install, uninstall
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

__version__ = _mlxcomm.version

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
__all__ += operations.__all__
