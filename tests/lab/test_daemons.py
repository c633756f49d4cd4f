"""Daemons that are killed, stopped, continued and started again, and jobs that are stopped: the
affected ranks get an error, and no other notices."""

import signal
import threading
import time

import pytest

from conftest import cpu_seconds, wait_until
from ground.cluster import PATIENT, QUICK
from ground.outcomes import all_fine, at_work, heard, stopwatch, until_looping
from ground.wiring import chain, pair, ring, switch
from lab.test_cables import goes_through

MIB = 1 << 20


def is_given_up(c, node, of):
    link = c.link(node, of)
    return link is not None and link["state"] != "up"


@pytest.mark.parametrize("wiring", [pair(), ring(3), switch(3)], ids=lambda wiring: wiring.description)
def test_a_killed_daemon_fails_its_ranks_and_the_others(lab, wiring):
    c = lab(wiring, peer_settings=QUICK)
    ranks = c.ranks(range(wiring.nodes), f"loop:8:{MIB}:never")
    until_looping(ranks)
    last = wiring.nodes - 1
    since = stopwatch()
    c.kill(last)
    for number, rank in enumerate(ranks):
        when, what = heard(rank)
        assert since(when) < 1.5 + 1, (since(when), what)
        if number == last:
            assert what.startswith("DAEMON_LOST"), what
        else:
            assert what.startswith("RANK_LOST") and f"node-{last}" in what, what
            assert what.endswith(f"rank {last}"), what


def test_a_killed_daemon_in_between_fails_the_job_around_it(lab):
    c = lab(chain(3), peer_settings=QUICK)
    ranks = c.ranks((0, 2), f"loop:8:{MIB}:never")
    until_looping(ranks)
    since = stopwatch()
    c.kill(1)
    for rank, own, other in zip(ranks, (0, 2), (1, 0)):
        when, what = heard(rank)
        assert since(when) < 1.5 + 1, (since(when), what)
        assert what.startswith("RANK_LOST") and what.endswith(f"rank {other}"), what
        assert f"node-{own} lost its link to node node-1: " in what, what


def test_a_job_goes_on_when_the_killed_daemon_in_between_is_back(lab):
    c = lab(chain(3), peer_settings=PATIENT)
    with at_work(c, (0, 2), MIB):
        c.kill(1)
        wait_until(lambda: is_given_up(c, 0, 2) and is_given_up(c, 2, 0), "no route is left")
        c.start_daemon(1)
        c.wait_linked()


# Why: memory was not freed while a node forwarded, and the loop spun until that was over.
def test_a_daemon_that_forwards_after_its_own_job_sleeps(lab):
    """How: three seconds after the last operation are measured, with the time at which it frees memory."""
    c = lab(chain(3))
    with at_work(c, (0, 2), MIB):
        all_fine(c.ranks((1, 1), "sum:800", job="own"))
    pid = c.daemons[1].pid
    before, began = cpu_seconds(pid), time.monotonic()
    threading.Event().wait(3)
    assert cpu_seconds(pid) - before < 0.2 * (time.monotonic() - began)


def test_a_transfer_takes_the_other_route_when_the_daemon_in_between_is_killed(lab):
    """Each byte is reduced once, though the route breaks within an operation."""
    c = lab(ring(4), peer_settings=PATIENT)
    with at_work(c, (0, 2), 64 * MIB, least=64 * MIB):
        for _ in range(4):
            through, other = sorted((1, 3), key=lambda node: goes_through(c, 0, 2) != f"node-{node}")
            c.kill(through)
            wait_until(lambda: goes_through(c, 0, 2) == goes_through(c, 2, 0) == f"node-{other}",
                       "they use the other route")
            c.start_daemon(through)
            c.wait_linked()


@pytest.mark.parametrize("wiring, stopped", [(pair(), 1), (ring(3), 0), (chain(3), 1)],
                         ids=["pair", "ring", "in-between"])
def test_daemon_that_is_stopped_and_continued_in_time_costs_a_pause(lab, wiring, stopped):
    c = lab(wiring, peer_settings=PATIENT)
    neighbour = min(wiring.neighbours(stopped))
    with at_work(c, range(wiring.nodes), MIB):
        for _ in range(3):
            c.stop(stopped)
            wait_until(lambda: is_given_up(c, neighbour, stopped), "its neighbour has given it up")
            c.resume(stopped)
            c.wait_linked()


def test_eight_jobs_run_while_a_ninth_is_stopped(lab):
    """Why: data that a stopped process has not read may only fill its own buffers.
    How: eight jobs run again and again until a turn uses no more memory than the last one. Pools grow to the
    largest need at once, which differs between turns; a leak grows in each turn."""
    c = lab(ring(3))
    with at_work(c, range(3), 4 * MIB, job="ninth") as ninth:
        ninth[1].signal(signal.SIGSTOP)
        memory = []
        while len(memory) < 2 or any(now > before + MIB for before, now in zip(*memory[-2:])):
            words = ["sum:8", f"sum:{2 * MIB}", "sum:40000", f"sum:{MIB}"] * 3
            eight = [c.ranks(range(3), *words, job=f"job-{len(memory)}-{k}") for k in range(8)]
            for ranks in eight:
                all_fine(ranks)
            memory.append([int(c.own_part(node)["memory_bytes"]) for node in range(3)])
            assert len(memory) < 12, f"grows with every turn: {memory}"
        waits = next(job for job in c.status(0)["jobs"] if job["name"] == "ninth")["waits"]
        assert any(1 in wait["awaited"] for wait in waits), waits
        ninth[1].signal(signal.SIGCONT)
