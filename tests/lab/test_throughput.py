"""Two shaped cables carry nearly the sum of both. Medians of turns on the same cables are compared: results
do not depend on the machine's speed if it can fill the cables."""

import statistics

import pytest

from ground.outcomes import all_fine
from ground.wiring import pair

ROUNDS = 2
SUMS = 4  # In each turn; the first one measures the rails and does not count.
SECONDS = 1.4  # For about one sum: a few more chunks than rails may have in flight.


def megabits(c, cables):
    return sum(int(c.wiring.cable(name).rate.removesuffix("mbit")) for name in cables)


class Measured:
    """all_reduce of two ranks; each node sends and receives all of the bytes of each."""

    def __init__(self, c, tmp_path, turns):
        self.folder, self.turn = tmp_path, 0
        self.bytes = [round(SECONDS * megabits(c, turn) * 1e6 / 64) * 8 for turn in turns]
        words = [word for n, count in enumerate(self.bytes) for word in
                 (f"await:{tmp_path}/go-{n}", *[f"sum:{count}"] * SUMS)]
        self.ranks = c.ranks([0, 1], *words)

    def bits_per_second(self):
        """Measures the next turn, without its first sum."""
        (self.folder / f"go-{self.turn}").touch()
        count = self.bytes[self.turn]
        self.turn += 1
        seconds = []
        for _ in range(SUMS):
            spans = [rank.wait_for(f"summed {count} from").split() for rank in self.ranks]
            # From when both have called: filling and checking buffers is not measured.
            seconds.append(max(float(span[-1]) for span in spans) -
                           max(float(span[-3]) for span in spans))
        return count * 8 * (SUMS - 1) / sum(seconds[1:])


def only(c, cables):
    for cable in c.wiring.cables:
        if cable.name in cables and cable.name in c.cut_cables:
            c.restore(cable.name)
    for cable in c.wiring.cables:
        if cable.name not in cables and cable.name not in c.cut_cables:
            c.cut(cable.name)
    c.wait_rails(0, 1, len(cables))


def compare(c, tmp_path, say):
    """Returns the medians of each cable and of both; turns are interleaved, so a busy moment disturbs all."""
    c.wait_rails(0, 1, 2)
    names = [cable.name for cable in c.wiring.cables]
    choices = [[names[0]], names, [names[1]]]
    measured = Measured(c, tmp_path, choices * ROUNDS)
    found = {tuple(choice): [] for choice in choices}
    for _ in range(ROUNDS):
        for choice in choices:
            only(c, choice)
            found[tuple(choice)].append(measured.bits_per_second())
    all_fine(measured.ranks)
    median = {choice: statistics.median(values) for choice, values in found.items()}
    only(c, names)
    for choice, value in median.items():
        say(f"{' + '.join(choice):<12} {value / 1e6:6.0f} Mb/s")
    return [median[(names[0],)], median[(names[1],)], median[tuple(names)]]


@pytest.fixture
def say(capsys):
    def out(text):
        with capsys.disabled():
            print(f"\n    {text}", end="")

    return out


def reached(c, tmp_path, say, share, goal, text):
    """Returns whether share(one, other, both) reaches the goal. A low result of a busy machine is measured
    again, at most twice."""
    for attempt in range(3):
        folder = tmp_path / f"attempt-{attempt}"
        folder.mkdir()
        value = share(*compare(c, folder, say))
        say(text.format(value))
        if value >= goal:
            return True
    return False


def test_two_equal_rails_carry_nearly_twice_as_much_as_one(lab, tmp_path, say):
    c = lab(pair(cables=2, rate="80mbit"))
    assert reached(c, tmp_path, say, lambda one, other, both: both / statistics.mean([one, other]), 1.9,
                   "two equal rails carry {:.2f} times one")


def test_a_fast_and_a_slow_rail_are_both_filled(lab, tmp_path, say):
    c = lab(pair(cables=2, rate=["80mbit", "20mbit"]))
    assert reached(c, tmp_path, say, lambda fast, slow, both: both / (fast + slow), 0.95,
                   "a 4:1 pair carries {:.3f} of the sum of its rails")
