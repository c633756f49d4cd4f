"""The compared systems, and how each is started at a place. `run` starts all ranks, waits for their end,
and returns what they wrote (peers/timed_all_reduce.h)."""

import importlib.util
import json
import os
import pathlib
import shutil
import sys

from bench.places import NODE_NET, Failed, end_of

FOLDER = pathlib.Path(__file__).parent
# glibc returns memory that training frees, and each page is a fault in the next step; how many depends on the
# system's last buffer in the heap. MLX on a Mac keeps freed memory, and so do all systems with this.
KEEPS_FREED_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


class System:
    """A compared system; its name and colour are the same in all tables and pictures."""

    name = color = program = ""
    is_limit = False  # True for a limit, which is not a peer.
    sizes = range(1 << 40)  # It is measured at those of them that the part has.
    uses_own_cores = True  # If the place has cores for each rank.

    def missing(self):
        """Returns why it cannot be measured here, or an empty text."""
        return "" if self.path().exists() else f"{self.program} was not built"

    def path(self):
        return pathlib.Path(os.environ["MLXCOMM_BUILD"], "tests/bench/peers", self.program)

    def command(self, words):
        return [self.path(), *words]

    def environment(self, place, rank, folder):
        return {"MLX_RANK": str(rank), "MLX_WORLD_SIZE": str(place.ranks)}

    def prepare(self, place, folder):
        """Writes files for all ranks."""

    def start(self, place, folder, words):
        return [self.start_rank(place, rank, folder, words) for rank in range(place.ranks)]

    def start_rank(self, place, rank, folder, words):
        return place.start(rank, self.command([folder, *words]), self.environment(place, rank, folder),
                           place.cores(rank) if self.uses_own_cores else [])

    def run(self, place, words):
        """Returns what each rank wrote."""
        folder = place.new_folder()
        self.prepare(place, folder)
        end_of(self.start(place, folder, words))
        ranks = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
        if not ranks or len(ranks) != ranks[0]["ranks"]:
            raise Failed(f"only {len(ranks)} ranks wrote what they found")
        return sorted(ranks, key=lambda found: found["rank"])


def job_environment(place, rank, folder):
    return {"MLXCOMM_JOB": folder.name, "MLXCOMM_SOCKET": place.socket(rank),
            "BENCH_DAEMONS": place.daemons()}


class MlxcommCpp(System):
    name, color, program = "mlxcomm, C++", "#c0392b", "mlxcomm_all_reduce"

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | job_environment(place, rank, folder)


def mpirun(place, folder, transport, binds, variables=()):
    """The command before a rank's own. `transport`: tcp, or vader, which is shared memory."""
    command = ["mpirun", "-n", place.ranks, "--mca", "pml", "ob1", "--mca", "btl", f"self,{transport}",
               *[word for name in variables for word in ("-x", name)]]
    if place.is_lab:
        return [*command, *across_hosts(place, folder)]
    command += ["--mca", "btl_tcp_if_include", "127.0.0.0/8", "--host", f"localhost:{place.ranks}",
                "--mca", "oob_tcp_if_include", "127.0.0.0/8"]
    if not binds:
        command += ["--bind-to", "none"]
    if place.ranks > os.cpu_count():
        command += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return command


def across_hosts(place, folder):
    """mpirun runs on the first host and enters the others as it would by ssh. Without mpi_yield_when_idle
    waiting ranks keep the cores from working ones."""
    agent = folder / "enter-host"
    bind = "".join(
        f'[ "$host" != {place.address(rank)} ] || taskset -cp {cores} $$ > /dev/null\n'
        for rank in range(place.ranks)
        if (cores := ",".join(map(str, place.cores(rank)))))
    agent.write_text('#!/bin/sh\n# HOST COMMAND...; 10.99.0.N is node-(N-1).\nhost=$1; shift\n'
                     f'{bind}'
                     'exec ip netns exec "node-$((${host##*.} - 1))" sh -c "$*"\n')
    agent.chmod(0o755)
    hosts = ",".join(f"{place.address(rank)}:1" for rank in range(place.ranks))
    return ["--host", hosts, "--bind-to", "none",
            "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1",
            "--mca", "oob_tcp_if_include", NODE_NET,
            "--mca", "btl_tcp_if_include", place.networks(),
            "--mca", "mpi_yield_when_idle", "1"]


MAY_BE_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class OpenMpi(System):
    """Through shared memory on one node, otherwise over TCP."""

    name, color, program = "Open MPI", "#27ae60", "openmpi_all_reduce"

    def missing(self):
        return super().missing() or ("" if shutil.which("mpirun") else "there is no mpirun")

    def start(self, place, folder, words):
        transport = "vader" if place.nodes == 1 else "tcp"
        # On one machine it binds its ranks itself, a core for each if there are enough.
        before = mpirun(place, folder, transport, binds=True)
        return [place.start(0, before + self.command([folder, *words]), MAY_BE_ROOT,
                            place.cores(0) if place.is_lab else [])]


class Gloo(System):
    name, color, program = "Gloo", "#8e44ad", "gloo_all_reduce"
    uses_own_cores = False  # Its two threads on one core take many times as long.

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | {
            "GLOO_STORE": str(folder), "GLOO_ADDRESS": place.address(rank)}


class Mlx(System):
    """Through MLX, which exists wherever this runs. The program: mlx_rank.py or one of programs/."""

    backend = ""

    def __init__(self, program="mlx_rank.py"):
        self.program = program

    def path(self):
        return FOLDER / self.program

    def missing(self):
        needs_mlx_lm = self.program in ("programs/generating.py", "programs/training.py")
        if needs_mlx_lm and importlib.util.find_spec("mlx_lm") is None:
            return "mlx-lm is not installed (tests/interop/requirements.txt)"
        return super().missing()

    def command(self, words):
        return [sys.executable, self.path(), self.backend, *words]

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | self.of_programs()

    def of_programs(self):
        """The same for all systems: one BLAS thread a rank, and no compiler for each kernel."""
        if self.program == "mlx_rank.py":
            return {}
        return {**KEEPS_FREED_MEMORY, "OPENBLAS_NUM_THREADS": "1", "MLX_DISABLE_COMPILE": "1"}


class MlxcommMlx(Mlx):
    name, color, backend = "mlxcomm, MLX", "#e67e22", "mlxcomm"

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | job_environment(place, rank, folder)


class MlxRing(Mlx):
    name, color, backend = "MLX ring", "#2980b9", "ring"

    def prepare(self, place, folder):
        (folder / "hosts.json").write_text(
            json.dumps([place.ring_addresses(rank) for rank in range(place.ranks)]))

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | {"MLX_HOSTFILE": str(folder / "hosts.json")}


class MlxMpi(Mlx):
    """MLX's own MPI backend over Open MPI, whose ranks are not bound, as ours are not."""

    color, backend = "#27ae60", "mpi"

    def __init__(self, program, transport):
        super().__init__(program)
        self.transport = transport
        self.name = f"Open MPI, {'TCP' if transport == 'tcp' else 'shared memory'}, MLX"

    def missing(self):
        return super().missing() or ("" if shutil.which("mpirun") else "there is no mpirun")

    def start(self, place, folder, words):
        before = mpirun(place, folder, self.transport, binds=False, variables=self.of_programs())
        return [place.start(0, before + self.command([folder, *words]), MAY_BE_ROOT | self.of_programs())]


class MlxAlone(Mlx):
    """The time of MLX itself without communication: for adding two small arrays on the CPU stream (larger
    ones would measure the addition), or for a training step."""

    name, color, backend = "MLX alone", "#8395a7", "alone"
    is_limit = True
    sizes = range(64 << 10)

    def start(self, place, folder, words):
        ranks = 1 if self.program == "mlx_rank.py" else place.ranks
        return [self.start_rank(place, rank, folder, words) for rank in range(ranks)]


class PlainLoop(System):
    """One process with two threads, for all ranks."""

    name, color, program = "plain loop", "#7f8c8d", "plain_loop_all_reduce"
    is_limit = True
    sizes = range(64 << 10, 1 << 40)

    def start(self, place, folder, words):
        return [place.start(0, self.command([folder, *words]), self.environment(place, 0, folder))]


class Stream(System):
    """The time in which one TCP stream over the first cable carries what an all_reduce's busiest link must
    carry: 2 (n-1)/n of the bytes."""

    name, color, program = "one iperf3 stream", "#000000", "iperf3"
    is_limit = True

    def missing(self):
        return "" if shutil.which("iperf3") else "there is no iperf3"

    def run(self, place, words):
        bits = place.stream()
        carried = 2 * (place.ranks - 1) / place.ranks
        return [{"median_us": {str(size): 8e6 * carried * size / bits for size in words[2:]}}]


CPP, MPI, GLOO, LOOP = MlxcommCpp(), OpenMpi(), Gloo(), PlainLoop()
MLX, RING, ALONE, STREAM = MlxcommMlx(), MlxRing(), MlxAlone(), Stream()
MPI_TCP, MPI_SHARED = MlxMpi("mlx_rank.py", "tcp"), MlxMpi("mlx_rank.py", "vader")
ALL = [CPP, MPI, GLOO, LOOP, MLX, RING, MPI_TCP, MPI_SHARED, ALONE, STREAM]
COLORS = {system.name: system.color for system in ALL}
LIMITS = {system.name for system in ALL if system.is_limit}
# Ours, and the systems that it is compared with: those that are called in the same way.
PEERS = {CPP.name: [MPI.name, GLOO.name], MLX.name: [RING.name, MPI_TCP.name, MPI_SHARED.name]}
