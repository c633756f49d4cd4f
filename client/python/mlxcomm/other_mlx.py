"""The package when MLX is not the release that it was built for. ``mx.distributed`` still reaches the daemon,
through MLX's MPI backend and libmlxcomm_mpi (client/mpi); everything that needs the extension is missing."""

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
WHY = (f"mlxcomm was built for mlx {MLX_VERSION}, but {platform.node()} has mlx {mx.__version__}: "
       f"mx.distributed uses MLX's MPI backend, and mlxcomm's own functions are missing. To get them, "
       f"install mlx=={MLX_VERSION}, or reinstall mlxcomm for mlx {mx.__version__}")
_originals = {}
_taken = set()


def __getattr__(name):
    if name == "_mlxcomm":  # After an AttributeError Python would load the extension, and crash.
        raise ImportError(WHY)
    raise AttributeError(f"mlxcomm.{name}: {WHY}")


class _ExplainMissing:
    """The last finder: explains why a module of the package is missing."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("mlxcomm."):
            raise ModuleNotFoundError(f"{name}: {WHY}")  # With name=, Python would drop the text.


sys.meta_path.append(_ExplainMissing)


@functools.cache
def _report():
    logging.getLogger("mlxcomm").warning(WHY)


@ends_at_caller
def install(take=None):
    """See mlxcomm.backends.install."""
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
