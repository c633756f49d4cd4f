"""Imported before the extension: MLX's C++ interface changes between patch releases, and with another one
than it was built for the extension would crash, or not load, for a reason that nobody could read."""

import pathlib
import sys

import mlx.core as _mx

from ._built_for import MLX_VERSION


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


if _mx.__version__.split(".dev")[0] != MLX_VERSION:
    raise ImportError(
        f"mlxcomm was built for mlx {MLX_VERSION}, but mlx {_mx.__version__} is installed. Install "
        f"mlx=={MLX_VERSION}, or the mlxcomm that was built for mlx {_mx.__version__}. Without `import "
        f"mlxcomm`, mx.distributed of any MLX uses the daemon by its MPI backend: mlxcommctl launch sets "
        f"that up; with another launcher, export MLX_MPI_LIBNAME={mpi_library()}"
    )
