"""Measures mlxcomm beside its peers (README.md): tests/bench/run [--quick] [--only PART...] [--rounds N]."""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
import typing

TESTS = pathlib.Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from bench import figures  # noqa: E402
from bench import systems as s  # noqa: E402
from bench.places import Failed, Lab, Machine, Place  # noqa: E402
from ground.namespaces import NotAllowed  # noqa: E402
from ground.wiring import pair, ring  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
SIZES = [8, 64, KIB, 8 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 128 * MIB]
FEW_SIZES = [8, 64 * KIB, MIB, 16 * MIB, 128 * MIB]
PAUSED_SIZES = [8, 64 * KIB, MIB, 16 * MIB]
SHAPED_SIZES = [16 * MIB, 64 * MIB]  # For pairs; rings only have the first one, which is harder.
QUICK_SIZES = [8, MIB]
PAUSE_SECONDS = 0.01  # Longer than any of our threads spins.
RATES = ["1gbit", "2.5gbit", "5gbit", "10gbit"]


@dataclasses.dataclass
class Part:
    """What to measure at one place: `measure(system, place)` gives {size or what: microseconds}."""

    name: str
    place: Place
    systems: list
    measure: typing.Callable


def all_reduce(sizes, seconds=0.05, pause=0):
    def measure(system, place):
        own = [size for size in sizes if size in system.sizes]
        return system.run(place, [seconds, pause, *own])[0]["median_us"]
    return measure


def steps_of(cases, label=""):
    """cases: {case of the program: how many steps are timed}. A column for each, and four with the cost of a
    step (figures.details)."""
    def measure(system, place):
        found = system.run(place, [f"{case}={count}" for case, count in cases.items()])
        columns = {}
        for case, step in found[0]["steps"].items():
            name = f"{label}{case}"
            columns |= {name: step["median_us"], f"{name}, p90": step["p90_us"],
                        f"{name}, CPU": sum(one["steps"][case]["cpu_us"] for one in found),
                        f"{name}, daemons": step["daemons_us"], f"{name}, sleeps": step["sleeps"]}
        return columns
    return measure


def programs(quick):
    """[(program, what is measured of it)]"""
    def some(cases):
        return dict.fromkeys(list(cases)[:1], 5) if quick else cases

    models = {f"{kind}-{how}": 100 for kind in ("llama", "deepseek_v2") for how in ("tensor", "pipeline")}
    del models["llama-pipeline"]  # mlx-lm has none.
    return [
        ("decoding", steps_of(some({"128": 200, "256": 150, "512": 60, "1024": 20}), "hidden ")),
        ("generating", steps_of(some(models))),
        ("training", steps_of(some({"digits": 60, "transformer": 4, "lora": 6}))),
        ("experts", steps_of(some({"16": 200, "256": 50}), "tokens ")),
    ]


def program_parts(quick):
    """One rank a core, unbound as users run them: mlxcomm, MLX's ring, MLX over Open MPI, and no
    communication."""
    places = [Machine("one daemon", 2, 1), Machine("two daemons, loopback", 2, 2),
              Lab("two daemons, veth pair", pair()),
              *[Lab(f"two daemons, {rate}", pair(rate=rate)) for rate in ("1gbit", "10gbit")]]
    made = []
    for name, measure in programs(quick):
        program = f"programs/{name}.py"
        for place in (places[:2] if name == "decoding" else places[1:2]) if quick else places:
            mpi = [s.MlxMpi(program, "tcp"), *([s.MlxMpi(program, "vader")] if place.nodes == 1 else [])]
            compared = [s.MlxcommMlx(program), s.MlxRing(program), *mpi, s.MlxAlone(program)]
            made.append(Part(name, place, compared, measure))
    return made


def start(system, place):
    """From the last rank's request until the last one has joined; ours attach to the daemon beforehand."""
    ranks = system.run(place, [0, 0])
    last = {moment: max(rank.get(f"{moment}_seconds", 0) for rank in ranks)
            for moment in ("asked", "attached", "joined")}
    return {moment: 1e6 * (seconds - last["asked"]) for moment, seconds in last.items()
            if moment != "asked" and seconds > 0}


def parts(quick):
    def sizes(full):
        return QUICK_SIZES if quick else full

    one, two = ("one daemon, 2 ranks", 2, 1), ("two daemons, loopback", 2, 2)
    shared = [s.CPP, s.MPI, s.GLOO, s.LOOP, s.MLX, s.RING]
    both = [s.CPP, s.MPI, s.GLOO, s.MLX, s.RING]
    after_pause = all_reduce(sizes(PAUSED_SIZES), 0.5, PAUSE_SECONDS)  # A few dozen operations.
    made = [
        Part("one_node", Machine(*one, own_cores=True), [*shared, s.ALONE], all_reduce(sizes(SIZES))),
        Part("one_node", Machine("one daemon, 4 ranks", 4, 1), shared, all_reduce(sizes(FEW_SIZES))),
        Part("two_nodes", Machine(*two, own_cores=True), both, all_reduce(sizes(SIZES))),
        Part("two_nodes", Lab("two daemons, veth pair", pair(), own_cores=True), [*both, s.STREAM],
             all_reduce(sizes(SIZES))),
        *[Part("paused", Machine(f"{name}, after a pause", ranks, daemons, own_cores=True),
               [s.CPP, s.MPI, s.MLX, s.RING], after_pause) for name, ranks, daemons in (one, two)],
    ]
    for rate in RATES[:1] if quick else RATES:
        cables = {"pair": pair(rate=rate), "pair with two cables": pair(cables=2, rate=rate),
                  "ring of 3": ring(3, rate=rate), "ring of 4": ring(4, rate=rate)}
        for name, wiring in list(cables.items())[:1 if quick else None]:
            full = SHAPED_SIZES if wiring.nodes == 2 else SHAPED_SIZES[:1]
            made.append(Part("shaped", Lab(f"{name}, {rate}", wiring), [*both, s.STREAM],
                             all_reduce(sizes(full))))
    return [*program_parts(quick), *made,
            *[Part("start", Machine(*place), both, start) for place in (one, two)]]


def say(what):
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)


def take(part, rounds, left_out):
    """All rounds of a part: {system: {size or what: [microseconds of each round]}}. In a round every system
    has a turn, and each round begins with a different one. A system that fails has no further rounds."""
    found = {system.name: {} for system in part.systems}
    lost = set()
    with part.place.up():
        for number in range(rounds):
            first = number % len(part.systems)
            for system in part.systems[first:] + part.systems[:first]:
                if system.name in lost:
                    continue
                title = f"{part.name}, {part.place.name}: {system.name}, round {number + 1} of {rounds}"
                say(title)
                try:
                    measured = part.measure(system, part.place)
                except Exception as error:  # Whatever the error is, the others get their turns.
                    lost.add(system.name)
                    left_out.append(f"{title}: {reason_of(error)}")
                    say(f"FAILED: {left_out[-1]}")
                    continue
                for column, microseconds in measured.items():
                    found[system.name].setdefault(column, []).append(microseconds)
    return found, lost


def reason_of(error):
    """The text of an expected failure is enough; for other failures the kind is included."""
    return str(error) if isinstance(error, (Failed, NotAllowed)) else f"{type(error).__name__}: {error}"


def measure(made, rounds, path):
    """Measures one part after the other, and writes the results so far after each. Returns whether no
    measurement of ours failed; facilities that a machine lacks or forbids are not failures."""
    is_good = True
    result = {"machine": machine(), "command": " ".join(["tests/bench/run", *sys.argv[1:]]),
              "rounds": rounds, "left_out": [], "parts": []}
    missing = [f"{system.name}: {why}" for part in made for system in part.systems
               if (why := system.missing())]
    result["left_out"] += dict.fromkeys(missing)
    for part in made:
        part.systems = [system for system in part.systems if not system.missing()]
        found = {}
        try:
            found, lost = take(part, rounds, result["left_out"])
            is_good = is_good and not lost & set(s.PEERS)
        except KeyboardInterrupt:
            result["left_out"].append(f"{part.name}, {part.place.name}, and what follows: interrupted")
            is_good = False
            break
        except Exception as error:  # This place does not come up; the others are measured.
            result["left_out"].append(f"{part.name}, {part.place.name}: {reason_of(error)}")
            is_good = is_good and isinstance(error, NotAllowed)
        finally:
            result["parts"].append({"part": part.name, "place": part.place.name, "figures": found})
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result, indent=1))
    return is_good


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=TESTS, capture_output=True,
                            text=True).stdout.strip()
    return {"cores": os.cpu_count(), "processor": names[0] if names else platform.machine(),
            "system": f"{platform.system()} {platform.release()}", "load": round(os.getloadavg()[0], 1),
            "commit": commit, "date": time.strftime("%Y-%m-%d")}


def arguments_of(words):
    names = list(dict.fromkeys(part.name for part in parts(quick=True)))
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, one shaped cable")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", default=names,
                        help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3, help="3 unless given")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", default=TESTS.parent / "build/bench",
                        help="gets bench.json, results.md and one-node.svg; build/bench unless given")
    parser.add_argument("--show", action="store_true",
                        help="measure nothing; make table and picture of the folder's bench.json again")
    return parser.parse_args(words)


def main(words):
    arguments = arguments_of(words)
    path = arguments.keep / "bench.json"
    is_good = True
    if not arguments.show:
        if not os.environ.get("MLXCOMM_BUILD") or s.CPP.missing():
            sys.exit("MLXCOMM_BUILD names no build of the benchmark: use tests/bench/run, which builds it")
        made = [part for part in parts(arguments.quick) if part.name in arguments.only]
        is_good = measure(made, arguments.rounds, path)
    if not path.exists():
        sys.exit(f"{path} is not there: measure first (tests/bench/run)")
    result = json.loads(path.read_text())
    text = figures.tables(result)
    print(text)
    (arguments.keep / "results.md").write_text(f"# Figures of one run\n\n{text}")
    figures.draw(result, arguments.keep / "one-node.svg")
    return 0 if is_good and any(any(part["figures"].values()) for part in result["parts"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
