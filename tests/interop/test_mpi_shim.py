"""Stock MLX, unmodified: its MPI backend with libmlxcomm_mpi in place of Open MPI's library,
selected by the environment alone."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import mlx.core as mx
import mlxcomm
import pytest

from conftest import RANK, SIGKILL, completed, find_test_program, lines_of, wait_until

FOLDER = pathlib.Path(__file__).parent
OPERATIONS = FOLDER / "named_operations.py"
LAYOUTS = pytest.mark.parametrize("nodes", [1, 2])
THROWS = pytest.mark.skipif(mx.__version__ in ("0.31.2", "0.32.0"),
                            reason="this MLX ends the process when an operation on a CPU stream fails")
# Waiting ranks poll, so only one of these tests runs at a time.
pytestmark = pytest.mark.xdist_group("ranks that look")


def stock(c, rank, size, script, *arguments, node=0, job="stock", **variables):
    """Starts a rank of stock MLX, with one environment variable of mlxcomm's."""
    return c.rank(rank, size, script, arguments, node=node, job=job,
                  environment={"MLX_MPI_LIBNAME": mlxcomm.mpi_library(), **variables})


def one_of_two(c, rank, *words, **more):
    return stock(c, rank, 2, RANK, "mpi", *words, **more)


@pytest.mark.parametrize("backend, nodes, ranks", [
    pytest.param("mpi", 1, 2, marks=pytest.mark.slow),
    ("any", 2, 2),
    pytest.param("mpi", 2, 3, marks=pytest.mark.slow)])
def test_every_operation_and_type_agrees_with_numpy(cluster, backend, nodes, ranks):
    c = cluster(nodes)
    processes = [stock(c, r, ranks, OPERATIONS, backend, "without sum_scatter", "large", node=r % nodes)
                 for r in range(ranks)]
    for lines in lines_of(processes):
        assert json.loads(lines[-1])["agree"] > 500
    # They left when they ended, and were not lost: the daemons remember no failed job.
    wait_until(lambda: c.status() and c.status()["jobs"] == [], "the job is gone")


@THROWS
@LAYOUTS
def test_killed_rank_is_named_in_the_others_exception(cluster, nodes):
    c = cluster(nodes)
    survivor = one_of_two(c, 0, "loop")
    victim = one_of_two(c, 1, "loop", node=nodes - 1)
    survivor.wait_for("looping")
    victim.signal(SIGKILL)
    line = survivor.wait_for("raised")
    assert line.startswith("raised RuntimeError RANK_LOST") and "rank 1" in line
    assert f"node-{nodes - 1}" in line and str(victim.child.pid) in line
    assert "RANK_LOST" in survivor.wait_for("latched")
    assert survivor.finish() == 3


@THROWS
@LAYOUTS
def test_a_mismatch_is_raised_on_both_ranks(cluster, nodes):
    c = cluster(nodes)
    ranks = [one_of_two(c, 0, "sum:float32:5"), one_of_two(c, 1, "sum:float32:6", node=nodes - 1)]
    for rank in ranks:
        line = rank.wait_for("raised")
        assert "MISMATCH" in line and "float32[5]" in line and "float32[6]" in line
        assert rank.finish() == 3


# Why: nothing reads a send's result; its failure must not be lost with it.
@THROWS
@pytest.mark.parametrize("most, words", [("0", ["send:3000000"]), ("", ["send:3000000", "sum:float32:4"])])
def test_a_send_that_fails_raises_too(cluster, most, words):
    c = cluster(1, client_settings="operation_timeout_ms: 500")
    sender = one_of_two(c, 0, *words, MLXCOMM_SEND_BYTES=most)
    one_of_two(c, 1, "wait")
    line = sender.wait_for("raised")
    assert "DEADLINE_EXCEEDED" in line and "rank 1" in line


# Why: the program may end without another operation, which would raise.
def test_a_send_that_fails_after_the_programs_end_is_reported(cluster):
    c = cluster(1, client_settings="operation_timeout_ms: 500")
    sender = one_of_two(c, 0, "send:3000000")
    one_of_two(c, 1, "wait")
    line = sender.wait_for("did not arrive")
    assert line.startswith("mlxcomm: a send to rank 1 did not arrive: send float32[3000000] did not"), line


@THROWS
def test_daemon_that_dies_is_an_exception_at_once(solo):
    ranks = [one_of_two(solo, r, "loop") for r in (0, 1)]
    ranks[0].wait_for("looping")
    solo.daemons[0].signal(SIGKILL)
    for rank in ranks:
        assert "DAEMON_LOST" in rank.wait_for("raised")
        assert rank.finish() == 3


# Why: MLX's own MPI backend cannot be interrupted in an operation at all.
def test_ctrl_c_ends_the_wait(solo):
    one_of_two(solo, 1, "wait")
    waiting = one_of_two(solo, 0, "sum:float32:100000")
    solo.wait_for_an_operation()
    waiting.signal(signal.SIGINT)
    line = waiting.wait_for("r")
    while "raised" not in line and "KeyboardInterrupt" not in line:
        line = waiting.wait_for("r")
    assert waiting.finish() != 0


# Why: a program's own handler replaces the one that notices Ctrl-C for the operation.
@THROWS
def test_ctrl_c_ends_the_wait_also_where_the_program_has_a_handler_of_its_own(cluster):
    c = cluster(1)
    one_of_two(c, 1, "sum:float32:4", "wait")
    waiting = one_of_two(c, 0, "sum:float32:4", "handle", "sum:float32:100000")
    wait_until(lambda: "100000" in str(c.operations_in_flight()), "the operation is in flight")
    waiting.signal(signal.SIGINT)
    assert "CANCELLED" in waiting.wait_for("raised")
    assert waiting.finish() == 3
    assert "heard" in waiting.lines


@pytest.mark.parametrize("variables, expected", [
    ({"MLX_RANK": "many"}, 'MLX_RANK="many": expected a whole number that is not negative'),
    ({"MLX_RANK": "2"}, "MLX_RANK: expected a rank below the size 2, got 2"),
    ({"MLXCOMM_SOCKET": "/nowhere/at/all.sock"}, "UNAVAILABLE"),
])
def test_a_rank_that_cannot_join_is_reported_and_no_rank_trains_by_itself(solo, variables, expected):
    refused = one_of_two(solo, 0, "sum:float32:1", **variables)
    assert expected in refused.wait_for("refused")
    assert refused.finish() == 3


def in_c(c, rank, *arguments):
    return c.start_as(rank, 2, [find_test_program("interop", "open_mpi_program"), *arguments])


def test_a_program_in_c_gets_what_open_mpi_would_give(solo):
    assert lines_of([in_c(solo, r) for r in (0, 1)]) == [["all is right"]] * 2


# The other mistakes: tests/unit/client/mpi/mpi_test.cc.
def test_an_error_ends_a_c_program_with_its_code(solo):
    for process in [in_c(solo, r, "wrong") for r in (0, 1)]:
        assert process.finish() == -signal.SIGABRT, process.lines
        assert any("MPI_Send: rank 2: expected 0 to 1" in line for line in process.lines), process.lines


# Why: the shim's header was written by reading; a wrong value would be a silent mistake.
@pytest.mark.skipif(shutil.which("mpicc") is None, reason="no Open MPI")
def test_values_are_those_of_open_mpis_header(tmp_path):
    theirs = completed(["mpicc", "--showme:compile"])
    if theirs.returncode != 0:
        pytest.skip("mpicc is another MPI's")
    # Debian's package of mpicc comes without the header.
    includes = [word[2:] for word in theirs.stdout.split() if word.startswith("-I")]
    if not any(os.path.exists(os.path.join(folder, "mpi.h")) for folder in includes):
        pytest.skip("no headers of Open MPI (libopenmpi-dev)")
    reported = []
    for name, flags in (("theirs", ["-include", "mpi.h", *theirs.stdout.split()]),
                        ("ours", ["-include", str(FOLDER.parents[1] / "client/mpi/open_mpi.h")])):
        subprocess.run(["cc", str(FOLDER / "open_mpi_values.c"), "-o", str(tmp_path / name), *flags],
                       check=True)
        reported.append(completed([tmp_path / name], check=True).stdout)
    assert reported[0] == reported[1]


def test_only_open_mpis_names_are_visible():
    done = completed(["nm", "-D", "--defined-only", mlxcomm.mpi_library()])
    if done.returncode != 0:
        pytest.skip("no nm that reads this system's libraries")
    names = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
    assert {n for n in names if not n.startswith(("MPI_", "ompi_mpi_"))} == set()
    assert len(names) == 30
