"""The daemon's requests to the system: to stay awake while a job runs, quality of service, open files. Mostly
with the build for macOS's interfaces, which logs each request (tests/darwin)."""

import os
import pathlib
import resource

import pytest

from conftest import POSIX, RANK, Process, find_program, wait_until
from ground.outcomes import until_looping
from operations.test_rdma import fake_verbs, start, verbs, wait_for_rails  # noqa: F401


@pytest.mark.skipif(not POSIX, reason="only over a build with -DMLXCOMM_POSIX_PLATFORM=ON")
def test_the_machine_is_kept_awake_while_there_is_a_group(cluster, tmp_path, monkeypatch):
    reported = tmp_path / "assertions"
    reported.touch()
    monkeypatch.setenv("MLXCOMM_DARWIN_ASSERTIONS", str(reported))
    nodes = cluster(1)
    assert reported.read_text() == ""
    for _ in range(2):
        reported.write_text("")
        ranks = [nodes.rank(rank, 2, RANK, arguments=["wait"]) for rank in range(2)]
        for rank in ranks:
            rank.wait_for("waiting")
        wait_until(lambda: "held" in reported.read_text(), "it is kept awake")
        assert reported.read_text() == "held PreventUserIdleSystemSleep 255 mlxcommd: a job runs\n"
        for rank in ranks:
            rank.end()
        wait_until(lambda: "released" in reported.read_text(), "it may sleep again")
        assert reported.read_text().count("\n") == 2


# Why: a job of two other nodes ends if the machine between them sleeps.
@pytest.mark.skipif(not POSIX, reason="only over a build with -DMLXCOMM_POSIX_PLATFORM=ON")
def test_a_machine_that_others_jobs_go_through_is_kept_awake(cluster, tmp_path, monkeypatch):
    nodes = cluster(3, links=[(1, 0), (2, 1)], start=False)
    reported = [tmp_path / f"assertions-{node}" for node in range(3)]
    for node, file in enumerate(reported):
        file.touch()
        monkeypatch.setenv("MLXCOMM_DARWIN_ASSERTIONS", str(file))
        nodes.start_daemon(node)
    nodes.wait_linked()
    assert reported[1].read_text() == "", "the two are linked through it, and have nothing to do"
    ranks = [nodes.rank(rank, 2, RANK, node=2 * rank, arguments=["loop"]) for rank in range(2)]
    until_looping(ranks)
    wait_until(lambda: reported[1].read_text(), "it is kept awake")
    assert reported[1].read_text() == "held PreventUserIdleSystemSleep 255 mlxcommd: a job runs\n"


def threads_of_quality(pid):
    """This build sets the thread's timer slack where macOS would set the quality of service."""
    count = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        slack = int(pathlib.Path(f"/proc/{thread}/timerslack_ns").read_text())
        count += slack == 60000 + int(thread) % 10000
    return count


# Why: under load a thread of default quality moves to efficiency cores, and its timers are late.
@pytest.mark.skipif(not POSIX, reason="only over a build with -DMLXCOMM_POSIX_PLATFORM=ON")
def test_threads_that_carry_payload_have_interactive_quality_of_service(cluster, monkeypatch):
    monkeypatch.setenv("MLXCOMM_SCHEDULING", "many_cores")
    workers = min(max(len(os.sched_getaffinity(0)), 5) // 2, 4)  # scheduling_policy.h
    nodes = cluster(2)
    ranks = [nodes.rank(rank, 2, RANK, node=rank, arguments=["loop"]) for rank in range(2)]
    until_looping(ranks)  # A rail has a thread once it needs one.
    for daemon in nodes.daemons:
        # The loop, the workers and the rail to the other node.
        wait_until(lambda daemon=daemon: threads_of_quality(daemon.child.pid) == 1 + workers + 1,
                   "loop, workers and rail have it")


# Why: it is a separate process, which does not inherit its daemon's quality of service.
@pytest.mark.skipif(not POSIX, reason="only over a build with -DMLXCOMM_POSIX_PLATFORM=ON")
def test_the_drivers_process_has_interactive_quality_of_service(cluster, verbs):  # noqa: F811
    nodes = start(cluster, verbs, 2, "APPLE")
    wait_for_rails(nodes, 2)
    for node in range(2):
        device, = nodes.status(node)["nodes"][0]["transports"][0]["devices"]
        # The thread that answers the daemon, and that of the queue pair.
        wait_until(lambda pid=device["driver_pid"]: threads_of_quality(pid) == 2, "both have it")


# Why: a private daemon inherits a shell's limit, 256 on macOS; forty clients are too many then.
def test_the_limit_of_open_files_is_raised(tmp_path):
    config = tmp_path / "daemon.textproto"
    config.write_text(f'state_directory: "{tmp_path}/state" socket_path: "{tmp_path}/d.sock"\n')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    with Process([find_program("mlxcommd"), "--config", str(config)],
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))) as daemon:
        daemon.wait_for("is ready")
        if not hasattr(resource, "prlimit"):
            pytest.skip("this system does not tell another process's limits")
        assert resource.prlimit(daemon.child.pid, resource.RLIMIT_NOFILE) == (most, hard)
