"""The goals, and whether they were reached: each target is a ratio (or a time) of every round, a
goal, and the verdict by comparison.py's rule. One without figures says why."""

import dataclasses

from bench.comparison import MISSED, REACHED, VOID, bus_bandwidth, spread, verdict
from bench.findings import Findings, where, why_missing
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
    reason: str = ""  # Why there may be no values.

    def result(self):
        if not self.values:
            return {"name": self.name, "goal": self.goal, "unit": self.unit, "at_most": self.at_most,
                    "value": None, "low": None, "high": None, "rounds": 0, "verdict": NOT_MEASURED,
                    "reason": self.reason}
        found = spread(self.values)
        return {"name": self.name, "goal": self.goal, "unit": self.unit, "at_most": self.at_most,
                "value": found.value, "low": found.low, "high": found.high, "rounds": found.rounds,
                "verdict": verdict(found, self.goal, self.at_most)}


def over(theirs, ours):
    """[how many times as fast ours was, each round]. A system that failed has the first rounds
    only: there is no ratio for later ones."""
    return [a / b for a, b in zip(theirs, ours)]


def faster(findings, part, place, peer, ours, goals):
    """Targets: at a size, this many times the peer's speed. goals: {size: goal}"""
    mine, peers = findings.curve(part, place, ours), findings.curve(part, place, peer)
    reason = findings.reason(part, [place], [ours, peer])
    planned = findings.sizes(part, place)
    return [Target(f"{place}: {ours} beside {peer}, {of_bytes(size)}",
                   over(peers.get(size, []), mine.get(size, [])), goal, reason=reason)
            for size, goal in goals.items() if size in planned]


def from_size(findings, part, place, first, goal):
    return {size: goal for size in findings.sizes(part, place) if size >= first}


def one_node(f):
    part = "one_node"
    made = faster(f, part, TWO_RANKS, LOOP, CPP, from_size(f, part, TWO_RANKS, MIB, 0.9))
    made += faster(f, part, TWO_RANKS, MPI_SHARED, CPP,
                   {64 * KIB: 1.5, MIB: 2, 16 * MIB: 4, 128 * MIB: 5})
    # Of what ranks carry out by themselves, each with a core of its own.
    for system, size, most_us in ((CPP, 8, 0.5), (CPP, KIB, 1), (MLX, 8, 9)):
        if size in f.sizes(part, TWO_RANKS):
            made.append(Target(f"{TWO_RANKS}: {system}, {of_bytes(size)}",
                               f.curve(part, TWO_RANKS, system).get(size, []), most_us, "us",
                               at_most=True, reason=f.reason(part, [TWO_RANKS], [system])))
    goals = from_size(f, part, TWO_RANKS, 0, 1) | from_size(f, part, TWO_RANKS, MIB, 5)
    made += faster(f, part, TWO_RANKS, RING, MLX, goals)
    return made + degradation(f)


def degradation(f):
    """From two ranks to four on the same cores: Open MPI's slowing over ours."""
    systems, places = (MPI_SHARED, CPP), (FOUR_RANKS, TWO_RANKS)
    curves = [f.curve("one_node", place, system) for system in systems for place in places]
    reason = f.reason("one_node", places, systems)
    made = []
    for size in sorted(set.intersection(*(set(f.sizes("one_node", place)) for place in places))):
        theirs_4, theirs_2, ours_4, ours_2 = (curve.get(size, []) for curve in curves)
        made.append(Target(f"four ranks: slowing beside {MPI_SHARED}'s, {of_bytes(size)}",
                           over(over(theirs_4, theirs_2), over(ours_4, ours_2)), 1, reason=reason))
    return made


def paused(f):
    """Each operation after other work, so that waiting ranks sleep."""
    made = []
    for place in f.places("paused"):
        peer, goal = (MPI_SHARED, 1 / 1.5) if place == TWO_RANKS else (MPI_TCP, 0.9)
        made += [dataclasses.replace(one, name=one.name.replace(place, where("paused", place)))
                 for one in faster(f, "paused", place, peer, CPP, {8: goal})]
    return made


def two_nodes(f):
    made = []
    for place in f.places("two_nodes"):
        made += faster(f, "two_nodes", place, MPI_TCP, CPP,
                       {8: 0.9, 64 * KIB: 1} | from_size(f, "two_nodes", place, MIB, 1.5))
        goals = {8: 1} | from_size(f, "two_nodes", place, 64 * KIB, 1)
        made += faster(f, "two_nodes", place, RING, MLX, goals)
    return made


def shaped(f):
    made = []
    for place in f.places("shaped"):
        sizes, curve = f.sizes("shaped", place), f.curve("shaped", place, CPP)
        if "two cables" in place:
            one_cable = place.replace("pair with two cables", "pair")
            one = f.curve("shaped", one_cable, CPP)
            reason = f.reason("shaped", [place, one_cable], [CPP])
            made += [Target(f"{place}: beside one cable, {of_bytes(size)}",
                            over(one.get(size, []), curve.get(size, [])), 1.9, reason=reason)
                     for size in sizes]
        else:
            goal = 90 if "10gbit" in place else 97
            reason = f.reason("shaped", [place], [CPP, "iperf3"])
            made += [Target(f"{place}: of one iperf3 stream, {of_bytes(size)}",
                            [100 * part for part in of_stream(f, place, CPP, size)], goal, "%",
                            reason=reason) for size in sizes]
    return made


def of_stream(f, place, system, size):
    """[bus bandwidth as a part of one stream's, each round]"""
    ranks = f.ranks("shaped", place)
    return [8 * bus_bandwidth(size, ranks, us) / bits for us, bits in
            zip(f.curve("shaped", place, system).get(size, []), f.stream("shaped", place))]


def overlap(f):
    made = []
    places = [entry["place"] for entry in f.of_kind("step")]
    for model in f.models():
        steps = f.steps(model)
        # Only the time lost to communication: a step without any is the same for both.
        less = [1e3 * (ring - ours) for ring, ours in
                zip(steps.get("ring", []), steps.get("mlxcomm", []))]
        made.append(Target(f"training step, {model}: lost less than with the ring", less, 0, "ms",
                           reason=f.reason("overlap", places, ["mlxcomm", "ring"], model)))
    return made


def start(f):
    made = []
    for entry in f.of_kind("start"):
        if entry["system"] != CPP:
            continue
        what, values, goal = (("attach", entry["attach_ms"], 3) if entry["ranks"] == 1 else
                              ("world formed", entry["world_ms"], 20))
        made.append(Target(f"{what}, {entry['place']}", values, goal, "ms", True,
                           f.reason("start", [entry["place"]], [CPP])))
    return made


def cost(f):
    """CPU when idle: 0.1 % of a core counts as none, and exceeds a clock's error."""
    return [Target(f"idle CPU, {entry['place']}: ranks and daemons",
                   [100 * (ranks + daemons) / entry["seconds"] for ranks, daemons in
                    zip(entry["cpu_seconds"]["ranks"], entry["cpu_seconds"]["daemons"])],
                   0.1, "%", True, why_missing(entry)) for entry in f.of_kind("idle")]


def results(found):
    """Of all targets that were to be measured; those without figures were not measured."""
    f = Findings(found)
    made = [target for part in (one_node, paused, two_nodes, shaped, overlap, start, cost)
            for target in part(f)]
    return [target.result() for target in made]


def summary(verdicts):
    counted = {word: sum(one["verdict"] == word for one in verdicts)
               for word in (REACHED, MISSED, VOID, NOT_MEASURED)}
    return ", ".join(f"{count} {word}" for word, count in counted.items()
                     if count > 0 or word != NOT_MEASURED)

