"""What shaped cables carry together, beside each alone and beside iperf3. Ratios of medians that
were measured in turns on the same cables; nothing here depends on how fast the machine is, as long
as it can fill the cables."""

import json
import shutil
import statistics

import pytest

from conftest import wait_until
from ground.outcomes import all_fine
from ground.wiring import pair

ROUNDS = 2
SUMS = 4  # Of each turn; the first finds out what the rails carry and does not count.
SECONDS = 1.4  # About the time of one sum: some chunks more than rails may have under way.


def megabits(c, cables):
    return sum(int(c.wiring.cable(name).rate.removesuffix("mbit")) for name in cables)


class Measured:
    """all_reduce of two ranks; each node sends and receives all of the bytes of each."""

    def __init__(self, c, tmp_path, turns):
        """Each turn is the cables that it will have."""
        self.folder, self.turn = tmp_path, 0
        self.bytes = [round(SECONDS * megabits(c, turn) * 1e6 / 64) * 8 for turn in turns]
        words = [word for n, count in enumerate(self.bytes) for word in
                 (f"await:{tmp_path}/go-{n}", *[f"sum:{count}"] * SUMS)]
        self.ranks = c.ranks([0, 1], *words)

    def bits_per_second(self):
        """Of one turn: every sum but the first."""
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


def wait_rails(c, count):
    wait_until(lambda: (len(c.rails(0, 1)), len(c.rails(1, 0))) == (count, count),
               f"both have {count} rails to each other")


def only(c, cables):
    """Pulls the others and plugs these in."""
    for cable in c.wiring.cables:
        if cable.name in cables and cable.name in c.cut_cables:
            c.restore(cable.name)
    for cable in c.wiring.cables:
        if cable.name not in cables and cable.name not in c.cut_cables:
            c.cut(cable.name)
    wait_rails(c, len(cables))


def iperf3(c, cable):
    """What one TCP connection carries over the cable; None: there is no iperf3 here."""
    if not shutil.which("iperf3"):
        return None
    address = c.wiring.cable(cable).end_at("node-1").ipv4
    server = c.run(1, ["iperf3", "--server", "--one-off", "--forceflush", "--bind", address])
    server.wait_for("listening")
    client = c.run(0, ["iperf3", "--client", address, "--time", "1", "--json"])
    assert client.finish() == 0, client.lines
    return json.loads("\n".join(client.lines))["end"]["sum_received"]["bits_per_second"]


def compare(c, tmp_path, say):
    """Medians of each cable alone and of both; turns are interleaved, so that what disturbs the
    machine disturbs all of them."""
    wait_rails(c, 2)
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
    beside = {name: iperf3(c, name) for name in names}
    for choice, value in median.items():
        streams = [beside[name] for name in choice]
        say(f"{' + '.join(choice):<12} {value / 1e6:6.0f} Mb/s" + (
            f", iperf3 {sum(streams) / 1e6:6.0f}, ratio {value / sum(streams):.3f}"
            if None not in streams else ""))
    return [median[(names[0],)], median[(names[1],)], median[tuple(names)]]


@pytest.fixture
def say(capsys):
    def out(text):
        with capsys.disabled():
            print(f"\n    {text}", end="")

    return out


def reached(c, tmp_path, say, share, goal, text):
    """Whether share(one, other, both) reaches the goal. A machine that is busy for a while fills
    no cables, so a low result is measured again, twice at most."""
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
