"""Ranks are killed while they start, and in operations of any size: the others of their job end and name
them, another job's values are correct, and the daemons release everything."""

import contextlib
import os
import resource
import sys

import pytest

from conftest import SIGKILL
from ground.daemon_resources import given_back
from ground.outcomes import all_fine, at_work, heard, ranks_on, steps_of, until_looping

MIB = 1 << 20
MOMENTS = 32
WORDS = ("join:5", "sum:8", "sum:80000")


@contextlib.contextmanager
def beside_a_job(c):
    """While the block runs, another job works, with two of its four ranks on each node."""
    with at_work(c, [0, c.count - 1] * 2, MIB, job="well"), contextlib.ExitStack() as all_given_back:
        for daemon in c.daemons:
            all_given_back.enter_context(given_back(daemon.child.pid))
        yield


def pages_of(process):
    """Its progress: each page that it touches for the first time is a fault."""
    with open(f"/proc/{process.child.pid}/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[7])


# Why: a rank may be killed between any two steps of its hello, its join and its first operations.
@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults by /proc")
def test_ranks_killed_at_any_moment_of_their_start_block_no_rank(duo):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    all_fine(ranks_on(duo, (0, 1), *WORDS, job="whole"))
    pages = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before) // 2
    with beside_a_job(duo):
        pairs = []
        for moment in range(MOMENTS):
            pairs.append(ranks_on(duo, (moment % 2, 1 - moment % 2), *WORDS, job=f"job-{moment}"))
            victim = pairs[-1][1]
            while victim.child.poll() is None and pages_of(victim) < pages * moment // MOMENTS:
                os.sched_yield()
            victim.signal(SIGKILL)
        for survivor, victim in pairs:
            if survivor.finish() != 0:
                assert victim.finish() == -SIGKILL, victim.lines
                what = survivor.lines[-1]
                assert "DEADLINE_EXCEEDED" in what or ("RANK_LOST" in what and what.endswith("rank 1")), what


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("size", [8, 64 * MIB])
def test_a_rank_killed_in_an_operation_is_named_to_all_and_costs_no_other_job(cluster, nodes, size):
    c = cluster(nodes)
    with beside_a_job(c):
        for victim in range(4):
            ranks = ranks_on(c, [0, nodes - 1] * 2, f"loop:{size}:{size}:never", job=f"job-{victim}")
            until_looping(ranks)
            ranks[victim].signal(SIGKILL)
            survivors = ranks[:victim] + ranks[victim + 1:]
            for rank in survivors:
                _, what = heard(rank)
                assert what.startswith("RANK_LOST") and what.endswith(f"rank {victim}"), what
                assert str(ranks[victim].child.pid) in what, what
            if nodes == 1:  # One daemon, or the shared page, ends an operation for all ranks.
                assert len({steps_of(rank)[0] for rank in survivors}) == 1, [rank.lines for rank in survivors]
