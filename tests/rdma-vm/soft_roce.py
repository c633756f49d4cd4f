"""Two daemons of the machine, and ways to disturb their cable. node-1 dials node-0 over the cable, which also
has an RDMA rail, and with a spare over loopback.
"""

import json
import os
import subprocess

from conftest import Cluster, free_port, wait_until

LIMITS = ["APPLE", "LINUX"]  # Unreliable queue pairs, messages of one size; reliable ones.
MUCH = 1 << 20  # In bytes, more than rails send about themselves.
ADDRESSES = ["10.77.0.1", "10.77.0.2"]
DEVICES = ["rxe0", "rxe1"]
INTERFACES = ["veth0", "veth1"]
# A neighbour is not given up during a test, and is redialed soon.
PATIENT = "security: PLAIN reconnect_delay_max_ms: 200 grace_period_ms: 120000"
QUICK = "security: PLAIN reconnect_delay_max_ms: 200"


def chosen(cases, often):
    """Returns all cases with MLXCOMM_RDMA_VM_ALL=1, otherwise one, because each takes half a minute."""
    return cases if os.environ.get("MLXCOMM_RDMA_VM_ALL") == "1" else [cases[often]]


class SoftRoceCluster(Cluster):
    def __init__(self, folder, limits, peer_settings=PATIENT, spare=False):
        super().__init__(folder, 2, peer_settings=peer_settings,
                         top_settings=f"rdma {{ enabled: true limits: {limits} }}")
        self.cable_port = free_port()
        if not spare:
            self.links = []

    def more_peer_settings(self, node):
        verb = "listen" if node == 0 else "connect"
        return f'{verb}: "{ADDRESSES[0]}:{self.cable_port}"'

    def start(self):
        super().start()
        self.wait_rdma(True)
        return self

    def rails(self, node):
        """Returns the rails over the cable that are up, by transport."""
        status = self.status(node)
        rails = [rail for link in status["nodes"][0]["links"] for rail in link.get("rails", [])]
        return {rail["transport"]: rail for rail in rails
                if rail["local_interface"] == INTERFACES[node] and rail["state"] == "up"}

    def wait_rdma(self, up):
        wait_until(lambda: all(("rdma" in self.rails(node)) == up for node in (0, 1)),
                   f"RDMA rails are {'up' if up else 'gone'} on both nodes")

    def rdma_bytes(self):
        """Returns the bytes that both have sent on their RDMA rails; a rail may be down for a moment."""
        return sum(int(self.rails(node).get("rdma", {"sent_bytes": 0})["sent_bytes"]) for node in (0, 1))

    def drivers_ended(self):
        """Returns how many driver processes have ended, on both nodes."""
        return sum(int(device.get("drivers_ended", 0)) for node in (0, 1)
                   for device in self.status(node)["nodes"][0]["transports"][0]["devices"])

    def pairs(self):
        """Both queue pairs of the rail, as status shows them."""
        rails = [self.rails(node).get("rdma") for node in (0, 1)]
        assert all(rails), "\n".join(line for daemon in self.daemons for line in daemon.lines[-20:])
        return [(rail["local_address"], rail["remote_address"]) for rail in rails]


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def queue_pairs():
    """Objects of processes, as the kernel counts them: [(device, number, type, state)]."""
    shown = json.loads(call("rdma", "-j", "resource", "show", "qp"))
    return [(pair["ifname"], pair["lqpn"], pair["type"], pair["state"]) for pair in shown if "pid" in pair]


def set_port(end, state):
    call("ip", "link", "set", INTERFACES[end], state)


def delete_device(end):
    call("rdma", "link", "delete", DEVICES[end])


def add_device(end):
    """Refused while remains of the deleted device are still in use."""
    command = ["rdma", "link", "add", DEVICES[end], "type", "rxe", "netdev", INTERFACES[end]]
    wait_until(lambda: subprocess.run(command, capture_output=True).returncode == 0,
               f"{DEVICES[end]} is there again")
