"""The service files work with the daemon as it is."""

import pathlib
import plistlib
import shutil
import subprocess

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "systemd-launchd"


def test_launch_daemon_starts_the_daemon_in_the_foreground():
    with open(FOLDER / "com.mlxcomm.mlxcommd.plist", "rb") as file:
        plist = plistlib.load(file)
    assert plist["Label"] == "com.mlxcomm.mlxcommd"
    assert plist["ProgramArguments"][1:] == ["--config", "/etc/mlxcommd/mlxcommd.textproto"]
    assert plist["KeepAlive"] and plist["RunAtLoad"]


def test_systemd_accepts_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (FOLDER / "mlxcommd.service").read_text()
    assert "--config /etc/mlxcommd/mlxcommd.textproto" in unit
    # verify insists on a program that is there.
    copy = tmp_path / "mlxcommd.service"
    copy.write_text(unit.replace("/usr/local/bin/mlxcommd", shutil.which("true")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "mlxcommd.service" not in done.stderr, done.stderr
