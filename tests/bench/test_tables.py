"""What is printed and kept says what was measured, without paths of the machine."""
import pathlib

from bench.findings import Findings
from bench.tables import in_repository, in_short, overlap


def test_a_reason_names_programs_without_their_folders():
    said = ("pair, 1gbit: no end in 180 s: nsenter --wd=/ ip netns exec node-0 mpirun --host 10.99.0.1:1 "
            "--mca oob_tcp_if_include 10.99.0.0/24 /a/build/peers/openmpi_all_reduce /tmp/run-152 0.06")
    assert in_short(said) == (
        "pair, 1gbit: no end in 180 s: nsenter --wd=/ ip netns exec node-0 mpirun --host 10.99.0.1:1 "
        "--mca oob_tcp_if_include 10.99.0.0/24 openmpi_all_reduce run-152 0.06")
    said = "ended with 1: /a/gloo_all_reduce: [./gloo/tcp/pair.cc:598] Connection closed by peer"
    assert in_short(said) == said.replace("/a/", "")


def test_a_command_names_files_as_from_the_repository():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert in_repository(f"tests/bench/run --keep {root}/tests/bench") == "tests/bench/run --keep tests/bench"
    assert in_repository("tests/bench/run --json=/a/b.json --keep /a/c") == (
        "tests/bench/run --json=b.json --keep c")


def test_a_step_and_what_it_loses_are_told_within_rounds():
    """Why: a difference of medians mixes two rounds, and the machine may be slower in one."""
    steps = {"none": [1, 2, 3], "mlxcomm": [1.5, 2.5, 3.5], "ring": []}
    found = [{"kind": "step", "part": "overlap", "place": "here", "ranks": 2, "model": "demo",
              "system": system, "step_seconds": seconds} for system, seconds in steps.items()]
    text = overlap(Findings(found))
    assert "crossings" not in text
    found[1]["crossings"] = {"each gradient by itself": 12, "mlxcomm's average_gradients": 2}
    assert "| demo | each gradient by itself | 12 | 2.16 |" in overlap(Findings(found))
    assert "| demo | mlxcomm | 2500.0 | 500.0, 500.0 to 500.0 |" in text and "ring" not in text
