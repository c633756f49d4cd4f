"""What the virtual machine's pytest reports about its tests, tests/rdma-vm/in_machine.py."""

import json
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parents[1] / "rdma-vm"
TESTS = """
def test_fails():
    assert False

def test_passes():
    pass
"""


def test_every_test_is_reported_with_its_outcome(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    reports = tmp_path / "reports"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "in_machine", "-p", "no:cacheprovider",
         "--rootdir", tmp_path, tmp_path / "test_it.py"],
        capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(FOLDER), "MLXCOMM_RDMA_VM_REPORTS": str(reports)})
    assert done.returncode == 1, done.stdout + done.stderr
    told = {}
    for line in map(json.loads, reports.read_text().splitlines()):
        if "finished" in line:
            told.setdefault(line["finished"], []).append("finished")
        elif line["report"]["when"] == "call":
            told.setdefault(line["report"]["nodeid"], []).append(line["report"]["outcome"])
    assert told == {"test_it.py::test_fails": ["failed", "finished"],
                    "test_it.py::test_passes": ["passed", "finished"]}
