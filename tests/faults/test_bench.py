"""mlxcommctl bench: ranks on real daemons, measured and checked."""

import json
import os
import subprocess

import pytest

from conftest import PATIENCE, Process, completed, find_program, mlxcommctl

SMALL = ("--to", "64K", "-f", "64", "-i", "3", "-w", "1")


def bench(socket, *arguments):
    return mlxcommctl("bench", *arguments, env={**os.environ, "MLXCOMM_SOCKET": socket})


def test_ranks_of_one_machine_make_one_table(cluster):
    done = bench(cluster(1).socket(0), "-n", "3", *SMALL)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("all_reduce sum, 3 ranks on node-0, ")
    assert [line.split()[0] for line in lines[3:-1]] == ["8", "512", "32768", "65536"]
    assert lines[-1] == "all values are right"


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                       "reduce", "all_to_all", "gather", "scatter", "send_recv"])
def test_every_operation_between_two_nodes_is_checked_and_reports_its_links(cluster, operation):
    made = cluster(2)
    other = Process([find_program("mlxcommctl"), "bench", "--op", operation, "-d", "bfloat16", *SMALL,
                     "--rank", "1", "--size", "2", "--job", operation],
                    {"MLXCOMM_SOCKET": made.socket(1)})
    done = bench(made.socket(0), "--op", operation, "-d", "bfloat16", *SMALL, "--json",
                 "--rank", "0", "--size", "2", "--job", operation)
    assert other.finish() == 0 and done.returncode == 0, done.stderr + str(other.lines)
    run = json.loads(done.stdout)
    assert (run["operation"], run["ranks"], run["nodes"]) == (operation, 2, 2)
    largest = run["results"][-1]
    assert largest["wrong"] == 0 and largest["time_us"] > 0
    carried = {(link["from"], link["to"]): link["bytes_per_operation"] for link in largest["links"]}
    assert set(carried) == {("node-0", "node-1"), ("node-1", "node-0")}
    to_root = operation in ("reduce", "gather")
    assert carried[("node-1", "node-0") if to_root else ("node-0", "node-1")] > largest["bytes"] / 4


# Why: in place, each operation's input is the previous result.
@pytest.mark.parametrize("operation", ["all_reduce", "reduce", "broadcast"])
def test_in_place_is_measured_and_checked(cluster, operation):
    done = bench(cluster(1).socket(0), "-n", "2", "--op", operation, "--in-place", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "in place, 3 iterations" in done.stdout and "all values are right" in done.stdout


def test_nodes_are_measured_by_this_mlxcommctl_whatever_is_in_the_path(cluster):
    command = [find_program("mlxcommctl"), "bench", "--nodes", "all", "-n", "2", *SMALL]
    done = completed(command, env={"PATH": "/usr/bin:/bin", "MLXCOMM_SOCKET": cluster(1).socket(0)})
    assert done.returncode == 0 and done.stdout.startswith("all_reduce sum, 2 ranks on node-0, "), done.stderr


def test_bench_below_a_launcher_is_a_rank(cluster):
    done = mlxcommctl("launch", "-n", "2", "--", find_program("mlxcommctl"), "bench", *SMALL,
                      env={**os.environ, "MLXCOMM_SOCKET": cluster(1).socket(0)})
    assert done.returncode == 0, done.stderr
    assert "[0] all values are right" in done.stdout and "[1]" not in done.stdout


def test_mistakes_name_the_remedy(tmp_path):
    nowhere = str(tmp_path / "nobody.sock")
    done = bench(nowhere)
    assert done.returncode == 2 and "mlxcommctl bench -n 2" in done.stderr
    done = bench(nowhere, "-n", "2", "--op", "sort")
    assert done.returncode == 2 and "all_to_all" in done.stderr
    done = bench(nowhere, "-n", "2", "--op", "all_gather", "--in-place")
    assert done.returncode == 2 and "expected --op all_reduce, broadcast, reduce" in done.stderr
    done = bench(nowhere, "-n", "2", "--from", "2M", "--to", "1M")
    assert done.returncode == 2 and "--from" in done.stderr
    for endless in (["--from", "0"], ["--factor", "1"], ["--factor", "nan"]):
        done = bench(nowhere, "-n", "2", *endless)
        assert done.returncode == 2 and "at least 1" in done.stderr, endless
    done = bench(nowhere, "-n", "2")
    assert done.returncode == 3 and "Start it (mlxcommd --config FILE)" in done.stderr


# Why: a program that reads only standard output got nothing.
def test_a_rank_that_fails_is_an_error_in_json(cluster):
    done = bench(cluster(1).socket(0), "-n", "2", "-d", "complex64", "-o", "or", "--json", *SMALL)
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "FAILED" and error["exit_code"] == 1
    assert "see standard error" in error["message"] and "INVALID_ARGUMENT" in done.stderr


# Why: a reader of the first lines must not leave ranks behind.
def test_ranks_end_when_the_tables_reader_is_gone(cluster):
    made = cluster(1)
    child = subprocess.Popen([find_program("mlxcommctl"), "bench", "-n", "2", *SMALL],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "MLXCOMM_SOCKET": made.socket(0)})
    child.stdout.close()
    assert child.wait(timeout=PATIENCE) != 0
    child.stderr.close()
