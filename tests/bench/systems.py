"""The compared systems, and how each of them is started at a place. One class for each system;
`run` starts all ranks, waits for their end, and returns what they wrote (peers/timed_all_reduce.h)."""

import itertools
import json
import os
import pathlib
import shutil
import sys

from bench.places import NODE_NET, end_of
from bench.rounds import Failed

FOLDER = pathlib.Path(__file__).parent
_numbers = itertools.count()


def peer_program(name):
    build = pathlib.Path(os.environ["MLXCOMM_BUILD"])
    return build / "tests" / "bench" / "peers" / name


class System:
    """Its name and colour are the same in all tables and pictures."""

    name = ""
    color = ""
    program = ""
    is_limit = False
    uses_own_cores = True  # Where the place has such.

    def missing(self):
        """Why it cannot be measured here; None: it can."""
        path = peer_program(self.program)
        return None if path.exists() else f"{self.name}: {path.name} was not built"

    def command(self, words):
        return [peer_program(self.program), *words]

    def environment(self, place, rank, folder):
        return {"MLX_RANK": str(rank), "MLX_WORLD_SIZE": str(place.ranks)}

    def start(self, place, folder, words):
        """The processes of all ranks."""
        return [self.start_rank(place, rank, folder, words) for rank in range(place.ranks)]

    def start_rank(self, place, rank, folder, words, more_environment=()):
        return place.start(rank, self.command([folder, *words]),
                           self.environment(place, rank, folder) | dict(more_environment),
                           place.cores(rank) if self.uses_own_cores else [])

    def new_folder(self, place):
        folder = place.folder / f"run-{next(_numbers)}"
        folder.mkdir()
        return folder

    def of_sizes(self, sizes):
        """Those sizes at which it is measured."""
        return sizes

    def run(self, place, seconds, sizes):
        folder = self.new_folder(place)
        end_of(self.start(place, folder, [seconds, *sizes]))
        return ranks_results(folder)


def ranks_results(folder):
    """[what rank r wrote]"""
    results = [json.loads(path.read_text()) for path in folder.glob("rank-*.json")]
    if not results or len(results) != max(result["ranks"] for result in results):
        raise Failed(f"only {len(results)} ranks wrote what they found")
    shutil.rmtree(folder, ignore_errors=True)
    return sorted(results, key=lambda result: result["rank"])


def job_environment(place, rank, folder):
    return {"MLXCOMM_JOB": folder.name, "MLXCOMM_SOCKET": place.socket(rank)}


class MlxcommCpp(System):
    name, color, program = "mlxcomm, C++", "#c0392b", "mlxcomm_all_reduce"

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | job_environment(place, rank, folder)


class Mlx(System):
    """Through MLX, which exists wherever this runs; `backend` as for mlx_rank.py."""

    backend = None

    def missing(self):
        return None

    def command(self, words):
        return [sys.executable, FOLDER / "mlx_rank.py", self.backend, *words]


class MlxcommMlx(Mlx):
    name, color, backend = "mlxcomm, MLX", "#e67e22", "mlxcomm"

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | job_environment(place, rank, folder)


class MlxRing(Mlx):
    name, color, backend = "MLX ring", "#2980b9", "ring"

    def start(self, place, folder, words):
        write_hosts(place, folder)
        return super().start(place, folder, words)

    def environment(self, place, rank, folder):
        return {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(folder / "hosts.json")}


def write_hosts(place, folder):
    (folder / "hosts.json").write_text(
        json.dumps([place.ring_addresses(rank) for rank in range(place.ranks)]))


class OpenMpi(System):
    """Through shared memory where it can, else over TCP."""

    program = "openmpi_all_reduce"

    def __init__(self, shared_memory):
        self.shared_memory = shared_memory
        self.name = "Open MPI, shared memory" if shared_memory else "Open MPI, TCP"
        self.color = "#27ae60"

    def missing(self):
        return super().missing() or (None if shutil.which("mpirun") else f"{self.name}: no mpirun")

    def start(self, place, folder, words):
        mpirun = ["mpirun", "-n", place.ranks, "--mca", "pml", "ob1", "--mca", "btl",
                  "self,vader" if self.shared_memory else "self,tcp"]
        if place.is_lab:
            mpirun += self._across_hosts(place, folder)
        else:
            mpirun += ["--mca", "btl_tcp_if_include", "127.0.0.0/8", "--host",
                       f"localhost:{place.ranks}", "--mca", "oob_tcp_if_include", "127.0.0.0/8"]
            if place.ranks > os.cpu_count():
                mpirun += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        # On one machine it binds its ranks itself, a core for each where there are enough.
        return [place.start(0, mpirun + self.command([folder, *words]), {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
            place.cores(0) if place.is_lab else [])]

    @staticmethod
    def _across_hosts(place, folder):
        """mpirun runs on the first host and enters the others as it would by ssh. Without
        mpi_yield_when_idle waiting ranks keep the cores from working ones."""
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


class Gloo(System):
    name, color, program = "Gloo, TCP", "#8e44ad", "gloo_all_reduce"
    uses_own_cores = False  # Its two threads on one core take many times as long.

    def environment(self, place, rank, folder):
        return super().environment(place, rank, folder) | {
            "GLOO_STORE": str(folder), "GLOO_ADDRESS": place.address(rank)}


class Limit(System):
    """No peer: the minimum of necessary work. That of the data is measured from the least size on."""

    is_limit = True
    bytes_min = 64 << 10

    def of_sizes(self, sizes):
        return [size for size in sizes if size >= self.bytes_min]


class PlainLoop(Limit):
    """One process with two threads, for all ranks."""

    name, color, program = "plain loop", "#7f8c8d", "plain_loop_all_reduce"

    def start(self, place, folder, words):
        return [place.start(0, self.command([folder, *words]),
                            {"MLX_WORLD_SIZE": str(place.ranks)})]


class MlxAlone(Mlx, Limit):
    """What MLX itself takes to evaluate one small operation: one process, no other rank, an addition of
    two arrays on the CPU's stream. Larger ones would show how fast that adds."""

    name, color, backend = "MLX alone", "#8395a7", "alone"

    def of_sizes(self, sizes):
        return [size for size in sizes if size < self.bytes_min]

    def start(self, place, folder, words):
        return [self.start_rank(place, 0, folder, words)]


class PlainExchange(Limit):
    """Two ranks and one TCP connection: rank 1 connects to the address where rank 0 listens."""

    name, color, program = "plain exchange", "#2c3e50", "plain_exchange_all_reduce"

    def start(self, place, folder, words):
        address = {"EXCHANGE_ADDRESS": place.ring_addresses(0)[0]}
        return [self.start_rank(place, rank, folder, words, address)
                for rank in range(place.ranks)]


OURS_CPP, OURS_MLX, RING = MlxcommCpp(), MlxcommMlx(), MlxRing()
MPI_SHARED, MPI_TCP, GLOO = OpenMpi(True), OpenMpi(False), Gloo()
LOOP, EXCHANGE, MLX_ALONE = PlainLoop(), PlainExchange(), MlxAlone()
ALL = [OURS_CPP, OURS_MLX, MPI_SHARED, MPI_TCP, GLOO, RING, LOOP, EXCHANGE, MLX_ALONE]
