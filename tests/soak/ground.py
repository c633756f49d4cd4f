"""Where the daemons of a soak run: hosts that are network namespaces, or this machine's loopback where
those are not allowed. Both have the same methods; on loopback there are no cables to pull."""

import contextlib
import os
import pathlib
import signal
import sys

from conftest import Cluster, Process, find_program, find_test_program
from lab import wiring
from lab.cluster import PORT, LabCluster

TESTS = pathlib.Path(__file__).resolve().parents[1]
STRANGER = TESTS / "lab" / "stranger.py"
HELLER = TESTS / "lab" / "heller.py"
SETTINGS = "grace_period_ms: 5000 reconnect_delay_max_ms: 500"  # The grace period is the default.
# What the configuration says, and what it says after a fault that changes it.
TOP = "drain_timeout_ms: 5000"
CHANGED_TOP = "drain_timeout_ms: 4999"


class _Ground:
    """What both kinds have in common; `self.daemons` are processes whose output goes to files."""

    def log_path(self, node):
        return self.folder / f"node-{node}.log"

    def logged(self, node, command):
        """The command, with its output behind what earlier daemons of the node have written."""
        return ["sh", "-c", 'exec "$@" >> "$0" 2>&1', str(self.log_path(node)), *map(str, command)]

    def signal_daemon(self, node, number):
        if self.daemons[node].child.poll() is None:
            self.daemons[node].signal(number)

    def daemon_pid(self, node):
        return pid_of(self.daemons[node])

    def ctl(self, node, *words):
        return self.on(node, [find_program("mlxcommctl"), *words, "--socket", self.socket(node)])

    def start_rank(self, node, *words):
        return self.on(node, [find_test_program("soak", "soak_rank"), *words])

    def start_stranger(self, node, words):
        return self.on(
            node,
            [sys.executable, STRANGER, self.peer_address(node), *words],
            {"LAB_KEY": str(self.folder / "key")},
        )

    def start_trespasser(self, node, group):
        return self.on(node, [find_test_program("users", "users_trespasser"), self.socket(node), group])

    def start_hello_garbage(self, node, words):
        return self.on(node, [sys.executable, TESTS / "soak" / "hello_garbage.py", self.socket(node), *words])


class LabGround(_Ground, LabCluster):
    def __init__(self, folder, world):
        made = wiring.pair() if world.shape == "pair" else getattr(wiring, world.shape)(world.nodes)
        super().__init__(folder, made, peer_settings=SETTINGS, top_settings=TOP, discovery=world.discovery)

    def on(self, node, command, environment=None):
        process = self.run(node, command, environment)
        self.processes.remove(process)  # Who starts it ends it.
        return process

    def start_daemon(self, node):
        command = [find_program("mlxcommd"), "--config", self.write_config(node)]
        self.daemons[node] = self.on(node, self.logged(node, command))
        return self.daemons[node]

    def change_config(self, node, changed):
        self.settings["top"] = CHANGED_TOP if changed else TOP
        self.write_config(node)
        self.settings["top"] = TOP

    def peer_address(self, node):
        if not self.discovery:
            return f"127.0.0.1:{PORT}"
        end = self.wiring.cables_of(node)[0][0]
        return f"{end.ipv6}%{end.interface}:{PORT}"

    def start_heller(self, node, words):
        """From the other end of a cable of the node."""
        own, cable = self.wiring.cables_of(node)[0]
        other = next(end for end in cable.ends if end is not own)
        return self.on(
            int(other.place.split("-")[1]), [sys.executable, HELLER, other.interface, PORT, *words]
        )


class LoopbackGround(_Ground, Cluster):
    def __init__(self, folder, world):
        super().__init__(folder, world.nodes)

    def write_config(self, node, top=TOP):
        connect = " ".join(f'connect: "127.0.0.1:{self.ports[other]}"' for other in range(node))
        path = self.folder / f"{node}.textproto"
        path.write_text(
            f'cluster: "lab" node_name: "node-{node}" state_directory: "{self.folder}/{node}"\n'
            f'socket_path: "{self.socket(node)}"\n'
            f'peers {{ key_file: "{self.key}" listen: "127.0.0.1:{self.ports[node]}" {connect}\n'
            f"{SETTINGS} }}\n"
            f"{top}\n",
            encoding="utf-8",
        )
        return path

    def on(self, node, command, environment=None):
        return Process(list(map(str, command)), {"MLXCOMM_SOCKET": self.socket(node), **(environment or {})})

    def start_daemon(self, node):
        command = [find_program("mlxcommd"), "--config", self.write_config(node)]
        self.daemons[node] = self.on(node, self.logged(node, command))
        return self.daemons[node]

    def change_config(self, node, changed):
        self.write_config(node, CHANGED_TOP if changed else TOP)

    def peer_address(self, node):
        return f"127.0.0.1:{self.ports[node]}"


def pid_of(process):
    """Of the process itself, not of the nsenter that waits for it."""
    return getattr(process, "pid", None) or process.child.pid


def end_process(process):
    """Also one that is stopped."""
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(pid_of(process), signal.SIGCONT)
    process.end()
