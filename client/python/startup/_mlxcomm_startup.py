"""MLXCOMM_INSTALL=all (or some of any,ring,jaccl,mpi,nccl) in the environment: mlxcomm.install() in
whatever program imports MLX, without a line changed.

mlxcomm.pth imports this at the start of every Python that has the package and that variable. It waits
for mlx.core: what does not import MLX pays for nothing.
"""

import os
import sys


class _AfterMlx:
    """Finds mlx.core as others would, and installs once it has been loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "mlx.core":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _install()

            spec.loader.exec_module = exec_module
        return spec


def _install():
    words = os.environ.get("MLXCOMM_INSTALL", "")
    take = None if words in ("1", "all") else [word.strip() for word in words.split(",") if word.strip()]
    try:
        import mlxcomm
    except ImportError as error:  # Another MLX than it was built for: the program runs without.
        print(f"mlxcomm: MLXCOMM_INSTALL={words} does nothing: {error}", file=sys.stderr)
        return
    try:
        mlxcomm.install(take)
    except ValueError as error:
        raise ImportError(f"MLXCOMM_INSTALL={words}: {error}, or all") from error


sys.meta_path.insert(0, _AfterMlx())
