"""The statistics and the rule of verdicts: what tables claim follows from these alone."""

import itertools
import math

import pytest

from bench.comparison import (COVERAGE, MISSED, REACHED, VOID, Spread, bus_bandwidth,
                              dropped_each_side, ratio, spread, verdict)
from bench.findings import Findings
from bench.rounds import Clock, Failed, Turn, expected, take
from bench import targets


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


def test_rounds_take_every_system_in_turn_and_leave_out_the_one_that_fails(tmp_path):
    calls, failures = [], []

    def fails():
        calls.append("b")
        raise Failed("no peer")

    turns = [Turn("a", lambda: calls.append("a") or 1, [], 1), Turn("b", fails, [], 1),
             Turn("c", lambda: calls.append("c") or 3, [], 1)]
    with open(tmp_path / "progress", "w") as out:
        clock = Clock(out)
        clock.plan(expected(turns, 3))
        take(clock, "part", turns, 3, failures)
    assert calls == ["a", "b", "c", "a", "c", "a", "c"]
    assert [turn.into for turn in turns] == [[1, 1, 1], [], [3, 3, 3]]
    assert failures == ["part, b: no peer"]
    assert clock.planned == pytest.approx(0, abs=0.1)
    assert "part: round 2 of 3: c" in (tmp_path / "progress").read_text()


def curve(part, place, system, ranks=2, **times):
    return {"kind": "curve", "part": part, "place": place, "ranks": ranks, "system": system,
            "median_us": {size.removeprefix("b"): values for size, values in times.items()}}


def test_targets_compare_with_the_peer_at_the_same_size():
    place = targets.TWO_RANKS
    found = [curve("one_node", place, targets.CPP, b8=[8.0, 9, 7], b1048576=[100.0, 100, 100]),
             curve("one_node", place, targets.MPI_SHARED, b1048576=[250.0, 260, 240]),
             curve("one_node", place, targets.LOOP, b1048576=[70.0, 90, 75])]
    found_targets = {one["name"]: one for one in targets.results(found)}
    mpi = found_targets[f"{place}: {targets.CPP} beside {targets.MPI_SHARED}, 1 MiB"]
    assert (mpi["value"], mpi["goal"], mpi["verdict"]) == (2.5, 2, REACHED)
    assert found_targets[f"{place}: {targets.CPP} beside plain loop, 1 MiB"]["verdict"] == VOID
    assert found_targets[f"{place}: {targets.CPP}, 8 B"]["verdict"] == REACHED
    assert len(found_targets) == 3  # None where there are no figures.


def test_shaped_cables_are_compared_with_the_stream_of_the_same_round():
    gigabit = 1e9
    us = 16e6 * 8 / (0.98 * gigabit) * 1e6
    found = [curve("shaped", "pair, 1gbit", targets.CPP, b16000000=[us, us, 2 * us]),
             {"kind": "stream", "part": "shaped", "place": "pair, 1gbit", "ranks": 2,
              "system": "iperf3", "bits_per_second": [gigabit, gigabit, gigabit / 2]}]
    (one,) = targets.results(found)
    assert one["value"] == pytest.approx(98) and one["verdict"] == REACHED
    assert Findings(found).ranks("shaped", "pair, 1gbit") == 2
