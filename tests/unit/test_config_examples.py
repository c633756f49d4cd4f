"""The daemon accepts the files in config/, and the examples work as described."""

import json
import os
import pathlib
import re
import sys

import pytest

from conftest import Process, completed, find_program, free_port, mlxcommctl, wait_until

CONFIG = pathlib.Path(__file__).parents[2] / "config"
FILES = sorted(CONFIG.rglob("*.textproto"))


def check(path):
    return completed([find_program("mlxcommd"), "--config", path, "--check-config"])


def places(port):
    """The addresses of two Macs' cables; or a port for each end in a ring."""
    if isinstance(port, dict):
        return port
    return {"10.0.0.1:7470": f"127.0.0.1:{port}", "10.0.1.1:7470": f"127.0.0.2:{port}"}


def here(text, folder, port):
    """The example with addresses on this machine instead of the two Macs'."""
    key = folder / "key"
    if not key.exists():
        key.write_text(os.urandom(32).hex() + "\n")
        key.chmod(0o600)
    name = re.search(r'node_name: "([^"]+)"', text).group(1)
    text = text.replace("/etc/mlxcommd/key", str(key))
    for address, local in places(port).items():
        text = text.replace(address, local)
    return name, text + f'\nstate_directory: "{folder}/{name}"\nsocket_path: "{folder}/{name}.sock"\n'


@pytest.mark.parametrize("path", [f for f in FILES if "examples" in f.parts],
                         ids=lambda path: path.name)
def test_example_is_fine_once_its_key_is_there(path, tmp_path):
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/etc/mlxcommd/key", str(tmp_path / "no-key")))
    done = check(copy)
    assert done.returncode == 2
    assert f"{tmp_path}/no-key" in done.stderr and "mlxcommctl cluster create" in done.stderr
    _, text = here(path.read_text(), tmp_path, 7470)
    copy.write_text(text)
    done = check(copy)
    assert (done.returncode, done.stderr) == (0, "")


def start(example, folder, port):
    """Starts the example's daemons on this machine; the caller ends them."""
    daemons = []
    for path in sorted((CONFIG / "examples" / example).glob("*.textproto")):
        _, text = here(path.read_text(), folder, port)
        copy = folder / path.name
        copy.write_text(text)
        daemons.append(Process([find_program("mlxcommd"), "--config", str(copy)]))
    return daemons


def status(folder, name):
    done = mlxcommctl("status", "--json", "--socket", f"{folder}/{name}.sock")
    return json.loads(done.stdout) if done.returncode == 0 else {}


def links_of(folder, name):
    """Each link that is up, by its peer's name."""
    nodes = [node for node in status(folder, name).get("nodes", []) if node["name"] == name]
    return {link["peer"]: link for node in nodes for link in node.get("links", [])
            if link["state"] == "up"}


def test_two_node_ring_links_its_two_nodes(tmp_path):
    daemons = start("two-node-ring", tmp_path, free_port())
    try:
        wait_until(lambda: "studio-2" in links_of(tmp_path, "studio-1"),
                   "studio-1 and studio-2 are linked")
    finally:
        for daemon in daemons:
            daemon.end()


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is not an address elsewhere")
def test_two_cables_make_one_link_of_two_rails(tmp_path):
    daemons = start("two-cables", tmp_path, free_port())
    try:
        def rails():
            link = links_of(tmp_path, "studio-2").get("studio-1", {})
            return [rail for rail in link.get("rails", []) if rail["state"] == "up"]

        wait_until(lambda: len(rails()) == 2, "both cables carry")
        assert {rail["remote_interface"] for rail in rails()} == {"127.0.0.1", "127.0.0.2"}
    finally:
        for daemon in daemons:
            daemon.end()


def test_ring_of_four_joins_all_each_over_one_or_two_cables(tmp_path):
    ring = {f"10.0.{n}.1:7470": f"127.0.0.1:{free_port()}" for n in range(1, 5)}
    daemons = start("ring-of-four", tmp_path, ring)
    try:
        names = [f"studio-{n}" for n in range(1, 5)]
        for n, name in enumerate(names):
            wait_until(lambda name=name: len(links_of(tmp_path, name)) == 3, f"{name} reaches all")
            across = links_of(tmp_path, name)[names[(n + 2) % 4]]
            assert across["detail"].startswith("reached through studio-")
    finally:
        for daemon in daemons:
            daemon.end()
