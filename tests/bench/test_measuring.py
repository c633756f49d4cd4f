"""The runner measures each part, and tables show what was measured. No figure is judged here."""

import json
import os
import pathlib
import sys

import pytest

from bench import figures, measuring, systems
from conftest import completed, find_test_program

RUNNER = pathlib.Path(measuring.__file__)
CPP, MPI, GLOO, LOOP = (system.name for system in (systems.CPP, systems.MPI, systems.GLOO, systems.LOOP))


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
