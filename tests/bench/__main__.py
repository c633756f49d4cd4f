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
from bench.rounds import Clock  # noqa: E402
from bench.systems import ALL  # noqa: E402
from lab.namespaces import NotAllowed  # noqa: E402

SCHEMA = 1
BUSY_PERCENT = 5  # From here on it is worth a word.


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, one shaped cable; no verdicts")
    parser.add_argument("--only", nargs="+", choices=parts.PARTS, metavar="PART",
                        help=", ".join(parts.PARTS), default=list(parts.PARTS))
    parser.add_argument("--rounds", type=int, help="6, with --quick 1; shaped cables and cost "
                                                   "have 3 at most")
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
    """The figures of all parts; of those before it where Ctrl-C ends one."""
    extent = parts.Extent(rounds=arguments.rounds or (1 if arguments.quick else 6),
                          seconds=0.01 if arguments.quick else 0.05, quick=arguments.quick)
    missing = {system.name: system.missing() for system in ALL if system.missing()}
    left_out = list(missing.values())
    made = [part for name in arguments.only for part in
            parts.without_missing(parts.PARTS[name](extent), missing)]
    clock, found, busy, begin = Clock(), [], [], time.monotonic()
    for reason in left_out:
        clock.say(f"left out: {reason}")
    for part in made:
        clock.plan(part.seconds())
    for part in made:
        busy.append(busy_percent())
        if (busy[-1] or 0) > BUSY_PERCENT:
            clock.say(f"others take {busy[-1]} % of this machine: expect wide spreads")
        try:
            found += part.take(clock, left_out)
        except (NotAllowed, AssertionError, RuntimeError, OSError, TypeError) as error:
            # A place that does not come up, or a daemon that has died: the others are measured.
            left_out.append(f"{part.title}: {error}")
            clock.say(f"left out: {left_out[-1]}")
            clock.done(part.seconds())
        except KeyboardInterrupt:
            left_out.append(f"{part.title} and what comes after it: interrupted")
            break
    return {"schema": SCHEMA, "machine": machine(), "busy_percent": busy, "rounds": extent.rounds,
            "command": " ".join(["tests/bench/run", *sys.argv[1:]]),
            "seconds": round(time.monotonic() - begin), "left_out": left_out, "found": found,
            "targets": targets.results(found)}


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
        if not arguments.json.exists():
            sys.exit(f"{arguments.json} is not there: measure first (tests/bench/run), or name "
                     "another file by --json")
        result = json.loads(arguments.json.read_text())
        result["targets"] = targets.results(result["found"])
    else:
        result = measure(arguments)
        arguments.json.write_text(json.dumps(result, indent=1))
    show(result, arguments.keep or arguments.json.parent / "bench")
    return 1 if not result["found"] or lacks_ours(result) else 0


def lacks_ours(result):
    """Something of ours failed. Peers may."""
    return any(", mlxcomm" in reason for reason in result["left_out"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
