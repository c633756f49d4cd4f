"""First light over the fake verbs confirms or refutes assumptions about devices, and its file replays."""

import subprocess
import sys

import pytest
from firstlight.recording import read
from firstlight.test_replay import FIRSTLIGHT, REPLAY

from conftest import PATIENCE, completed
from operations.test_rdma import fake_verbs, start  # noqa: F401


def first_light(folder, *words):
    output = folder / "file.json"
    done = completed([*FIRSTLIGHT, "--yes", "-o", output, *words])
    assert done.returncode == 0, done.stderr
    document = read(output)
    done = subprocess.run([sys.executable, REPLAY, output], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return {one["id"]: one["verdict"] for one in document["assumptions"] if one["step"] in words[-1]}


def config(fake, folder, limits):
    path = folder / "rdma.textproto"
    path.write_text(f'rdma {{ enabled: true library: "{fake.library}" limits: {limits} }}\n')
    return path


# As strict as Apple's devices are reported to be; like Linux's; one whose driver hangs and refuses.
@pytest.mark.parametrize("limits, wanted, refuted", [
    ("APPLE", "", set()),
    ("LINUX", "unreliable_only 0\n", {"rdma-no-rc", "rdma-access-needed", "rdma-receives-before",
                                      "rdma-message-equal"}),
    pytest.param("APPLE completion_events: false", "hang ibv_create_comp_channel\n", {"rdma-channel"},
                 marks=pytest.mark.slow)])
def test_devices_are_tried_and_replay(fake_verbs, tmp_path, limits, wanted, refuted):  # noqa: F811
    fake_verbs.write("device rdma_lo fe80::1,127.0.0.1\n" + wanted)
    reported = first_light(tmp_path, "--config", config(fake_verbs, tmp_path, limits), "--socket",
                       tmp_path / "none", "--steps", "rdma")
    assert "not tried" not in reported.values(), reported
    assert {name for name, verdict in reported.items() if verdict == "refuted"} >= refuted
    if not wanted:
        assert set(reported.values()) == {"confirmed"}, reported


def test_a_rail_beside_the_connection_is_seen(cluster, fake_verbs, tmp_path):  # noqa: F811
    c = start(cluster, fake_verbs, 2, "APPLE")
    reported = first_light(tmp_path, "--socket", c.socket(0), "--steps", "rdma,neighbour")
    assert reported["neighbour-rdma"] == reported["rdma-message"] == "confirmed", reported
