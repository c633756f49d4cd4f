"""With another MLX than the package was built for: ``mx.distributed`` goes through the daemon all the same,
by MLX's own MPI backend, which loads libmlxcomm_mpi (client/mpi). What needs the extension is missing."""

import functools
import importlib.metadata
import logging
import os
import platform
import sys

import mlx.core as mx

from . import arguments
from ._built_for import MLX_VERSION
from ._check_mlx import WITH_GROUP, mpi_library
from .tracebacks import ends_at_caller

__version__ = importlib.metadata.version("mlxcomm")
WHY = (f"mlxcomm was built for mlx {MLX_VERSION}, and mlx {mx.__version__} is installed on "
       f"{platform.node()}: mx.distributed goes through MLX's MPI backend, and mlxcomm's own functions are "
       f"missing. To have them, install mlx=={MLX_VERSION}, or mlxcomm again for mlx {mx.__version__}")
_originals = {}
_taken = set()


def __getattr__(name):
    """Of the package."""
    if name == "_mlxcomm":  # Not an AttributeError, after which Python loads it: that would crash.
        raise ImportError(WHY)
    raise AttributeError(f"mlxcomm.{name}: {WHY}")


class _SaysWhy:
    """Asked last, for what `from mlxcomm import` has found neither in the package nor beside it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("mlxcomm."):
            raise ModuleNotFoundError(f"{name}: {WHY}")  # With its name, Python would drop the text.


sys.meta_path.append(_SaysWhy)


@functools.cache
def _report():
    logging.getLogger("mlxcomm").warning(WHY)


@ends_at_caller
def install(take=None):
    """As mlxcomm.install of the package that fits."""
    if take is not None or not _originals:
        _taken.clear()
        _taken.update(arguments.backends(take))
    if _originals:
        return
    os.environ.setdefault("MLX_MPI_LIBNAME", mpi_library())
    module = mx.distributed
    _originals.update((name, getattr(module, name)) for name in (*WITH_GROUP, "init")
                      if hasattr(module, name))

    @functools.wraps(_originals["init"])
    def init(strict=False, backend="any", **more):
        return _originals["init"](strict=strict, backend="mpi" if backend in _taken else backend, **more)

    def with_default_group(original):
        @functools.wraps(original)
        def wrapper(*args, group=None, **kwargs):
            return original(*args, group=init() if group is None else group, **kwargs)

        return wrapper

    for name, original in _originals.items():
        setattr(module, name, init if name == "init" else with_default_group(original))
    _report()


def uninstall():
    for name, original in _originals.items():
        setattr(mx.distributed, name, original)
    _originals.clear()
