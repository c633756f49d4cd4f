"""The command line of tests/soak/run: real daemons, jobs and faults for minutes or hours, from one seed."""

import argparse
import functools
import pathlib
import random
import shutil
import signal
import sys
from xml.etree import ElementTree

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from ground.cluster import now  # noqa: E402
from ground.namespaces import NotAllowed  # noqa: E402
from soak.rules import RULES  # noqa: E402
from soak.soaking import Soak  # noqa: E402

BUILD = TESTS.parent / "build" / "soak"
ROUND_S = 20.0


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="tests/soak/run", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, help="which jobs and faults; a new one where none is given")
    parser.add_argument("--junit", type=pathlib.Path, metavar="FILE", help="a test case for each rule")
    return parser.parse_args(arguments)


def write_junit(path, seed, failures, seconds, skipped=""):
    suite = ElementTree.Element("testsuite", name="soak", tests=str(len(RULES)), time=f"{seconds:.1f}",
                                failures=str(len({rule for rule, _ in failures})))
    for rule, expected in RULES.items():
        case = ElementTree.SubElement(suite, "testcase", classname="soak", name=rule, time="0")
        texts = [text for broken, text in failures if broken == rule]
        if texts:
            failure = ElementTree.SubElement(case, "failure", message=f"seed {seed}: {texts[0]}")
            failure.text = "\n".join([f"expected: {expected}", *texts])
        elif skipped:
            ElementTree.SubElement(case, "skipped", message=skipped)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main(arguments=None):
    options = options_of(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder, began = BUILD / str(seed), now()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say = functools.partial(print, flush=True)
    try:
        soak = Soak(seed, folder, say)
    except NotAllowed as error:
        say(f"no soak: {error}")
        if options.junit:
            write_junit(options.junit, seed, [], 0, skipped=str(error))
        return 0
    say(f"seed {seed}: {soak.cluster.wiring.description}, logs in {folder}")
    try:
        soak.cluster.start()
        number = 0
        while now() < began + options.minutes * 60:
            soak.round(number, min(ROUND_S, options.minutes * 60))
            number += 1
            minutes = (now() - began) / 60
            say(f"{minutes:6.1f} min, round {number}: {soak.counts()}, {len(soak.failures)} failures")
    except KeyboardInterrupt:
        say("interrupted: what has been seen so far")
    finally:
        soak.end()
    if options.junit:
        write_junit(options.junit, seed, soak.failures, now() - began)
    result = f"FAILED, {len(soak.failures)} failures" if soak.failures else "fine"
    say(f"{result}: seed {seed}, {(now() - began) / 60:.1f} min, {soak.counts()}; "
        f"the same jobs and faults again: tests/soak/run --seed {seed}")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
