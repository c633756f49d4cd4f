"""Faults of ranks and daemons, with real processes and kill -9: no rank hangs, all learn which rank is at
fault, and other jobs continue."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import PATIENCE, RANK, SIGKILL, Process, completed, find_program, mlxcommctl, wait_until

LAYOUTS = pytest.mark.parametrize("nodes", [1, 2])


@LAYOUTS
def test_killed_rank_is_named_to_the_other(cluster, nodes):
    c = cluster(nodes)
    survivor = c.rank(0, 2, RANK, node=0, arguments=["loop"])
    victim = c.rank(1, 2, RANK, node=nodes - 1, arguments=["loop"])
    survivor.wait_for("looping")
    victim.signal(SIGKILL)
    line = survivor.wait_for("raised")
    assert "RANK_LOST" in line and "rank 1" in line
    assert f"node-{nodes - 1}" in line and str(victim.child.pid) in line
    survivor.wait_for("checked RankLostError code=RANK_LOST rank=1")
    survivor.wait_for("latched")
    assert survivor.finish() == 3
    # The job's name is free again.
    again = [c.rank(r, 2, RANK, node=r * (nodes - 1), arguments=["sum:float32:10"]) for r in (0, 1)]
    assert [process.finish() for process in again] == [0, 0], [p.lines for p in again]


@LAYOUTS
def test_rank_that_stops_calling_is_named_at_the_deadline(cluster, nodes):
    c = cluster(nodes, client_settings="operation_timeout_ms: 500")
    caller = c.rank(0, 2, RANK, node=0, arguments=["sum:float32:100000"])
    c.rank(1, 2, RANK, node=nodes - 1, arguments=["wait"])
    line = caller.wait_for("raised")
    assert "DEADLINE_EXCEEDED" in line and "waits for rank 1" in line
    caller.wait_for("checked DeadlineExceededError code=DEADLINE_EXCEEDED rank=1")


# Why: status showed both runs as one job.
@LAYOUTS
def test_status_separates_a_job_that_forms_again_from_its_last_run(cluster, nodes):
    c = cluster(nodes)
    left, victim = (c.rank(r, 2, RANK, node=r * (nodes - 1), arguments=["wait"]) for r in (0, 1))
    left.wait_for("waiting")
    victim.wait_for("waiting")
    victim.signal(SIGKILL)

    def jobs():
        return [(job["state"], job["size"], [int(rank["pid"]) for rank in job["ranks"]])
                for job in (c.status(nodes - 1) or {"jobs": []})["jobs"]]

    failed = ("failed", 2, [left.child.pid])
    wait_until(lambda: jobs() == [failed], "the run has failed")
    again = c.rank(1, 3, RANK, node=nodes - 1)
    wait_until(lambda: len(jobs()) == 2, "both runs are shown")
    assert jobs() == [failed, ("forming", 3, [again.child.pid])]


@LAYOUTS
@pytest.mark.parametrize("calls, words", [
    (("sum:float32:8", "sum:float32:9"), ("float32[8]", "float32[9]")),
    (("sum:float32:200000", "sum:float32:100000"), ("float32[200000]", "float32[100000]")),
    (("sum:float32:8", "sum:int32:8"), ("float32[8]", "int32[8]")),
    (("sum:float32:8", "gather:8"), ("all_reduce sum", "all_gather")),
])
def test_a_mismatch_names_both_calls_on_both_ranks(cluster, nodes, calls, words):
    c = cluster(nodes)
    ranks = [c.rank(r, 2, RANK, node=r * (nodes - 1), arguments=[calls[r]]) for r in (0, 1)]
    for rank in ranks:
        line = rank.wait_for("raised")
        assert "MISMATCH" in line and all(word in line for word in words), line
        rank.wait_for("checked MismatchError")


def test_the_death_of_the_own_daemon_is_daemon_lost_and_a_new_one_serves(solo):
    ranks = [solo.rank(r, 2, RANK, arguments=["loop"]) for r in (0, 1)]
    ranks[0].wait_for("looping")
    solo.daemons[0].signal(SIGKILL)
    for rank in ranks:
        assert "DAEMON_LOST" in rank.wait_for("raised")
        rank.wait_for("checked DaemonLostError")
    solo.daemons[0].child.wait()
    solo.start_daemon(0)
    solo.wait_linked()
    again = [solo.rank(r, 2, RANK, arguments=["sum:float32:10"]) for r in (0, 1)]
    assert [process.finish() for process in again] == [0, 0]


def test_a_drain_that_times_out_ends_the_jobs(cluster):
    c = cluster(1, top_settings="drain_timeout_ms: 300")
    ranks = [c.rank(r, 2, RANK, arguments=["loop"]) for r in (0, 1)]
    ranks[0].wait_for("looping")
    c.daemons[0].signal(signal.SIGTERM)
    for rank in ranks:
        line = rank.wait_for("raised")
        assert "DAEMON_STOPPING" in line or "DAEMON_LOST" in line
    assert c.daemons[0].finish() in (0, 3)


# Why: a draining daemon looked absent: errors advised to start it, and its jobs were not shown.
def test_a_draining_daemon_refuses_new_processes_and_shows_its_jobs(cluster, tmp_path):
    c = cluster(1, top_settings="drain_timeout_ms: 600000")
    ranks = [c.rank(rank, 2, RANK, arguments=["wait"]) for rank in range(2)]
    for rank in ranks:
        rank.wait_for("waiting")
    c.daemons[0].signal(signal.SIGTERM)
    wait_until(lambda: c.status()["nodes"][0]["state"] == "draining", "it drains")
    assert [job["name"] for job in c.status()["jobs"]] == ["job"]
    late = c.rank(0, 2, RANK, job="late")
    line = late.wait_for("refused")
    assert "it is stopping and gives running jobs at most" in line and "no mlxcommd" not in line, line

    drain = c.status()["nodes"][0]["drain"]
    assert drain["jobs"] == 1 and 0 < int(drain["left_ms"]) <= 600000, drain

    def reported(verb, *options):
        done = mlxcommctl(verb, "--socket", c.socket(0), *options)
        return done.returncode, done.stdout + done.stderr

    left = r"draining, 1 job, \d+ (s|min \d+ s) left"
    code, text = reported("status")
    assert code == 0 and re.search(rf"node-0 +{left}", text), text
    assert re.search(rf"health: node node-0 is {left}: it takes no new jobs until", text), text
    code, text = reported("doctor")
    assert "MC516" in text and re.search(rf"found +{left}", text), text
    # One line before any rank runs, instead of a traceback from each.
    code, text = reported("launch", "-n", "2", "--", "echo", "a rank runs")
    assert code == 1 and re.fullmatch(
        rf"mlxcommctl: mlxcommd on node-0 is {left}: it takes no new jobs until it is started again; nothing "
        r"was started\n", text), text
    # The ranks' own daemon is used.
    for path, code in ((c.socket(0), 1), (f"{tmp_path}/none.sock", 0)):
        command = ["launch", "--env", f"MLXCOMM_SOCKET={path}", "--", "echo", "a rank runs"]
        done = mlxcommctl(*command)
        assert done.returncode == code and done.stdout == ("" if code else "[0] a rank runs\n"), done
    for rank in ranks:
        rank.end()
    assert c.daemons[0].finish() == 0
    assert not os.path.exists(c.socket(0))


# Why: a rank may give up (Ctrl-C) before it knows that its world has formed; the others must not wait.
# How: node 1 is stopped, so that the world cannot become ready.
def test_rank_that_gives_up_while_its_world_forms_is_lost_to_the_others(cluster):
    c = cluster(2, peer_settings="heartbeat_timeout_ms: 600000")
    other = c.rank(1, 2, RANK, node=1, arguments=["sum:float32:4"])
    wait_until(lambda: (c.status(0) or {"jobs": []})["jobs"], "node 0 knows of rank 1")
    c.daemons[1].signal(signal.SIGSTOP)
    script = ("import mlxcomm, time\ntry:\n mlxcomm.init(job='job', rank=0, size=2)\n"
              "except BaseException as e:\n print('gave up', type(e).__name__, flush=True)\n"
              "time.sleep(3600)\n")
    quitter = Process([sys.executable, "-c", script], {"MLXCOMM_SOCKET": c.socket(0)})
    c.ranks.append(quitter)
    c.daemons[0].wait_for("is formed")
    quitter.signal(signal.SIGINT)
    quitter.wait_for("gave up")
    c.daemons[1].signal(signal.SIGCONT)
    assert other.finish() == 3
    assert any("RANK_LOST" in line or "RankLostError" in line for line in other.lines), other.lines
    assert any("rank 0" in line and "gave up" in line for line in other.lines), other.lines


# Why: two machines that slept at the same time have received nothing from each other in the meantime; macOS's
# clock counts sleep. How: both daemons are stopped for longer than the heartbeat timeout.
def test_daemons_that_slept_at_the_same_time_keep_their_link(cluster):
    c = cluster(2, peer_settings="heartbeat_interval_ms: 2000 heartbeat_timeout_ms: 2500")
    for daemon in c.daemons:
        daemon.signal(signal.SIGSTOP)
    over = time.monotonic() + 7
    wait_until(lambda: time.monotonic() > over, "they were stopped for long enough")
    for daemon in c.daemons:
        daemon.signal(signal.SIGCONT)
    for node in range(2):
        ping, events = [[find_program("mlxcommctl"), *words, "--socket", c.socket(node)] for words in (
            ["ping", f"node-{1 - node}", "-c", "1"], ["events", "--json", "-n", "1000"])]
        assert subprocess.run(ping, timeout=PATIENCE).returncode == 0
        reported = completed(events, check=True).stdout
        assert "rail_up" in reported and "rail_down" not in reported, reported


# Why: a call without a timeout has the daemon's, and a stopped daemon enforces none.
def test_a_rank_that_waits_for_others_ends_though_its_daemon_hangs(cluster):
    c = cluster(1, client_settings="rendezvous_timeout_ms: 5000")
    script = ("import mlxcomm\ntry:\n mlxcomm.init(job='job', rank=0, size=2)\n"
              "except mlxcomm.Error as e:\n print('ended', type(e).__name__, e)\n")
    rank = Process([sys.executable, "-c", script], {"MLXCOMM_SOCKET": c.socket(0)})
    c.ranks.append(rank)
    wait_until(lambda: (c.status(0) or {"jobs": []})["jobs"], "the daemon knows of the rank")
    c.daemons[0].signal(signal.SIGSTOP)
    line = rank.wait_for("ended")
    assert "DaemonLostError" in line and "does not answer" in line
    assert rank.finish() == 0


def test_second_daemon_on_a_socket_is_refused(solo):
    second = Process([find_program("mlxcommd"), "--config", str(solo.write_config(0))])
    assert second.finish() == 1
    assert "another mlxcommd is" in second.lines[-1]
