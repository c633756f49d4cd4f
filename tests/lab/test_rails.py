"""Parallel cables: frames go over all of them, and a job survives when one is pulled at any moment, or all
are for a while."""

import itertools

import pytest

from conftest import wait_until
from ground.cluster import PATIENT
from ground.outcomes import all_fine, at_work
from ground.wiring import pair

MIB = 1 << 20
BYTES = 8 * MIB  # Two thirds of a second on a cable of 100 Mb/s.
PHASES = ["one rank waits", "first bytes", "a quarter", "half", "nearly all", "over"]
SHARES = {"first bytes": 0.002, "a quarter": 0.25, "half": 0.5, "nearly all": 0.95}


def reach(c, phase, start_other):
    """Returns in that phase of the operation that rank 0 has begun."""
    if phase == "one rank waits":
        wait_until(lambda: c.status(0)["jobs"][0]["ranks"][0].get("operation"), "it waits")
        return
    before = sum(c.sent_bytes(0).values())
    start_other()
    if phase in SHARES:
        wait_until(lambda: sum(c.sent_bytes(0).values()) - before > SHARES[phase] * BYTES, phase)


@pytest.mark.parametrize("cables", [1, 2])
def test_cable_pulled_at_each_phase_of_an_operation(lab, tmp_path, cables):
    """How: at each phase each cable is pulled at either end. With two cables the operation ends over the
    other; with one it ends when the cable is back."""
    c = lab(pair(cables, rate="100mbit"), peer_settings=PATIENT)
    c.wait_rails(0, 1, cables)
    turns = list(itertools.product(PHASES, [cable.name for cable in c.wiring.cables], [0, 1]))
    turns = turns[::2] if cables == 2 else turns

    def words(rank):
        return [word for n in range(len(turns))
                for word in (f"await:{tmp_path}/go-{rank}-{n}", f"sum:{BYTES}", "sum:8")]

    ranks = [c.rank(rank, 2, rank, *words(rank)) for rank in (0, 1)]
    for n, (phase, cable, at) in enumerate(turns):
        def start_other():
            (tmp_path / f"go-1-{n}").touch()

        (tmp_path / f"go-0-{n}").touch()
        ranks[0].wait_for("begins")
        reach(c, phase, start_other)
        if phase == "over":
            ranks[0].wait_for("summed 8 ")
        c.cut(cable, at=at)
        start_other()
        c.wait_rails(0, 1, cables - 1)
        if cables == 2 and phase != "over":
            ranks[0].wait_for("summed 8 ")  # While the cable is away.
        c.restore(cable)
        c.wait_rails(0, 1, cables)
        if cables == 1 and phase != "over":
            ranks[0].wait_for("summed 8 ")
    all_fine(ranks)


def test_both_pulled_for_less_than_the_grace_period_cost_a_pause(lab):
    c = lab(pair(cables=2), peer_settings=PATIENT)
    c.wait_rails(0, 1, 2)
    with at_work(c, [0, 1], MIB):
        for first, second in (("0-1a", "0-1b"), ("0-1b", "0-1a")):
            c.cut(first)
            c.cut(second, at=1)
            c.wait_rails(0, 1, 0)
            c.restore(first)   # One is enough to continue.
            c.wait_rails(0, 1, 1)
            c.restore(second)
            c.wait_rails(0, 1, 2)


@pytest.mark.parametrize("family", [4, 6])
def test_silent_rail_is_left_out_and_taken_up_again(lab, family):
    c = lab(pair(cables=2), family=family, peer_settings=PATIENT)
    c.wait_rails(0, 1, 2)
    with at_work(c, [0, 1], MIB):
        for cable, node in (("0-1a", 0), ("0-1b", 1)):
            c.mute(cable, node)
            c.wait_rails(0, 1, 1)
            c.unmute(cable, node)
            c.wait_rails(0, 1, 2)
