"""Deadlines that ranks enforce whatever the daemons do: a join ends at its own, and a wait as mlxcomm.h
states:

    the daemon continues within 8 s after the deadline   the operation's own end
    between 8 and 10 s after it                          that end, or that it hung
    not by then                                          DAEMON_LOST, while it still stands
    without a deadline                                   DAEMON_LOST after 20 s

No error may name any other cause."""

import time

import pytest
from test_stopped_daemon import stopped_daemon

from conftest import Process, find_test_program, wait_until
from ground.outcomes import all_fine, heard

PAGE = ["1", "0"]  # The ranks meet there; the daemon runs the operation.


def rank_of(c, job, rank, size, *words, node=0, meets="1"):
    made = Process([find_test_program("ground", "ground_rank"), str(rank), str(size), job, *words],
                   {"MLXCOMM_SOCKET": c.socket(node), "MLXCOMM_RANKS_MEET": meets})
    c.ranks.append(made)
    return made


def known_at(c, node, rank):
    """The node knows that this rank waits."""
    status = c.status(node)
    return any(one.get("rank", 0) == rank for job in status["jobs"] for one in job["ranks"])


def touched(path):
    path.touch()
    return time.monotonic()


# Why: the wait for the last step of forming had the daemons' deadlines, and ended late with a false error.
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_join_ends_at_its_own_deadline_while_the_other_daemon_stands_still(duo, stopped):
    other = rank_of(duo, "job", stopped, 2, "join:60", "sum:8", node=stopped)
    wait_until(lambda: known_at(duo, 1 - stopped, stopped), "the rank is known on the other node")
    with stopped_daemon(duo, stopped):
        began = time.monotonic()
        _, what = heard(rank_of(duo, "job", 1 - stopped, 2, "join:3", "sum:8", node=1 - stopped))
        assert time.monotonic() - began < 9
        assert what.startswith("DEADLINE_EXCEEDED: job job: after 3 s "), what
        expected = "still to join: node node-1 (rank 1)" if stopped else "node node-0 (rank 0)"
        assert expected in what, what
    if stopped:  # It learns of the world and of its end.
        assert "RANK_LOST" in heard(other)[1]
    all_fine([rank_of(duo, "new", rank, 2, "join:60", "sum:8", node=rank) for rank in range(2)])


@pytest.mark.parametrize("meets", PAGE)
def test_a_wait_ends_ten_seconds_after_its_deadline_while_the_daemon_stands_still(cluster, tmp_path, meets):
    c = cluster(1, client_settings="operation_timeout_ms: 1000")
    waiting = rank_of(c, "job", 0, 2, f"await:{tmp_path}/go", "sum:8", meets=meets)
    other = rank_of(c, "job", 1, 2, f"await:{tmp_path}/never", meets=meets)
    for rank in (waiting, other):
        rank.wait_for("joined")
    with stopped_daemon(c, 0):
        began = touched(tmp_path / "go")
        when, what = heard(waiting)
    assert what.startswith("DAEMON_LOST: "), what
    assert 10 < when - began < 18  # Not after 20 s, the limit of an operation without a deadline.


# How: jobs begin half a second after one another, so the daemon continues at different moments of their
# waits.
@pytest.mark.parametrize("meets", PAGE)
def test_a_wait_ends_with_a_true_error_whenever_the_daemon_continues(cluster, tmp_path, meets):
    c = cluster(1, client_settings="operation_timeout_ms: 1000")
    jobs = [f"job-{number}" for number in range(12)]
    waiting = [rank_of(c, job, 0, 2, f"await:{tmp_path}/{job}", "sum:8", meets=meets) for job in jobs]
    others = [rank_of(c, job, 1, 2, f"await:{tmp_path}/never", meets=meets) for job in jobs]
    for rank in waiting + others:
        rank.wait_for("joined")
    with stopped_daemon(c, 0):
        began = time.monotonic()
        for number, job in enumerate(jobs):
            wait_until(lambda number=number: time.monotonic() > began + number / 2, "it is its turn")
            (tmp_path / job).touch()
        wait_until(lambda: time.monotonic() > began + 11.2, "the first wait has had its limit")
    ended = [heard(rank)[1] for rank in waiting]
    assert ended[0].startswith("DAEMON_LOST"), ended
    for what in ended:
        by_daemon = what.startswith("DEADLINE_EXCEEDED") and "it still waits for rank 1 (node-0, pid" in what
        stood_still = what.startswith("DEADLINE_EXCEEDED") and "mlxcommd hung" in what
        assert by_daemon or stood_still or what.startswith("DAEMON_LOST"), ended
    assert "Check rank 1" in ended[-1], ended


# Why: a message's circle is asked about after a second, and a daemon that had not answered that was lost.
def test_a_message_gives_the_daemon_as_long_as_a_collective_does(solo, tmp_path):
    words = {"send": f"send:8:{tmp_path}/never", "loop": f"loop:8:8:{tmp_path}/never"}
    made = {job: [rank_of(solo, job, rank, 2, word, meets="0") for rank in range(2)]
            for job, word in words.items()}
    for ranks in made.values():
        for rank in ranks:
            rank.wait_for("looping")
    with stopped_daemon(solo, 0):
        lost = {job: [heard(rank) for rank in ranks] for job, ranks in made.items()}
    for ranks in lost.values():
        assert all(what.startswith("DAEMON_LOST") for _, what in ranks), lost
    assert min(when for when, _ in lost["send"]) > min(when for when, _ in lost["loop"]) - 4, lost
