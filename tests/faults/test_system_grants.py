"""What the daemon asks of the system for itself: to stay awake while a job runs, quality of service,
open files. Most of it over the build with macOS's ways, which writes down what is asked for
(tests/darwin)."""

import os
import pathlib
import resource

import pytest

from conftest import Process, find_program, wait_until

RANK = pathlib.Path(__file__).with_name("rank.py")
POSIX = os.path.exists(os.path.join(os.environ.get("MLXCOMM_BUILD", ""), "tests", "darwin"))


@pytest.mark.skipif(not POSIX, reason="only over a build with -DMLXCOMM_POSIX_PLATFORM=ON")
def test_the_machine_is_kept_awake_while_there_is_a_group(cluster, tmp_path, monkeypatch):
    told = tmp_path / "assertions"
    told.touch()
    monkeypatch.setenv("MLXCOMM_DARWIN_ASSERTIONS", str(told))
    nodes = cluster(1)
    assert told.read_text() == ""
    for _ in range(2):
        told.write_text("")
        ranks = [nodes.rank(rank, 2, RANK, arguments=["wait"]) for rank in range(2)]
        for rank in ranks:
            rank.wait_for("waiting")
        wait_until(lambda: "held" in told.read_text(), "it is kept awake")
        assert told.read_text() == "held PreventUserIdleSystemSleep 255 mlxcommd: a job runs\n"
        for rank in ranks:
            rank.end()
        wait_until(lambda: "released" in told.read_text(), "it may sleep again")
        assert told.read_text().count("\n") == 2


# Why: a thread of default quality is moved to efficiency cores under load, and its timers are late.
# How: this build sets a timer slack of its own where macOS would set the quality of service.
@pytest.mark.skipif(not POSIX, reason="only over a build with -DMLXCOMM_POSIX_PLATFORM=ON")
def test_who_carries_payload_has_the_quality_of_what_a_user_waits_for(cluster):
    nodes = cluster(2)

    def threads_of_quality(pid):
        count = 0
        for thread in os.listdir(f"/proc/{pid}/task"):
            count += pathlib.Path(f"/proc/{thread}/timerslack_ns").read_text().strip() == "51234"
        return count

    for daemon in nodes.daemons:
        # Engine, four workers, the rail to the other node.
        wait_until(lambda daemon=daemon: threads_of_quality(daemon.child.pid) >= 6,
                   "engine, workers and rail have it")


# Why: who starts a private daemon gives it a shell's limit, 256 on macOS; forty clients are too many then.
def test_the_limit_of_open_files_is_raised(tmp_path):
    config = tmp_path / "daemon.textproto"
    config.write_text(f'state_directory: "{tmp_path}/state" socket_path: "{tmp_path}/d.sock"\n')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    daemon = Process([find_program("mlxcommd"), "--config", str(config)],
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)))
    try:
        daemon.wait_for("is ready")
        if not hasattr(resource, "prlimit"):
            pytest.skip("this system does not tell another process's limits")
        assert resource.prlimit(daemon.child.pid, resource.RLIMIT_NOFILE) == (most, hard)
    finally:
        daemon.end()
