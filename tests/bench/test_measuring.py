"""The runner: every measurement ends, a failure affects no other figures, and tables show what was measured.
No figure is judged here."""

import contextlib
import json
import os
import pathlib
import sys

import pytest

from bench import figures, measuring, systems
from bench.places import Failed, Machine, end_of
from conftest import completed, find_test_program
from ground.namespaces import NotAllowed

RUNNER = pathlib.Path(measuring.__file__)
CPP, MPI, GLOO, LOOP = (system.name for system in (systems.CPP, systems.MPI, systems.GLOO, systems.LOOP))


@pytest.mark.parametrize("then", ["wait", "exit"])
def test_a_system_that_is_stuck_ends_with_all_it_has_started(then):
    """Why: mpirun inside nsenter outlived it, held its output open, and the benchmark waited forever.
    How: a shell that waits for a child, or leaves it; only the end of both closes the pipe."""
    stuck = Machine("here", ranks=1, daemons=1).start(0, ["sh", "-c", f"sleep 1000 & {then}"], {})
    with pytest.raises(Failed, match=r"no end in 0\.1 s"):
        end_of([stuck], patience=0.1)
    assert stuck.stdout.closed


def test_a_rank_that_fails_is_reported_though_others_wait_for_it():
    """Why: ranks were awaited in order, and the report only said that rank 0 did not end."""
    place = Machine("here", ranks=2, daemons=1)
    waits = place.start(0, ["sleep", "1000"], {})
    fails = place.start(1, ["sh", "-c", "echo no such device; exit 3"], {})
    with pytest.raises(Failed, match="ended with 3: no such device"):
        end_of([waits, fails])
    assert waits.returncode is not None


class Here:
    """A place that comes up, or raises."""

    def __init__(self, name, error=None):
        self.name, self.error = name, error

    @contextlib.contextmanager
    def up(self):
        if self.error:
            raise self.error
        yield


class Turns(systems.System):
    """A system whose turns give these figures, or raise these errors."""

    def __init__(self, name, *turns):
        self.name, self.turns = name, list(turns)

    def missing(self):
        return ""

    def take(self, _):
        turn = self.turns.pop(0)
        if isinstance(turn, BaseException):
            raise turn
        return {"8": turn}


def part(place, *of):
    return measuring.Part("one_node", place, list(of), Turns.take)


def measured(tmp_path, *made):
    """(whether nothing of ours failed, the figures of each part, what was left out)"""
    is_good = measuring.measure(list(made), 3, tmp_path / "bench.json")
    result = json.loads((tmp_path / "bench.json").read_text())
    return is_good, [one["figures"] for one in result["parts"]], result["left_out"]


def test_a_system_that_fails_keeps_its_rounds_and_costs_no_other_any(tmp_path):
    fails, goes_on = Turns(MPI, 2, TypeError("gone")), Turns(CPP, 1, 1, 1)
    is_good, found, left_out = measured(tmp_path, part(Here("here"), fails, goes_on))
    assert found == [{MPI: {"8": [2]}, CPP: {"8": [1, 1, 1]}}]
    assert left_out == [f"one_node, here: {MPI}, round 2 of 3: TypeError: gone"]
    assert is_good  # A peer's failure is not ours.
    assert not measured(tmp_path, part(Here("here"), Turns(CPP, Failed("hung"))))[0]


def test_a_place_that_does_not_come_up_ends_no_other(tmp_path):
    def ours():
        return Turns(CPP, 1, 1, 1)

    broken = part(Here("broken", AssertionError("gave up")), ours())
    forbidden = part(Here("forbidden", NotAllowed("no root")), ours())
    last = part(Here("last"), ours())
    is_good, found, left_out = measured(tmp_path, broken, forbidden, last)
    assert found == [{}, {}, {CPP: {"8": [1, 1, 1]}}] and not is_good
    assert left_out == ["one_node, broken: AssertionError: gave up", "one_node, forbidden: no root"]
    assert measured(tmp_path, forbidden)[0]  # What a machine does not allow is not a failure.


def test_a_table_has_ratios_within_rounds_to_the_best_peer():
    # Both slow down together in the second round; the ratio does not notice. Gloo failed in the third.
    found = {CPP: {"8": [10, 30, 11]}, MPI: {"8": [20, 60, 22]}, GLOO: {"8": [100, 15]}, LOOP: {}}
    machine = dict.fromkeys(["cores", "processor", "system", "load", "commit", "date"], "-")
    result = {"machine": machine, "command": "tests/bench/run", "rounds": 3,
              "left_out": ["Gloo: gloo_all_reduce was not built"],
              "parts": [{"part": "one_node", "place": figures.DRAWN, "figures": found}]}
    lines = figures.tables(result).splitlines()
    rows = [line.split(" | ")[:2] for line in lines if line.startswith("| ")]
    assert [f"| {CPP}", "11 us (2x) |"] in rows and [f"| {MPI}", "22 us |"] in rows, rows
    assert lines[-1] == "- Gloo: gloo_all_reduce was not built"


@pytest.mark.slow
@pytest.mark.xdist_group("bench")
def test_every_part_measures_ours(tmp_path):
    """The benchmark itself, at its smallest. Peers may fail: MLX's ring fails if cores are scarce."""
    if not os.path.exists(find_test_program("bench", "peers/mlxcomm_all_reduce")):
        pytest.skip("the benchmark's programs were not built")
    done = completed([sys.executable, RUNNER, "--quick", "--rounds", "1", "--keep", tmp_path])
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json", "results.md", "one-node.svg"}
    assert done.stdout.strip() in (tmp_path / "results.md").read_text()
    run = json.loads((tmp_path / "bench.json").read_text())
    for one in run["parts"]:
        where = f"{one['part']}, {one['place']}"
        if any(reason.startswith(f"{where}: ") and "round" not in reason for reason in run["left_out"]):
            continue  # Network namespaces are not allowed here.
        is_program = one["part"] in {name for name, _ in measuring.programs(quick=True)}
        ours = {systems.MLX.name} if is_program else set(systems.PEERS)
        for name in ours:
            rounds = [times for column, times in one["figures"][name].items() if ", " not in column]
            assert rounds and all(len(times) == 1 and times[0] > 0 for times in rounds), (where, name)
    assert "| mlxcomm, C++ |" in done.stdout and "1 MiB" in done.stdout
