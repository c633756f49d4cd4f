"""A daemon that is upgraded costs no job and no byte (daemon/process/successor.h). The programs of other
releases are this tree's own with another table of protocol versions (CMakeLists.txt)."""

import itertools
import json
import os
import signal
import sys
import threading

import pytest

from conftest import Cluster, Process, clusters, find_program, find_test_program, mlxcommctl, wait_until
from ground.daemon_resources import MARGINS, Resources, expect_given_back
from ground.outcomes import at_work, ranks_on

UPGRADES = int(os.environ.get("MLXCOMM_UPGRADES", "100"))
MIB = 1 << 20


def program_of(release):
    if release == "today":
        return find_program("mlxcommd")
    return find_test_program("upgrade", f"mlxcommd_{release}")


class Upgraded(Cluster):
    """Each node's program has its own path, where another release can be installed, as packages do."""

    def __init__(self, *arguments, releases=(), **settings):
        super().__init__(*arguments, **settings)
        for node in range(self.count):
            self.put(node, releases[node] if releases else "today")

    def path(self, node):
        return self.folder / f"bin-{node}" / "mlxcommd"

    def put(self, node, release):
        path = self.path(node)
        path.parent.mkdir(exist_ok=True)
        beside = path.with_name("new")
        beside.symlink_to(program_of(release))
        beside.rename(path)

    def start_daemon(self, node):
        self.daemons[node] = Process([str(self.path(node)), "--config", str(self.write_config(node))])
        return self.daemons[node]

    def own(self, node):
        status = self.status(node)
        return status and next(one for one in status["nodes"] if one["name"] == status["node"])

    def ask(self, node):
        """Requests a restart; returns the response of the program that is to end."""
        before = wait_until(lambda: self.own(node), "it tells of itself")
        self.daemons[node].signal(signal.SIGUSR2)
        return before

    def answer(self, node, before):
        """Its response to that; None if there is none yet, or it is another program."""
        restart = (self.own(node) or {}).get("restart", {})
        return restart if restart.get("asked", 0) > before.get("restart", {}).get("asked", 0) else None

    def await_next(self, node, before):
        def is_next():
            own = self.own(node)
            if own and own["start"] != before["start"]:
                return True
            answer = self.answer(node, before)
            assert not (answer or {}).get("refused"), answer
            return False

        wait_until(is_next, f"node {node} has become the next program")

    def job(self, name, *words):
        """Two ranks that check every value; ground/rank.cc."""
        return ranks_on(self, range(self.count), *words, job=name)

    def expect_well(self, ranks):
        codes = [rank.finish() for rank in ranks]
        assert codes == [0] * len(ranks), [rank.lines[-4:] for rank in ranks]
        for rank in ranks:
            self.ranks.remove(rank)


@pytest.fixture
def upgraded(tmp_path):
    yield from clusters(Upgraded, tmp_path)


@pytest.mark.slow
def test_a_hundred_upgrades_in_a_row_cost_no_job_and_no_byte(upgraded):
    """How: two nodes change releases in turns while jobs run over both. Ranks that start during that wait."""
    c = upgraded(2)
    stop = threading.Event()
    jobs = itertools.count()
    troubles = []

    def work():
        while not stop.is_set():
            ranks = c.job(f"job-{next(jobs)}", "sum:8", f"sum:{MIB}", "sum:8", "sum:100000")
            try:
                c.expect_well(ranks)
            except AssertionError as trouble:
                troubles.append(str(trouble))
                return

    pids = [c.own(node)["pid"] for node in (0, 1)]
    worker = threading.Thread(target=work)
    worker.start()
    before = None
    try:
        for number in range(UPGRADES):
            node = number % 2
            c.put(node, ("next", "today")[number // 2 % 2])
            c.await_next(node, c.ask(node))
            assert not troubles, (number, troubles)
            if number == 3 and sys.platform == "linux":
                before = [Resources.of(pid) for pid in pids]
    finally:
        stop.set()
        worker.join()
    assert not troubles, troubles
    c.wait_linked()
    assert [c.own(node)["pid"] for node in (0, 1)] == pids
    assert next(jobs) >= UPGRADES / 20
    if before:  # Descriptors opened by one program are not a burden for the next.
        for pid, then in zip(pids, before):
            expect_given_back(pid, then, MARGINS)


def test_a_restart_waits_for_running_jobs_and_serves_new_ones(upgraded):
    c = upgraded(2)
    with at_work(c, range(2), MIB, job="long"):
        before = c.ask(0)
        answer = wait_until(lambda: c.answer(0, before), "status reports it")
        assert answer["release"] and answer["clients"] == 1, answer
        text = c.ctl("status")
        assert f"restarts as {answer['release']} once 1 client has ended" in text, text
        c.expect_well(c.job("meanwhile", "sum:8", f"sum:{MIB}"))
        assert c.own(0)["start"] == before["start"]
    c.await_next(0, before)
    c.expect_well(c.job("afterwards", "sum:8", f"sum:{MIB}"))


def test_a_restart_that_waits_can_be_taken_back(upgraded):
    """Why: a job may run for days. SIGALRM, which any process of its user can send, must not restart a busy
    daemon."""
    c = upgraded(2)
    with at_work(c, range(2), MIB, job="long"):
        c.daemons[0].signal(signal.SIGUSR1)  # Nothing is pending: nothing to cancel.
        before = c.ask(0)
        wait_until(lambda: c.answer(0, before), "it waits")
        c.daemons[0].signal(signal.SIGALRM)
        c.daemons[0].signal(signal.SIGUSR1)
        wait_until(lambda: (c.answer(0, before) or {}).get("taken_back"), "it stays")
        text = c.ctl("status")
        assert "restart" not in text, text
    c.expect_well(c.job("afterwards", "sum:8", f"sum:{MIB}"))
    assert c.own(0)["start"] == before["start"]
    c.await_next(0, c.ask(0))  # When asked again, it restarts.


def test_an_invalid_upgrade_is_refused_and_nothing_is_lost(upgraded):
    """Status and events have each reason; the old program keeps serving until a valid one exists."""
    c = upgraded(2)

    def expect_refused(*texts):
        before = c.ask(0)
        answer = wait_until(lambda: c.answer(0, before), f"it is refused because of {texts}")
        assert all(text in answer["refused"] for text in texts), answer
        assert any(event["kind"] == "restart_refused" for event in c.events()), c.events()

    config = c.folder / "0.textproto"
    right = config.read_text()
    with at_work(c, range(2), MIB, job="long"):
        config.write_text(right + "drain_timeout: 1\n")
        expect_refused("drain_timeout")
        config.write_text(right)
        c.path(0).unlink()
        expect_refused(str(c.path(0)), "no such program")
        c.path(0).write_text("#!/bin/sh\nexit 0\n")
        c.path(0).chmod(0o755)
        expect_refused(str(c.path(0)), "cannot take over")
        c.path(0).unlink()
        c.put(0, "far")
        expect_refused("speaks protocol version 9", "node-1 version 7", "--force")
        c.put(0, "today")
        before = c.ask(0)
    c.await_next(0, before)
    c.expect_well(c.job("afterwards", "sum:8", f"sum:{MIB}"))


def rails_of(cluster, node):
    return [rail for link in cluster.own(node)["links"] for rail in link["rails"]]


@pytest.mark.parametrize("releases, spoken", [(("today", "next"), 7), (("next", "today"), 7),
                                              (("next", "next"), 8)],
                         ids=["today-next", "next-today", "next-next"])
def test_releases_that_follow_each_other_link_and_speak_what_both_know(upgraded, releases, spoken):
    c = upgraded(2, releases=releases)
    for node in (0, 1):
        assert [rail["protocol"] for rail in rails_of(c, node)] == [spoken]
    c.expect_well(c.job("job", "sum:8", f"sum:{MIB}"))


@pytest.mark.parametrize("releases", [("today", "far"), ("far", "today")], ids="-".join)
def test_releases_too_far_apart_do_not_link_and_both_report_it(upgraded, releases):
    c = upgraded(2, start=False, releases=releases)
    for node in (0, 1):
        c.start_daemon(node)

    def doctor(node):
        done = mlxcommctl("doctor", "--json", "--socket", c.socket(node))
        return json.loads(done.stdout) if done.stdout else None

    dialer = 1  # Cluster's links: (dialer, dialed).
    reported = wait_until(lambda: [link for link in (c.own(dialer) or {"links": []})["links"]
                               if link.get("reason") == "version_too_far"], "the dialer tells why")
    assert ", and this daemon" in reported[0]["detail"], reported
    finding = next(one for one in doctor(dialer)["findings"] if one["code"].startswith("MC502"))
    assert "upgrade the older of the two" in finding["remedy"], finding
    said = c.daemons[0].wait_for(", and this daemon")
    assert "speaks protocol version" in said
