"""MLXCOMM_INSTALL=all (or some of any,ring,jaccl,mpi,nccl) in the environment: mlxcomm.install() in
whatever program imports MLX, without a line changed. Empty, 0 and none: not.

mlxcomm.pth imports this at the start of every Python that has the package and that variable. It waits
for mlx.core: what does not import MLX pays for nothing.
"""

import os
import sys


class _AfterMlx:
    """Finds mlx.core as the other finders do, and installs once it has been loaded; who only looks for it,
    as importlib.util.find_spec does, changes nothing."""

    def find_spec(self, name, path=None, target=None):
        if name != "mlx.core":
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if finder is not self and find is not None else None
            if spec is not None:
                return self._hooked(spec)
        return None

    def _hooked(self, spec):
        if spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _install()

        spec.loader.exec_module = exec_module
        return spec


def _install():
    words = os.environ.get("MLXCOMM_INSTALL", "")
    take = None if words in ("1", "all") else [word.strip() for word in words.split(",") if word.strip()]
    try:
        import mlxcomm
    except Exception as error:  # As where MLX is another one than it was built for: it runs without.
        print(f"mlxcomm: MLXCOMM_INSTALL={words} does nothing: {error}", file=sys.stderr)
        return
    try:
        mlxcomm.install(take)
    except ValueError as error:
        raise ImportError(f"MLXCOMM_INSTALL={words}: {error}, or all") from error


sys.meta_path.insert(0, _AfterMlx())
