"""A process causes endless log lines: the log grows by less than 1 KiB a second, and counts the lines
that it left out."""

import os
import signal
import socket
import sys
import time

import pytest
from test_hostile_clients import ANSWER_BYTES, GOOD_HELLO, connect_as_ann
from test_users import ANN, users  # noqa: F401

from conftest import Process
from ground import flood, stranger

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start others' processes")

AT_ONCE = 16 * 1024  # LogLimit::kBytesAtOnce, of a source.
A_SECOND = 1024


@pytest.fixture
def limited(users):  # noqa: F811
    """limited(nodes) makes a cluster; at the end its first daemon's log must be within the limit of three
    sources."""
    made = []
    began = time.monotonic()
    yield lambda nodes: made.append(users(nodes)) or made[-1]
    for c in made:
        daemon = c.daemons[0]
        daemon.signal(signal.SIGTERM)
        assert daemon.finish() == 0
        written = sum(len(line) + 1 for line in daemon.lines)
        assert written < 3 * AT_ONCE + A_SECOND * (time.monotonic() - began), daemon.lines[-3:]


def text_flood(c, count):
    return Process([sys.executable, flood.__file__, str(ANN), c.socket(0), "not_utf8", str(count)])


# Why: libprotobuf writes 220 bytes to standard error for each.
def test_invalid_utf8_is_logged_at_a_limited_rate(limited):
    c = limited(1)
    once = text_flood(c, 1000)
    assert once.finish() == 0, once.lines
    on = text_flood(c, 1 << 40)
    c.daemons[0].wait_for('lines that begin with "library:"')
    on.end()
    lines = [line for line in c.daemons[0].lines if "UTF-8" in line]
    assert lines and all("library:" in line and "[mlxcommd]" in line for line in lines)


def test_processes_that_attach_and_leave_only_cause_events(limited):
    c = limited(1)
    for _ in range(400):
        with connect_as_ann(c) as connection:
            connection.sendall(GOOD_HELLO)
            _, descriptors, _, _ = socket.recv_fds(connection, ANSWER_BYTES, 4)
            for descriptor in descriptors:
                os.close(descriptor)
    kinds = c.ask_as(ANN, "events", "--json", "--last", "256")
    assert "process_attached" in kinds and "process_gone" in kinds


def test_messages_of_a_node_that_cannot_be_read_are_limited(limited):
    c = limited(2)
    done = Process([sys.executable, stranger.__file__, f"127.0.0.1:{c.ports[0]}", "unreadable", "2000"],
                   {"LAB_KEY": str(c.key), "LAB_CLUSTER": "test"})
    assert done.finish() == 0, done.lines
    c.daemons[0].wait_for("node intruder sent a message that cannot be read")
