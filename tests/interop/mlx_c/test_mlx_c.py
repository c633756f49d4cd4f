"""C programs over mlx-c (program.c) with the groups of client/mlx_c: operations, errors and ends. `build` in
this folder makes them; the tests are skipped if it could not."""

import os
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import SIGKILL, Process, completed, find_program, wait_until
from ground.outcomes import until_looping

WORK = pathlib.Path(__file__).resolve().parents[3] / "build" / "mlx-c"
WHY_NOT = WORK / "why-not"
BUILT = (WORK / "shared" / "program").exists() and (WORK / "static" / "program").exists()
pytestmark = pytest.mark.skipif(
    WHY_NOT.exists() or not BUILT,
    reason=WHY_NOT.read_text() if WHY_NOT.exists() else "not built: tests/interop/mlx_c/build does it")
WAYS = pytest.mark.parametrize("way", ["shared", "static"])


def program(c, rank, *arguments, size=2, way="shared", node=0, name="program", job="c", **variables):
    return c.start_as(rank, size, [WORK / way / name, *arguments], node, job, variables,
                      stdin=subprocess.PIPE)


def is_right(process):
    assert process.finish() == 0, process.lines
    assert "all is right" in process.lines
    return process.lines


def is_right_without_the_others(scenario, **variables):
    """Runs the scenario without a launcher's variables and without a daemon."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLX")}
    done = completed([WORK / "shared" / "program", scenario], env={**environment, **variables})
    assert done.returncode == 0 and "all is right" in done.stdout, done.stdout + done.stderr


def no_job_is_left(c):
    """Waits until the job is gone: a lost rank would make it a failed job, which the daemon shows."""
    wait_until(lambda: c.status() and c.status()["jobs"] == [], "the job is gone")


def launch(c, *words, **variables):
    process = Process(
        [find_program("mlxcommctl"), "launch", "-n", "2", "--socket", c.socket(0), "--", *words], variables)
    c.ranks.append(process)
    return process


@WAYS
@pytest.mark.parametrize("scenario", ["operations", "gradients", "groups"])
def test_two_ranks_by_launch(solo, way, scenario):
    process = launch(solo, WORK / way / "program", scenario)
    assert process.finish() == 0, process.lines
    assert sorted(process.lines) == ["[0] all is right", "[1] all is right"]
    no_job_is_left(solo)


@pytest.mark.parametrize("results", ["share", "copy"])
def test_operations_between_two_nodes(duo, results):
    for process in [program(duo, r, "operations", node=r, MLXCOMM_RESULTS=results) for r in (0, 1)]:
        is_right(process)


def test_a_program_without_a_launcher_is_one_rank_and_needs_no_daemon():
    is_right_without_the_others("alone", MLXCOMM_SOCKET="/nowhere/at/all.sock")


# The stock program uses client/mpi's library; `renamed` is built with one name replaced.
@WAYS
@pytest.mark.parametrize("name", ["stock", "renamed"])
def test_a_program_that_knows_nothing_of_it(cluster, name, way):
    process = launch(cluster(1), WORK / way / name)
    assert process.finish() == 0, process.lines
    assert sorted(process.lines) == ["[0] 2 ranks, sum 3", "[1] 2 ranks, sum 3"]


def test_the_readmes_example(cluster):
    process = launch(cluster(1), WORK / "static" / "example")
    assert process.finish() == 0, process.lines
    assert sorted(process.lines) == [f"[{r}] rank {r} of 2: gradient 2.5 6.5" for r in (0, 1)]


# Why: the library's own parts of MLX and of C++ must not replace the program's.
def test_only_its_own_names_are_visible():
    library = WORK / "shared" / "mlxcomm" / "libmlxcomm_mlx_c.so"
    done = completed(["nm", "-D", "--defined-only", library])
    if done.returncode != 0:
        pytest.skip("no nm that reads this system's libraries")
    header = WORK.parents[1] / "client" / "mlx_c" / "mlxcomm_mlx.h"
    code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    declared = set(re.findall(r"MLXCOMM_MLX_API [\w* ]*\b(mlxcomm_mlx_\w+)\(", code))  # Others are inline.
    names = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
    assert names == declared


# mismatch: both ranks get the error and continue. leave: mlx-c uses the text of an exception as a format of
# printf, so percent signs of another process must stay text. fork: the child is refused and ends.
@pytest.mark.parametrize("scenario", ["wrong", "mismatch", "leave", "fork"])
def test_two_ranks_of_a_scenario(solo, scenario):
    for process in [program(solo, r, scenario) for r in (0, 1)]:
        is_right(process)
    if scenario in ("wrong", "fork"):
        no_job_is_left(solo)


def test_a_rank_that_does_not_come_is_named(solo):
    waiting, late = (program(solo, r, "late") for r in (0, 1))
    is_right(waiting)
    late.wait_for("late")
    late.say()
    is_right(late)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_killed_rank_is_named_with_its_node_and_process(cluster, nodes):
    c = cluster(nodes)
    survivor, victim = program(c, 0, "loop"), program(c, 1, "loop", node=nodes - 1)
    survivor.wait_for("looping")
    victim.signal(SIGKILL)
    assert survivor.wait_for("failed") == (
        f"failed RANK_LOST rank 1 node node-{nodes - 1} pid {victim.child.pid}")
    is_right(survivor)


def test_survivors_continue(solo):
    ranks = [program(solo, r, "shrink", size=3) for r in range(3)]
    until_looping(ranks)
    ranks[1].signal(SIGKILL)
    for rank in (ranks[0], ranks[2]):
        assert "2 go on" in is_right(rank)


def test_the_reason_why_a_process_cannot_join_is_reported():
    is_right_without_the_others("no-daemon")


@pytest.mark.parametrize("number, code", [
    (signal.SIGKILL, "DAEMON_LOST"), (signal.SIGTERM, "DAEMON_STOPPING")])
def test_init_joins_again_when_the_daemon_is_back(cluster, number, code):
    c = cluster(1, top_settings="drain_timeout_ms: 1")
    ranks = [program(c, r, "lost") for r in (0, 1)]
    until_looping(ranks)
    c.daemons[0].signal(number)
    for rank in ranks:
        assert code in rank.wait_for("failed")
        rank.wait_for("lost")
    c.daemons[0].child.wait()
    c.start_daemon(0)
    c.wait_linked()
    for rank in ranks:
        rank.say()
    for rank in ranks:
        is_right(rank)


# Why: other ranks wait for the work that a program has begun (mlx_async_eval).
@WAYS
def test_a_rank_that_exits_completes_the_operations_it_has_begun(solo, way):
    leaving, staying = program(solo, 0, "queued", way=way), program(solo, 1, "on-request", way=way)
    staying.wait_for("waits")
    leaving.wait_for("all is right")
    solo.wait_for_an_operation()
    staying.say()
    assert "got it" in is_right(staying)
    assert leaving.finish() == 0, leaving.lines


def test_a_request_without_an_answer_times_out(solo):
    leaving = program(solo, 0, "queued", MLXCOMM_END_TIMEOUT="0.5")
    staying = program(solo, 1, "on-request")
    staying.wait_for("waits")
    assert leaving.finish() == 0
    assert any("no longer waiting" in line for line in leaving.lines), leaving.lines


def test_a_wrong_end_timeout_is_reported(solo):
    leaving = program(solo, 0, "queued", MLXCOMM_END_TIMEOUT="soon")
    staying = program(solo, 1, "on-request")
    leaving.wait_for("expected seconds; using 60")
    staying.wait_for("waits")
    staying.say()
    is_right(staying)
    assert leaving.finish() == 0


# Why: mlx-c's default handler exits in the middle of a call.
@pytest.mark.parametrize("where", ["call", "thread"])
def test_the_default_error_handler_ends_the_program_and_the_others_learn_why(solo, where):
    ending, other = program(solo, 0, "default", where), program(solo, 1, "outlive")
    other.wait_for("waits")
    assert ending.finish() == 255, ending.lines
    why = "INVALID_ARGUMENT: root: expected a rank below 2, got 77"
    assert any(line.startswith(f"MLX error: {why}") for line in ending.lines)
    assert not any("still waiting for" in line for line in ending.lines), ending.lines
    other.say()
    said = "\n".join(is_right(other))
    assert "RANK_LOST: rank 0" in said and f"ended by {why}" in said


def test_the_default_error_handler_ends_the_program_from_an_evaluation(solo):
    ending, other = program(solo, 0, "default", "evaluation"), program(solo, 1, "outlive")
    other.wait_for("waits")
    other.say()
    assert ending.finish() == 255, ending.lines
    assert any(line.startswith("MLX error: MISMATCH: rank") for line in ending.lines)
    assert "MISMATCH" in "\n".join(is_right(other))


# Why: a rank that disappears makes its job a failed one.
@WAYS
def test_groups_that_are_never_freed_are_left_in_order(solo, way):
    leaving, staying = program(solo, 0, "at-exit", way=way), program(solo, 1, "on-request", way=way)
    staying.wait_for("waits")
    assert leaving.finish() == 0, leaving.lines

    def ranks():
        (job,) = solo.status()["jobs"]
        return job["state"], [rank["rank"] for rank in job["ranks"]]

    wait_until(lambda: ranks()[1] == [1], "the daemon knows that rank 0 has left")
    assert ranks()[0] == "running"


# Why: a program's own exit handlers may run after ours.
@WAYS
def test_what_uses_a_group_after_the_job_was_left_is_refused(solo, way):
    for process in [program(solo, r, "at-exit", way=way) for r in (0, 1)]:
        assert "refused" in is_right(process)
    no_job_is_left(solo)


def waits_for_a_sum(c, scenario):
    """Starts ranks; rank 0 waits in an operation that rank 1 does not call."""
    waiting, other = program(c, 0, scenario), program(c, 1, "on-request")
    other.wait_for("waits")
    c.wait_for_an_operation()
    return waiting, other


def test_ctrl_c_ends_a_program_that_has_no_handler(cluster):
    c = cluster(1)
    waiting, other = waits_for_a_sum(c, "outlive")
    waiting.signal(signal.SIGINT)
    assert waiting.finish() == -signal.SIGINT
    # Until the daemon has noticed, it may still combine the data that it received.
    wait_until(lambda: any(job["state"] == "failed" for job in c.status()["jobs"]), "the daemon has seen it")
    other.say()
    other.wait_for("RANK_LOST")


# Why: a C handler sets a flag and returns; a second Ctrl-C must end the wait.
def test_a_second_ctrl_c_ends_the_wait_of_a_program_that_has_one(solo):
    waiting, other = waits_for_a_sum(solo, "ctrl-c")
    waiting.signal(signal.SIGINT)
    waiting.wait_for("heard")
    assert solo.operations_in_flight()
    waiting.signal(signal.SIGINT)
    assert "interrupted" in is_right(waiting)
    other.say()
    other.wait_for("error")


def test_ctrl_c_ends_the_wait_at_the_end(solo):
    waiting, _ = waits_for_a_sum(solo, "ctrl-c-at-end")
    waiting.wait_for("all is right")
    waiting.signal(signal.SIGINT)
    assert waiting.finish() == 0
    assert not any("no longer waiting" in line or "still waiting for" in line for line in waiting.lines)
