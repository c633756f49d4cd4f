"""Every operation, groups and failures from C++, on real daemons, against an oracle."""

import pathlib

import pytest

from conftest import wait_until
from ground.outcomes import ranks_on

# 16 MiB repeatedly. A rank says "looping" once everything that is made at first use exists.
SUMS = f"loop:{16 << 20}:{16 << 20}:never"
SENDS = f"send:{16 << 20}:never"
# (daemons, ranks): 1x2, 1x4, 2x1, 2x2, 3x1
LAYOUTS = [(1, 2), (1, 4), (2, 2), (2, 4), (3, 3)]


def start(cluster, task, nodes, ranks, job="job"):
    per_node = -(-ranks // nodes)
    return ranks_on(cluster, [rank // per_node for rank in range(ranks)], task, job=job)


def run(cluster, task, nodes, ranks):
    processes = start(cluster, task, nodes, ranks)
    for process in processes:
        assert process.finish() == 0, (process.lines, [p.lines for p in processes])
        assert process.lines[-1] == "fine"
    return processes


def nothing_is_left(cluster, nodes):
    """Every group is gone everywhere, with all of its resources."""
    def empty():
        return all(not cluster.status(node)["jobs"] for node in range(nodes))

    wait_until(empty, "no job is left")


@pytest.mark.parametrize("nodes, ranks", LAYOUTS)
def test_every_operation_type_and_plan_agrees_with_an_oracle(cluster, nodes, ranks):
    run(cluster(nodes), "every", nodes, ranks)


@pytest.mark.parametrize("nodes, ranks", LAYOUTS)
def test_messages_between_any_two_ranks_with_tags_in_any_order(cluster, nodes, ranks):
    run(cluster(nodes), "messages", nodes, ranks)


@pytest.mark.parametrize("nodes, ranks", [(1, 4), (2, 4), (3, 3)])
def test_groups_nested_and_at_work_at_the_same_time(cluster, nodes, ranks):
    c = cluster(nodes)
    run(c, "groups", nodes, ranks)
    nothing_is_left(c, nodes)


@pytest.mark.slow
@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 2)])
def test_thousands_of_groups_leave_nothing(cluster, nodes, ranks):
    """Why: a leak of one group is small; one of thousands is noticeable."""
    c = cluster(nodes)
    run(c, "cycles", nodes, ranks)  # Warm.
    before = [c.status(node)["nodes"][0]["memory_bytes"] for node in range(nodes)]
    run(c, "cycles", nodes, ranks)
    nothing_is_left(c, nodes)
    for node in range(nodes):
        assert int(c.status(node)["nodes"][0]["memory_bytes"]) < int(before[node]) + (4 << 20)


def test_what_operations_had_needed_goes_back_when_no_job_is_left(duo):
    """Why: memory needed at a daemon's peak would otherwise stay allocated for the rest of its life."""

    def memory():
        return [int(duo.status(node)["nodes"][0]["memory_bytes"]) for node in range(2)]

    run(duo, "messages", 2, 4)  # Warm.
    before = memory()
    run(duo, "every", 2, 4)
    nothing_is_left(duo, 2)
    wait_until(lambda: all(now < had + (4 << 20) for now, had in zip(memory(), before)),
               f"it goes back: {before} before")


@pytest.mark.parametrize("nodes, ranks", [(1, 3), (3, 3), (2, 4)])
def test_survivors_continue_in_a_group_of_their_own(cluster, nodes, ranks):
    processes = start(cluster(nodes), "shrink", nodes, ranks)
    codes = [process.finish() for process in processes]
    assert codes[:-1] == [0] * (ranks - 1), [process.lines for process in processes]
    for process in processes[:-1]:
        assert process.lines[-1] == "fine"
        assert f"of {ranks - 1}" in process.lines[-2]
    assert codes[-1] != 0


@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 2), (3, 3)])
def test_a_cancel_names_the_cancelling_rank_on_all_ranks(cluster, nodes, ranks):
    for process in run(cluster(nodes), "cancel", nodes, ranks):
        reported = " ".join(process.lines)
        assert "rank 0 (node-0, pid" in reported and "given_up" in reported, reported


@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 2), (3, 3)])
def test_counts_that_do_not_agree_are_a_mismatch_on_every_rank(cluster, nodes, ranks):
    for process in run(cluster(nodes), "unequal", nodes, ranks):
        assert "all_to_all_v int32 sending [1000" in " ".join(process.lines)


def available_bytes():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if "MemAvailable" in line)


@pytest.mark.skipif(not pathlib.Path("/proc/meminfo").exists() or available_bytes() < 16 << 30,
                    reason="needs 12 GiB of memory, and what runs beside it 4 GiB")
@pytest.mark.slow
def test_more_than_four_gigabytes_at_once(cluster):
    run(cluster(2), "large", 2, 2)
