"""With another MLX than the package was built for: ``mx.distributed`` goes through the daemon all the same,
by MLX's own MPI backend, which loads libmlxcomm_mpi (client/mpi). What needs the extension is missing."""

import functools
import importlib.metadata
import logging
import os

import mlx.core as mx

from ._built_for import MLX_VERSION
from ._check_mlx import WITH_GROUP, mpi_library

__version__ = importlib.metadata.version("mlxcomm")
WHY = (f"mlxcomm was built for mlx {MLX_VERSION}, and mlx {mx.__version__} is installed: mx.distributed uses "
       "the daemon by MLX's MPI backend, and mlxcomm's own functions are missing. To have them, install "
       f"mlxcomm again, which builds it for mlx {mx.__version__}, or mlx=={MLX_VERSION}")
_originals = {}


def __getattr__(name):
    """Of the package."""
    if name.startswith("__"):
        raise AttributeError(f"module 'mlxcomm' has no attribute {name!r}")
    raise ImportError(f"mlxcomm.{name}: {WHY}")


def install(take=None):
    """As mlxcomm.install of the package that fits."""
    if _originals:
        return
    names = (take,) if isinstance(take, str) else tuple(take or ("any", "ring", "jaccl", "mpi", "nccl"))
    os.environ.setdefault("MLX_MPI_LIBNAME", mpi_library())
    module = mx.distributed
    _originals.update((name, getattr(module, name)) for name in (*WITH_GROUP, "init")
                      if hasattr(module, name))

    @functools.wraps(_originals["init"])
    def init(strict=False, backend="any", **more):
        return _originals["init"](strict=strict, backend="mpi" if backend in names else backend, **more)

    def with_default_group(original):
        @functools.wraps(original)
        def wrapper(*args, group=None, **kwargs):
            return original(*args, group=init() if group is None else group, **kwargs)

        return wrapper

    for name, original in _originals.items():
        setattr(module, name, init if name == "init" else with_default_group(original))
    if os.environ.get("MLX_RANK", "0") == "0":  # Once for a job.
        logging.getLogger("mlxcomm").warning(WHY)


def uninstall():
    for name, original in _originals.items():
        setattr(mx.distributed, name, original)
    _originals.clear()
