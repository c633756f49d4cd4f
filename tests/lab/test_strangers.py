"""Every stranger at the peer port is counted and logged, a few lines a second at most, and changes
nothing else: jobs continue, links stay up, and memory and descriptors are as before."""

import os
import re
import sys

import pytest

from conftest import wait_until
from ground import stranger
from ground.cluster import PORT
from ground.outcomes import all_fine, until_looping
from ground.wiring import switch

LOGGED_PER_SECOND = 5


class Watch:
    """A job at work on node-0 and node-1 while a stranger on node-2 connects."""

    def __init__(self, c, stop):
        self.c, self.stop = c, stop
        self.ranks = c.ranks([0, 1], f"loop:8:100000:{stop}")
        until_looping(self.ranks)
        self.before = self.figures()

    def figures(self):
        part = self.c.own_part(0)
        return {"links": sorted((link["peer"], link["state"]) for link in part["links"]),
                "refused": int(part["strangers_refused"]), "memory": int(part["memory_bytes"]),
                "files": len(os.listdir(f"/proc/{self.c.daemons[0].pid}/fd"))}

    def stranger(self, what, count=1):
        return self.c.run(2, [sys.executable, stranger.__file__, f"10.200.0.1:{PORT}", what, count],
                          {"LAB_KEY": str(self.c.folder / "key")})

    def log_lines(self, text):
        return [line for line in self.c.log(0) if text in line]

    def nothing_else_changed(self):
        self.stop.touch()
        all_fine(self.ranks)
        links, files = self.before["links"], self.before["files"]
        wait_until(lambda: self.figures()["links"] == links, "the links are as before")
        wait_until(lambda: self.figures()["files"] <= files, "the descriptors are closed")
        assert self.figures()["memory"] < self.before["memory"] + (16 << 20)


@pytest.fixture
def watch(lab, tmp_path):
    return Watch(lab(switch(3)), tmp_path / "stop")


@pytest.mark.parametrize("what, count, why", [
    ("garbage", 40, "not an mlxcommd"), ("half", 40, "connection ended"),
    ("version", 20, ", and this daemon"), ("foreign", 20, "another cluster"),
    ("nokey", 20, "does not hold this cluster's key")])
def test_stranger_is_refused_counted_and_named(watch, what, count, why):
    stranger = watch.stranger(what, count)
    assert stranger.finish() == 0, stranger.lines
    wait_until(lambda: watch.figures()["refused"] == watch.before["refused"] + count, "all are counted")
    assert watch.log_lines(why) and "10.200.0.3" in watch.log_lines(why)[0], watch.c.log(0)
    watch.nothing_else_changed()


def seconds_of(lines):
    """The number of lines in each second of the log."""
    seconds = {}
    for line in lines:
        second = re.search(r"\d\d:\d\d:\d\d", line).group(0)
        seconds[second] = seconds.get(second, 0) + 1
    return seconds


def test_a_thousand_connects_cost_a_few_log_lines(watch):
    stranger = watch.stranger("connects", 1000)
    assert stranger.finish() == 0, stranger.lines
    wait_until(lambda: watch.figures()["refused"] == watch.before["refused"] + 1000, "all are counted")
    logged = seconds_of(watch.log_lines("refused "))
    # The log's clock and the limit's clock may begin their seconds apart.
    assert 0 < max(logged.values()) <= 2 * LOGGED_PER_SECOND, logged
    watch.nothing_else_changed()


def test_slow_hellos_end_at_their_deadline_and_keep_no_neighbour_out(watch):
    """Why: strangers must not keep out a daemon that restarts or gets its cable back."""
    stranger = watch.stranger("loris", 100)
    stranger.wait_for("at it")
    wait_until(lambda: watch.figures()["refused"] >= watch.before["refused"] + 100, "they are refused")
    watch.c.restart(2)
    watch.c.wait_linked()
    stranger.end()
    watch.nothing_else_changed()


@pytest.mark.parametrize("what, count", [("frames", 5), ("cutoff", 5), ("toolong", 5), ("beyond", 5),
                                         ("headers", 100), ("messages", 3000)])
def test_a_neighbour_that_breaks_the_protocol_loses_only_its_own_link(watch, what, count):
    """It holds the key, so it is accepted; then its messages are checked like a stranger's."""
    stranger = watch.stranger(what, count)
    assert stranger.finish() == 0, stranger.lines
    assert watch.log_lines("intruder"), watch.c.log(0)
    watch.stop.touch()
    all_fine(watch.ranks)
    assert set(watch.before["links"]) <= set(watch.figures()["links"])
    assert watch.figures()["memory"] < watch.before["memory"] + (32 << 20)
