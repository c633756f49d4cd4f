"""The seven parts of the benchmark: what is measured where. A Part is a place and the turns that
are taken there; its findings are plain data (README.md) for tables, pictures and verdicts."""

import dataclasses
import os
import pathlib
import sys

from bench import systems as s
from bench.cost import cost_of, idle_cost
from bench.places import Lab, Machine, end_of
from bench.rounds import Failed, Turn, expected, take
from ground.namespaces import NotAllowed
from ground.wiring import pair, ring

KIB, MIB = 1 << 10, 1 << 20
SIZES = [8, 64, 1 * KIB, 8 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 128 * MIB]
FEW_SIZES = [8, 64 * KIB, 1 * MIB, 16 * MIB, 128 * MIB]
SHAPED_SIZES = [16 * MIB, 64 * MIB]  # Of pairs; rings have the first, which is the harder.
PAUSED_SIZES = [8, 64 * KIB, 1 * MIB, 16 * MIB]
QUICK_SIZES = [8, 1 * MIB]
PAUSE_SECONDS = 0.01  # Longer than any of ours spins.
RATES = ["1gbit", "2.5gbit", "5gbit", "10gbit"]
TRAIN = pathlib.Path(__file__).parent / "train_rank.py"
MODELS = {"demo": 40, "transformer": 4}  # Steps that are timed.
# glibc gives memory that training frees back to the system, and each of its pages is a fault in the
# next step: how much depends on which buffer lies last in the heap, which differs between systems.
# MLX on a Mac keeps freed memory; so does this, for all systems alike.
KEEPS_FREED_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(8 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


@dataclasses.dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rounds: int = 5
    seconds: float = 0.05   # For each size of a turn.
    quick: bool = False

    def sizes(self, sizes):
        return QUICK_SIZES if self.quick else sizes

    @property
    def few_rounds(self):
        """For slow parts: a run must take less than 20 minutes. A shaped cable repeats itself to
        a percent, the slowdown of four ranks is far from its goal, and the part with pauses has
        none."""
        return min(self.rounds, 3)


class Part:
    """Turns at a place. `found` is what goes to the JSON: {"kind", "part", "place", ...}."""

    def __init__(self, key, place, rounds):
        self.key, self.place, self.rounds = key, place, rounds
        self.turns = []

    @property
    def title(self):
        return f"{self.key.replace('_', ' ')}, {self.place.name}"

    def seconds(self):
        return expected(self.turns, self.rounds) + 2

    def add(self, name, run, seconds):
        self.turns.append(Turn(name, run, [], seconds))

    def take(self, clock, failures):
        with self.place.up():
            take(clock, self.title, self.turns, self.rounds, failures)

    def miss(self, lost="", left_out=""):
        """Why turns have no further rounds, where they do not know it themselves."""
        for turn in self.turns:
            if len(turn.into) < self.rounds and not why(turn):
                turn.lost, turn.left_out = lost, left_out

    def findings(self):
        """An entry for every turn, even a failed one, so that a missing one is noticed."""
        return [self.head() | self.found(turn) | why(turn) for turn in self.turns]

    def head(self):
        return {"part": self.key, "place": self.place.name, "ranks": self.place.ranks}


def why(turn):
    """What the entry says about missing rounds."""
    return {key: said for key in ("lost", "left_out") if (said := getattr(turn, key))}


class Curves(Part):
    """Time against size, for each system."""

    # Each operation is timed, so what daemons touch belongs to what ranks report.
    counts_touched = True

    def __init__(self, key, place, rounds, systems, sizes, extent, streams=False):
        super().__init__(key, place, rounds)
        self.sizes = {}  # Of each system.
        for system in systems:
            self.sizes[system.name] = system.of_sizes(extent.sizes(sizes))
            # As measured on two cores, where four ranks take turns.
            self.add(system.name,
                     self._runner(system, extent.seconds, self.sizes[system.name]),
                     (1.2 + 0.14 * len(sizes)) * max(1, place.ranks / 2))
        if streams:
            self.add("iperf3", place.stream, 2)

    def _runner(self, system, seconds, sizes):
        def run():
            before = touched_bytes(self.place) if self._counts(system) else None
            ranks = system.run(self.place, seconds, sizes)
            touched = None
            if before is not None:
                payload = sum(rank["reduced_bytes"] for rank in ranks)
                touched = [(after - earlier) / payload for after, earlier in
                           zip(touched_bytes(self.place), before)]
            return {"sizes": ranks[0]["sizes"], "touched": touched}
        return run

    def _by_size(self, turn, figure):
        """{bytes: [each round]}"""
        found = {str(size): [] for size in self.sizes[turn.name]}
        for taken in turn.into:
            for one in taken["sizes"]:
                found[str(one["bytes"])].append(one[figure])
        return found

    def _counts(self, system):
        return self.counts_touched and system is s.OURS_CPP

    def found(self, turn):
        if turn.name == "iperf3":
            return {"kind": "stream", "system": turn.name, "bits_per_second": turn.into}
        entry = {"kind": "curve", "system": turn.name, "median_us": self._by_size(turn, "median_us")}
        if turn.into and turn.into[-1]["touched"]:
            entry["read_and_written_of_payload"] = turn.into[-1]["touched"]
        return entry


def touched_bytes(place):
    """[read, written] by the daemons where they combine; None: they do not count."""
    told = [place.status(node) for node in range(place.nodes)]
    if None in told:
        raise Failed(f"daemon {told.index(None)} does not answer mlxcommctl status")
    nodes = [status["nodes"][0] for status in told]
    if "combined_bytes_read" not in nodes[0]:
        return None
    return [sum(int(node[f"combined_bytes_{did}"]) for node in nodes) for did in ("read", "written")]


class PausedCurves(Curves):
    """The same for operations that come one at a time, with ranks computing in between."""

    counts_touched = False  # Ranks agree by further operations.
    longer = 10  # Than without pauses, so that there are some dozens of them.

    def add(self, name, run, seconds):
        super().add(name, run, seconds + 2)

    def _runner(self, system, seconds, sizes):
        return super()._runner(system, self.longer * seconds, [*sizes, f"pause={PAUSE_SECONDS}"])

    def found(self, turn):
        return super().found(turn) | {"pause_seconds": self._by_size(turn, "pause_seconds")}


class Overlap(Part):
    """Seconds of a training step, without communication and with each system."""

    def __init__(self, place, extent):
        super().__init__("overlap", place, extent.rounds)
        self._crossings = {}  # By model.
        for model, steps in list(MODELS.items())[:1 if extent.quick else None]:
            for system in ("none", "mlxcomm", "ring"):
                self.add(f"{model}, {system}",
                         self._runner(system, model, 3 if extent.quick else steps),
                         1 if model == "demo" else 8)

    def _runner(self, system, model, steps):
        def run():
            folder = s.OURS_MLX.new_folder(self.place)
            if system == "ring":
                s.write_hosts(self.place, folder)
            ranks = []
            for rank in range(self.place.ranks):
                environment = {
                    "none": {"MLX_RANK": str(rank)},
                    "mlxcomm": s.OURS_MLX.environment(self.place, rank, folder),
                    "ring": s.RING.environment(self.place, rank, folder)}[system]
                ranks.append(self.place.start(
                    rank, [sys.executable, TRAIN, system, folder, model, steps],
                    {**environment, **KEEPS_FREED_MEMORY}))
            end_of(ranks)
            results = s.ranks_results(folder)
            if system == "mlxcomm":
                self._crossings[model] = results[0]["crossings"]
            return max(result["step_seconds"] for result in results)
        return run

    def found(self, turn):
        model, system = turn.name.split(", ")
        crossings = {"crossings": self._crossings.get(model, {})} if system == "mlxcomm" else {}
        return {"kind": "step", "model": model, "system": system, "step_seconds": turn.into, **crossings}


class Start(Part):
    """From when the last rank has asked until the last one has joined; ours attach before."""

    def __init__(self, place, extent, systems):
        super().__init__("start", place, extent.rounds)
        for system in systems:
            times = 1 if extent.quick else 8 if system.program else 2
            self.add(system.name, self._runner(system, times), times * 0.1)

    def _runner(self, system, times):
        def run():
            world, attach = [], []
            for _ in range(times):
                ranks = system.run(self.place, 0, [])
                world.append(1e3 * (max(rank["joined_seconds"] for rank in ranks) -
                                    max(rank["asked_seconds"] for rank in ranks)))
                attach += [1e3 * (rank["attached_seconds"] - rank["asked_seconds"])
                           for rank in ranks if rank.get("attached_seconds")]
            return {"world_ms": sorted(world)[len(world) // 2],
                    "attach_ms": sorted(attach)[len(attach) // 2] if attach else None}
        return run

    def found(self, turn):
        return {"kind": "start", "system": turn.name,
                "world_ms": [found["world_ms"] for found in turn.into],
                "attach_ms": [found["attach_ms"] for found in turn.into
                              if found["attach_ms"] is not None]}


class Attach(Start):
    """One rank alone, so that the cores do nothing else while it attaches."""

    def __init__(self, place, extent):
        super().__init__(place, extent, [s.OURS_CPP])


class Cost(Part):
    """CPU seconds for a GiB, of ranks and daemons, and their use when idle."""

    def __init__(self, place, extent, systems):
        super().__init__("cost", place, extent.few_rounds)
        self.idle_seconds = 0.3 if extent.quick else 2
        for system in systems:
            self.add(system.name, lambda system=system: cost_of(
                system, self.place, 0.1 if extent.quick else 1.0, 16 * MIB), 3)
        self.idle = Turn("idle", lambda: idle_cost(s.OURS_CPP, self.place, self.idle_seconds, MIB),
                         [], 4 * self.idle_seconds)

    def seconds(self):
        return super().seconds() + expected([self.idle], 1)

    def found(self, turn):
        return {"kind": "cost", "system": turn.name,
                "cpu_seconds_per_gib": [found["cpu_seconds_per_gib"] for found in turn.into],
                "rank_bytes_max": [found["rank_bytes_max"] for found in turn.into]}

    def take(self, clock, failures):
        if not os.path.exists("/proc/self/schedstat"):
            raise NotAllowed("this system does not tell what CPU time another process has used")
        with self.place.up():
            take(clock, self.title, self.turns, self.rounds, failures)
            take(clock, self.title, [self.idle], 1, failures)

    def miss(self, lost="", left_out=""):
        super().miss(lost, left_out)
        if not self.idle.into and not why(self.idle):
            self.idle.lost, self.idle.left_out = lost, left_out

    def findings(self):
        none = {"seconds": self.idle_seconds, "cpu_seconds": {"ranks": [], "daemons": []},
                "daemon_bytes": []}
        figures = self.idle.into[0] if self.idle.into else none
        return super().findings() + [
            self.head() | {"kind": "idle", "system": s.OURS_CPP.name} | figures | why(self.idle)]


def one_node(extent):
    systems = [s.OURS_CPP, s.MPI_SHARED, s.LOOP, s.OURS_MLX, s.RING, s.GLOO]
    return [Curves("one_node", Machine("one daemon, 2 ranks", 2, 1, own_cores=True),
                   extent.rounds, [*systems, s.MLX_ALONE], SIZES, extent),
            Curves("one_node", Machine("one daemon, 4 ranks", 4, 1), extent.few_rounds, systems,
                   FEW_SIZES, extent),
            *(Curves("one_node", Machine(f"one daemon, 2 ranks, as on {side.lower().replace('_', ' ')}", 2, 1,
                                         own_cores=True, scheduling=side),
                     extent.rounds, [s.OURS_CPP], FEW_SIZES, extent)
              for side in ("FEW_CORES", "MANY_CORES"))]


BETWEEN = [s.OURS_CPP, s.MPI_TCP, s.OURS_MLX, s.RING, s.GLOO]


def two_nodes(extent):
    systems = [s.OURS_CPP, s.MPI_TCP, s.EXCHANGE, s.OURS_MLX, s.RING, s.GLOO]
    return [Curves("two_nodes", Machine("two daemons, loopback", 2, 2, own_cores=True),
                   extent.rounds, systems, SIZES, extent),
            Curves("two_nodes", Lab("two daemons, veth pair", pair(), own_cores=True),
                   extent.rounds, systems, SIZES, extent, streams=True)]


def paused(extent):
    return [PausedCurves("paused", Machine("one daemon, 2 ranks", 2, 1, own_cores=True),
                         extent.few_rounds, [s.OURS_CPP, s.MPI_SHARED, s.OURS_MLX, s.RING],
                         PAUSED_SIZES, extent),
            PausedCurves("paused", Machine("two daemons, loopback", 2, 2, own_cores=True),
                         extent.few_rounds, [s.OURS_CPP, s.MPI_TCP, s.OURS_MLX, s.RING],
                         PAUSED_SIZES, extent)]


def shaped(extent):
    parts = []
    for rate in RATES[:1] if extent.quick else RATES:
        places = [Lab(f"pair, {rate}", pair(rate=rate))]
        if not extent.quick:
            places += [Lab(f"ring of 3, {rate}", ring(3, rate=rate)),
                       Lab(f"ring of 4, {rate}", ring(4, rate=rate))]
            if rate in RATES[:2]:
                places += [Lab(f"pair with two cables, {rate}", pair(cables=2, rate=rate))]
        for place in places:
            sizes = SHAPED_SIZES if place.nodes == 2 else SHAPED_SIZES[:1]
            parts.append(Curves("shaped", place, extent.few_rounds, BETWEEN, sizes, extent,
                                streams=True))
    return parts


def overlap(extent):
    return [Overlap(Machine("two daemons, loopback", 2, 2), extent)]


def start(extent):
    return [Attach(Machine("one daemon, 1 rank", 1, 1), extent),
            Start(Machine("one daemon, 2 ranks", 2, 1), extent,
                  [s.OURS_CPP, s.OURS_MLX, s.RING, s.MPI_SHARED, s.GLOO]),
            Start(Machine("two daemons, loopback", 2, 2), extent, [s.OURS_CPP, s.OURS_MLX])]


def cost(extent):
    return [Cost(Machine("one daemon, 2 ranks", 2, 1), extent,
                 [s.OURS_CPP, s.MPI_SHARED, s.OURS_MLX, s.RING, s.GLOO]),
            Cost(Machine("two daemons, loopback", 2, 2), extent, BETWEEN)]


PARTS = {made.__name__: made for made in (one_node, two_nodes, paused, shaped, overlap, start, cost)}


def without_missing(parts, missing):
    """Leaves out the turns of systems that are missing here. missing: {system: why}"""
    for part in parts:
        for turn in part.turns:
            turn.left_out = missing.get(turn.name, "")
    return parts
