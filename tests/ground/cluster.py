"""A cluster of real daemons on hosts of the lab, and ways to disturb it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from conftest import find_program, find_test_program, wait_until
from ground.namespaces import Namespaces

PORT = 7470
RANK = "ground_rank"
CONGESTION_CONTROL = "/proc/sys/net/ipv4/tcp_congestion_control"
# A cluster that redials soon, and notices silence within half a second.
ALERT = "reconnect_delay_max_ms: 200 heartbeat_interval_ms: 100 heartbeat_timeout_ms: 500"
QUICK = f"{ALERT} grace_period_ms: 1500"     # Gives nodes up soon.
PATIENT = f"{ALERT} grace_period_ms: 60000"  # Gives up no node while a test runs.


def burst_bytes(rate):
    """Returns a millisecond's bytes at the rate ("2.5gbit"); with less, late timers of a busy machine lose
    bandwidth."""
    number, unit = re.fullmatch(r"([0-9.]+)([kmg]?bit)", rate).groups()
    bits = float(number) * {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[unit]
    return max(16 * 1024, int(bits / 8 / 1000))


class LabCluster:
    """Daemons node-0, node-1, ... according to the wiring, each on its own host.

    discovery: daemons get no addresses, and hosts have only link-local ones.
    keys: the number of each node's cluster key; all the same unless given."""

    def __init__(self, folder, wiring, family=4, peer_settings="reconnect_delay_max_ms: 200",
                 client_settings="", top_settings="", discovery=False, keys=None):
        self.folder = pathlib.Path(folder)
        self.wiring = wiring
        self.family = family
        self.discovery = discovery
        self.keys = keys or [0] * wiring.nodes
        if "security" not in peer_settings:  # To a daemon, the cables between hosts are Ethernet.
            peer_settings += " security: PLAIN"
        self.settings = {"peers": peer_settings, "clients": client_settings, "top": top_settings}
        self.daemons = [None] * wiring.nodes
        self.processes = []
        self.cut_cables = set()
        self.namespaces = Namespaces()
        try:
            self._lay_cables()
            for number in set(self.keys):
                self.key(number).write_text(os.urandom(32).hex() + "\n")
                self.key(number).chmod(0o600)
        except BaseException:
            self.namespaces.close()
            raise

    # --- cables ---------------------------------------------------------------------

    def _lay_cables(self):
        for place in self.wiring.places:
            self.namespaces.add_host(place)
            # Every kernel has this qdisc.
            self.namespaces.call(["sh", "-c", f"echo reno > {CONGESTION_CONTROL}"], host=place)
            if place.startswith("switch-"):
                self.namespaces.ip(place, "link add name bridge0 type bridge", "link set bridge0 up")
        for cable in self.wiring.cables:
            a, b = cable.ends
            self.namespaces.ip(a.place, f"link add {a.interface} type veth "
                                        f"peer name {b.interface} netns {b.place}")
            for end in cable.ends:
                self._configure(end)
                self._shape(end, cable.rate)

    def _configure(self, end):
        name = end.interface
        if not end.ipv4:
            self.namespaces.ip(end.place, f"link set {name} master bridge0", f"link set {name} up")
            return
        self.namespaces.ip(end.place, f"link set dev {name} addrgenmode none", f"link set {name} up",
                           f"addr add {end.ipv6}/64 dev {name} nodad")
        if not self.discovery:
            self.namespaces.ip(end.place, f"addr add {end.ipv4}/24 dev {name}")

    def _shape(self, end, rate):
        device = ["dev", end.interface, "root"]
        if rate:
            self.namespaces.call(["tc", "-n", end.place, "qdisc", "replace", *device, "tbf", "rate",
                                  rate, "burst", str(burst_bytes(rate)), "latency", "20ms"])
        elif "tbf" in self.namespaces.call(["tc", "-n", end.place, "qdisc", "show", *device[:2]]):
            self.namespaces.call(["tc", "-n", end.place, "qdisc", "del", *device])

    def set_rate(self, name, rate):
        for end in self.wiring.cable(name).ends:
            self._shape(end, rate)

    def cut(self, *names, at=None):
        """Pulls cables: both ends lose the carrier, and one interface is set down: that of node `at`, of
        the switch, or the first."""
        for name in names:
            end = self._pulled_end(self.wiring.cable(name), at)
            self.namespaces.ip(end.place, f"link set {end.interface} down")
            self.cut_cables.add(name)

    def restore(self, *names):
        for name in names:
            for end in self.wiring.cable(name).ends:
                self.namespaces.ip(end.place, f"link set {end.interface} up")
                if end.ipv6:  # The system has removed it if it was down.
                    self.namespaces.ip(end.place,
                                       f"addr replace {end.ipv6}/64 dev {end.interface} nodad")
            self.cut_cables.discard(name)

    @staticmethod
    def _pulled_end(cable, at):
        if at is not None:
            return cable.end_at(f"node-{at}")
        return next((end for end in cable.ends if not end.ipv4), cable.ends[0])

    def mute(self, name, node):
        """Drops everything that the node sends; no interface shows it."""
        end = self.wiring.cable(name).end_at(f"node-{node}")
        self.namespaces.call(["tc", "-n", end.place, "qdisc", "replace", "dev", end.interface,
                              "root", "tbf", "rate", "8bit", "burst", "1b", "limit", "1b"])

    def unmute(self, name, node):
        cable = self.wiring.cable(name)
        self._shape(cable.end_at(f"node-{node}"), cable.rate)

    def lose(self, name, percent):
        """Drops packets of both ends at random, by a filter because not every kernel has netem."""
        for end in self.wiring.cable(name).ends:
            tc = ["tc", "-n", end.place]
            self.namespaces.call([*tc, "qdisc", "replace", "dev", end.interface, "clsact"])
            # ld rand; jgt: ret TC_ACT_OK; ret TC_ACT_SHOT
            program = f"4,32 0 0 {2**32 - 4096 + 56},37 1 0 {2**32 * percent // 100},6 0 0 2,6 0 0 0"
            self.namespaces.call([*tc, "filter", "replace", "dev", end.interface, "egress", "prio", "1",
                                  "handle", "1", "bpf", "da", "bytecode", program])

    def sent_bytes(self, node):
        """Returns the bytes that each of the node's interfaces has sent."""
        with open(f"/proc/{self.daemons[node].pid}/net/dev", encoding="ascii") as file:
            lines = [line.split(":") for line in file if ":" in line]
        return {name.strip(): int(figures.split()[8]) for name, figures in lines}

    # --- daemons --------------------------------------------------------------------

    def key(self, number):
        return self.folder / (f"key-{number}" if number else "key")

    def friends(self, node):
        """Returns the other nodes with the same key."""
        return [n for n, key in enumerate(self.keys) if key == self.keys[node] and n != node]

    def socket(self, node):
        return str(self.folder / f"{node}.sock")

    def connects(self, node):
        """Returns the addresses that the node dials: of two neighbours the higher number dials."""
        addresses = []
        for interface, end in self.wiring.ends_seen_from(node):
            if int(end.place.split("-")[1]) < node:
                addresses.append(f"{end.ipv4}:{PORT}" if self.family == 4
                                 else f"[{end.ipv6}%{interface}]:{PORT}")
        return addresses

    def write_config(self, node):
        listen = f'listen: "0.0.0.0:{PORT}"' if self.family == 4 else f'listen: "[::]:{PORT}"'
        connect = " ".join(f'connect: "{address}"' for address in self.connects(node))
        if self.discovery:
            listen = connect = ""
        path = self.folder / f"{node}.textproto"
        path.write_text(
            f'cluster: "lab" node_name: "node-{node}" state_directory: "{self.folder}/{node}"\n'
            f'socket_path: "{self.socket(node)}"\n'
            f'peers {{ key_file: "{self.key(self.keys[node])}" {listen} {connect}\n'
            f'{self.settings["peers"]} }}\n'
            f'clients {{ {self.settings["clients"]} }}\n{self.settings["top"]}\n')
        return path

    def start_daemon(self, node):
        daemon = self.run(node, [find_program("mlxcommd"), "--config", str(self.write_config(node))])
        self.processes.remove(daemon)
        self.daemons[node] = daemon
        return daemon

    def start(self):
        try:
            for node in range(self.wiring.nodes):
                self.start_daemon(node)
            self.wait_linked()
        except BaseException:
            self.end()
            raise
        return self

    def kill(self, node):
        self.daemons[node].end()

    def stop(self, node):
        self.daemons[node].signal(signal.SIGSTOP)

    def resume(self, node):
        self.daemons[node].signal(signal.SIGCONT)

    def restart(self, node):
        self.kill(node)
        self.start_daemon(node)

    def log(self, node):
        return self.daemons[node].said()

    # --- what runs on hosts ---------------------------------------------------------

    def run(self, node, command, environment=None):
        process = self.namespaces.start(f"node-{node}", list(map(str, command)),
                                        {"MLXCOMM_SOCKET": self.socket(node), **(environment or {})})
        self.processes.append(process)
        return process

    def python_rank(self, script, rank, size, node, job="job", arguments=()):
        return self.run(node, [sys.executable, "-u", script, *arguments],
                        {"MLX_RANK": str(rank), "MLX_WORLD_SIZE": str(size), "MLXCOMM_JOB": job})

    def rank(self, rank, size, node, *words, job="job"):
        """Starts ground/rank.cc."""
        program = find_test_program("ground", RANK)
        return self.run(node, [program, rank, size, job, *words])

    def ranks(self, nodes, *words, job="job"):
        return [self.rank(rank, len(nodes), node, *words, job=job)
                for rank, node in enumerate(nodes)]

    # --- status ---------------------------------------------------------------------

    def status(self, node=0):
        """Returns the status on that host, or None without an answer."""
        command = [find_program("mlxcommctl"), "status", "--json", "--socket", self.socket(node)]
        done = subprocess.run(self.namespaces.enter(f"node-{node}") + command,
                              capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def own_part(self, node):
        """Returns the node's report about itself."""
        status = self.status(node)
        return status["nodes"][0] if status else None

    def link(self, node, to):
        part = self.own_part(node)
        return next((link for link in part["links"] if link["peer"] == f"node-{to}"), None) \
            if part else None

    def rails(self, node, to):
        """Returns the rails that are up, without routes through other nodes."""
        link = self.link(node, to)
        rails = link.get("rails", []) if link and link["state"] == "up" else []
        return [rail for rail in rails if rail["state"] == "up" and rail["transport"] != "route"]

    def wait_rails(self, a, b, count):
        wait_until(lambda: len(self.rails(a, b)) == len(self.rails(b, a)) == count,
                   f"node-{a} and node-{b} have {count} rails to each other")

    def is_linked(self, node, others):
        part = self.own_part(node)
        up = {link["peer"] for link in part["links"] if link["state"] == "up"} if part else set()
        return {f"node-{other}" for other in others} <= up

    def wait_linked(self, nodes=None):
        """Waits until each node reaches all others, and its neighbours directly."""
        nodes = list(range(self.wiring.nodes)) if nodes is None else nodes
        for node in nodes:
            friends = set(self.friends(node)) & set(nodes)
            wait_until(lambda: self.is_linked(node, friends), f"node-{node} reaches all others")
            for other in self.wiring.neighbours(node) & friends:
                wait_until(lambda: self.rails(node, other), f"node-{node} has node-{other} direct")

    # --- the end --------------------------------------------------------------------

    def end(self):
        for process in self.processes + [d for d in self.daemons if d is not None]:
            process.end()
        self.namespaces.close()  # Ends everything else that runs on any host.


def now():
    """Returns seconds on the clock that ranks print."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
