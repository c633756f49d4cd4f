"""Cables are pulled while jobs run over them. The only effects are a pause, and after the grace
period RANK_LOST; never a wrong byte, an error that names another rank, or a hang."""

import pathlib
import re
import threading

import pytest

from conftest import wait_until
from ground.cluster import PATIENT, QUICK, now
from ground.outcomes import all_fine, at_work, heard, steps_of, stopwatch, until_looping
from ground.wiring import chain, pair, ring, switch
from lab.test_mtu import in_packets

TRAIN = pathlib.Path(__file__).with_name("train.py")
MIB = 1 << 20


def pause(seconds):
    """Waits for a time that is part of the test, not for an effect."""
    threading.Event().wait(max(0, seconds))


def is_direct(c, node, to):
    return bool(c.rails(node, to))


def goes_through(c, node, to):
    """Returns the nodes in between, "node-1, node-2"; empty if linked or not reached."""
    link = c.link(node, to)
    return (link or {}).get("detail", "").partition("reached through ")[2]


def test_ring_loses_no_step_while_cables_are_pulled_and_plugged_in_for_a_minute(lab, tmp_path):
    """How: every two seconds the next cable is pulled, and is back a second later."""
    c = lab(ring(4))
    stop = tmp_path / "stop"
    ranks = c.ranks(range(4), f"loop:8:{64 * MIB}:{stop}")
    until_looping(ranks)
    begin, cuts = now(), 0
    while now() < begin + 60:
        cable = c.wiring.cables[cuts % 4].name
        c.cut(cable, at=int(cable[cuts // 4 % 2 * 2]))
        cuts += 1
        pause(1)
        c.restore(cable)
        assert all(rank.child.poll() is None for rank in ranks), [rank.said() for rank in ranks]
        pause(begin + 2 * cuts - now())
    stop.touch()
    all_fine(ranks)
    assert steps_of(ranks[0])[1] > 1, "only the one before the first cut had 64 MiB"


@pytest.mark.parametrize("family, security", [(4, "PLAIN"), (6, "TLS")])
@pytest.mark.parametrize("at", [0, 1])
def test_cable_that_is_back_in_time_costs_a_pause(lab, family, security, at):
    c = lab(pair(), family=family, peer_settings=f"{PATIENT} security: {security}")
    with at_work(c, [0, 1], 64 * MIB):
        c.cut("0-1", at=at)
        wait_until(lambda: not is_direct(c, 0, 1) and not is_direct(c, 1, 0), "both have noticed")
        c.restore("0-1")
        c.wait_linked()


@pytest.mark.parametrize("seconds, at", [(2.5, 0), (2.75, 1), *(
    pytest.param(seconds, at, marks=pytest.mark.slow) for seconds, at in ((2.6, 1), (2.7, 0), (2.8, 0)))])
def test_cable_that_is_back_at_the_end_of_the_grace_period_costs_a_pause(lab, seconds, at):
    """Why: the system needs up to a second to find its neighbour again, and the job was lost before that."""
    c = lab(pair(), peer_settings="grace_period_ms: 3000")
    with at_work(c, [0, 1], 100_000):
        began = now()
        c.cut("0-1", at=at)
        pause(began + seconds - now())
        c.restore("0-1")
        c.wait_linked()


@pytest.mark.slow
@pytest.mark.parametrize("security", ["PLAIN", "TLS"])
def test_a_job_goes_on_where_two_of_five_packets_are_lost(lab, security):
    """Why: over a bad cable or a wireless network a job was lost after ten seconds."""
    c = lab(pair(), peer_settings=f"security: {security}")
    in_packets(c)
    with at_work(c, [0, 1], 65536) as ranks:
        c.lose("0-1", 40)
        pause(30)
        assert all(rank.child.poll() is None for rank in ranks), [rank.said() for rank in ranks]
        c.lose("0-1", 0)


@pytest.mark.parametrize("wiring, cut", [(pair(), "0-1"), (chain(3), "1-2"), (switch(3), "2-s0")],
                         ids=["pair", "chain", "switch"])
def test_a_cable_that_stays_away_is_rank_lost_after_the_grace_period(lab, wiring, cut):
    """Every rank gets the error within the grace period and a second."""
    c = lab(wiring, peer_settings=QUICK)
    ranks = c.ranks(range(wiring.nodes), f"loop:8:{MIB}:never")
    until_looping(ranks)
    away = wiring.nodes - 1
    since = stopwatch()
    c.cut(cut)
    for number, rank in enumerate(ranks):
        when, what = heard(rank)
        assert "RANK_LOST" in what, what
        assert 1.5 <= since(when) < 1.5 + 1, (since(when), what)
        if number != away:
            assert what.endswith(f"rank {away}") and f"node-{away}" in what, what
        if wiring.description.startswith("chain") and number == 0:
            assert "interface to-2 of node-1 is down" in what, what


@pytest.mark.parametrize("wiring, through", [(ring(3), {"node-2"}), (ring(4), {"node-2", "node-3"})],
                         ids=["ring-3", "ring-4"])
def test_a_job_takes_the_other_route_until_the_cable_is_back(lab, wiring, through):
    c = lab(wiring, peer_settings=PATIENT)
    with at_work(c, range(wiring.nodes), 4 * MIB):
        for _ in range(2):
            c.cut("0-1")
            wait_until(lambda: set(goes_through(c, 0, 1).split(", ")) == through
                       and set(goes_through(c, 1, 0).split(", ")) == through,
                       "the two reach each other by the other route")
            c.restore("0-1")
            wait_until(lambda: is_direct(c, 0, 1) and is_direct(c, 1, 0)
                       and not goes_through(c, 0, 1) and not goes_through(c, 1, 0), "the direct one is back")


def test_ring_outlives_a_moment_without_any_cable_and_cables_that_flap(lab):
    c = lab(ring(3), peer_settings=PATIENT)
    with at_work(c, range(3), MIB):
        names = [cable.name for cable in c.wiring.cables]
        c.cut(*names)
        wait_until(lambda: not any(is_direct(c, a, b) for a, b in ((0, 1), (1, 2), (2, 0))), "no cable is up")
        c.restore(*names)
        c.wait_linked()
        for turn in range(30):
            c.cut(names[turn % 3], at=turn % 3)
            c.restore(names[turn % 3])
        c.wait_linked()


# How: a cable with room for three packets drops what TCP sends beyond, on the way there and back.
def test_a_cable_that_loses_packets_only_costs_time(lab):
    c = lab(pair(), peer_settings=PATIENT)
    tight = ["tbf", "rate", "100mbit", "burst", "1600", "limit", "4800"]
    for end in c.wiring.cable("0-1").ends:
        c.namespaces.call(["tc", "-n", end.place, "qdisc", "replace", "dev", end.interface, "root", *tight])
    all_fine(c.ranks([0, 1], *[f"sum:{size}" for size in (8, 1000, MIB)] * 20))
    for end in c.wiring.cable("0-1").ends:
        reported = c.namespaces.call(["tc", "-s", "-n", end.place, "qdisc", "show", "dev", end.interface])
        assert int(re.search(r"dropped (\d+)", reported).group(1)) > 0, reported


@pytest.mark.parametrize("at", [0, 1])
def test_half_open_connection_is_noticed_by_silence(lab, at):
    c = lab(pair(), peer_settings=QUICK)
    ranks = c.ranks([0, 1], f"loop:8:{MIB}:never")
    until_looping(ranks)
    since = stopwatch()
    c.mute("0-1", at)
    for rank in ranks:
        when, what = heard(rank)
        assert "RANK_LOST" in what, what
        assert since(when) < 0.5 + 1.5 + 1, (since(when), what)


def test_silent_half_of_a_ring_is_gone_round(lab):
    c = lab(ring(3), peer_settings=PATIENT)
    with at_work(c, range(3), MIB):
        c.mute("0-1", 0)
        wait_until(lambda: goes_through(c, 1, 0) == "node-2" and goes_through(c, 0, 1) == "node-2",
                   "they use the other route")
        c.unmute("0-1", 0)
        c.wait_linked()


def test_training_goes_on_over_cables_that_are_pulled(lab, tmp_path):
    c = lab(ring(3), peer_settings=PATIENT)
    stop = tmp_path / "stop"
    ranks = [c.python_rank(TRAIN, rank, 3, rank, arguments=[stop]) for rank in range(3)]
    until_looping(ranks)
    for cable, other in (("0-1", (0, 1)), ("1-2", (1, 2)), ("0-2", (0, 2))):
        c.cut(cable)
        wait_until(lambda: goes_through(c, *other), "the other route is used")
        c.restore(cable)
        wait_until(lambda: is_direct(c, *other), "the cable is used again")
    c.cut("0-1", "1-2")
    wait_until(lambda: not is_direct(c, 1, 0) and not is_direct(c, 1, 2), "node-1 has no cable")
    c.restore("0-1", "1-2")
    stop.touch()
    for rank in ranks:
        assert rank.finish() == 0, rank.lines
        assert any("the same bits" in line for line in rank.lines), rank.lines
