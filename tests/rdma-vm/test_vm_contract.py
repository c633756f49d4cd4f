"""The contract of every kind of rail, over soft-RoCE's queue pairs: unreliable ones within Apple's
limits, and reliable ones. The same over TCP and over the fake verbs are unit tests."""

import os
import re
import subprocess

import pytest

from conftest import PATIENCE, find_test_program

DEVICES = "rxe0=10.77.0.1,rxe1=10.77.0.2"


@pytest.mark.parametrize("service", ["unreliable", "reliable"])
def test_rails_hold_the_contract(service):
    place = ["unreliable", "reliable"].index(service)
    program = find_test_program("unit", "daemon_rdma_verbs_tests")
    done = subprocess.run([program, f"--gtest_filter=Machine/*/{place}"], timeout=PATIENCE, text=True,
                          capture_output=True, env={**os.environ, "MLXCOMM_TEST_RDMA": DEVICES})
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"\[  PASSED  \] (\d+) tests", done.stdout).group(1)) > 1
