"""Another user floods control connections with frames of HTTP/2 that no client sends (flood.py).

The daemon ends the connection or reads on. A job of another user continues with right values, and the daemon
leaks no memory, descriptor or thread.
"""

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
from test_users import ANN, BOB, Users

from conftest import PATIENCE, Process, wait_until
from ground import flood
from ground.daemon_resources import MIB, Resources, expect_given_back

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root can start others' processes"),
              pytest.mark.skipif(sys.platform != "linux", reason="what a process uses is read from /proc")]

REASONS = {"ping": "pings", "ping_ack": "pings", "settings": "settings", "settings_of_windows": "settings",
           "priority": "other_frames", "unknown": "other_frames", "resets": "resets",
           "continuations": "long_headers", "empty_continuations": "long_headers",
           "long_headers": "long_headers", "long_frame": "broken", "calls": "calls", "garbage": "broken",
           "never_read": "unread"}


TOOLS = 14  # As many as a user may have, and room for one more.
ADDRESSES = 1000
# daemon/services/answer_budget.h, and answers in transit.
ANSWERS_MAX = 5 * MIB
CALL_BYTES = 24 * 1024  # gRPC's memory for an open call.
# The job's events fill the flight recorder's pages.
RECORDED_BYTES = 16384 * 64  # kLoopEvents (daemon/record/flight_recorder.h), 64 bytes each.


class Victim(Users):
    """One daemon, and Bob's job of two ranks, which runs until the end."""

    def start(self):
        super().start()
        self.stop = self.public / "stop"
        self.job = [self.rank_as(BOB, rank, 2, f"loop:8:1048576:{self.stop}") for rank in (0, 1)]
        for rank in self.job:
            rank.wait_for("looping")
        return self

    def use(self):
        return Resources.of(self.daemons[0].child.pid)

    def flood(self, kind, count=1):
        """Runs flood.py and returns its output."""
        process = self.start_flood(kind, count)
        assert process.finish() == 0, process.lines[-3:]
        return process.lines

    def start_flood(self, kind, count=1, user=ANN):
        process = Process([sys.executable, flood.__file__, str(user), self.socket(0), kind, str(count)],
                          stdin=subprocess.PIPE)
        self.ranks.append(process)
        return process

    def ended(self):
        reported = self.status()["nodes"][0].get("control_connections_ended", [])
        return {one["reason"]: int(one["count"]) for one in reported}

    def expect_exact(self):
        self.stop.touch()
        assert [rank.finish() for rank in self.job] == [0, 0], [rank.lines for rank in self.job]


class LonelyVictim(Victim):
    """A daemon with a long status: each of its many silent neighbours adds a line."""

    def __init__(self, folder):
        super().__init__(folder, 1)
        connect = " ".join(f'connect: "127.0.0.1:{port}"' for port in range(1, 1 + ADDRESSES))
        # It dials once during the test.
        pauses = "reconnect_delay_min_ms: 60000 reconnect_delay_max_ms: 600000"
        self.settings = (self.settings[0], "", f'peers {{ key_file: "{self.key}" {connect} {pauses} }}')

    def wait_linked(self):
        wait_until(self.status, "it answers")


@pytest.fixture
def victim(tmp_path):
    made = Victim(tmp_path, 1).start()
    yield made
    made.end()


@pytest.fixture
def lonely_victim(tmp_path):
    made = LonelyVictim(tmp_path)
    yield made.start()
    made.end()


@contextlib.contextmanager
def leaves_nothing(victim, first="window_update"):
    """The block may leave 20 % of memory, what a gRPC thread keeps, and the flight recorder's pages. The
    first flood makes the daemon allocate what gRPC keeps after its first connection, and the first record
    starts the thread that reads records."""
    victim.flood(first)
    victim.ctl("record")
    before = victim.use()
    yield before
    margins = {"memory": before.memory * 0.2 + MIB + RECORDED_BYTES, "descriptors": 0, "threads": 0}
    expect_given_back(victim.daemons[0].child.pid, before, margins)
    victim.expect_exact()


@pytest.mark.parametrize("kind", flood.CUT)
def test_a_flood_is_cut_and_leaves_nothing(victim, kind):
    with leaves_nothing(victim):
        for line in victim.flood(kind, 3)[:3]:
            assert line.startswith("cut"), line
    assert victim.ended() == {REASONS[kind]: 3}
    victim.daemons[0].wait_for("ended the control connection of process")


@pytest.mark.parametrize("kind", flood.TAKEN)
def test_what_does_no_harm_is_read_and_leaves_nothing(victim, kind):
    with leaves_nothing(victim):
        victim.flood(kind, 3)


# Why: a limit of each connection would not limit a user that connects again.
def test_a_user_that_reconnects_without_end_is_limited(victim):
    with leaves_nothing(victim, first="ping"):
        victim.flood("ping", 200)
    assert victim.ended() == {"pings": 201}


def test_a_tool_that_never_reads_loses_its_connection(victim):
    with leaves_nothing(victim):
        victim.flood("never_read", TOOLS)
    assert victim.ended() == {"unread": TOOLS}


# Why: a process that opens no window makes gRPC keep its answers, and a flight record has megabytes.
def test_a_user_can_have_one_record_in_flight(victim):
    victim.flood("closed_windows")
    assert victim.ask_as(ANN, "record", "--json"), "it has gone with its connection"
    victim.expect_exact()


# Why: gRPC keeps an answer for which a process opens no window, and the status of a large cluster is long.
def test_answers_that_no_window_is_open_for_are_bounded(lonely_victim):
    victim = lonely_victim
    with leaves_nothing(victim) as before:
        process = victim.start_flood("leave_unsent", TOOLS)
        left, refused = map(int, re.findall(r"\d+", process.wait_for("left")))
        assert left + refused == TOOLS * flood.CALLS_AT_ONCE and refused > 0
        held = victim.use().memory - before.memory
        assert held < ANSWERS_MAX + (left + refused) * CALL_BYTES, (left, refused, held)
        victim.daemons[0].wait_for("refused an answer of")
        assert victim.status(), "other users still get answers"
        process.end()


# Why: each call of a user asked every node on the payload's thread, and they took all places.
@pytest.mark.parametrize("method", flood.ASKED)
def test_asking_without_end_leaves_root_its_places(victim, method):
    process = victim.start_flood(method, TOOLS)
    process.wait_for("asking")
    for _ in range(10):
        assert victim.status(), "root has places of its own"
    process.child.stdin.close()
    assert int(re.findall(r"\d+", process.wait_for("heard"))[0]) > 0
    victim.expect_exact()


# Why: four users held all places, root was refused, and doctor reported that no daemon answers.
def test_root_has_places_that_no_user_takes(victim):
    users = [70001 + i for i in range(4)]
    for user in users:
        victim.start_flood("half_frames", 16, user).wait_for("open")
    assert victim.status()
    ask = [str(victim.public / "mlxcommctl"), "doctor", "--json", "--socket", victim.socket(0)]
    done = subprocess.run(ask, capture_output=True, text=True, user=70005, group=70005, extra_groups=[],
                          cwd="/", timeout=PATIENCE)
    [finding] = [one for one in json.loads(done.stdout)["findings"] if one["code"] == "MC101"]
    assert "refuses: it serves 64 tools already" in finding["found"], finding
    assert finding["remedy"].startswith("follow the daemon's message"), finding
    victim.expect_exact()


def test_half_frames_block_no_other_connection(victim):
    with leaves_nothing(victim) as before:
        process = victim.start_flood("half_frames", TOOLS)
        process.wait_for("open")
        assert victim.jobs(BOB)[0] == [(f"#{BOB}", "train", "running")]
        assert victim.use().memory <= before.memory + 4 * MIB
        process.end()


def test_malformed_calls_of_all_methods_are_answered_and_leave_nothing(victim):
    with leaves_nothing(victim):
        victim.flood("malformed", 20)
        assert victim.jobs(ANN)[0] == []
