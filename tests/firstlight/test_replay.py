"""Files of first light, read and replayed: files of Macs that we do not have, and invalid ones."""

import copy
import json
import os
import pathlib
import subprocess
import sys

import pytest
from firstlight.recording import BadFile, control, happened, read, script

from conftest import PATIENCE, completed, find_test_program

FIRSTLIGHT = [sys.executable, "-m", "mlxcomm", "firstlight"]
REPLAY = pathlib.Path(__file__).with_name("replay")


def replay(path):
    return subprocess.run([sys.executable, REPLAY, path], capture_output=True, text=True, timeout=PATIENCE)


def event(at_ms, source, kind, rail=""):
    return {"at_us": at_ms * 1000, "source": source, "kind": kind, "rail": rail, "text": ""}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A real file, of a run in which nothing was tried."""
    path = tmp_path_factory.mktemp("firstlight") / "empty.json"
    subprocess.run([*FIRSTLIGHT, "--yes", "--steps", "power", "-o", path, "--socket",
                    path.parent / "none"], check=True, capture_output=True, timeout=PATIENCE)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture
def pulled(empty):
    """Like one of two Macs with a cable that carries both kinds of rails and was unplugged for two
    seconds."""
    document = copy.deepcopy(empty)
    document["rails"] = [{"rail": "en5 - en5", "transport": "tcp", "interface": "en5"},
                         {"rail": "rdma en5 - en5", "transport": "rdma", "interface": "en5"}]
    document["events"] = [
        event(1000, "person", "pull", "en5"), event(1001, "interface", "interface_down", "en5"),
        event(1002, "daemon", "rail_down", "rdma en5 - en5"), event(1003, "daemon", "rail_down", "en5 - en5"),
        event(1003, "daemon", "link_waits"), event(3000, "person", "plug", "en5"),
        event(3100, "interface", "interface_up", "en5"), event(3300, "daemon", "rail_up", "en5 - en5"),
        event(3400, "daemon", "rail_up", "rdma en5 - en5")]
    return document


def written(document, folder):
    path = folder / "file.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_pulled_cable_replays_to_the_same_events(pulled, tmp_path):
    done = replay(written(pulled, tmp_path))
    assert done.returncode == 0 and done.stdout.endswith("the same\n"), done.stdout + done.stderr


def test_a_neighbour_that_was_lost_meanwhile_is_lost_again(pulled, tmp_path):
    """How: the cable is unplugged for longer than the daemon waits, which is derived from the file."""
    pulled["events"][5:] = [event(6003, "daemon", "node_lost"), event(9000, "person", "plug", "en5"),
                            event(9300, "daemon", "node_up"), event(9300, "daemon", "rail_up", "en5 - en5"),
                            event(9400, "daemon", "rail_up", "rdma en5 - en5")]
    done = replay(written(pulled, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_another_course_of_events_is_reported(pulled, tmp_path):
    """Why: a replay that never differs checks nothing."""
    del pulled["events"][-1]
    done = replay(written(pulled, tmp_path))
    assert done.returncode == 1 and "DIFFERS  events of rdma en5 - en5" in done.stdout, done.stdout


def test_a_file_without_cables_and_devices_is_reported(empty, tmp_path):
    done = replay(written(empty, tmp_path))
    assert done.returncode == 3 and "nothing to replay" in done.stdout


def broken(document):
    """Possible faults of a file, and a word of the error for each."""
    def but(**changes):
        return json.dumps({**copy.deepcopy(document), **changes}).encode()

    device = {"name": "x\ncrash ibv_open_device", "active": True, "state": "", "gids": [], "trials": []}
    return [
        ("no JSON", b"{"), ("no JSON", b"\xff\xfe\x00"), ("no JSON", b"[" * 100_000), ("format", b"[]"),
        ("larger than", b" " * (9 << 20)),
        ("version", but(version=2)), ("format", but(format="other")), ("not iterable", but(rails=7)),
        ("no time", but(events=[{**event(1, "person", "plug", "en5"), "at_us": "soon"}])),
        ("no rail", but(events=[event(1, "daemon", "rail_up", "b")])),
        ("is not the name of a device", but(rdma={"limits": [], "devices": [device], "trouble": ""})),
    ]


def test_an_invalid_file_is_refused_with_the_reason(empty, tmp_path):
    """Why: the file may come from a stranger."""
    path = tmp_path / "file.json"
    for what, data in broken(empty):
        path.write_bytes(data)
        done = replay(path)
        assert done.returncode == 2 and what in done.stderr, (what, done.returncode, done.stderr)
        assert "Traceback" not in done.stderr
    with pytest.raises(BadFile):
        read(tmp_path / "none.json")


def test_the_simulator_refuses_an_invalid_script(tmp_path):
    program = find_test_program("sim", "mlxcomm_simulator")
    path = tmp_path / "script"
    for text in ("", "cable tcp", "cable wet reported\n", "pull 0 0 1\n", "cable tcp reported\npull 1 0 1\n",
                 "cable tcp reported\npull 0 0 99999999999999999999\n", "nonsense\n",
                 "cable tcp reported\n" * 17):
        path.write_text(text)
        done = subprocess.run([program, "--script", path], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 2 and done.stderr, (text, done.stdout)


def test_the_fake_replays_what_devices_did(empty):
    document = copy.deepcopy(empty)
    trial = {"text": "", "name": "pair-rc", "verdict": "worked"}
    document["rdma"]["devices"] = [
        {"name": "rdma_en5", "active": True, "state": "", "gids": ["fe80::1", "169.254.0.1"],
         "trials": [trial, {"name": "channel", "verdict": "hung", "text": ""},
                    {"name": "regions", "verdict": "worked", "text": "40 at once; then: x"}]},
        {"name": "rdma_en6", "active": False, "state": "", "gids": [], "trials": []}]
    assert control(document).splitlines() == [
        "device rdma_en5 fe80::1,169.254.0.1", "unreliable_only 0", "hang ibv_create_comp_channel",
        "regions 40", "device rdma_en6 ", "down rdma_en6"]


def test_a_script_has_the_cables_and_their_times(pulled):
    assert script(pulled).splitlines()[1:] == [
        "cable tcp reported", "cable rdma reported", "pull 0 0 2000000", "pull 1 0 2000000"]
    twice = [event(1, "daemon", "rail_down", "a"), event(2, "daemon", "rail_down", "a")]
    assert happened(twice) == {"a": ["rail_down"]}


def test_platform_trials_hold_here(tmp_path):
    """Why: the trials for a Mac must also be correct on the system where they were written."""
    path = tmp_path / "file.json"
    done = completed([*FIRSTLIGHT, "--yes", "--steps", "platform,loopback", "--large", "64K", "-o", path],
                     env={**os.environ, "TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    verdicts = {one["id"]: one["verdict"] for one in read(path)["assumptions"]}
    for name in ("shm-fixed-size", "full-backlog", "process-exit", "loopback-values"):
        assert verdicts[name] == "confirmed", (name, done.stdout)
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_that_is_there_is_not_written_over(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("mine")
    done = completed([*FIRSTLIGHT, "--yes", "--steps", "power", "-o", path])
    assert done.returncode == 1 and "already exists" in done.stderr and path.read_text() == "mine"
    done = subprocess.run([*FIRSTLIGHT, "--steps", "dance"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "dance" in done.stderr and "platform" in done.stderr
