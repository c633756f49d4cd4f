"""Medians of rounds, ratios with their spread, and when a spread makes a verdict void.

In each round every system has its turn, so a ratio is made within a round: what disturbs the
machine for a while disturbs both. Of the ratios of all rounds

  the value   is their median;
  the spread  is the narrowest pair of them, equally far from both ends of their order, that holds
              the true median with COVERAGE or more, whatever the distribution (each round lies
              above it or below it like a coin's toss). Fewer than MIN_ROUNDS rounds have none;
  the verdict is `reached` or `not reached` where the whole spread lies on one side of the goal,
              and `void` where the goal lies within it, or where there is no spread.

With 3 rounds the spread is from the lowest to the highest (75 %), with 5 as well (94 %), with 7
from the second lowest to the second highest (88 %).
"""

import dataclasses
import math
import statistics

COVERAGE = 0.75
MIN_ROUNDS = 3
REACHED, MISSED, VOID = "reached", "not reached", "void"


@dataclasses.dataclass(frozen=True)
class Spread:
    value: float
    low: float
    high: float
    rounds: int

    @property
    def is_one(self):
        return self.rounds >= MIN_ROUNDS


def dropped_each_side(rounds):
    """How many of the lowest and of the highest lie outside of the spread."""
    drop = 0
    outside = 0.0  # The median lies beyond the next candidate, on either side.
    while drop < (rounds - 1) // 2:
        outside += 2 * math.comb(rounds, drop) / 2 ** rounds
        after = outside + 2 * math.comb(rounds, drop + 1) / 2 ** rounds
        if 1 - after < COVERAGE:
            break
        drop += 1
    return drop


def spread(values):
    """Of a figure that each round gave once."""
    ordered = sorted(values)
    drop = dropped_each_side(len(ordered))
    return Spread(statistics.median(ordered), ordered[drop], ordered[-1 - drop], len(ordered))


def ratio(above, below):
    """Of two systems' figures, round by round: above[i] / below[i]."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def verdict(found, goal, at_most=False):
    """Whether the value is at least (at_most: at most) the goal."""
    if not found.is_one or found.low < goal < found.high:
        return VOID
    good = found.value <= goal if at_most else found.value >= goal
    return REACHED if good else MISSED


def bus_bandwidth(size, ranks, microseconds):
    """Bytes per second that an all_reduce's busiest link must at least have carried in one
    direction (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md)."""
    return 2 * (ranks - 1) / ranks * size / (microseconds * 1e-6)
