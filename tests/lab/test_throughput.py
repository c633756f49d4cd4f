"""What shaped cables carry together, beside each alone and beside iperf3. Ratios of medians that
were measured in turns on the same cables; nothing here depends on how fast the machine is, as long
as it can fill the cables."""

import json
import shutil
import statistics

import pytest

from conftest import wait_until
from lab.outcomes import all_fine
from lab.wiring import pair

MIB = 1 << 20
BYTES = 16 * MIB
ROUNDS = 3
SUMS = 3  # Of each turn; the first finds out what the rails carry and does not count.


class Measured:
    """all_reduce of two ranks; each node sends and receives BYTES in each of them."""

    def __init__(self, c, tmp_path, turns):
        self.c, self.folder, self.turn = c, tmp_path, 0
        words = [word for n in range(turns) for word in
                 (f"await:{tmp_path}/go-{n}", *[f"sum:{BYTES}"] * SUMS)]
        self.ranks = c.ranks([0, 1], *words)

    def bits_per_second(self):
        """Of one turn: every sum but the first."""
        (self.folder / f"go-{self.turn}").touch()
        self.turn += 1
        times = [float(self.ranks[0].wait_for(f"summed {BYTES} at").split()[-1]) for _ in range(SUMS)]
        return BYTES * 8 * (SUMS - 1) / (times[-1] - times[0])


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
    measured = Measured(c, tmp_path, ROUNDS * len(choices))
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


def test_two_equal_rails_carry_nearly_twice_as_much_as_one(lab, tmp_path, say):
    c = lab(pair(cables=2, rate="200mbit"))
    one, other, both = compare(c, tmp_path, say)
    say(f"two equal rails carry {both / statistics.mean([one, other]):.2f} times one")
    assert both >= 1.9 * statistics.mean([one, other])


def test_a_fast_and_a_slow_rail_are_both_filled(lab, tmp_path, say):
    c = lab(pair(cables=2, rate=["400mbit", "100mbit"]))
    fast, slow, both = compare(c, tmp_path, say)
    say(f"a 40:10 pair carries {both / (fast + slow):.3f} of the sum of its rails")
    assert both >= 0.95 * (fast + slow)
