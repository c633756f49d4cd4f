"""The run as a whole: one place after the other, with the results of each written at once. A
failing place ends no other; what was to be measured there is reported as missing."""

import json
import os
import pathlib
import platform
import subprocess
import sys
import time

from bench import parts, targets
from bench.rounds import Clock, reason_of
from bench.systems import ALL
from ground.namespaces import NotAllowed

SCHEMA = 1
BUSY_PERCENT = 5  # From here on it is worth a message.


def machine():
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line]
    here = pathlib.Path(__file__).parent
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True,
                            text=True).stdout.strip()
    return {"cores": os.cpu_count(), "processor": names[0] if names else platform.machine(),
            "system": f"{platform.system()} {platform.release()}", "commit": commit,
            "date": time.strftime("%Y-%m-%d")}


def busy_percent(seconds=0.5):
    """Over all cores, while this does nothing: the load of other programs. None: unknown."""
    def ticks():
        fields = [int(field) for field in _lines("/proc/stat")[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    if not os.path.exists("/proc/stat"):
        return None
    (before, idle_before), _, (after, idle_after) = ticks(), time.sleep(seconds), ticks()
    return round(100 * (1 - (idle_after - idle_before) / max(1, after - before)))


def _lines(path):
    return pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else []


def measure(names, extent, path):
    """The figures of these parts, as they are in the file at `path`."""
    missing = {system.name: system.missing() for system in ALL if system.missing()}
    made = [part for name in names for part in
            parts.without_missing(parts.PARTS[name](extent), missing)]
    clock, begin = Clock(), time.monotonic()
    result = {"schema": SCHEMA, "machine": machine(), "busy_percent": [], "rounds": extent.rounds,
              "command": " ".join(["tests/bench/run", *sys.argv[1:]]),
              "left_out": list(missing.values()), "found": []}
    for reason in missing.values():
        clock.say(f"left out: {reason}")
    rest = made
    while rest:
        clock.planned = sum(part.seconds() for part in rest)
        try:
            result["busy_percent"].append(busy_of_others(clock))
            take_part(rest[0], clock, result["left_out"])
            ended, rest = rest[:1], rest[1:]
        except KeyboardInterrupt:
            result["left_out"].append(f"{rest[0].title} and what comes after it: interrupted")
            ended, rest = rest, []
            for part in ended:
                part.miss(lost="interrupted")
        result["found"] += [entry for part in ended for entry in part.findings()]
        result |= {"seconds": round(time.monotonic() - begin),
                   "targets": targets.results(result["found"])}
        write(result, path)
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
    except Exception as error:  # This place does not come up: the others are measured.
        reason = reason_of(error)
        part.miss(lost=reason)
    left_out.append(f"{part.title}: {reason}")
    clock.say(f"left out: {left_out[-1]}")


def write(result, path):
    """Whole or not at all: after an interruption the file has the earlier figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.part")
    aside.write_text(json.dumps(result, indent=1))
    aside.replace(path)
