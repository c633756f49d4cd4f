"""Where ranks run: a Machine (this one, daemons joined over loopback) or a Lab (a host of its own
for each rank, cables between them). Systems start their processes here and ask for addresses.

Where a place has own_cores, each rank has cores to itself, as hosts have and as mpirun binds its
ranks; where there are several daemons, each is on its rank's cores. Otherwise it is chance which
threads share a core, and for small sizes that decides the time (README.md)."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time

from bench.rounds import Failed
from conftest import Cluster, find_program, free_port
from ground.cluster import LabCluster

PATIENCE = 30  # Seconds after which a system is declared stuck; the longest of all takes 12.
NODE_NET = "10.99.0.0/24"


def cores_of(rank, ranks):
    """An equal share of the cores; none where there are too few, or the system does not bind."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // ranks
    return cores[rank * each:(rank + 1) * each]


@contextlib.contextmanager
def started_on(cores):
    """Processes started within are bound to them; without cores: to none."""
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
    """For a cluster: each daemon starts on its node's cores."""

    def start_daemon(self, node):
        with started_on(self.cores(node)):
            return super().start_daemon(node)


class MachineCluster(BoundDaemons, Cluster):
    pass


class HostsCluster(BoundDaemons, LabCluster):
    pass


class Place:
    def __init__(self, name, ranks, nodes, own_cores):
        self.name, self.ranks, self.nodes, self.own_cores = name, ranks, nodes, own_cores

    def cores(self, rank):
        """Its own cores; none: it shares all of them."""
        return cores_of(rank, self.ranks) if self.own_cores else []

    def node_cores(self, node):
        return cores_of(node, self.nodes) if self.own_cores else []

    @staticmethod
    def _start(command, environment, cores, more_path=""):
        with started_on(cores):
            return subprocess.Popen(
                list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, preexec_fn=os.setpgrp,
                env={**os.environ, "PATH": f"{programs()}:{os.environ['PATH']}{more_path}",
                     **environment})


class Machine(Place):
    """Daemons of this machine, linked over loopback; rank r is on daemon r % daemons."""

    is_lab = False

    def __init__(self, name, ranks, daemons, own_cores=False, scheduling="AUTO"):
        super().__init__(name, ranks, daemons, own_cores)
        self.scheduling = scheduling

    @contextlib.contextmanager
    def up(self):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            self.folder = pathlib.Path(folder)
            self.cluster = MachineCluster(self.folder, self.nodes,
                                          top_settings=f"scheduling: {self.scheduling}")
            self.cluster.cores = self.node_cores
            try:
                self.cluster.start()
                yield self
            finally:
                self.cluster.end()

    def socket(self, rank):
        return self.cluster.socket(rank % self.nodes)

    def daemon_pids(self):
        return [daemon.child.pid for daemon in self.cluster.daemons]

    def status(self, node):
        return self.cluster.status(node)

    def address(self, _):
        return "127.0.0.1"

    def ring_addresses(self, _):
        """Where a rank listens for its left neighbour: MLX's ring, the plain exchange."""
        return [f"127.0.0.1:{free_port()}"]

    def start(self, _, command, environment, cores=()):
        return self._start(command, environment, cores)


class Lab(Place):
    """Hosts that are network namespaces (tests/lab), rank r on host r. For systems that know
    nothing about cables, each host has an address of its own, and routes lead to all others'."""

    is_lab = True

    def __init__(self, name, wiring, own_cores=False):
        super().__init__(name, wiring.nodes, wiring.nodes, own_cores)
        self.wiring = wiring
        self._port = 20000

    @contextlib.contextmanager
    def up(self):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            self.folder = pathlib.Path(folder)
            self.cluster = HostsCluster(folder, self.wiring)  # Raises NotAllowed.
            self.cluster.cores = self.node_cores
            try:
                self._route()
                self.cluster.start()
                yield self
            finally:
                self.cluster.end()

    def _route(self):
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
        """(own interface, the neighbour's address) on a shortest path; lower numbers go right."""
        if to in self.wiring.neighbours(node):
            towards = to
        else:
            towards = (node + (1 if node < to else -1)) % self.nodes
        return next((interface, end.ipv4) for interface, end in self.wiring.ends_seen_from(node)
                    if end.place == f"node-{towards}")

    def socket(self, rank):
        return self.cluster.socket(rank)

    def daemon_pids(self):
        return [daemon.pid for daemon in self.cluster.daemons]

    def status(self, node):
        return self.cluster.status(node)

    def address(self, rank):
        return f"10.99.0.{rank + 1}"

    def networks(self):
        """The networks for Open MPI: both cables where there are two, because it spreads over
        them; else the hosts' own addresses, because it knows no ring."""
        if self.nodes == 2:
            return ",".join(f"{cable.ends[0].ipv4.rpartition('.')[0]}.0/24"
                            for cable in self.wiring.cables)
        return NODE_NET

    def ring_addresses(self, rank):
        """Where a rank listens for its left neighbour: its addresses at the cables to there."""
        left = f"node-{(rank - 1) % self.nodes}"
        addresses = []
        for own, cable in self.wiring.cables_of(rank):
            if left in {end.place for end in cable.ends}:
                self._port += 1
                addresses.append(f"{own.ipv4}:{self._port}")
        return addresses

    def start(self, rank, command, environment, cores=()):
        prefix = self.cluster.namespaces.enter(f"node-{rank}")
        return self._start(prefix + command, environment, cores, ":/usr/sbin:/sbin")

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
            return received_bits(end_of([client])[0])
        finally:
            server.kill()
            server.communicate()


def received_bits(text):
    return json.loads(text)["end"]["sum_received"]["bits_per_second"]


def programs():
    """The folder of mlxcommd and mlxcommctl."""
    return os.path.dirname(find_program("mlxcommd"))


def end_of(processes, patience=PATIENCE):
    """The output of each, once all have ended. Raises Failed with the output of the first that
    failed: the others would wait for it."""
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
