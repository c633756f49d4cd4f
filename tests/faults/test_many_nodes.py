"""A holder of the key claims to be hundreds of nodes: it gets at most nodes_max places, or one address's
share if other addresses want places. The node's own work continues, and nothing leaks."""

import json
import os
import pathlib
import random
import re
import socket

import pytest

from conftest import PATIENCE, RANK, Process, completed, find_program, free_port, wait_until
from ground import stranger
from ground.daemon_resources import MIB, Resources, expect_given_back

VERDICT_BYTES = 8
ACCEPTED, TOO_MANY_NODES, TOO_MANY_OF_ADDRESS = 1, 5, 6
NODES_MAX = 64
OF_ADDRESS_MAX = 16
# The invented nodes send no heartbeats, and must stay while the test makes more.
SILENCE_MS = 600_000
# The part of resident memory that may remain: 64 remembered nodes and events, and the pages that hold them.
KEPT = 0.2
# One rank on each node runs enough to fill the flight recorder, whose pages are allocated with its events.
OPERATIONS_RECORDED = 3000


class Inventions:
    """Connections that have proved the key, each as a node of its own."""

    def __init__(self, c, monkeypatch):
        monkeypatch.setenv("LAB_KEY", str(c.key))
        self.key = stranger.cluster_key()
        self.address = ("127.0.0.1", c.ports[0])
        self.held = []
        self.verdicts = []

    def one(self, source):
        connection = socket.create_connection(self.address, timeout=PATIENCE, source_address=(source, 0))
        own = stranger.greeting(cluster=b"test")
        connection.sendall(own)
        theirs = stranger.read(connection, stranger.GREETING.size)
        proof = stranger.PROOF.pack(os.urandom(16), b"invented")
        connection.sendall(stranger.signed(self.key, own, theirs, proof))
        verdict = stranger.read(connection, stranger.PROOF.size + 32 + VERDICT_BYTES)[-VERDICT_BYTES:]
        self.verdicts.append(int.from_bytes(verdict[:4], "little"))
        if self.verdicts[-1] != ACCEPTED:
            connection.close()
            return
        number = random.getrandbits(63) | 1
        connection.sendall(
            stranger.signed(
                self.key, own, theirs, stranger.INTRODUCTION.pack(number, number, 0, 1, b"invented", b"1.0")
            )
        )
        stranger.read(connection, stranger.INTRODUCTION.size + 32)
        self.held.append(connection)

    def go(self):
        for connection in self.held:
            connection.close()
        self.held.clear()


@pytest.fixture
def busy(cluster, monkeypatch):
    """Two nodes with a job, invented nodes, and a configured address that does not answer yet."""
    named = free_port()
    c = cluster(
        2,
        peer_settings=f'security: PLAIN connect: "127.0.0.1:{named}" heartbeat_timeout_ms: {SILENCE_MS}',
        top_settings="scheduling: MANY_CORES",
        start=False,
    )
    for node in (0, 1):
        c.start_daemon(node)
    wait_until(lambda: linked_names(c) >= {"node-1"}, "the two are linked")
    ranks = [c.rank(r, 2, RANK, node=r, arguments=["loop"]) for r in (0, 1)]
    for rank in ranks:
        rank.wait_for("looping")
    yield c, named, Inventions(c, monkeypatch)
    assert all(rank.child.poll() is None for rank in ranks), "every sum is checked, and all were right"


pytestmark = pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="reads /proc")


def own_part(c):
    return c.status()["nodes"][0]


def linked_names(c):
    status = c.status()
    if status is None:
        return set()
    return {link["peer"] for link in status["nodes"][0]["links"] if link["state"] == "up"}


def operations_done(c):
    return min(int(rank.get("operations_done", 0)) for job in c.status()["jobs"] for rank in job["ranks"])


def resident_memory(pid):
    """Includes the pages of programs and libraries."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024


class Late:
    """A real daemon that connects when all places are taken."""

    def __init__(self, c, folder, peers):
        self.socket = str(folder / "late.sock")
        config = folder / "late.textproto"
        config.write_text(
            f'cluster: "test" node_name: "late" state_directory: "{folder}/late"\n'
            f'socket_path: "{self.socket}"\npeers {{ key_file: "{c.key}" {peers} }}\n'
        )
        self.process = Process([find_program("mlxcommd"), "--config", str(config)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.end()

    def id(self):
        status = [find_program("mlxcommctl"), "status", "--json", "--socket", self.socket]
        done = completed(status)
        return json.loads(done.stdout)["nodes"][0]["id"] if done.returncode == 0 else None


def test_one_address_has_the_places_that_others_do_not_want_and_gives_them_back(busy):
    c, _, inventions = busy
    daemon = c.daemons[0].child.pid
    wait_until(lambda: operations_done(c) > OPERATIONS_RECORDED, "the flight recorder is full")
    before = Resources.of(daemon)
    resident = resident_memory(daemon)
    for _ in range(500):
        inventions.one("127.0.0.1")
    # node-1 has this address as well, and is in a job.
    assert len(inventions.held) == NODES_MAX - 1
    assert set(inventions.verdicts) == {ACCEPTED, TOO_MANY_OF_ADDRESS}
    assert own_part(c)["nodes_linked"] == str(NODES_MAX)
    assert int(own_part(c)["nodes_refused"]) >= 500 - NODES_MAX
    held = Resources.of(daemon)
    assert held.threads == before.threads, "they carry nothing large"
    assert held.descriptors <= before.descriptors + 4 * NODES_MAX
    assert held.memory < before.memory + NODES_MAX * MIB
    # Other addresses want places.
    inventions.verdicts.clear()
    for number in range(100):
        inventions.one(f"127.0.1.{number + 1}")
    assert inventions.verdicts.count(ACCEPTED) == NODES_MAX - 1 - OF_ADDRESS_MAX
    assert set(inventions.verdicts) == {ACCEPTED, TOO_MANY_NODES}
    assert own_part(c)["nodes_linked"] == str(NODES_MAX)
    inventions.go()
    wait_until(lambda: own_part(c)["nodes_linked"] == "1", "they are lost")
    expect_given_back(daemon, before, {"descriptors": 0, "threads": 0, "memory": KEPT * resident})


def test_all_addresses_share_nodes_max_and_a_configured_node_gets_in(busy, tmp_path):
    c, named, inventions = busy
    for number in range(300):
        inventions.one(f"127.0.1.{number % 30 + 1}")
    part = own_part(c)
    assert (part["nodes_linked"], part["nodes_linked_max"]) == (str(NODES_MAX), str(NODES_MAX))
    assert TOO_MANY_NODES in inventions.verdicts and len(inventions.held) == NODES_MAX - 1
    # A node without a configured address is refused, with the reason at both ends.
    with Late(c, tmp_path, f'connect: "127.0.0.1:{c.ports[0]}"') as late:
        late.process.wait_for("64 nodes are linked there already, as many as peers { nodes_max: 64 } allows")
        number = wait_until(late.id, "it answers")
        c.daemons[0].wait_for(f"node {number}: 64 nodes are linked here already")
        assert "late" not in linked_names(c)
    assert "MC513" in c.findings()
    # The same one, at the address that node-0 dials.
    with Late(c, tmp_path, f'listen: "127.0.0.1:{named}"'):
        wait_until(lambda: "late" in linked_names(c), "the configured node gets the place of an invented one")
        assert own_part(c)["nodes_linked"] == str(NODES_MAX)
    inventions.go()
