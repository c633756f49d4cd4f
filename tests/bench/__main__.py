"""Measures all of it (README.md): python tests/bench [--quick] [--only PART...] [--rounds N]."""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:1] = [str(TESTS)]  # Instead of this folder: its files are `bench`'s.

from bench import parts, tables, targets  # noqa: E402
from bench.findings import ours_lost  # noqa: E402
from bench.rounds import Clock, reason_of  # noqa: E402
from bench.systems import ALL, OURS_CPP  # noqa: E402
from lab.namespaces import NotAllowed  # noqa: E402

SCHEMA = 1
BUSY_PERCENT = 5  # From here on it is worth a word.


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, one shaped cable; no verdicts")
    parser.add_argument("--only", nargs="+", choices=parts.PARTS, metavar="PART",
                        help=", ".join(parts.PARTS), default=list(parts.PARTS))
    parser.add_argument("--rounds", type=int, help="6, with --quick 1; four ranks, shaped cables "
                                                   "and cost have 3 at most")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go",
                        default=TESTS.parent / "build/bench.json")
    parser.add_argument("--keep", type=pathlib.Path,
                        help="a folder that gets results.md and the pictures")
    parser.add_argument("--show", action="store_true", help="measure nothing; show the JSON's figures")
    return parser.parse_args(words)


def machine():
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=TESTS, capture_output=True,
                            text=True).stdout.strip()
    return {"cores": os.cpu_count(), "processor": names[0] if names else platform.machine(),
            "system": f"{platform.system()} {platform.release()}", "commit": commit,
            "date": time.strftime("%Y-%m-%d")}


def busy_percent(seconds=0.5):
    """Of all cores, while this does nothing: what others take of the machine. None: unknown."""
    def ticks():
        fields = [int(field) for field in _lines("/proc/stat")[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    if not os.path.exists("/proc/stat"):
        return None
    (before, idle_before), _, (after, idle_after) = ticks(), time.sleep(seconds), ticks()
    return round(100 * (1 - (idle_after - idle_before) / max(1, after - before)))


def _lines(path):
    return pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else []


def measure(arguments):
    """The figures of all parts, written after each place; a place that fails ends no other."""
    extent = parts.Extent(rounds=arguments.rounds or (1 if arguments.quick else 6),
                          seconds=0.01 if arguments.quick else 0.05, quick=arguments.quick)
    missing = {system.name: system.missing() for system in ALL if system.missing()}
    made = [part for name in arguments.only for part in
            parts.without_missing(parts.PARTS[name](extent), missing)]
    clock, begin = Clock(), time.monotonic()
    result = {"schema": SCHEMA, "machine": machine(), "busy_percent": [], "rounds": extent.rounds,
              "command": " ".join(["tests/bench/run", *sys.argv[1:]]),
              "left_out": list(missing.values()), "found": []}
    for reason in missing.values():
        clock.say(f"left out: {reason}")
    for number, part in enumerate(made):
        clock.planned = sum(one.seconds() for one in made[number:])
        try:
            result["busy_percent"].append(busy_of_others(clock))
            take_part(part, clock, result["left_out"])
            done = [part]
        except KeyboardInterrupt:
            result["left_out"].append(f"{part.title} and what comes after it: interrupted")
            done = made[number:]
        for one in done:
            one.miss(lost="interrupted")
            result["found"] += one.findings()
        result |= {"seconds": round(time.monotonic() - begin),
                   "targets": targets.results(result["found"])}
        write(result, arguments.json)
        if done != [part]:
            break
    return result


def busy_of_others(clock):
    busy = busy_percent()
    if (busy or 0) > BUSY_PERCENT:
        clock.say(f"others take {busy} % of this machine: expect wide spreads")
    return busy


def take_part(part, clock, left_out):
    try:
        part.take(clock, left_out)
        return
    except NotAllowed as error:
        reason = str(error)
        part.miss(left_out=reason)
    except Exception as error:  # A place that does not come up: the others are measured.
        reason = reason_of(error)
        part.miss(lost=reason)
    left_out.append(f"{part.title}: {reason}")
    clock.say(f"left out: {left_out[-1]}")


def write(result, path):
    """Whole or not at all: whoever ends this meanwhile finds the figures of before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.part")
    aside.write_text(json.dumps(result, indent=1))
    aside.replace(path)


def show(result, folder):
    text = tables.everything(result)
    print(text)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        from bench import plots
        drawn = plots.draw(result["found"], folder)
    except ImportError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        drawn = []
    pictures = "".join(f"\n![{path.stem}]({path.name})\n" for path in drawn)
    (folder / "results.md").write_text(f"# Figures of one run\n\n{text}{pictures}")


def main(words):
    arguments = arguments_of(words)
    if arguments.show:
        result = read(arguments.json)
        result["targets"] = targets.results(result["found"])
    else:
        check_built()
        result = measure(arguments)
    show(result, arguments.keep or arguments.json.parent / "bench")
    return 1 if not result["found"] or ours_lost(result["found"]) else 0


def read(path):
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        sys.exit(f"{path} is not there: measure first (tests/bench/run), or name another file by "
                 "--json")
    except ValueError as error:
        sys.exit(f"{path} is not what this wrote ({error}): measure again (tests/bench/run)")


def check_built():
    if not os.environ.get("MLXCOMM_BUILD"):
        sys.exit("MLXCOMM_BUILD is not set: use tests/bench/run, which builds what is measured and "
                 "sets it")
    if OURS_CPP.missing():
        sys.exit(f"{OURS_CPP.missing()} in $MLXCOMM_BUILD: use tests/bench/run, which builds it")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
