"""What explains an error, and what counts as growth: pure functions. README.md states the rules."""

import dataclasses
import math
import re

EFFECT_S = 10.0  # Effects of a fault may appear this long after its end: the grace period, and healing.
NOTICED_S = 3.0  # A shorter stop or cut must not be noticed: the grace period is 5 s.
WARM_UP = 2  # Quiet moments, in which malloc's arenas and gRPC's threads appear.
MOMENTS_MIN = 6  # A shorter life shows no slope.

LOST = frozenset({"RANK_LOST", "DEADLINE_EXCEEDED"})
# The error codes that each kind of fault may cause; other kinds cause none.
EXPLAINS = {
    "kill-rank": LOST,
    "kill-daemon": LOST | {"DAEMON_LOST", "UNAVAILABLE"},
    "drain": LOST | {"DAEMON_LOST", "UNAVAILABLE", "DAEMON_STOPPING"},
    "stop-daemon": LOST,
    "cut": LOST,
}
# The allowed rise over a daemon's life, and per hour. The flight recorder fills 9 MiB in ten minutes.
RISE_MAX = {"memory": (12.0, 1.0), "threads": (4.0, 0.0), "descriptors": (3.0, 0.0), "mappings": (40.0, 0.0)}


@dataclasses.dataclass
class Fault:
    kind: str
    begin: float
    nodes: frozenset  # The nodes that it affects.
    end: float = math.inf
    job: str = ""  # The only job that it affects.

    def explains(self, error):
        lasted = min(self.end, error.at) - self.begin
        return (
            error.code in EXPLAINS.get(self.kind, ())
            and self.begin <= error.at <= self.end + EFFECT_S
            and (self.kind not in ("stop-daemon", "cut") or lasted >= NOTICED_S)
            and self.job in ("", error.job)
            and bool(self.nodes & error.nodes)
        )


@dataclasses.dataclass(frozen=True)
class Raised:
    """An error that a rank has printed."""

    at: float
    job: str
    node: int  # The rank's own.
    text: str

    @property
    def code(self):
        return self.text.split(":")[0]

    @property
    def nodes(self):
        """Its own node, and those that it names."""
        return frozenset({self.node, *map(int, re.findall(r"node-(\d+)", self.text))})


def unexplained(errors, faults):
    """Returns the errors without a fault. An explained error of a job also explains later losses in that job;
    ranks' lines may be a second late."""
    explained = [error for error in errors if any(fault.explains(error) for fault in faults)]
    first = {error.job: error.at - 1 for error in sorted(explained, key=lambda error: -error.at)}
    follows = [e for e in errors if e.code in LOST and first.get(e.job, math.inf) <= e.at]
    return [error for error in errors if error not in explained + follows]


@dataclasses.dataclass(frozen=True)
class Moment:
    """A daemon's resources while no job runs."""

    at: float  # Seconds.
    memory: float  # MiB that belong only to it.
    threads: int
    descriptors: int
    mappings: int


def rise(points):
    """The increase of the least-squares line through the points, from the first to the last."""
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points))
    below = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / below if below else 0.0
    return slope * (points[-1][0] - points[0][0])


def growth(life):
    """Returns {resource: its rise} of those that grow over a daemon's life, given its quiet moments."""
    steady = life[WARM_UP:]
    if len(steady) < MOMENTS_MIN:
        return {}
    hours = (steady[-1].at - steady[0].at) / 3600
    rises = {what: rise([(moment.at, getattr(moment, what)) for moment in steady]) for what in RISE_MAX}
    return {what: gained for what, gained in rises.items()
            if gained > RISE_MAX[what][0] + RISE_MAX[what][1] * hours}
