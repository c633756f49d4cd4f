"""What is to be reached, and whether it was: each target is a ratio (or a time) of every round, a
goal, and the verdict that comparison.py's rule gives."""

import dataclasses

from bench.comparison import MISSED, REACHED, VOID, bus_bandwidth, spread, verdict
from bench.findings import Findings
from bench.sizes import of_bytes

KIB, MIB = 1 << 10, 1 << 20
CPP, MLX, RING, LOOP = "mlxcomm, C++", "mlxcomm, MLX", "MLX ring", "plain loop"
MPI_SHARED, MPI_TCP = "Open MPI, shared memory", "Open MPI, TCP"
TWO_RANKS, FOUR_RANKS = "one daemon, 2 ranks", "one daemon, 4 ranks"
NOT_MEASURED = "not measured"


@dataclasses.dataclass(frozen=True)
class Target:
    name: str
    values: list  # One of each round.
    goal: float
    unit: str = "x"
    at_most: bool = False

    def result(self):
        if not self.values:
            return {"name": self.name, "goal": self.goal, "unit": self.unit, "at_most": self.at_most,
                    "value": None, "low": None, "high": None, "rounds": 0, "verdict": NOT_MEASURED}
        found = spread(self.values)
        return {"name": self.name, "goal": self.goal, "unit": self.unit, "at_most": self.at_most,
                "value": found.value, "low": found.low, "high": found.high, "rounds": found.rounds,
                "verdict": verdict(found, self.goal, self.at_most)}


def over(theirs, ours):
    """[how many times as fast ours was, each round]. Who failed has the first rounds only: of later
    ones there is no ratio."""
    return [a / b for a, b in zip(theirs, ours)]


def faster(findings, part, place, peer, ours, goals):
    """Targets: at a size, so many times the peer's speed. goals: {size: goal}"""
    mine, peers = findings.curve(part, place, ours), findings.curve(part, place, peer)
    measured = sizes_of(findings, part, place)
    return [Target(f"{place}: {ours} beside {peer}, {of_bytes(size)}",
                   over(peers.get(size, []), mine.get(size, [])), goal)
            for size, goal in goals.items() if size in measured]


def sizes_of(findings, part, place):
    """Of whichever systems there are: whom a failure left without figures has its targets still."""
    return sorted({size for curve in findings.curves(part, place).values() for size in curve})


def from_size(findings, part, place, first, goal):
    return {size: goal for size in sizes_of(findings, part, place) if size >= first}


def one_node(f):
    part = "one_node"
    made = faster(f, part, TWO_RANKS, LOOP, CPP, from_size(f, part, TWO_RANKS, MIB, 0.8))
    made += faster(f, part, TWO_RANKS, MPI_SHARED, CPP,
                   {64 * KIB: 1.5, MIB: 2, 16 * MIB: 4, 128 * MIB: 5})
    small = f.curve(part, TWO_RANKS, CPP).get(8)
    if small:
        made.append(Target(f"{TWO_RANKS}: {CPP}, 8 B", small, 10, "us", at_most=True))
    goals = from_size(f, part, TWO_RANKS, 0, 1) | from_size(f, part, TWO_RANKS, MIB, 5)
    made += faster(f, part, TWO_RANKS, RING, MLX, goals)
    return made + degradation(f)


def degradation(f):
    """From two ranks to four on the same cores: Open MPI's slowing over ours."""
    curves = [f.curve("one_node", place, system) for system in (MPI_SHARED, CPP)
              for place in (FOUR_RANKS, TWO_RANKS)]
    made = []
    for size in sorted(set.intersection(*map(set, curves))):
        theirs_4, theirs_2, ours_4, ours_2 = (curve[size] for curve in curves)
        made.append(Target(f"four ranks: slowing beside {MPI_SHARED}'s, {of_bytes(size)}",
                           over(over(theirs_4, theirs_2), over(ours_4, ours_2)), 1))
    return made


def two_nodes(f):
    made = []
    for place in f.places("two_nodes"):
        made += faster(f, "two_nodes", place, MPI_TCP, CPP,
                       from_size(f, "two_nodes", place, MIB, 1.5))
        goals = {8: 1} | from_size(f, "two_nodes", place, 64 * KIB, 1)
        made += faster(f, "two_nodes", place, RING, MLX, goals)
    return made


def shaped(f):
    made = []
    for place in f.places("shaped"):
        stream = f.stream("shaped", place)
        curve = f.curve("shaped", place, CPP)
        if "two cables" in place:
            one = f.curve("shaped", place.replace("pair with two cables", "pair"), CPP)
            made += [Target(f"{place}: beside one cable, {of_bytes(size)}",
                            over(one[size], curve[size]), 1.9) for size in curve if size in one]
        elif stream:
            goal = 90 if "10gbit" in place else 97
            made += [Target(f"{place}: of one iperf3 stream, {of_bytes(size)}",
                            [100 * part for part in of_stream(f, place, CPP, size)], goal, "%")
                     for size in curve]
    return made


def of_stream(f, place, system, size):
    """[bus bandwidth as a part of one stream's, each round]"""
    ranks = f.ranks("shaped", place)
    return [8 * bus_bandwidth(size, ranks, us) / bits for us, bits in
            zip(f.curve("shaped", place, system)[size], f.stream("shaped", place))]


def overlap(f):
    made = []
    for model in dict.fromkeys(entry["model"] for entry in f.of_kind("step")):
        steps = {entry["system"]: entry["step_seconds"] for entry in f.of_kind("step")
                 if entry["model"] == model}
        # Of the time lost to communication: a step without any is the same for both.
        less = [1e3 * (ring - ours) for ring, ours in
                zip(steps.get("ring", []), steps.get("mlxcomm", []))]
        made.append(Target(f"training step, {model}: lost less than with the ring", less, 0, "ms"))
    return made


def start(f):
    made = []
    for entry in f.of_kind("start"):
        if entry["system"] != CPP:
            continue
        if entry["ranks"] == 1:
            made.append(Target(f"attach, {entry['place']}", entry["attach_ms"], 3, "ms", True))
        else:
            made.append(Target(f"world formed, {entry['place']}", entry["world_ms"], 20, "ms", True))
    return made


def cost(f):
    """CPU when idle: 0.1 % of a core is as good as none, and more than a clock's error."""
    return [Target(f"idle CPU, {entry['place']}: ranks and daemons",
                   [100 * (ranks + daemons) / entry["seconds"] for ranks, daemons in
                    zip(entry["cpu_seconds"]["ranks"], entry["cpu_seconds"]["daemons"])],
                   0.1, "%", True) for entry in f.of_kind("idle")]


def results(found):
    """Of all targets of what was measured; those that lack figures are not measured."""
    f = Findings(found)
    made = [target for part in (one_node, two_nodes, shaped, overlap, start, cost)
            for target in part(f)]
    return [target.result() for target in made]


def summary(verdicts):
    counted = {word: sum(one["verdict"] == word for one in verdicts)
               for word in (REACHED, MISSED, VOID, NOT_MEASURED)}
    return ", ".join(f"{count} {word}" for word, count in counted.items()
                     if count > 0 or word != NOT_MEASURED)

