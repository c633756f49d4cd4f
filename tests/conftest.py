"""Real daemons and real ranks for the tests of this folder.

A Cluster is N mlxcommd processes joined over loopback, each pair by one link unless the test names the links.
Ranks print what they did; tests wait for such lines with a deadline, never for time to pass.
"""

import contextlib
import json
import os
import pathlib
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

sys.path.append(os.path.join(os.path.dirname(__file__), "rdma-vm"))
import own_network

# Runs the tests of rdma-vm in a virtual machine.
from in_machine import pytest_configure, pytest_runtest_protocol  # noqa: F401

# In the background or below nohup, these are ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# True if the build under test has macOS's interfaces or stand-ins for them (-DMLXCOMM_POSIX_PLATFORM=ON).
POSIX = os.path.exists(os.path.join(os.environ.get("MLXCOMM_BUILD", ""), "tests", "darwin"))

# A program over MLX that does what its arguments say.
RANK = os.path.join(os.path.dirname(__file__), "ground", "rank.py")
GIVEN_PORTS = set()

PATIENCE = 300  # Seconds after which something is declared stuck; never a measurement.


def find_program(name):
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else shutil.which(name)


def find_test_program(folder, name):
    build = os.environ.get("MLXCOMM_BUILD")
    assert build, "set MLXCOMM_BUILD to a build folder with MLXCOMM_TESTS=ON (tests/run does)"
    return os.path.join(build, "tests", folder, name)


def cpu_seconds(pid):
    """Returns the CPU time of a process; Linux only."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port():
    """Returns another port each time, below those that the system uses for outgoing connections."""
    while True:
        port = random.SystemRandom().randrange(10240, 32768)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            if port not in GIVEN_PORTS:
                GIVEN_PORTS.add(port)
                return port


def wait_until(condition, what):
    """Pauses for longer than a check takes, because a check may be a program that needs a core."""
    deadline = time.monotonic() + PATIENCE
    while (begin := time.monotonic()) < deadline:
        value = condition()
        if value:
            return value
        threading.Event().wait(min(0.2, max(0.01, 3 * (time.monotonic() - begin))))
    raise AssertionError(f"gave up waiting until {what}")


def pytest_sessionstart(session):
    is_worker = hasattr(session.config, "workerinput")  # One of several (pytest -n).
    if is_worker and not own_network.enter() and os.environ.get("MLXCOMM_OWN_NETWORK"):
        pytest.exit("this worker got no network of its own (a limit of namespaces?), and others have one")


class Process:
    """A child whose output lines can be waited for."""

    def __init__(self, command, environment=None, **kwargs):
        self.lines = []
        self._queue = queue.Queue()
        self.child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **(environment or {})}, **kwargs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.child.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait_for(self, text):
        """Returns the next line that contains the text."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {text!r} in time; it said {self.lines}") from None
            if line is None:
                raise AssertionError(f"ended without {text!r}; it said {self.lines}")
            self.lines.append(line)
            if text in line:
                return line

    def finish(self):
        """Waits until the process ends and returns its exit code."""
        code = self.child.wait(timeout=PATIENCE)
        self._reader.join(timeout=PATIENCE)
        while not self._queue.empty():
            line = self._queue.get()
            if line is not None:
                self.lines.append(line)
        return code

    def say(self, line="go on"):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def signal(self, number):
        self.child.send_signal(number)

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def completed(command, **kwargs):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=PATIENCE, **kwargs)


def mlxcommctl(*words, **kwargs):
    return completed([find_program("mlxcommctl"), *words], **kwargs)


def lines_of(processes):
    """Expects that all end with exit code 0; returns their output."""
    for process in processes:
        assert process.finish() == 0, process.lines[-30:]
    return [process.lines for process in processes]


class Cluster:
    def __init__(self, folder, count, client_settings="", peer_settings="", top_settings="",
                 links=None):
        """links: pairs (dialer, acceptor); all pairs unless given."""
        self.folder = folder
        self.count = count
        self.links = links or [(a, b) for a in range(count) for b in range(a)]
        self.ports = [free_port() for _ in range(count)]
        self.key = folder / "key"
        if not self.key.exists():
            self.key.write_text(os.urandom(32).hex() + "\n")
            self.key.chmod(0o600)
        self.keys = [self.key] * count
        self.settings = (client_settings, peer_settings, top_settings)
        self.daemons = [None] * count
        self.ranks = []

    def socket(self, node):
        return str(self.folder / f"{node}.sock")

    def key_of(self, node):
        return str(self.keys[node])

    def own_keys(self):
        """Gives each node a key file of its own, with the same key."""
        self.keys = [self.folder / f"key-{node}" for node in range(self.count)]
        for key in self.keys:
            key.write_text(self.key.read_text(encoding="ascii"), encoding="ascii")
            key.chmod(0o600)

    def dials(self, node, dialed):
        return self.ports[dialed]

    def more_peer_settings(self, node):
        return ""

    def write_config(self, node):
        client_settings, peer_settings, top_settings = self.settings
        peers = ""
        if self.count > 1:
            connect = " ".join(f'connect: "127.0.0.1:{self.dials(dialer, dialed)}"'
                               for dialer, dialed in self.links if dialer == node)
            peers = (f'peers {{ key_file: "{self.key_of(node)}" listen: "127.0.0.1:{self.ports[node]}" '
                     f"{connect} {self.more_peer_settings(node)} {peer_settings} }}")
        path = self.folder / f"{node}.textproto"
        path.write_text(
            f'cluster: "test" node_name: "node-{node}" state_directory: "{self.folder}/{node}"\n'
            f'socket_path: "{self.socket(node)}"\n{peers}\n'
            f"clients {{ {client_settings} }}\n{top_settings}\n")
        return path

    def start_daemon(self, node):
        self.daemons[node] = Process(
            [find_program("mlxcommd"), "--config", str(self.write_config(node))])
        return self.daemons[node]

    def start(self):
        for node in range(self.count):
            self.start_daemon(node)
        self.wait_linked()
        return self

    def ctl(self, *words, node=0, codes=(0,), **kwargs):
        """Returns mlxcommctl's output for the node; its exit code must be one of these."""
        done = mlxcommctl(*words, "--socket", self.socket(node), **kwargs)
        assert done.returncode in codes, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def status(self, node=0):
        done = mlxcommctl("status", "--json", "--socket", self.socket(node))
        return json.loads(done.stdout) if done.returncode == 0 else None

    def events(self, node=0):
        reported = self.ctl("events", "--json", "-n", "1000", node=node)
        return [json.loads(line) for line in reported.splitlines()]

    def findings(self, *words, node=0):
        """Returns what doctor finds, by code; its exit code depends on this machine, too."""
        report = json.loads(self.ctl("doctor", "--json", *words, node=node, codes=(0, 1, 4)))
        return {finding["code"]: finding for finding in report["findings"]}

    def operations_in_flight(self):
        """Returns the operations that ranks are in."""
        status = self.status() or {"jobs": []}
        return [rank["operation"] for job in status["jobs"] for rank in job["ranks"] if rank["operation"]]

    def wait_for_an_operation(self):
        wait_until(self.operations_in_flight, "an operation is in flight")

    def wait_linked(self):
        def linked():
            for node in range(self.count):
                daemon = self.daemons[node]
                if daemon is not None and daemon.child.poll() is not None:
                    daemon.finish()
                    raise AssertionError(f"node {node} has ended: {daemon.lines}")
                status = self.status(node)
                if status is None or len(status["nodes"]) != self.count:
                    return False
                if any(link["state"] != "up" for link in status["nodes"][0]["links"]):
                    return False
            return True

        wait_until(linked, "all daemons are linked")

    def start_as(self, rank, size, command, node=0, job="job", environment=None, **kwargs):
        """Starts a program with the variables that a launcher sets for a rank."""
        process = Process(
            command, {"MLX_RANK": str(rank), "MLX_WORLD_SIZE": str(size), "MLXCOMM_JOB": job,
                      "MLXCOMM_SOCKET": self.socket(node), **(environment or {})}, **kwargs)
        self.ranks.append(process)
        return process

    def rank(self, rank, size, script, arguments=(), **kwargs):
        return self.start_as(rank, size, [sys.executable, "-u", str(script), *map(str, arguments)], **kwargs)

    def python(self, rank, size, text, *arguments, **kwargs):
        return self.rank(rank, size, "-c", (text, *arguments), **kwargs)

    def end(self):
        for process in self.ranks + [d for d in self.daemons if d is not None]:
            process.end()


def clusters(kind, folder):
    """For fixtures: make(count, **settings) returns a running cluster of this kind, or one to be started with
    start=False. All clusters end with the test."""
    made = []

    def make(count, start=True, **settings):
        made.append(kind(folder, count, **settings))
        return made[-1].start() if start else made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def cluster(tmp_path):
    yield from clusters(Cluster, tmp_path)


@pytest.fixture
def solo(cluster):
    """A running cluster of one node."""
    return cluster(1)


@pytest.fixture
def duo(cluster):
    """A running cluster of two nodes."""
    return cluster(2)


@pytest.fixture
def counted(tmp_path):
    """Makes clusters whose daemons count their operations."""
    from interop.counted import CountedCluster
    yield from clusters(CountedCluster, tmp_path)


@pytest.fixture
def lab(tmp_path):
    """lab(wiring, **settings) returns a running LabCluster. Skips if network namespaces are not allowed."""
    from ground.cluster import LabCluster
    from ground.namespaces import NotAllowed
    made = []

    def make(wiring, **settings):
        try:
            made.append(LabCluster(tmp_path, wiring, **settings))
        except NotAllowed as error:
            pytest.skip(str(error))
        return made[-1].start()

    yield make
    for one in made:
        one.end()


@pytest.fixture(scope="session")
def undisturbed_soft_roce(tmp_path_factory):
    """One SoftRoceCluster for each kind of limits, for tests that leave it as it was."""
    from soft_roce import SoftRoceCluster
    made = {}

    def find(limits):
        if limits not in made:
            made[limits] = SoftRoceCluster(tmp_path_factory.mktemp(limits), limits)
            made[limits].start()
        return made[limits]

    yield find
    for one in made.values():
        one.end()


@pytest.fixture
def soft_roce(tmp_path):
    """soft_roce(limits, **settings) returns a running SoftRoceCluster with an RDMA rail."""
    from soft_roce import SoftRoceCluster
    made = []

    def make(limits, **settings):
        made.append(SoftRoceCluster(tmp_path, limits, **settings))
        return made[-1].start()

    yield make
    for one in made:
        one.end()


SIGKILL = signal.SIGKILL
