"""What is marked `in_turn` runs sooner or later: each case with some commit, all where pytest runs by
itself."""

import os
import pathlib
import subprocess
import sys

CASES = pathlib.Path(__file__).resolve().parents[1] / "faults" / "test_rdma_driver.py"


def collected(**environment):
    kept = {name: value for name, value in os.environ.items()
            if name not in ("MLXCOMM_TESTS_TIER", "MLXCOMM_COMMIT", "PYTEST_ADDOPTS")}
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run([*pytest, "--collect-only", "-q", CASES], capture_output=True, text=True,
                          env={**kept, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_every_case_has_its_turn_and_some_run_each_time():
    all_there_are, short = collected(), collected(MLXCOMM_TESTS_TIER="short")
    turns = [collected(MLXCOMM_TESTS_TIER="all", MLXCOMM_COMMIT=f"{commit:08x}") for commit in range(3)]
    assert set().union(*turns) == all_there_are
    assert set.intersection(*turns) == short != set()
    assert all(turn > short for turn in turns)
