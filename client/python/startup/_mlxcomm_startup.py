"""MLXCOMM_INSTALL=all (or some of any,ring,jaccl,mpi,nccl) in the environment calls mlxcomm.install() in
every program that imports MLX. Empty, 0 or none: no effect.

With that variable set, mlxcomm.pth calls start() whenever Python starts; nothing happens until mlx.core is
imported.
"""

import copy
import os
import sys
import threading


class AfterImport:
    """Calls `then` once, when the module `name` has been loaded. The other finders find the module, and
    importlib.util.find_spec alone has no effect."""

    def __init__(self, name, then):
        self._name = name
        self._then = then
        self._looking = threading.local()  # `begun` while asking the other finders, which may ask this one.
        sys.meta_path.insert(0, self)

    def forget(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        if name != self._name or getattr(self._looking, "begun", False):
            return None
        self._looking.begun = True
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    return self._hooked(spec)
            return None
        finally:
            self._looking.begun = False

    def _hooked(self, spec):
        execute = getattr(spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                self.forget()
                self._then()

        spec.loader = copy.copy(spec.loader)  # The loader may serve other modules.
        spec.loader.exec_module = exec_module
        return spec


def _install():
    words = os.environ.get("MLXCOMM_INSTALL", "")
    take = None if words in ("1", "all") else [word.strip() for word in words.split(",") if word.strip()]
    try:
        # Not `import mlxcomm`: it may be what is loading MLX just now, and still be empty.
        from mlxcomm._check_mlx import is_built_for

        if is_built_for(sys.modules["mlx.core"].__version__):
            from mlxcomm.backends import install
        else:
            from mlxcomm.other_mlx import install
    except Exception as error:  # The installation may be damaged: the program runs without mlxcomm.
        print(f"mlxcomm: MLXCOMM_INSTALL={words} does nothing: {error}", file=sys.stderr)
        return
    try:
        install(take)
    except ValueError as error:
        raise ImportError(f"MLXCOMM_INSTALL={words}: {error}, or all") from error


_started = []


def start():
    if not _started:  # Python reads a .pth twice if it finds its folder under two names.
        _started.append(AfterImport("mlx.core", _install))
