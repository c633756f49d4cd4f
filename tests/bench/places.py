"""The places where ranks run: a Machine (daemons joined over loopback) or a Lab (a host for each rank, and
cables). Systems start their processes here and ask for addresses.

With own_cores each rank has its own cores, as mpirun binds its ranks, and each of several daemons has its
rank's. Otherwise chance decides which threads share a core, and so the time of small sizes (README.md)."""

import contextlib
import itertools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

from conftest import Cluster, free_port
from ground.cluster import LabCluster

PATIENCE = 300  # Seconds after which a system is declared stuck; busy cores make some slow.
NODE_NET = "10.99.0.0/24"


class Failed(Exception):
    """The reason why a system has no figures."""


def cores_of(rank, ranks):
    """Returns an equal share of the cores; none if there are too few or the system cannot bind."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // ranks
    return cores[rank * each:(rank + 1) * each]


@contextlib.contextmanager
def started_on(cores):
    """Binds processes that the block starts to these cores, if any."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class BoundDaemons:
    """Starts each daemon on its node's cores."""

    def start_daemon(self, node):
        with started_on(self.cores(node)):
            return super().start_daemon(node)


class MachineCluster(BoundDaemons, Cluster):
    pass


class HostsCluster(BoundDaemons, LabCluster):
    pass


class Place:
    """A cluster of daemons while it is up(), and a folder."""

    def __init__(self, name, ranks, nodes, own_cores):
        self.name, self.ranks, self.nodes, self.own_cores = name, ranks, nodes, own_cores
        self._runs = itertools.count()

    @contextlib.contextmanager
    def up(self):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            self.folder = pathlib.Path(folder)
            self.cluster = self._new_cluster()
            self.cluster.cores = lambda node: cores_of(node, self.nodes) if self.own_cores else []
            try:
                self._prepare()
                self.cluster.start()
                yield
            finally:
                self.cluster.end()

    def _prepare(self):
        pass

    def new_folder(self):
        folder = self.folder / f"run-{next(self._runs)}"
        folder.mkdir()
        return folder

    def cores(self, rank):
        return cores_of(rank, self.ranks) if self.own_cores else []

    def socket(self, rank):
        return self.cluster.socket(rank % self.nodes)

    def daemons(self):
        """Returns the daemons' process ids, for a rank that reads what they spend."""
        return " ".join(str(daemon.child.pid) for daemon in self.cluster.daemons)

    def start(self, rank, command, environment, cores=()):
        with started_on(cores):
            return subprocess.Popen(
                list(map(str, [*self._enter(rank), *command])), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=os.setpgrp,
                env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", **environment})

    def _enter(self, rank):
        return []


class Machine(Place):
    """Daemons of this machine, linked over loopback; rank r is on daemon r % daemons."""

    is_lab = False

    def __init__(self, name, ranks, daemons, own_cores=False):
        super().__init__(name, ranks, daemons, own_cores)

    def _new_cluster(self):
        return MachineCluster(self.folder, self.nodes)

    def address(self, _):
        return "127.0.0.1"

    def ring_addresses(self, _):
        return [f"127.0.0.1:{free_port()}"]


class Lab(Place):
    """Hosts that are network namespaces (tests/lab), rank r on host r. For systems that know nothing of
    cables, each host has an address of its own, and routes lead to all others'."""

    is_lab = True

    def __init__(self, name, wiring, own_cores=False):
        super().__init__(name, wiring.nodes, wiring.nodes, own_cores)
        self.wiring = wiring
        self._ports = itertools.count(20001)

    def _new_cluster(self):
        return HostsCluster(self.folder, self.wiring)  # Raises NotAllowed.

    def _prepare(self):
        for node in range(self.nodes):
            host = f"node-{node}"
            lines = ["link add here0 type veth peer name here1", "link set here0 up",
                     "link set here1 up", f"addr add {self.address(node)}/32 dev here0"]
            for other in set(range(self.nodes)) - {node}:
                interface, gateway = self._first_step(node, other)
                lines.append(f"route add {self.address(other)}/32 via {gateway} dev {interface} "
                             f"src {self.address(node)}")
            self.cluster.namespaces.ip(host, *lines)
            self.cluster.namespaces.call(
                ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], host=host)

    def _first_step(self, node, to):
        """Returns (own interface, neighbour's address) on a shortest path."""
        if to in self.wiring.neighbours(node):
            towards = to
        else:
            towards = (node + (1 if node < to else -1)) % self.nodes
        return next((interface, end.ipv4) for interface, end in self.wiring.ends_seen_from(node)
                    if end.place == f"node-{towards}")

    def address(self, rank):
        return f"10.99.0.{rank + 1}"

    def networks(self):
        """Returns the networks for Open MPI: both cables of a pair, over which it spreads, or else the hosts'
        own addresses, because it cannot use a ring."""
        if self.nodes == 2:
            return ",".join(f"{cable.ends[0].ipv4.rpartition('.')[0]}.0/24"
                            for cable in self.wiring.cables)
        return NODE_NET

    def ring_addresses(self, rank):
        """Returns the rank's addresses at the cables to its left neighbour, where MLX's ring listens."""
        left = f"node-{(rank - 1) % self.nodes}"
        return [f"{own.ipv4}:{next(self._ports)}" for own, cable in self.wiring.cables_of(rank)
                if left in {end.place for end in cable.ends}]

    def _enter(self, rank):
        return self.cluster.namespaces.enter(f"node-{rank}")

    def stream(self):
        """Bits per second of one TCP connection over the first cable (iperf3)."""
        address = self.wiring.cables[0].end_at("node-1").ipv4
        server = self.start(1, ["iperf3", "--server", "--one-off", "--forceflush",
                                "--bind", address], {})
        try:
            for line in server.stdout:
                if "listening" in line:
                    break
            client = self.start(0, ["iperf3", "--client", address, "--time", "1", "--json"], {})
            return json.loads(end_of([client])[0])["end"]["sum_received"]["bits_per_second"]
        finally:
            server.kill()
            server.communicate()


def end_of(processes, patience=PATIENCE):
    """Returns the output of each when all have ended. Raises Failed with the output of the first that failed,
    because the others would wait for it."""
    said = {}
    deadline = time.monotonic() + patience
    try:
        while len(said) < len(processes) and time.monotonic() < deadline:
            for process in processes:
                if process not in said:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        said[process] = process.communicate(timeout=0.1)[0]
                if process.returncode:
                    last = " / ".join(said[process].strip().splitlines()[-4:])
                    raise Failed(f"ended with {process.returncode}: {last}")
    finally:
        for process in processes:
            if process in said:
                continue
            # With its children: they may hold its output open, even after its own end.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=5)
    late = [process for process in processes if process not in said]
    if late:
        raise Failed(f"no end in {patience} s: {shlex.join(late[0].args)}")
    return [said[process] for process in processes]
