"""mlxcommctl doctor --ssh: why launch cannot use a host, with a stand-in for ssh on PATH and real
daemons. With a real sshd: tests/lab/test_ssh_launch.py."""

import json
import os
import subprocess

import jsonschema
import pytest

from conftest import PATIENCE, Cluster, find_program, mlxcommctl


@pytest.fixture
def ssh(tmp_path):
    """ssh(script) puts a stand-in on PATH; `$host` and `$command` are its arguments, `calls` its log."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(script):
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nprintf "%s " "$@" >> {tmp_path}/calls\n'
                           'while [ $# -gt 2 ]; do shift; done\nhost=$1 command=$2\n' + script)
        program.chmod(0o755)
        return folder

    return make


def doctor(folder, *words, socket="/nowhere/at/all.sock"):
    """Returns the findings about ssh, by host, and the exit code."""
    done = mlxcommctl("doctor", "--ssh", "--json", *words,
                      env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                           "MLXCOMM_SOCKET": str(socket)})
    assert done.stdout, done.stderr
    report = [finding for finding in json.loads(done.stdout)["findings"] if finding["code"].startswith("MC6")]
    found = {finding["object"].removeprefix("host "): finding for finding in report}
    assert len(found) == len(report), report
    return found, done.returncode


def stands_for(cluster, hosts):
    """Hosts on which a node's daemon runs, with the stand-in for sshd."""
    cases = "\n".join(f'{host}) export MLXCOMM_SOCKET={cluster.socket(node)}; exec sh -c "$command" ;;'
                      for host, node in hosts.items())
    return f"case $host in\n{cases}\n*) exit 255 ;; esac\n"


def test_healthy_hosts_of_the_cluster_are_reported(cluster, ssh):
    c = cluster(3)
    folder = ssh("echo Welcome; printf 'no end'\n" + stands_for(c, {"node-1": 1, "node-2": 2}))
    found, code = doctor(folder, socket=c.socket(0))
    assert {name: finding["code"] for name, finding in found.items()} == {
        "node-1": "MC614", "node-2": "MC614"}, found
    own = os.path.realpath(find_program("mlxcommctl"))
    assert found["node-1"]["found"].startswith(f"{own}, release "), found
    assert found["node-1"]["found"].endswith(", node node-1 of cluster test")
    assert code in (0, 4)  # Warnings are this machine's.


# Why: launch types no password and reads no profile.
def test_ssh_is_called_as_launch_calls_it(ssh, tmp_path):
    folder = ssh('exec sh -c "$command"\n')
    doctor(folder, "--hosts", "far", "--ssh-command", "ssh -p 2222")
    asked = (tmp_path / "calls").read_text()
    subprocess.run([find_program("mlxcommctl"), "launch", "--ssh", "ssh -p 2222", "--hosts", "far",
                    "--", "true"],
                   env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, timeout=PATIENCE, check=True)
    launched = (tmp_path / "calls").read_text()[len(asked):]
    until = asked.index("exec /bin/sh")
    assert "-p 2222" in asked[:until] and "BatchMode=yes" in asked[:until]
    assert asked[:until] == launched[:until]


def test_a_host_without_a_daemon_is_reported(ssh):
    folder = ssh('export MLXCOMM_SOCKET=/no/daemon.sock; exec sh -c "$command"\n')
    found, code = doctor(folder, "--hosts", "idle")
    assert code == 1 and found["idle"]["code"] == "MC610"
    assert "/no/daemon.sock" in found["idle"]["found"] and "mlxcommctl doctor" in found["idle"]["remedy"]


# Why: ranks that use another daemon wait forever. How: a second cluster and node with the same names.
def test_a_daemon_of_another_cluster_is_reported(duo, ssh, tmp_path):
    (tmp_path / "other").mkdir()
    other = Cluster(tmp_path / "other", 2).start()
    try:
        found, _ = doctor(ssh(stands_for(other, {"far": 1})), "--hosts", "far", socket=duo.socket(0))
    finally:
        other.end()
    assert found["far"]["code"] == "MC611" and found["far"]["severity"] == "warning"
    assert found["far"]["found"] == "node node-1 of cluster test, which no link leads to"


def test_a_missing_ssh_is_reported_once():
    found, code = doctor("/nowhere", "--hosts", "a,b", "--ssh-command", "no-such-ssh")
    assert code == 1 and list(found) == ["ssh"] and found["ssh"]["code"] == "MC601"


def test_hosts_come_from_a_hostfile_each_once_and_this_machine_needs_none(ssh, tmp_path):
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps([{"ssh": name} for name in ("a", "localhost", "a", "ada@b")]))
    found, _ = doctor(ssh("exit 255\n"), "--hostfile", file)
    assert set(found) == {"a", "ada@b"}
    found, _ = doctor(ssh("exit 255\n"), "--hosts", "localhost")
    assert found["ssh"]["code"] == "MC613"


def test_without_hosts_and_daemon_no_host_is_checked(ssh):
    found, _ = doctor(ssh("exit 255\n"))
    assert found["ssh"]["code"] == "MC613" and "no daemon answers" in found["ssh"]["found"]


def test_doctor_ssh_matches_its_schema(ssh):
    schema = json.loads(mlxcommctl("schema", "doctor").stdout)
    folder = ssh("exit 255\n")
    done = mlxcommctl("doctor", "--ssh", "--hosts", "a", "--json",
                      env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    jsonschema.validate(json.loads(done.stdout), schema)


@pytest.mark.parametrize("words", [
    ["--ssh", "--hosts", "-oProxyCommand=x"], ["--ssh", "--hosts", "a", "--hostfile", "b"], ["--hosts", "a"],
    ["--ssh", "--hostfile", "/no/such/file"], ["--ssh", "--ssh-command", " "], ["--ssh-timeout", "1s"],
    ["--ssh", "--ssh-timeout", "soon"]])
def test_wrong_usage_is_exit_code_2(words):
    done = mlxcommctl("doctor", *words)
    assert done.returncode == 2, done.stderr
