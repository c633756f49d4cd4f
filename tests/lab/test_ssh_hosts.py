"""Exported hosts with real cables and a real sshd: launch and MLX's ring use the file, and doctor --ssh
reports why launch cannot use a host."""

import json
import sys

import pytest

from conftest import find_program, wait_until
from ground.ssh_hosts import SshHosts
from ground.wiring import chain, pair, ring, switch

# MLX's own ring, by addresses alone: it uses none of mlxcomm's.
OWN_RING = """
import mlx.core as mx
group = mx.distributed.init(backend="ring", strict=True)
total = mx.distributed.all_sum(mx.array([float(group.rank() + 1)]), group=group)
assert "mlxcomm" not in __import__("sys").modules
print("rank", group.rank(), "of", group.size(), "has", total.item(), flush=True)
"""


def by_address(hosts):
    """Makes ssh on node-0 reach the others over its own cables: a name has one address, to which
    most of the others have no route in a ring."""
    ends = {end.place: end.ipv4 for _, end in hosts.cluster.wiring.ends_seen_from(0)}
    hosts.client_config("known", known=[*hosts.names, *ends.values()])
    return [word for place, ip in ends.items() for word in ("--ssh-name", f"{place}={ip}")]


def export(hosts, *words):
    done = hosts.call([find_program("mlxcommctl"), "hosts", "export", *map(str, words)])
    assert done.returncode == 0, done.stderr
    return done


# With wrong addresses MLX's ring would wait.
@pytest.mark.parametrize("wiring", [ring(3), switch(3), pair(cables=2)], ids=["ring", "switch", "pair"])
def test_mlxs_own_ring_goes_over_the_cables_that_were_exported(lab, wiring):
    hosts = SshHosts(lab(wiring))
    file = hosts.folder / "hosts.json"
    done = export(hosts, "-o", file, "--json", *by_address(hosts))
    assert done.stderr == ""
    written = json.loads(done.stdout)
    count = wiring.nodes
    assert written["backend"] == "ring" and len(written["hosts"]) == count
    ends = {end.ipv4: end.place for cable in wiring.cables for end in cable.ends if end.ipv4}
    for host, node in zip(written["hosts"], written["nodes"]):
        assert host["ips"] and {ends[ip] for ip in host["ips"]} == {node}
    program = hosts.folder / "sum.py"
    program.write_text(OWN_RING)
    done = hosts.call([find_program("mlx.launch"), "--hostfile", str(file), "--", sys.executable,
                       str(program)], input="")
    said = sorted(line.strip() for line in done.stdout.splitlines() if " has " in line)
    total = count * (count + 1) / 2
    assert said == [f"rank {r} of {count} has {total}" for r in range(count)], done.stdout + done.stderr


# Why: discovered cables have link-local addresses, which MLX's ring does not accept.
def test_found_cables_have_addresses_or_it_is_reported(lab):
    c = lab(chain(2), discovery=True)
    command = [find_program("mlxcommctl"), "hosts", "export"]

    def exported():
        process = c.run(0, command)
        process.finish()
        lines = process.said()
        begin = lines.index("{")
        return json.loads("\n".join(lines[begin:lines.index("}") + 1])), "\n".join(
            lines[:begin] + lines[lines.index("}") + 1:])

    hosts, said = exported()
    assert [host["ips"] for host in hosts["hosts"]] == [[], []]
    assert "found no IPv4 address of node-0, node-1" in said
    c.namespaces.ip("node-0", "addr add 192.168.0.1/30 dev to-1")
    c.namespaces.ip("node-1", "addr add 192.168.0.2/30 dev to-0")

    wait_until(lambda: [host["ips"] for host in exported()[0]["hosts"]] == [["192.168.0.1"], ["192.168.0.2"]],
               "the daemons see the new addresses")


def doctor(hosts, *words):
    done = hosts.call([find_program("mlxcommctl"), "doctor", "--ssh", "--json", *map(str, words)])
    assert done.stdout, done.stderr
    return {finding["object"].removeprefix("host "): finding
            for finding in json.loads(done.stdout)["findings"] if finding["code"].startswith("MC6")}


def test_doctor_finds_why_launch_cannot_use_a_host(lab):
    hosts = SshHosts(lab(switch(3)))
    command = ["--ssh-command"]
    # One host's key is not known here.
    strict = hosts.client_config("knows_one", known=["node-1"])
    found = doctor(hosts, *command, f"ssh -F {strict}")
    assert found["node-2"]["code"] == "MC605" and found["node-1"]["code"] == "MC614", found
    # It differs from the known key.
    changed = hosts.client_config("changed", known=[])
    (hosts.folder / "changed_hosts").write_text(
        "node-2 " + " ".join((hosts.folder / "user_key.pub").read_text().split()[:2]) + "\n")
    found = doctor(hosts, *command, f"ssh -F {changed}", "--hosts", "node-2")
    assert found["node-2"]["code"] == "MC605" and "set up again" in found["node-2"]["remedy"], found
    # A key that it does not accept.
    (hosts.folder / "authorized").write_text("")
    found = doctor(hosts, "--hosts", "node-1,no-such-node")
    assert found["node-1"]["code"] == "MC606" and "Permission denied (" in found["node-1"]["found"], found
    assert found["no-such-node"]["code"] == "MC602", found
    # No sshd listens.
    hosts.servers[1].signal(15)
    hosts.servers[1].finish()
    assert doctor(hosts, "--hosts", "node-1")["node-1"]["code"] == "MC603"
