"""The wall clock jumps while jobs run: no rank and no node is lost.

Only the processes of the test see another time, by a library loaded before libc (moved_clock.cc)."""

import json
import struct
import sys
import time

import pytest
from test_trust import ranks

from conftest import Process, find_test_program, wait_until
from ground.outcomes import all_fine, at_work

DAY = 86400

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD")


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """clock(seconds) moves the wall clock of processes that are started later."""
    place = tmp_path / "clock"
    place.write_bytes(struct.pack("q", 0))
    monkeypatch.setenv("MOVED_CLOCK", str(place))
    monkeypatch.setenv("LD_PRELOAD", find_test_program("faults", "libfaults_moved_clock.so"))

    def move(seconds):
        with open(place, "r+b") as file:  # In place, because it is mapped.
            file.write(struct.pack("q", seconds))

    return move


def operations(c):
    return sum(int(rank.get("operations_done", 0)) for job in c.status()["jobs"] for rank in job["ranks"])


# Why: clocks are set by hand, by NTP after hours without a network, or by a battery that was empty.
def test_a_clock_that_jumps_by_a_day_disturbs_no_job(clock, duo):
    with at_work(duo, range(duo.count), 100_000):
        for seconds in (DAY, -DAY, 0):
            clock(seconds)
            before = operations(duo)
            wait_until(lambda: operations(duo) > before + 100, "the job goes on")
            reported = json.loads(duo.ctl("status", "--json"))
            assert [link["state"] for node in reported["nodes"] for link in node["links"]] == ["up", "up"]
            all_fine(ranks(duo, "sum:100000", job=f"new-{seconds}"))
            events = duo.events()
            newest = int(events[-1]["unix_ns"]) / 1e9
            assert abs(newest - time.time() - seconds) < DAY / 2, "the daemon's clock has moved"
            assert not any(event["kind"] in ("node_lost", "rail_down") for event in events), events


# Why: a Mac with a clock that is years off joins a cluster, which affects certificates, deadlines and pings.
def test_a_node_that_is_ten_years_off_keeps_deadlines_and_is_named(cluster, clock, tmp_path, monkeypatch):
    c = cluster(2, start=False, peer_settings="security: TLS")
    with monkeypatch.context() as own:
        own.delenv("LD_PRELOAD")
        c.start_daemon(0)
    stop = tmp_path / "stop"
    job = []
    for seconds in (3650 * DAY, -3650 * DAY, 3600):
        clock(seconds)
        if not job:
            c.start_daemon(1)
            c.wait_linked()
            job = ranks(c, f"loop:8:100000:{stop}")
        all_fine(ranks(c, "sum:100000", job=f"new-{seconds}"))
        found = c.findings()["MC504"]
        assert "node-1" in str(found) and ("behind" if seconds < 0 else "ahead") in found["found"], found
        c.ctl("ping", "node-1", "-c", "1")
        program = find_test_program("ground", "ground_rank")
        alone = Process([program, "0", "2", "alone", "join:1"], {"MLXCOMM_SOCKET": c.socket(1)})
        assert alone.finish() == 3 and "DEADLINE_EXCEEDED" in alone.lines[-1], alone.lines
    stop.touch()
    all_fine(job)
