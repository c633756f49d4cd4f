"""The files in config/ are what the daemon takes, and the examples do what they say."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import PATIENCE, Process, find_program, free_port, wait_until

CONFIG = pathlib.Path(__file__).parents[2] / "config"
FILES = sorted(CONFIG.rglob("*.textproto"))


def check(path):
    return subprocess.run([find_program("mlxcommd"), "--config", str(path), "--check-config"],
                          capture_output=True, text=True, timeout=PATIENCE)


def here(text, folder, port):
    """The example with this machine's places instead of the two Macs' ones."""
    key = folder / "key"
    if not key.exists():
        key.write_text(os.urandom(32).hex() + "\n")
        key.chmod(0o600)
    name = re.search(r'node_name: "([^"]+)"', text).group(1)
    text = text.replace("/etc/mlxcommd/key", str(key)).replace("10.0.0.1:7470", f"127.0.0.1:{port}")
    return name, text + f'\nstate_directory: "{folder}/{name}"\nsocket_path: "{folder}/{name}.sock"\n'


def test_annotated_file_is_fine():
    done = check(CONFIG / "mlxcommd.textproto")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", [f for f in FILES if "examples" in f.parts],
                         ids=lambda path: path.name)
def test_example_is_fine_once_its_key_is_there(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/etc/mlxcommd/key", str(tmp_path / "no-key")))
    done = check(copy)
    assert done.returncode == 2
    assert f"{tmp_path}/no-key" in done.stderr and "openssl rand -hex 32" in done.stderr
    _, text = here(path.read_text(), tmp_path, 7470)
    copy.write_text(text)
    done = check(copy)
    assert (done.returncode, done.stderr) == (0, "")


def test_two_node_ring_links_its_two_nodes(tmp_path):
    port = free_port()
    daemons = []
    try:
        for path in sorted((CONFIG / "examples/two-node-ring").glob("*.textproto")):
            name, text = here(path.read_text(), tmp_path, port)
            copy = tmp_path / path.name
            copy.write_text(text)
            daemons.append(Process([find_program("mlxcommd"), "--config", str(copy)]))

        def linked():
            done = subprocess.run(
                [find_program("mlxcommctl"), "status", "--socket", f"{tmp_path}/studio-1.sock"],
                capture_output=True, text=True, timeout=PATIENCE)
            return "to studio-2  up" in done.stdout and "health: all is well" in done.stdout

        wait_until(linked, "studio-1 and studio-2 are linked")
    finally:
        for daemon in daemons:
            daemon.end()
