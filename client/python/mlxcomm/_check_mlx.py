"""Checks that the installed MLX is the release that the extension was built for. With another release, whose
C++ interface differs, loading the extension would crash or fail with an obscure message.
"""

import pathlib
import sys

from ._built_for import MLX_VERSION

# Functions of mx.distributed that take a group.
WITH_GROUP = ("all_sum", "all_gather", "send", "recv", "recv_like", "all_max", "all_min", "sum_scatter")


def is_built_for(version: str) -> bool:
    return version.split(".dev")[0] == MLX_VERSION


def mpi_library() -> str:
    """Returns the path of libmlxcomm_mpi, which MLX's MPI backend can load instead of Open MPI.

    With MLX_MPI_LIBNAME set to this path, ``mx.distributed.init()`` of an unmodified program joins through
    the daemon. `mlxcommctl launch` sets it.

    Example:
        >>> mlxcomm.mpi_library()  # doctest: +ELLIPSIS
        '.../mlxcomm/lib/libmlxcomm_mpi...'
    """
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return str(pathlib.Path(__file__).parent / "lib" / f"libmlxcomm_mpi.{suffix}")


# Last: with MLXCOMM_INSTALL, the names above are imported while MLX is still loading.
if sys.orig_argv[-len(sys.argv) - 1:][:3] == ["-m", "mlxcomm", "firstlight"]:
    fits = None  # Not checked: firstlight must also run where MLX does not load.
else:
    import mlx.core as _mx

    fits = is_built_for(_mx.__version__)
