# launch appends this to _mlxcomm_startup.py as a `sitecustomize`, first on PYTHONPATH. In a Python without
# mlxcomm, all of MLX's backend names then mean its MPI backend, which loads libmlxcomm_mpi.
# ruff: noqa: F821 - a part of a file.
import importlib.util


def _run_the_environments_own():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != folder]
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this
    return this


def _go_through_mpi():
    import mlx.core as mx

    init, is_available = mx.distributed.init, mx.distributed.is_available
    taken = {"any", "ring", "jaccl", "mpi"} | (set() if is_available("nccl") else {"nccl"})

    def through_mpi(strict=False, backend="any", **more):
        return init(strict=strict, backend="mpi" if backend in taken else backend, **more)

    mx.distributed.init = through_mpi
    mx.distributed.is_available = lambda backend="any": backend in taken or is_available(backend)


_module = _run_the_environments_own()
if importlib.util.find_spec("mlxcomm") is None:
    sys.modules["_mlxcomm_startup"] = _module
    AfterImport("mlx.core", _go_through_mpi)
elif "_mlxcomm_startup" not in sys.modules:  # Python reads no mlxcomm.pth from PYTHONPATH.
    sys.modules["_mlxcomm_startup"] = _module
    start()
