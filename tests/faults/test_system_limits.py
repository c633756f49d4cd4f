"""Machines that grant a daemon little: few files, little memory, a full disk. It refuses to start, with
the limit and the remedy, or continues with what is available."""

import contextlib
import errno
import os
import re
import resource
import signal
import socket
import subprocess
import sys

import pytest

from conftest import (
    PATIENCE,
    POSIX,
    Process,
    completed,
    find_program,
    find_test_program,
    mlxcommctl,
    wait_until,
)
from ground.client_hello import HELLO, MAGIC, VERSION, say_hello
from ground.daemon_resources import Resources, given_back

linux_root = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0,
                                reason="needs mounts of its own: root on Linux")
A_CLIENT = HELLO.pack(MAGIC, VERSION, 1, 1 << 20, 0)


def config_in(folder, extra="", log=False):
    path = folder / "daemon.textproto"
    place = folder / "small"
    path.write_text(f'state_directory: "{place}/state" socket_path: "{place}/d.sock"\n'
                    + (f'log {{ file: "{place}/log" }}\n' if log else "") + extra)
    place.mkdir()
    return path, place


def limited(config, limit, most):
    return Process([find_program("mlxcommd"), "--config", str(config)],
                   preexec_fn=lambda: resource.setrlimit(limit, (most, most)))


def rank(path, number=0, size=1, words=("sum:100000",)):
    return Process([find_test_program("ground", "ground_rank"), str(number), str(size), "job", *words],
                   {"MLXCOMM_SOCKET": str(path)})


def job_is_fine(path):
    ranks = [rank(path, number, 2) for number in (0, 1)]
    assert [one.finish() for one in ranks] == [0, 0], [one.lines for one in ranks]


# Why: gRPC ends the process if it gets no descriptor, and by then clients could see the socket.
@pytest.mark.parametrize("limit, most, said", [
    (resource.RLIMIT_NOFILE, 12, ["open files (RLIMIT_NOFILE) is 12", "ulimit -n", "LimitNOFILE",
                                  "NumberOfFiles"]),
    pytest.param(resource.RLIMIT_AS, 300_000_000,
                 ["memory (RLIMIT_AS) is 300000000 bytes", "ulimit -v", "LimitAS"],
                 marks=pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce it"))])
def test_a_limit_that_is_too_small_is_reported_before_the_socket_exists(tmp_path, limit, most, said):
    config, place = config_in(tmp_path)
    with limited(config, limit, most) as daemon:
        assert daemon.finish() == 1, daemon.lines
        assert all(words in daemon.lines[-1] for words in said), daemon.lines
        assert not list(place.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="limits of descriptors differ")
def test_a_daemon_that_has_no_file_left_refuses_clients_and_goes_on(tmp_path):
    config, place = config_in(tmp_path)
    path = str(place / "d.sock")
    with limited(config, resource.RLIMIT_NOFILE, 64) as daemon:
        daemon.wait_for("is ready")
        job_is_fine(path)
        with given_back(daemon.child.pid), contextlib.ExitStack() as held:
            clients, files = 0, True
            while files:
                connection, answer, files = say_hello(path, A_CLIENT, 3)
                held.enter_context(connection)
                for file in files:
                    held.callback(os.close, file)
                clients += bool(files)
            assert b"Too many open files" in answer and 1 < clients < 16, (clients, answer)
        job_is_fine(path)


# Why: a client that was accepted lost a daemon that had no descriptor left for the other end of its calls;
# the error was "Transport closed". How: each silent connection takes one more descriptor.
@pytest.mark.skipif(sys.platform != "linux", reason="limits of descriptors differ")
def test_a_tool_near_the_limit_of_files_is_served_or_refused(tmp_path):
    config, place = config_in(tmp_path, "clients { hello_timeout_ms: 60000 }")
    path = str(place / "d.sock")
    with limited(config, resource.RLIMIT_NOFILE, 64) as daemon:
        daemon.wait_for("is ready")
        served = 0
        with contextlib.ExitStack() as held:
            for _ in range(64):
                done = mlxcommctl("status", "--socket", path)
                if done.returncode != 0:
                    break
                served += 1
                silent = held.enter_context(socket.socket(socket.AF_UNIX))
                silent.connect(path)
            assert "Too many open files" in done.stderr and 1 < served < 60, (served, done)
        job_is_fine(path)


# Why: the requirement that it reports is the sum of its parts (daemon/main.cc).
@pytest.mark.skipif(sys.platform != "linux" or POSIX, reason="what a client costs differs")
def test_a_daemon_with_as_few_files_as_it_takes_serves_a_client_and_a_tool(tmp_path):
    config, place = config_in(tmp_path)
    refused = limited(config, resource.RLIMIT_NOFILE, 12)
    assert refused.finish() == 1, refused.lines
    least = int(re.search(r"mlxcommd needs (\d+) to start", refused.lines[-1]).group(1))
    daemon = limited(config, resource.RLIMIT_NOFILE, least)

    def descriptors():
        return Resources.of(daemon.child.pid).descriptors

    path = str(place / "d.sock")
    try:
        daemon.wait_for("is ready")
        before = descriptors()
        connection, answer, files = say_hello(path, A_CLIENT, 3)
        with connection:
            assert len(files) == 3, answer
            wait_until(lambda: descriptors() == before + 8, "it serves its calls")
            status = [find_program("mlxcommctl"), "status", "--socket", path]
            done = completed(status)
            assert done.returncode == 0, done
        for file in files:
            os.close(file)
    finally:
        daemon.end()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not enforce the limit")
def test_an_arena_that_does_not_fit_is_refused_with_both_remedies(tmp_path):
    config, place = config_in(tmp_path, "clients { arena_bytes_max: 34359738368 }")
    with limited(config, resource.RLIMIT_AS, 2 << 30) as daemon:
        daemon.wait_for("is ready")
        client = rank(place / "d.sock")
        assert client.finish() == 3, client.lines
        said = client.lines[-1]
        assert "RESOURCE_EXHAUSTED" in said and "arena_bytes" in said, said
        assert f"ulimit -v: {2 << 20} KiB" in said, said
        _, answer, files = say_hello(str(place / "d.sock"), A_CLIENT, 3)
        assert len(files) == 3, answer
        for file in files:
            os.close(file)


class SmallDisk:
    """A daemon with a file system of 256 KiB of its own, and another one at /dev/shm, which is full.

    A build with macOS's interfaces keeps the machine's /dev/shm: shared memory by name is a file there, as it
    is not on macOS.
    """

    def __init__(self, folder, before_start=""):
        config, self.place = config_in(folder, log=True)
        self.stderr = folder / "stderr"
        self.daemon = Process(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             f"mount -t tmpfs -o size=256k,mode=755 none {self.place} && "
             f"{'' if POSIX else 'mount -t tmpfs -o size=4k none /dev/shm && echo > /dev/shm/full && '}"
             f"{before_start} "
             f"exec {find_program('mlxcommd')} --config {config} 2>> {self.stderr}"])
        self.inside = f"/proc/{self.daemon.child.pid}/root{self.place}"

    def log(self):
        try:
            with open(f"{self.inside}/log", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:  # Not mounted yet.
            return ""

    def fill(self):
        with open(f"{self.inside}/filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                assert error.errno == errno.ENOSPC

    def logs_until(self, condition, what):
        """Each SIGHUP writes a log line."""
        def again():
            self.daemon.signal(signal.SIGHUP)
            return condition()

        wait_until(again, what)


# Why: a full disk must neither end a daemon nor make it complain about every line.
@linux_root
def test_a_full_disk_only_costs_log_lines_and_is_reported_once(tmp_path):
    disk = SmallDisk(tmp_path)
    try:
        wait_until(lambda: "is ready" in disk.log(), "it is ready")
        disk.fill()
        disk.logs_until(lambda: "lines are lost" in disk.stderr.read_text(), "it says so")
        job_is_fine(f"{disk.inside}/d.sock")
        os.remove(f"{disk.inside}/filler")
        disk.logs_until(lambda: "lines before this one were lost" in disk.log(), "it has recovered")
        job_is_fine(f"{disk.inside}/d.sock")
        lines = disk.log().splitlines()
        assert all(line.startswith("[20") for line in lines if line), "a line was torn"
        disk.daemon.signal(signal.SIGTERM)
        assert disk.daemon.finish() == 0
        said = disk.stderr.read_text().splitlines()
        assert len(said) == 1 and "No space left on device" in said[0], said
    finally:
        disk.daemon.end()


@linux_root
def test_a_disk_that_is_full_at_the_start_leaves_nothing_half_made(tmp_path):
    place = tmp_path / "small"
    disk = SmallDisk(tmp_path, before_start=(
        f"dd if=/dev/zero of={place}/filler bs=4k 2> /dev/null; "
        f"{find_program('mlxcommd')} --config {tmp_path}/daemon.textproto 2> {tmp_path}/first; "
        f"echo $? $(ls {place}/state) >> {tmp_path}/first; rm {place}/filler;"))
    try:
        wait_until(lambda: "is ready" in disk.log(), "it is ready once there is room")
        first = (tmp_path / "first").read_text().splitlines()
        assert first[-1] == "1", first
        assert any("No space left on device (set state_directory)" in line for line in first), first
    finally:
        disk.daemon.end()


# Why: --check-config, which the service's installer runs, must find everything that a start refuses.
def test_check_config_checks_the_state_directory(tmp_path):
    config, place = config_in(tmp_path)
    state = place / "state"
    check = [find_program("mlxcommd"), "--config", str(config), "--check-config"]
    assert subprocess.run(check, timeout=PATIENCE).returncode == 0, "it is made at the start"
    state.mkdir()
    state.chmod(0o777)
    refused = completed(check)
    assert refused.returncode == 2 and "chmod o-w" in refused.stderr, refused
    state.chmod(0o755)
    assert subprocess.run(check, timeout=PATIENCE).returncode == 0
    if os.geteuid() == 0:
        os.chown(state, 61001, 61001)
        refused = completed(check)
        assert refused.returncode == 2 and "belongs to user 61001" in refused.stderr, refused
