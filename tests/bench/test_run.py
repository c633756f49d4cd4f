"""The benchmark itself, at its smallest: every part runs, with the installed peers, and its output
is what README.md describes. No figure is judged here."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from bench.findings import has_figures
from bench.parts import PAUSE_SECONDS
from conftest import PATIENCE, find_test_program, only_in_all

BENCH = pathlib.Path(__file__).parent
# One worker runs it, once, for all tests that use its results.
pytestmark = pytest.mark.xdist_group("bench")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(what it said, the JSON, the folder of results)"""
    if not os.path.exists(find_test_program("bench", "peers/mlxcomm_all_reduce")):
        pytest.skip("the benchmark's programs were not built")
    folder = tmp_path_factory.mktemp("bench")
    done = subprocess.run(
        [sys.executable, str(BENCH), "--quick", "--json", folder / "bench.json", "--keep", folder],
        capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads((folder / "bench.json").read_text()), folder


@only_in_all
def test_every_part_finds_something(run):
    _, result, _ = run
    assert result["schema"] == 1 and result["rounds"] == 1
    parts = {entry["part"] for entry in result["found"] if has_figures(entry)}
    assert {"one_node", "two_nodes", "paused", "overlap", "start", "cost"} <= parts
    assert "shaped" in parts or any("shaped" in reason for reason in result["left_out"])


@only_in_all
def test_our_own_are_never_left_out(run):
    _, result, _ = run
    assert not [reason for reason in result["left_out"] if "mlxcomm" in reason.split(":")[0]]
    parts_of = {"one daemon, 2 ranks": {"one_node", "paused"}, "one daemon, 4 ranks": {"one_node"},
                "two daemons, loopback": {"two_nodes", "paused"}}
    for place, parts in parts_of.items():
        for system in ("mlxcomm, C++", "mlxcomm, MLX", "MLX ring"):
            curves = [entry for entry in result["found"] if entry["kind"] == "curve" and
                      (entry["place"], entry["system"]) == (place, system)]
            assert sorted(curve["part"] for curve in curves) == sorted(parts), (place, system)
            assert all(has_figures(curve) for curve in curves)
            assert all(len(times) == 1 and times[0] > 0
                       for curve in curves for times in curve["median_us"].values())


@only_in_all
def test_limits_are_measured_where_they_say_something(run):
    _, result, _ = run
    limits = {(entry["place"], entry["system"]): list(entry["median_us"]) for entry in result["found"]
              if entry["kind"] == "curve" and has_figures(entry) and
              entry["system"] in ("plain loop", "plain exchange", "MLX alone")}
    assert limits["one daemon, 2 ranks", "MLX alone"] == ["8"]
    assert limits["one daemon, 2 ranks", "plain loop"] == ["1048576"]
    assert limits["two daemons, loopback", "plain exchange"] == ["1048576"]
    assert not [target for target in result["targets"] if "plain exchange" in target["name"]]


@only_in_all
def test_there_is_a_pause_before_each_operation_of_that_part(run):
    """Why: otherwise the time to agree on it would be a part of the pause, or all of it, as on a
    busy machine."""
    _, result, _ = run
    curves = [entry for entry in result["found"] if entry["part"] == "paused" and has_figures(entry)]
    assert len(curves) >= 6
    for curve in curves:
        for pauses in curve["pause_seconds"].values():
            assert len(pauses) == 1 and pauses[0] >= PAUSE_SECONDS, curve["system"]


@only_in_all
def test_a_single_round_gives_no_verdict(run):
    _, result, _ = run
    once = [target for target in result["targets"] if target["rounds"] == 1]
    assert once and {target["verdict"] for target in once} == {"void"}


@only_in_all
def test_says_what_it_does_and_how_long_it_takes(run):
    done, _, folder = run
    assert "left] one node, one daemon, 2 ranks: round 1 of 1: mlxcomm, C++" in done.stderr
    assert "| 1 MiB |" in done.stdout and "What is to be reached" in done.stdout
    assert done.stdout.strip() in (folder / "results.md").read_text()


@only_in_all
def test_shows_again_what_was_measured(run):
    done, _, folder = run
    again = subprocess.run(
        [sys.executable, str(BENCH), "--show", "--json", folder / "bench.json", "--keep", folder],
        capture_output=True, text=True, timeout=PATIENCE)
    assert again.returncode == 0 and again.stdout == done.stdout


@pytest.mark.parametrize("words, said", [
    ([], "MLXCOMM_BUILD is not set: use tests/bench/run"),
    (["--show", "--json", "none.json"], "none.json is not there: measure first"),
    (["--show", "--json", "half.json"], "half.json is not what this wrote")])
def test_says_in_a_line_what_is_lacking(tmp_path, words, said):
    """Why: it was a traceback that named a key."""
    (tmp_path / "half.json").write_text('{"schema": 1, ')
    environment = {name: value for name, value in os.environ.items() if name != "MLXCOMM_BUILD"}
    done = subprocess.run([sys.executable, str(BENCH), *words], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1
