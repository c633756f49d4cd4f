"""The daemon as a process: the effect of its signals, and where its log goes."""

import json
import os
import pty
import signal
import stat
import subprocess
import sys

from conftest import PATIENCE, RANK, Process, find_program, mlxcommctl, wait_until


def write_config(folder, extra=""):
    path = folder / "daemon.textproto"
    path.write_text(f'state_directory: "{folder}/state" socket_path: "{folder}/d.sock"\n{extra}\n')
    return path


def test_log_moved_aside_is_reopened_at_sighup(tmp_path):
    log = tmp_path / "daemon.log"
    with Process([find_program("mlxcommd"), "--config",
                  str(write_config(tmp_path, f'log {{ file: "{log}" }}'))]) as daemon:
        wait_until(lambda: log.exists() and "is ready" in log.read_text(), "it is ready")
        log.rename(tmp_path / "old.log")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: log.exists() and "log reopened" in log.read_text(), "a new log is there")
        daemon.signal(signal.SIGTERM)
        assert daemon.finish() == 0
        assert "stopped" in log.read_text()
        assert "stopped" not in (tmp_path / "old.log").read_text()


# Why: some shells and launchers set no umask, and the daemon refuses a folder that others can write.
def test_a_daemon_without_a_umask_makes_files_that_others_cannot_write(tmp_path):
    state = tmp_path / "state"
    with Process([find_program("mlxcommd"), "--config", str(write_config(tmp_path))],
                 preexec_fn=lambda: os.umask(0)) as daemon:
        daemon.wait_for("is ready")
        assert [path for path in [state, *state.iterdir()] if path.stat().st_mode & stat.S_IWOTH] == []
        daemon.signal(signal.SIGTERM)
        assert daemon.finish() == 0


def start_in_terminal(folder, *prefix, arguments=None):
    """The daemon in a session and terminal of its own, standard error in a file."""
    log = open(folder / "stderr", "wb")
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        os.close(os.open(os.ttyname(slave), os.O_RDWR))  # The first one opened becomes ours.

    child = subprocess.Popen(
        [*prefix, find_program("mlxcommd"),
         *(arguments or ["--config", str(write_config(folder))])],
        stdin=slave, stdout=log, stderr=log, preexec_fn=take_terminal)
    os.close(slave)
    log.close()
    wait_until(lambda: b"is ready" in (folder / "stderr").read_bytes(), "it is ready")
    return child, master


# Why: a daemon that outlives its terminal unnoticed keeps socket and ports.
def test_daemon_ends_cleanly_with_its_terminal(tmp_path):
    child, terminal = start_in_terminal(tmp_path)
    try:
        child.send_signal(signal.SIGHUP)  # The terminal is still there: no reason to end.
        wait_until(lambda: b"no log file" in (tmp_path / "stderr").read_bytes(), "it heard that")
        os.close(terminal)
        assert child.wait(timeout=PATIENCE) == 0
        assert b"stopped" in (tmp_path / "stderr").read_bytes()
    finally:
        child.kill()
        child.wait()


def lets_it_outlive_its_terminal(folder, *prefix, arguments=None):
    child, terminal = start_in_terminal(folder, *prefix, arguments=arguments)
    try:
        os.close(terminal)
        wait_until(lambda: b"no log file" in (folder / "stderr").read_bytes(), "it heard that")
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=PATIENCE) == 0
    finally:
        child.kill()
        child.wait()


def test_nohup_lets_it_outlive_its_terminal(tmp_path):
    lets_it_outlive_its_terminal(tmp_path, "nohup")


# Why: it serves ranks of other terminals as well.
def test_private_daemon_outlives_the_terminal_of_who_started_it(tmp_path):
    lets_it_outlive_its_terminal(
        tmp_path, arguments=["--private", "--socket", str(tmp_path / "private.sock")])


# Why: it serves all ranks of the machine. It stays in the session of the rank that started it, because the
# system shares cores among sessions first.
def test_ctrl_c_at_the_rank_that_started_it_does_not_end_a_private_daemon(tmp_path):
    script = ("import mlxcomm, signal, sys\n"
              "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
              "group = mlxcomm.init(job=sys.argv[1], rank=int(sys.argv[2]), size=2)\n"
              "print('joined', flush=True)\n"
              "sys.stdin.readline()\n"
              "mlxcomm.barrier(group=group)\n"
              "print('still served', flush=True)\n")
    ranks = []

    def start(job, rank):
        ranks.append(Process(
            ["env", "-u", "MLXCOMM_SOCKET", sys.executable, "-c", script, job, str(rank)],
            {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE, preexec_fn=os.setpgrp))
        return ranks[-1]

    try:
        first = start("waits for a second rank", 0)
        folder = tmp_path / f"mlxcommd-{os.getuid()}"
        log = folder / "mlxcommd.log"
        wait_until(lambda: log.exists() and "is ready" in log.read_text(), "a daemon is there")
        others = [start("goes on", rank) for rank in range(2)]
        for rank in others:
            rank.wait_for("joined")
        status = mlxcommctl("status", "--json", "--socket", folder / "mlxcommd.sock")
        daemon = int(json.loads(status.stdout)["nodes"][0]["pid"])
        assert os.getpgid(daemon) == daemon
        assert os.getsid(daemon) == os.getsid(first.child.pid)
        os.killpg(first.child.pid, signal.SIGINT)
        assert first.finish() != 0
        for rank in others:
            rank.say()
        for rank in others:
            rank.wait_for("still served")
            assert rank.finish() == 0
        wait_until(lambda: "stopped" in log.read_text(), "it ends with its last client")
    finally:
        for rank in ranks:
            rank.end()


# Why: the end of the last client asks a private daemon to stop, which must not count as a second SIGTERM.
def test_private_daemon_drains_to_its_end_when_its_last_client_leaves_meanwhile(tmp_path):
    path = str(tmp_path / "private.sock")
    daemon = Process([find_program("mlxcommd"), "--private", "--socket", path])
    ranks = []
    try:
        daemon.wait_for("is ready")
        for number in range(2):
            ranks.append(Process(
                [sys.executable, "-u", str(RANK), "wait"],
                {"MLX_RANK": str(number), "MLX_WORLD_SIZE": "2", "MLXCOMM_JOB": "draining",
                 "MLXCOMM_SOCKET": path}))
        for rank in ranks:
            rank.wait_for("waiting")
        daemon.signal(signal.SIGTERM)
        daemon.wait_for("stopping")
        for rank in ranks:
            rank.signal(signal.SIGKILL)
        daemon.wait_for("stopped")
        assert daemon.finish() == 0
    finally:
        for process in [daemon, *ranks]:
            process.end()
