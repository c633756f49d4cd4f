"""A thousand strangers connect to the peer port and send nothing: each is counted, a neighbour gets in, and
the daemon leaks nothing."""

import contextlib
import resource
import socket
import sys

import pytest
from test_trust import ranks

from conftest import wait_until
from ground.daemon_resources import given_back
from ground.outcomes import all_fine


def refused(c):
    return int(c.status()["nodes"][0]["strangers_refused"])


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
