"""A holder of the key claims to be hundreds of nodes: it gets at most nodes_max places, or one address's
share if other addresses want places. The node's own work continues, and nothing leaks."""

import os
import pathlib
import random
import re
import socket

import pytest

from conftest import PATIENCE, RANK, wait_until
from ground import stranger
from ground.daemon_resources import MIB, Resources, expect_given_back
from ground.outcomes import until_looping

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
    """Two nodes with a job, and invented nodes."""
    c = cluster(2, peer_settings=f"security: PLAIN heartbeat_timeout_ms: {SILENCE_MS}",
                top_settings="scheduling: MANY_CORES")
    ranks = [c.rank(r, 2, RANK, node=r, arguments=["loop"]) for r in (0, 1)]
    until_looping(ranks)
    yield c, Inventions(c, monkeypatch)
    assert all(rank.child.poll() is None for rank in ranks), "every sum is checked, and all were right"


pytestmark = pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="reads /proc")


def own_part(c):
    return c.status()["nodes"][0]


def operations_done(c):
    return min(int(rank.get("operations_done", 0)) for job in c.status()["jobs"] for rank in job["ranks"])


def resident_memory(pid):
    """Includes the pages of programs and libraries."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024


def test_one_address_has_the_places_that_others_do_not_want_and_gives_them_back(busy):
    c, inventions = busy
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
