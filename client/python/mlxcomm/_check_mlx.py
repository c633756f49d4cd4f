"""Whether MLX is the release that the extension was built for. Asked before the extension is loaded: MLX's
C++ interface changes between releases, and it would crash, or not load, for a reason that nobody could read.
"""

import pathlib
import sys

from ._built_for import MLX_VERSION

# Those of mx.distributed that take a group.
WITH_GROUP = ("all_sum", "all_gather", "send", "recv", "recv_like", "all_max", "all_min", "sum_scatter")


def is_built_for(version: str) -> bool:
    """Whether this is the release of MLX that the extension was built for."""
    return version.split(".dev")[0] == MLX_VERSION


def mpi_library() -> str:
    """The path of libmlxcomm_mpi, which MLX's own MPI backend can load in place of Open MPI.

    As MLX_MPI_LIBNAME it makes ``mx.distributed.init()`` of a program that knows nothing of mlxcomm join the
    daemon. `mlxcommctl launch` sets it.

    Example:
        >>> mlxcomm.mpi_library()  # doctest: +ELLIPSIS
        '.../mlxcomm/lib/libmlxcomm_mpi...'
    """
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return str(pathlib.Path(__file__).parent / "lib" / f"libmlxcomm_mpi.{suffix}")


# Last, because MLXCOMM_INSTALL takes from here what stands above while MLX is being loaded.
if sys.orig_argv[-len(sys.argv) - 1:][:3] == ["-m", "mlxcomm", "firstlight"]:
    fits = None  # Not asked: it tries machines where MLX may not load, and needs nothing of the package.
else:
    import mlx.core as _mx

    fits = is_built_for(_mx.__version__)
