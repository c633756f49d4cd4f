"""Measures all of it (README.md): python tests/bench [--quick] [--only PART...] [--rounds N]."""

import argparse
import json
import os
import pathlib
import shutil
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:1] = [str(TESTS)]  # Instead of this folder: its files are `bench`'s.

from bench import measuring, parts, plots, tables, targets  # noqa: E402
from bench.findings import has_figures, ours_lost  # noqa: E402
from bench.systems import OURS_CPP  # noqa: E402


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes, one shaped cable; no verdicts")
    parser.add_argument("--only", nargs="+", choices=parts.PARTS, metavar="PART",
                        help=", ".join(parts.PARTS), default=list(parts.PARTS))
    parser.add_argument("--rounds", type=int, help="5, with --quick 1; four ranks, pauses, shaped "
                                                   "cables and cost have 3 at most")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go",
                        default=TESTS.parent / "build/bench.json")
    parser.add_argument("--keep", type=pathlib.Path,
                        help="a folder that gets results.md and the one picture that the README "
                             "shows; the others go into bench/ beside the figures, as without this")
    parser.add_argument("--scheduling", choices=["auto", "few_cores", "many_cores"],
                        help="how mlxcomm's threads share the cores, in all parts; else as the machine has "
                             "few or many, and one_node has rows for both")
    parser.add_argument("--show", action="store_true", help="measure nothing; show the JSON's figures")
    return parser.parse_args(words)


def extent_of(arguments):
    return parts.Extent(rounds=arguments.rounds or (1 if arguments.quick else 5),
                        seconds=0.01 if arguments.quick else 0.05, quick=arguments.quick)


def show(result, pictures, kept):
    """Prints the text, draws into the folder of pictures, and writes the text there; with `kept`
    into that folder instead, and beside it the one picture that the README shows."""
    text = tables.everything(result)
    print(text)
    drawn = draw(result["found"], pictures)
    folder = kept or pictures
    folder.mkdir(parents=True, exist_ok=True)
    here, elsewhere = drawn, []
    if not folder.samefile(pictures):
        elsewhere = [path for path in drawn if path.name != plots.SHOWN]
        here = [pathlib.Path(shutil.copy(path, folder)) for path in drawn if path not in elsewhere]
    results = folder / "results.md"
    results.write_text(f"# Figures of one run\n\n{text}{tables.pictures(here, elsewhere)}")
    print("written:", *[results, *here, *elsewhere], sep="\n  ", file=sys.stderr)


def draw(found, folder):
    """The pictures' files; none where there is no matplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return plots.draw(found, folder)
    except ImportError as error:
        print(f"no pictures: {error}", file=sys.stderr)
        return []


def main(words):
    arguments = arguments_of(words)
    if arguments.show:
        result = read(arguments.json)
        result["targets"] = targets.results(result["found"])
    else:
        check_built()
        if arguments.scheduling:
            os.environ["MLXCOMM_SCHEDULING"] = arguments.scheduling  # Of daemons; clients follow.
        result = measuring.measure(arguments.only, extent_of(arguments), arguments.json)
    show(result, arguments.json.parent / "bench", arguments.keep)
    found = result["found"]
    return 1 if ours_lost(found) or not any(map(has_figures, found)) else 0


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
