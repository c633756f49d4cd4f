"""A daemon stops while a job runs, as on a machine that swaps or sleeps, or in a debugger.

    for a few seconds                           every rank waits, and then continues
    until the other node has given it up        RANK_LOST there, and here once it runs again
    until its own ranks have given it up        DAEMON_LOST here, while it still stands

Afterwards both daemons are linked, a new job's values are correct, and nothing of the old one remains."""

import contextlib
import signal
import time

import pytest

from conftest import wait_until
from ground.daemon_resources import given_back
from ground.outcomes import all_fine, ranks_on, until_looping

MIB = 1 << 20


def ranks(c, *words, job="job"):
    """Starts two ranks on each node."""
    return ranks_on(c, [*range(c.count)] * 2, *words, job=job)


def looping(c, stop="never", job="job"):
    made = ranks(c, f"loop:8:{MIB}:{stop}", job=job)
    until_looping(made)
    return made


def expect_lost(processes, code):
    for process in processes:
        line = process.wait_for("raised at")
        assert line.split()[3] == f"{code}:" and process.finish() == 3, line


@contextlib.contextmanager
def stopped_daemon(c, node):
    c.daemons[node].signal(signal.SIGSTOP)
    try:
        yield
    finally:
        c.daemons[node].signal(signal.SIGCONT)


@contextlib.contextmanager
def as_before(c):
    """Expects that daemons leak nothing and serve a new job. A first job makes them allocate beforehand."""
    all_fine(ranks(c, f"sum:{8 * MIB}", job="first"))
    with contextlib.ExitStack() as all_given_back:
        for daemon in c.daemons:
            all_given_back.enter_context(given_back(daemon.child.pid, threads=0))
        yield
        c.wait_linked()
        all_fine(ranks(c, "sum:8", f"sum:{8 * MIB}", job="new"))


def lost_nodes(c, node):
    return [event["object"] for event in c.events(node) if event["kind"] == "node_lost"]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("seconds", [1, 4])
def test_a_daemon_that_stands_still_for_seconds_costs_a_pause(cluster, tmp_path, nodes, seconds):
    c = cluster(nodes)
    with as_before(c):
        for node in range(nodes):  # The daemon that is dialed, and the one that dials.
            stop = tmp_path / f"stop-{node}"
            job = looping(c, stop, job=f"job-{node}")
            with stopped_daemon(c, node):
                over = time.monotonic() + seconds
                wait_until(lambda over=over: time.monotonic() > over, "it has stood still for long enough")
            stop.touch()
            all_fine(job)
    assert not any(lost_nodes(c, node) for node in range(nodes))


@pytest.mark.parametrize("node", [0, 1])
def test_a_daemon_that_the_other_has_given_up_fails_its_ranks_when_it_goes_on(duo, node):
    with as_before(duo):
        job = looping(duo)
        with stopped_daemon(duo, node):
            expect_lost(job[1 - node::2], "RANK_LOST")
        expect_lost(job[node::2], "RANK_LOST")
    assert lost_nodes(duo, 1 - node) == [f"node node-{node}"]


# Why: an operation without a deadline would wait for a daemon that never answers.
@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_give_up_their_own_daemon_and_a_new_job_runs_when_it_goes_on(cluster, nodes):
    c = cluster(nodes)
    with as_before(c):
        job = looping(c)
        with stopped_daemon(c, 0):
            expect_lost(job[::nodes], "DAEMON_LOST")
            if nodes > 1:
                expect_lost(job[1::nodes], "RANK_LOST")
