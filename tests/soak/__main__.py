"""The command line of tests/soak/run: real daemons, jobs and faults for minutes or hours, from one seed."""

import argparse
import contextlib
import pathlib
import random
import shutil
import signal
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from lab.namespaces import NotAllowed  # noqa: E402
from soak import report, rules  # noqa: E402
from soak.engine import Soak  # noqa: E402
from soak.ground import LabGround, LoopbackGround  # noqa: E402
from soak.schedule import ROUND_S, make_round, make_world  # noqa: E402
from soak.times import now  # noqa: E402

BUILD = TESTS.parent / "build" / "soak"
PLANTED = ("wrong-byte", "hang", "leak")
MINUTES = 10.0
TOLD_EVERY_S = 30.0


class Progress:
    """One line that changes on a terminal; elsewhere a line now and then."""

    def __init__(self):
        self.told = now()

    def say(self, text):
        if sys.stdout.isatty():
            sys.stdout.write("\r\x1b[K")
        print(text, flush=True)

    def show(self, text):
        if sys.stdout.isatty():
            sys.stdout.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
            sys.stdout.flush()
        elif now() - self.told > TOLD_EVERY_S:
            self.told = now()
            print(text, flush=True)


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="tests/soak/run", description=__doc__)
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--hours", type=float, help="how long")
    how_long.add_argument("--minutes", type=float, help=f"how long ({MINUTES:g})")
    parser.add_argument("--seed", type=int, help="which jobs and faults; a new one where none is given")
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON, and progress on stderr"
    )
    parser.add_argument("--junit", type=pathlib.Path, metavar="FILE", help="a test case for each rule")
    parser.add_argument(
        "--folder", type=pathlib.Path, help="of the logs, in place of an earlier run's (build/soak/SEED)"
    )
    parser.add_argument("--loopback", action="store_true", help="no network namespaces, so no cables to pull")
    parser.add_argument(
        "--plan", action="store_true", help="print what the seed makes of the first round, and end"
    )
    parser.add_argument(
        "--planted",
        choices=PLANTED,
        default="",
        metavar="|".join(PLANTED),
        help="makes something go wrong: the soak has to find it",
    )
    parser.add_argument("--round-seconds", type=float, default=ROUND_S, help=argparse.SUPPRESS)
    parser.add_argument("--silence-seconds", type=float, default=rules.SILENCE_S, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def make_ground(options, seed, folder, say):
    if not options.loopback:
        world = make_world(seed)
        try:
            return world, LabGround(folder, world)
        except NotAllowed as error:
            say(f"no network namespaces, so daemons run on loopback and no cable is pulled: {error}")
    world = make_world(seed, has_cables=False)
    return world, LoopbackGround(folder, world)


def interrupted(*_):
    raise KeyboardInterrupt


def carry_out(options, seed, folder):
    progress = Progress()
    world, ground = make_ground(options, seed, folder, progress.say)
    progress.say(f"seed {seed}: {world.shape} of {world.nodes} nodes, logs in {folder}")
    soak = Soak(seed, world, ground, options.planted, options.silence_seconds, progress.say, progress.show)
    begin = now()
    seconds = options.hours * 3600 if options.hours else (options.minutes or MINUTES) * 60
    try:
        soak.start()
        number = 0
        while now() < begin + seconds:
            soak.round(number, options.round_seconds)
            number += 1
    except KeyboardInterrupt:
        progress.say("interrupted: what has been seen so far")
    finally:
        soak.end()
    return soak, report.as_json(soak, now() - begin)


def main(arguments=None):
    options = options_of(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    if options.plan:
        world = make_world(seed, has_cables=not options.loopback)
        first = make_round(seed, 0, world, options.round_seconds)
        print(world, *first.jobs, *first.faults, sep="\n")
        return 0
    folder = (options.folder or BUILD / str(seed)).resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / "soak.log").exists():
        sys.exit(f"{folder} holds something, and no logs of an earlier soak: name another --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, interrupted)
    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        soak, found = carry_out(options, seed, folder)
        report.write_json(found, folder / "result.json")
        report.draw(soak, folder / "resources.svg")
        if options.junit:
            report.write_junit(found, options.junit)
        print("\n" + "\n".join(report.table(found)))
        if soak.complaints:
            print(
                f"\n{len(soak.complaints)} failures; the same jobs and faults again: "
                f"tests/soak/run --seed {seed}"
            )
        print(f"picture, logs and result.json: {folder}")
    if options.json:
        print((folder / "result.json").read_text(encoding="utf-8"), end="")
    return 1 if soak.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
