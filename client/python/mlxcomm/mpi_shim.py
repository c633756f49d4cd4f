"""Where the library lies that MLX's own MPI backend can load.

    export MLX_MPI_LIBNAME=$(python -c "import mlxcomm; print(mlxcomm.mpi_library())")

makes mx.distributed.init() of a program that knows nothing of mlxcomm join the daemon.
`mlxcommctl launch` sets it.
"""

import pathlib
import sys


def mpi_library() -> str:
    """The path of libmlxcomm_mpi, for MLX_MPI_LIBNAME."""
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return str(pathlib.Path(__file__).parent / "lib" / f"libmlxcomm_mpi.{suffix}")
