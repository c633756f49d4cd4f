"""Other projects' launchers start unchanged programs that use mlxcomm; two at once never mix.

torchrun, Slurm and PMI are in tests/unit/client/python/test_environment.py, by their variables.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import Process, find_program, mlxcommctl

RANK = pathlib.Path(__file__).with_name("launched_rank.py")
MPIRUN = shutil.which("mpirun")


def mpirun(count):
    return [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(count)]


def mlx_launch(count):
    return [find_program("mlx.launch"), "--backend", "ring", "-n", str(count), "--"]


def ctl_launch(count):
    return [find_program("mlxcommctl"), "launch", "-n", str(count), "--"]


LAUNCHERS = [
    pytest.param(mpirun, "mpirun-", marks=pytest.mark.skipif(
        MPIRUN is None, reason="Open MPI is not installed (openmpi-bin)")),
    pytest.param(mlx_launch, "mlx-"),
    pytest.param(ctl_launch, "launched_rank"),
]


def start(command, cluster, *words):
    inherited = {name for name in os.environ if name.startswith(("MLX_", "MLXCOMM_JOB", "OMPI_"))}
    environment = {k: v for k, v in os.environ.items() if k not in inherited}
    return Process(["env", "-i", *(f"{k}={v}" for k, v in environment.items()),
                    f"MLXCOMM_SOCKET={cluster.socket(0)}", *command, sys.executable, "-u", str(RANK),
                    *map(str, words)], stdin=subprocess.PIPE)


def said(process):
    return sorted(line[line.index("rank"):] for line in process.lines if " of " in line)


@pytest.mark.parametrize("launcher, job", LAUNCHERS)
def test_ranks_of_a_launcher_find_each_other(cluster, launcher, job):
    process = start(launcher(3), cluster(1))
    assert process.finish() == 0, process.lines
    lines = said(process)
    assert [line.split(" in ")[0] for line in lines] == [f"rank {r} of 3" for r in range(3)]
    jobs = {line.split(" in ")[1] for line in lines}
    assert len(jobs) == 1 and jobs.pop().startswith(job), process.lines


# mlx.launch twice with the same hosts is one job twice: MLX's own ring cannot do that either,
# because both would listen on the same ports.
@pytest.mark.parametrize("launcher, job", [LAUNCHERS[0], LAUNCHERS[2]])
def test_two_launches_at_once_are_two_jobs(solo, tmp_path, launcher, job):
    both = [start(launcher(2), solo, tmp_path) for _ in range(2)]
    for process in both:
        process.wait_for("rank")
        process.wait_for("rank")
    assert sorted(entry["size"] for entry in solo.status()["jobs"]) == [2, 2]
    (tmp_path / "go").touch()
    for process in both:
        assert process.finish() == 0, process.lines
    jobs = {line.split(" in ")[1] for process in both for line in said(process)}
    assert len(jobs) == 2 and all(name.startswith(job) for name in jobs)


JOIN = ("import mlxcomm, sys\n"
        "try:\n"
        "  mlxcomm.init(timeout=float(sys.argv[1]))\n"
        "  print('joined', flush=True); sys.stdin.read()\n"
        "except mlxcomm.Error as error: print(type(error).__name__, error, flush=True)\n")


def joiner(cluster, rank, size, timeout=60, node=0):
    return Process([sys.executable, "-u", "-c", JOIN, str(timeout)],
                   {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
                    "PMIX_NAMESPACE": "prterun-host-7@1", "MLXCOMM_SOCKET": cluster.socket(node)},
                   stdin=subprocess.PIPE)


def wait_for_job(cluster, ranks):
    from conftest import wait_until
    return wait_until(lambda: [job for job in cluster.status()["jobs"] if len(job["ranks"]) >= ranks],
                      f"{ranks} ranks wait")[0]


def test_missing_rank_is_named_in_status_and_at_the_deadline(duo):
    waits = [joiner(duo, 0, 3, timeout=600), joiner(duo, 2, 3, timeout=600, node=1)]
    wait_for_job(duo, 2)
    shown = mlxcommctl("status", "--socket", duo.socket(0), check=True).stdout
    assert "mpirun-prterun-host-7@1" in shown and "rank 1" in shown, shown
    late = joiner(duo, 1, 3)
    for process in [*waits, late]:
        process.wait_for("joined")
        process.child.stdin.close()
        assert process.finish() == 0
    alone = joiner(duo, 0, 3, timeout=0.5)
    assert alone.finish() == 0
    assert "DeadlineExceededError" in alone.lines[0] and "ranks 1, 2 of 3 had not joined" in alone.lines[0]
