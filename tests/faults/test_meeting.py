"""Ranks of one machine that meet on a shared page for small operations, and end in the middle of one.

Why: without a daemon between them the survivors must agree on the outcome and name the lost rank, and none
may wait forever. How: meeting_attack.cc traces a rank and kills or stops it after each number of
instructions, or makes it scribble over the page.
"""

import json
import platform
import signal
import sys

import pytest

from conftest import Process, find_program, find_test_program, wait_until
from ground.outcomes import all_fine, heard, ranks_on, until_looping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ptrace's single steps")
# An operation takes fewer; the rest are steps of the next ones.
INSTRUCTIONS = 4000
# All are still in the job while rank 0 asks: the last sum holds the others.
RANK_THAT_ASKS = """
import json, subprocess, sys
import mlx.core as mx
import mlxcomm
group = mlxcomm.init()
sums = all(mx.distributed.all_sum(mx.array([n, 1.0]), group=group).tolist() == [2 * n, 2]
           for n in range(100))
print("sums:", sums)
if group.rank() == 0:
    while True:  # What was met is counted ten times a second at most.
        told = subprocess.run([sys.argv[1], "status", "--json"], capture_output=True, check=True).stdout
        met = [int(rank.get("operations_met", 0)) for rank in json.loads(told)["jobs"][0]["ranks"]]
        if sys.argv[2] == "0" or all(met):
            break
    print("met:", met)
mx.eval(mx.distributed.all_sum(mx.array([1.0]), group=group))
"""


def attack(c, *words):
    process = Process([find_test_program("faults", "meeting_attack"), c.socket(0), *map(str, words)])
    c.ranks.append(process)
    assert process.finish() == 0, process.lines
    assert process.lines[-1].startswith("fine"), process.lines
    return process.lines[-1]


def daemon_is_well(c):
    status = c.status()
    assert status["nodes"][0]["state"] == "up" and not status["jobs"], status


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no single steps")
@pytest.mark.parametrize("ending, stride", [
    ("kill", 499), ("stop", 499), pytest.param("kill", 37, marks=pytest.mark.slow),
    pytest.param("stop", 61, marks=pytest.mark.slow)])
def test_survivors_agree_after_a_rank_ends_at_any_instruction(solo, ending, stride):
    """Killed: both survivors ended the same operations and name the lost rank. Stopped until the daemon has
    taken over: all ranks continue with correct values."""
    attack(solo, "step", 1, INSTRUCTIONS, stride, ending)
    daemon_is_well(solo)


def test_a_rank_that_scribbles_over_the_shared_page_harms_only_its_own_job(solo):
    for seed in range(1, 3):
        attack(solo, "scribble", seed)
    daemon_is_well(solo)


def test_a_daemon_that_ends_is_noticed_though_the_ranks_do_without_it(solo):
    ranks = ranks_on(solo, (0, 0), "loop:8:8:never")
    until_looping(ranks)
    solo.daemons[0].signal(signal.SIGKILL)
    assert all(heard(rank)[1].startswith("DAEMON_LOST") for rank in ranks)


# Why: ranks that meet do not need a daemon that swaps or is in a debugger.
def test_small_operations_go_on_while_the_daemon_stands_still(solo, tmp_path):
    ranks = ranks_on(solo, (0, 0), *["sum:8"] * 100, f"await:{tmp_path}/go", *["sum:8"] * 50)
    wait_until(lambda: [int(rank.get("operations_met", 0)) > 0 for job in solo.status()["jobs"]
                        for rank in job["ranks"]] == [True, True], "both meet")
    for rank in ranks:
        for _ in range(100):
            rank.wait_for("summed")
    solo.daemons[0].signal(signal.SIGSTOP)
    (tmp_path / "go").touch()
    for rank in ranks:
        for _ in range(50):
            rank.wait_for("summed")
    solo.daemons[0].signal(signal.SIGCONT)
    all_fine(ranks)


@pytest.mark.parametrize("meet", ["1", "0"])
def test_any_rank_can_keep_its_group_off_the_shared_page(solo, tmp_path, meet):
    """With MLXCOMM_RANKS_MEET=0 on any rank the daemon carries out all operations of the group."""
    script = tmp_path / "rank.py"
    script.write_text(RANK_THAT_ASKS)
    ranks = [solo.rank(rank, 2, script, arguments=[find_program("mlxcommctl"), meet],
                    environment={"MLXCOMM_RANKS_MEET": meet} if rank == 1 else None)
             for rank in range(2)]
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
    assert [rank.lines[0] for rank in ranks] == ["sums: True"] * 2
    met = json.loads(ranks[0].lines[1].removeprefix("met: "))
    assert len(met) == 2 and all((count > 0) == (meet == "1") for count in met), met


@pytest.mark.slow
def test_survivors_agree_without_the_shared_page(cluster):
    c = cluster(1, top_settings="ranks_meet: false")
    attack(c, "step", 1, INSTRUCTIONS, 499, "kill")
    daemon_is_well(c)
