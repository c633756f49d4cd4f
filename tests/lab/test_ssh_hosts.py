"""doctor --ssh with a real sshd: it reports why launch cannot use a host."""

import json

from conftest import find_program
from ground.ssh_hosts import SshHosts
from ground.wiring import switch


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
