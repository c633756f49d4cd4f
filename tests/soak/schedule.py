"""What one seed makes: the hosts and cables, the jobs and the faults of each round. Pure data.

A round is a time of work and faults, and then a quiet moment in which everything is healed. One daemon,
the steady one, is never killed or restarted: its resources are followed from the first round to the last.
Times are seconds since the round's beginning.
"""

import dataclasses
import random

ROUND_S = 40.0
FAULTS_EVERY_S = (1.5, 2.5, 6.0)  # On average; a round has one of these.
# Which kinds there are, and how often. Those of CABLES need network namespaces.
WEIGHTS = {
    "kill-rank": 3,
    "stop-rank": 3,
    "kill-daemon": 2,
    "stop-daemon": 3,
    "drain": 1,
    "reload": 2,
    "cut": 5,
    "isolate": 2,
    "rate": 2,
    "stranger": 3,
    "mad-neighbour": 1,
    "trespass": 2,
    "hello-garbage": 2,
    "hello-flood": 1,
    "discovery": 2,
}
CABLES = {"cut", "isolate", "rate", "discovery"}
STRANGERS = ("garbage", "half", "version", "foreign", "nokey", "connects")
MAD = ("frames", "cutoff", "toolong", "beyond")
HELLERS = ("garbage", "foreign", "forged", "replay")
RATES = ("200mbit", "500mbit", "1gbit")


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    at: float
    seconds: float
    nodes: tuple  # Of each rank.
    seed: int


@dataclasses.dataclass(frozen=True)
class Fault:
    at: float
    kind: str
    node: int
    seconds: float = 0.0
    detail: str = ""  # A cable, a rate, or what a stranger does.
    pick: float = 0.0  # Which of the ranks that are there then, as a part of one.


@dataclasses.dataclass(frozen=True)
class Round:
    number: int
    seconds: float
    jobs: tuple
    faults: tuple


@dataclasses.dataclass(frozen=True)
class World:
    shape: str  # "ring" or "mesh"; "pair" of two nodes.
    nodes: int
    discovery: bool  # Nodes find each other; else they have each other's addresses.
    steady: int
    cables: tuple  # Their names, as the lab has them.


def make_world(seed, has_cables=True):
    dice = random.Random(f"world {seed}")
    nodes = dice.choice((2, 3, 3, 4))
    shape = "pair" if nodes == 2 else dice.choice(("ring", "mesh")) if nodes == 4 else "ring"
    pairs = [
        (a, b)
        for a in range(nodes)
        for b in range(a + 1, nodes)
        if shape == "mesh" or b == a + 1 or (a, b) == (0, nodes - 1)
    ]
    return World(
        shape,
        nodes,
        has_cables and dice.random() < 0.5,
        dice.randrange(nodes),
        tuple(f"{a}-{b}" for a, b in pairs) if has_cables else (),
    )


def make_round(seed, number, world, seconds=ROUND_S):
    dice = random.Random(f"round {number} of {seed}")
    jobs = tuple(_job(dice, world, number, k, seconds) for k in range(5))
    faults, at, every = [], 2.0, dice.choice(FAULTS_EVERY_S)
    while True:
        at += dice.expovariate(1 / every)
        if at > seconds - 4:
            return Round(number, seconds, jobs, tuple(faults))
        faults.append(_fault(dice, world, at))


def _job(dice, world, number, k, seconds):
    at = 0.0 if k < 2 else dice.uniform(2, seconds * 0.6)
    size = dice.randint(2, 4)
    first = dice.randrange(world.nodes)
    nodes = tuple((first + rank * dice.choice((1, 1, 0))) % world.nodes for rank in range(size))
    if k == 0:  # One that is everywhere for the whole time.
        nodes = tuple(rank % world.nodes for rank in range(max(size, world.nodes)))
    ends = seconds if k == 0 else min(seconds, at + dice.uniform(8, seconds))
    return Job(f"round-{number}-job-{k}", at, ends - at, nodes, dice.getrandbits(48))


def _fault(dice, world, at):
    kinds = [kind for kind in WEIGHTS if world.cables or kind not in CABLES]
    if not world.discovery:
        kinds = [kind for kind in kinds if kind != "discovery"]
    kind = dice.choices(kinds, [WEIGHTS[k] for k in kinds])[0]
    node = dice.randrange(world.nodes)
    seconds, detail = 0.0, ""
    if kind in ("kill-daemon", "drain"):
        node = dice.choice([n for n in range(world.nodes) if n != world.steady])
        seconds = dice.choice((0.0, 1.0, 8.0)) * dice.random()
    elif kind == "stop-rank":
        seconds = dice.uniform(0.2, 6)
    elif kind == "stop-daemon":
        seconds = dice.uniform(0.5, 4)
    elif kind == "cut":
        detail = dice.choice(world.cables)
        seconds = 0.1 * 100 ** dice.random()
    elif kind == "isolate":
        seconds = dice.choice((dice.uniform(0.2, 5), dice.uniform(7.5, 10)))
    elif kind == "rate":
        detail = f"{dice.choice(world.cables)} {dice.choice(RATES)}"
        seconds = dice.uniform(1, 8)
    elif kind == "stranger":
        detail = f"{dice.choice(STRANGERS)} {dice.randint(1, 30)}"
    elif kind == "mad-neighbour":
        detail = f"{dice.choice(MAD)} {dice.randint(1, 3)}"
    elif kind == "discovery":
        detail = f"{dice.choice(HELLERS)} {dice.randint(50, 2000)}"
    elif kind == "trespass":
        detail = str(dice.randint(0, 300))
    return Fault(round(at, 3), kind, node, round(seconds, 3), detail, dice.random())
