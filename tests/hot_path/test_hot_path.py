"""Warm operations allocate nothing, wait for no lock and log nothing, in daemons and in ranks: guard.cc,
loaded into real programs, aborts if one does."""

import os
import subprocess
import sys

import pytest

from conftest import Cluster, Process, completed, find_program, find_test_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watched by LD_PRELOAD")
SIZES = [8, 4096, 65536, 1 << 20, 16 << 20]
COUNTS = [str(size // 4) for size in SIZES]
# Tables grow to the most operations in flight at once, which takes some rounds.
WARM_ROUNDS = 12


def daemon_program():
    """The build's own: that of the package has no names for addr2line."""
    built = os.path.join(os.environ["MLXCOMM_BUILD"], "daemon", "mlxcommd")
    return built if os.path.exists(built) else find_program("mlxcommd")


class GuardedCluster(Cluster):
    spares = ""

    def start_daemon(self, node):
        self.guard = self.folder / "guard"
        if not self.guard.exists():
            self.guard.write_text("0")
        self.daemons[node] = Process(
            [daemon_program(), "--config", str(self.write_config(node))],
            {"LD_PRELOAD": find_test_program("hot_path", "libhot_path_guard.so"),
             "MLXCOMM_GUARD": str(self.guard),
             **({"MLXCOMM_GUARD_SPARES": self.spares} if self.spares else {})})
        return self.daemons[node]

    def arm(self, on):
        with open(self.guard, "r+b") as flag:  # In place: daemons have it mapped.
            flag.write(b"1" if on else b"0")


def places(lines):
    """The guard's report, with the names of functions that addr2line knows."""
    program = os.path.realpath(daemon_program())
    text = []
    for line in lines:
        if "mlxcommd(+0x" in line:
            address = line.split("(+")[1].split(")")[0]
            names = completed(["addr2line", "-Cfpie", program, address]).stdout.strip()
            text.append(names or line)
        else:
            text.append(line)
    return "\n".join(text)


def daemon_logs(cluster):
    return places(line for daemon in cluster.daemons for line in daemon.lines)


def start_rank(cluster, rank, size, node, kind):
    program = os.path.join(os.environ["MLXCOMM_BUILD"], "client", "bench", "mlxcomm-bench")
    return Process(
        [program, "--socket", cluster.socket(node), "--job", "warm", "--rank", str(rank), "--size",
         str(size), "--kind", str(kind), "--type", "1", "--operator", "1", "--iterations", "20",
         "--warm-up", "5", "--counts", *(COUNTS * (WARM_ROUNDS + 1)), "2"], stdin=subprocess.PIPE)


def run_warm(cluster, security="plain"):
    """Warm all_reduces with the guard armed, and then an orderly end."""
    daemons = cluster.count
    ranks = []
    try:
        cluster.start()
        links = cluster.status(0)["nodes"][0]["links"]
        assert {rail["security"] for link in links for rail in link["rails"]} <= {security}
        ranks = [start_rank(cluster, rank, 2, rank % daemons, 1) for rank in range(2)]
        for size in range((WARM_ROUNDS + 1) * len(SIZES) + 1):
            ranks[0].wait_for("ready")
            if size == WARM_ROUNDS * len(SIZES):
                cluster.arm(True)
            if size == (WARM_ROUNDS + 1) * len(SIZES):  # Leaving is not on the hot path.
                cluster.arm(False)
            ranks[0].say()
        codes = [rank.finish() for rank in ranks]
        for daemon in cluster.daemons:
            daemon.signal(15)
        ended = [daemon.finish() for daemon in cluster.daemons]
        said = daemon_logs(cluster)
        assert "hot path guard" not in said, said
        assert codes == [0, 0] and ended == [0] * daemons, said
    except AssertionError as error:  # A rank may only learn that its daemon is gone.
        for daemon in cluster.daemons:
            daemon.end()
            daemon.finish()
        raise AssertionError(daemon_logs(cluster)) from error
    finally:
        for rank in ranks:
            rank.end()
        cluster.end()


@pytest.mark.parametrize("daemons", [1, 2])
def test_warm_all_reduce_allocates_nothing(tmp_path, daemons):
    run_warm(GuardedCluster(tmp_path, daemons))


@pytest.mark.slow
def test_over_tls_only_openssl_allocates(tmp_path):
    """OpenSSL 3 allocates some dozen bytes for each record; the guard ignores only its library."""
    cluster = GuardedCluster(tmp_path, 2, peer_settings="security: TLS")
    cluster.spares = "libcrypto"
    run_warm(cluster, "tls")


# Why: a guard that never triggers proves nothing.
def test_guard_bites(tmp_path):
    cluster = GuardedCluster(tmp_path, 1)
    try:
        cluster.start()
        cluster.arm(True)
        cluster.status(0)  # Answered by the loop, which writes a message for it.
        assert cluster.daemons[0].finish() == -6
        assert any("hot path guard: " in line for line in cluster.daemons[0].lines)
    finally:
        cluster.end()


def run_clients(cluster, *arguments):
    """Two ranks with guards of their own: [(exit code, what was said)]"""
    ranks = []
    for rank in range(2):
        flag = cluster.folder / f"guard-{rank}"
        flag.write_text("0")
        ranks.append(Process(
            [find_test_program("ground", "ground_rank"), str(rank), "2", "warm",
             ":".join(["warm", str(flag), *arguments])],
            {"LD_PRELOAD": find_test_program("hot_path", "libhot_path_guard.so"),
             "MLXCOMM_GUARD": str(flag), "MLXCOMM_SOCKET": cluster.socket(rank % cluster.count)}))
    try:
        return [(rank.finish(), "\n".join(rank.lines)) for rank in ranks]
    finally:
        for rank in ranks:
            rank.end()


@pytest.mark.parametrize("daemons", [1, 2])
def test_a_warm_rank_allocates_nothing(cluster, daemons):
    """Why: the client put a node into a table for each operation in flight."""
    for code, said in run_clients(cluster(daemons)):
        assert code == 0, said


def test_guard_bites_in_a_rank(cluster):
    codes = run_clients(cluster(1), "allocates")
    assert -6 in [code for code, _ in codes]
    assert any("hot path guard: malloc" in said for _, said in codes)
