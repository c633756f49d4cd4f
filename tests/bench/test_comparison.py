"""The statistics and the rule of verdicts: all claims in tables follow from these alone."""

import itertools
import math

import pytest

from bench import tables, targets
from bench.comparison import (
    COVERAGE,
    MISSED,
    REACHED,
    VOID,
    Spread,
    bus_bandwidth,
    dropped_each_side,
    ratio,
    spread,
    verdict,
)
from bench.findings import Findings, ours_lost
from bench.rounds import FAILED_SECONDS_MAX, Clock, Failed, Turn, expected, take


@pytest.mark.parametrize("rounds", range(3, 30))
def test_spread_holds_the_median_often_enough_and_is_no_wider_than_that(rounds):
    def coverage(drop):
        return 1 - 2 * sum(math.comb(rounds, i) for i in range(drop + 1)) / 2 ** rounds
    drop = dropped_each_side(rounds)
    assert coverage(drop) >= COVERAGE
    assert coverage(drop + 1) < COVERAGE


def test_spread_leaves_a_single_wild_round_out_once_there_are_enough():
    calm = [10.0, 10.1, 10.2, 10.3, 10.4, 10.5]
    assert spread([*calm, 99.0]).high == 10.5
    assert spread([*calm[:4], 99.0]).high == 99.0


def test_ratio_is_made_within_rounds():
    # Both slow down together in the second round; the ratio does not notice.
    found = ratio([20, 60, 22], [10, 30, 11])
    assert (found.low, found.value, found.high) == (2, 2, 2)


def test_ratio_refuses_rounds_that_do_not_belong_together():
    with pytest.raises(ValueError):
        ratio([1, 2, 3], [1, 2])


@pytest.mark.parametrize("low, value, high, rounds, at_most, expected_word", [
    (2.1, 2.5, 3.0, 5, False, REACHED),
    (1.0, 1.5, 1.9, 5, False, MISSED),
    (1.9, 2.5, 3.0, 5, False, VOID),   # The goal lies within the spread, whatever the median.
    (1.0, 1.9, 2.1, 5, False, VOID),
    (2.1, 2.5, 3.0, 2, False, VOID),   # Too few rounds for any verdict.
    (1.0, 1.5, 1.9, 5, True, REACHED),
    (2.1, 2.5, 3.0, 5, True, MISSED),
    (2.0, 2.0, 2.0, 3, False, REACHED),
])
def test_verdict(low, value, high, rounds, at_most, expected_word):
    assert verdict(Spread(value, low, high, rounds), 2.0, at_most) == expected_word


def test_verdict_is_the_same_in_whichever_order_rounds_came():
    values = [1.8, 2.2, 2.6]
    assert {verdict(spread(list(order)), 2.0) for order in itertools.permutations(values)} == {VOID}


def test_bus_bandwidth_of_two_ranks_is_the_size_over_the_time():
    assert bus_bandwidth(1000, 2, 1e6) == 1000
    assert bus_bandwidth(1000, 4, 1e6) == 1500


# Why: one hang of a peer must not cost the figures of all rounds before it.
def test_rounds_try_a_failed_turn_again_and_keep_what_earlier_ones_gave(tmp_path):
    calls, failures = [], []
    outcomes = {"once": [Failed("late"), 1, 2, 3], "later": [1, Failed("gone"), Failed("gone")]}

    def run(name):
        calls.append(name)
        outcome = outcomes[name].pop(0) if name in outcomes else 0
        if isinstance(outcome, Failed):
            raise outcome
        return outcome

    turns = [Turn(name, lambda name=name: run(name), [], 1) for name in ("a", "once", "later")]
    with open(tmp_path / "progress", "w") as out:
        clock = Clock(out)
        clock.plan(expected(turns, 3))
        take(clock, "part", turns, 3, failures)
    assert calls == ["a", "once", "once", "later",  # Each round begins with another one.
                     "once", "later", "later", "a", "a", "once"]
    assert [turn.into for turn in turns] == [[0, 0, 0], [1, 2, 3], [1]]
    assert failures == ["part, later, from round 2 on: gone"] and turns[2].lost == "gone"
    assert clock.planned == pytest.approx(0, abs=0.1)
    assert "part: round 2 of 3: once" in (tmp_path / "progress").read_text()


def test_whatever_a_turn_raises_the_others_have_theirs(tmp_path):
    """Why: a dead daemon raised an exception that was not expected, and ended the whole run."""
    def breaks():
        raise TypeError("no status")

    turns, failures = [Turn("breaks", breaks, []), Turn("goes on", lambda: 1, [])], []
    with open(tmp_path / "progress", "w") as out:
        take(Clock(out), "part", turns, 2, failures)
    assert [turn.into for turn in turns] == [[], [1, 1]]
    assert failures == ["part, breaks, from round 1 on: TypeError: no status"]


def test_nothing_is_tried_again_once_failed_turns_have_taken_long(tmp_path):
    """Why: each hang lasts until its timeout, and a run must end within its 20 minutes."""
    calls = []

    def hangs():
        calls.append(1)
        raise Failed("no end")

    with open(tmp_path / "progress", "w") as out:
        clock = Clock(out)
        clock.failed = FAILED_SECONDS_MAX
        take(clock, "part", [Turn("hangs", hangs, [])], 3, [])
    assert len(calls) == 1


def curve(part, place, system, ranks=2, **times):
    return {"kind": "curve", "part": part, "place": place, "ranks": ranks, "system": system,
            "median_us": {size.removeprefix("b"): values for size, values in times.items()}}


def test_targets_compare_with_the_peer_at_the_same_size():
    place = targets.TWO_RANKS
    found = [curve("one_node", place, targets.CPP, b8=[0.4, 0.45, 0.35], b1048576=[100.0, 100, 100]),
             curve("one_node", place, targets.MPI_SHARED, b1048576=[250.0, 260, 240]),
             curve("one_node", place, targets.LOOP, b1048576=[70.0, 95, 75])]
    found_targets = {one["name"]: one for one in targets.results(found)}
    mpi = found_targets[f"{place}: {targets.CPP} beside {targets.MPI_SHARED}, 1 MiB"]
    assert (mpi["value"], mpi["goal"], mpi["verdict"]) == (2.5, 2, REACHED)
    assert found_targets[f"{place}: {targets.CPP} beside plain loop, 1 MiB"]["verdict"] == VOID
    assert found_targets[f"{place}: {targets.CPP}, 8 B"]["verdict"] == REACHED
    measured = [one for one in found_targets.values() if one["verdict"] != targets.NOT_MEASURED]
    assert len(measured) == 3


# Why: after other work waiting ranks sleep, and who is woken by whom decides.
def test_after_a_pause_small_operations_have_goals_of_their_own():
    peers = {targets.TWO_RANKS: targets.MPI_SHARED, "two daemons, loopback": targets.MPI_TCP}
    found = [curve("paused", place, system, b8=times) for place, peer in peers.items()
             for system, times in ((targets.CPP, [30.0, 30, 31]), (peer, [24.0, 24, 24]))]
    results = {one["name"]: (one["value"], one["verdict"]) for one in targets.results(found)}
    assert results == {
        f"{targets.TWO_RANKS}, after a pause: {targets.CPP} beside {targets.MPI_SHARED}, 8 B": (0.8, REACHED),
        f"two daemons, loopback, after a pause: {targets.CPP} beside {targets.MPI_TCP}, 8 B":
            (0.8, targets.MISSED)}


# Why: a system that failed took its targets with it, and it was not noticed that there were fewer.
def test_targets_that_lack_figures_are_told():
    place = targets.TWO_RANKS
    found = [curve("one_node", place, targets.MPI_SHARED, b1048576=[250.0, 260, 240])]
    results = targets.results(found)
    (mpi,) = [one for one in results if targets.MPI_SHARED in one["name"]]
    assert (mpi["verdict"], mpi["value"], mpi["rounds"]) == (targets.NOT_MEASURED, None, 0)
    assert f"{len(results)} not measured" in targets.summary(results)
    assert "- | not measured" in tables.targets([mpi])


def test_what_lost_all_its_rounds_keeps_its_targets_and_says_why():
    """Why: where ours alone is judged, no other figures show that there was something to judge."""
    found = [curve("one_node", targets.TWO_RANKS, targets.CPP, b8=[]) | {"lost": "it crashed"},
             curve("shaped", "pair, 1gbit", targets.CPP, b16000000=[]) | {"left_out": "no root"},
             {"kind": "start", "part": "start", "place": "one daemon, 1 rank", "ranks": 1,
              "system": targets.CPP, "attach_ms": [], "world_ms": [], "lost": "it hung"}]
    results = {one["name"]: (one["verdict"], one["reason"]) for one in targets.results(found)}
    assert results == {
        f"{targets.TWO_RANKS}: {targets.MLX} beside {targets.RING}, 8 B":
            (targets.NOT_MEASURED, "there are no figures"),
        f"{targets.TWO_RANKS}: {targets.CPP}, 8 B":
            (targets.NOT_MEASURED, f"{targets.CPP}: it crashed"),
        f"{targets.TWO_RANKS}: {targets.MLX}, 8 B": (targets.NOT_MEASURED, "there are no figures"),
        "pair, 1gbit: of one iperf3 stream, 15.26 MiB":
            (targets.NOT_MEASURED, f"{targets.CPP}: no root"),
        "attach, one daemon, 1 rank": (targets.NOT_MEASURED, f"{targets.CPP}: it hung")}
    assert [entry["lost"] for entry in ours_lost(found)] == ["it crashed", "it hung"]
    assert "(mlxcomm, C++: it hung)" in tables.targets(targets.results(found))


def test_a_training_step_is_judged_by_what_it_loses_to_communication():
    def steps(system, *seconds):
        return {"kind": "step", "part": "overlap", "place": "here", "ranks": 2, "model": "demo",
                "system": system, "step_seconds": list(seconds)}

    (one,) = targets.results([steps("none", 5, 5, 5), steps("mlxcomm", 5.5, 5.4, 5.6),
                              steps("ring", 5.7, 5.8, 5.7)])
    assert (one["value"], one["verdict"]) == (pytest.approx(200), REACHED)


def test_shaped_cables_are_compared_with_the_stream_of_the_same_round():
    gigabit = 1e9
    us = 16e6 * 8 / (0.98 * gigabit) * 1e6
    found = [curve("shaped", "pair, 1gbit", targets.CPP, b16000000=[us, us, 2 * us]),
             {"kind": "stream", "part": "shaped", "place": "pair, 1gbit", "ranks": 2,
              "system": "iperf3", "bits_per_second": [gigabit, gigabit, gigabit / 2]}]
    (one,) = targets.results(found)
    assert one["value"] == pytest.approx(98) and one["verdict"] == REACHED
    assert Findings(found).ranks("shaped", "pair, 1gbit") == 2
