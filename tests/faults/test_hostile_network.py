"""Strangers connect to the peer port without the cluster's key: a job of two nodes continues with every value
correct, each attempt is counted, and the daemon leaks nothing."""

import contextlib
import os
import resource
import socket
import ssl
import sys

import pytest
from listening_relay import Listener
from test_trust import ranks

from conftest import wait_until
from ground.daemon_resources import given_back
from ground.outcomes import all_fine, at_work

GREETING_BYTES, PROOF_BYTES, INTRODUCTION_BYTES = 128, 96, 160  # proto/wire/hello.h, each with its MAC.


@contextlib.contextmanager
def beside(c):
    """While the block runs, strangers connect to node-0, which has a job with node-1."""
    with at_work(c, range(c.count), 100_000), given_back(c.daemons[0].child.pid):
        yield
    assert all(daemon.child.poll() is None for daemon in c.daemons)


def refused(c):
    return int(c.status()["nodes"][0]["strangers_refused"])


def knock(c, *pieces):
    """Sends the pieces and waits until the daemon closes the connection; returns its answer."""
    heard = b""
    with socket.create_connection(("127.0.0.1", c.ports[0]), timeout=60) as stranger, \
            contextlib.suppress(ConnectionResetError, BrokenPipeError):
        for piece in pieces:
            stranger.sendall(piece)
        while more := stranger.recv(4096):
            heard += more
    return heard


def tls_hello():
    out = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="node-0")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


# Why: scanners of TLS ports try TLS at once.
@pytest.mark.parametrize("security", ["TLS", "PLAIN"])
def test_what_speaks_tls_at_once_is_a_stranger(cluster, security):
    c = cluster(2, peer_settings=f"security: {security}")
    record = b"\x17\x03\x03"  # Application data, with TLS 1.2 in its header as in 1.3.
    with beside(c):
        before = refused(c)
        said = [tls_hello(), tls_hello()[:100] + bytes(4096), record + b"\x40\x00" + os.urandom(16384),
                record + b"\xff\xff" + os.urandom(4096), b"\x15\x03\x03\x00\x02\x02\x28" * 32]
        for data in said:
            assert len(knock(c, data)) <= GREETING_BYTES, "it learns no more than a greeting"
        wait_until(lambda: refused(c) == before + len(said), "all are counted")


def test_a_recorded_handshake_opens_nothing_in_any_order(cluster):
    c = cluster(2, start=False, peer_settings="security: TLS")
    recorder = Listener(c.ports[0])
    c.dials = lambda node, dialed: recorder.own_port
    c.start()
    whole = bytes(recorder.dialers_said)
    greeting, rest = whole[:GREETING_BYTES], whole[GREETING_BYTES:]
    proof, rest = rest[:PROOF_BYTES], rest[PROOF_BYTES:]
    assert len(rest) > INTRODUCTION_BYTES, "the recording is a whole handshake"
    orders = [(whole,), (greeting, proof, rest), (greeting, rest, proof), (proof, greeting, rest),
              (greeting, greeting, proof), (greeting, proof[::-1], rest), (greeting + proof,) * 2]
    with beside(c):
        before = refused(c)
        for order in orders:
            assert len(knock(c, *order)) <= GREETING_BYTES, "it learns no more than a greeting"
        wait_until(lambda: refused(c) == before + len(orders), "all are counted")
        assert len(c.status()["nodes"]) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="one process may not open so many files elsewhere")
def test_a_thousand_half_open_connections_keep_no_neighbour_out(cluster):
    c = cluster(3, start=False, links=[(1, 0), (2, 0)])
    c.start_daemon(0)
    c.start_daemon(1)
    wait_until(lambda: c.status() and len(c.status()["nodes"]) == 2, "two are linked")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    with contextlib.ExitStack() as held:
        before = refused(c)
        for _ in range(1000):
            held.enter_context(socket.create_connection(("127.0.0.1", c.ports[0]), timeout=60))
        # At most 32 connections may be without proof of the key.
        wait_until(lambda: refused(c) >= before + 1000 - 32, "most have been turned away")
        c.start_daemon(2)
        c.wait_linked()
    wait_until(lambda: refused(c) >= before + 1000, "the rest are counted as well")
    with given_back(c.daemons[0].child.pid):
        all_fine(ranks(c, "sum:100000"))
