"""The distribution's sshd on the lab's hosts: own keys, own configuration, and the hosts' names in
an /etc/hosts of the lab's own mount namespace. The machine's own files stay untouched.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import find_program, wait_until

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


# As on machines, the daemon's socket has the same path on every host: a folder of its mount namespace.
AT_HOME = """mount -t tmpfs -o mode=755 none "$1" && ln -s "$2" "$1/mlxcommd.sock" &&
ln -s "$2.running" "$1/mlxcommd.sock.running" && shift 2 && exec "$@\""""


class SshHosts:
    """Each node of the cluster accepts ssh under its name, from every other one."""

    def __init__(self, cluster, forced_command=None):
        if SSHD is None:
            pytest.skip("sshd is not installed (openssh-server)")
        if os.geteuid() != 0 or "--user" in cluster.namespaces.enter():
            pytest.skip("sshd needs root to become the user who comes")
        self.cluster = cluster
        self.folder = pathlib.Path(cluster.folder) / "ssh"
        self.folder.mkdir(mode=0o700)
        self.socket_folder = self.folder / "run"
        self.socket_folder.mkdir()
        self.forced_command = forced_command or {}
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name],
                           check=True)
        self.names = [f"node-{i}" for i in range(cluster.wiring.nodes)]
        self._name_hosts()
        self.config = self.client_config("known", known=self.names)
        cluster.namespaces.call(["mkdir", "-p", "/run/sshd"])
        self.servers = [self._serve(node) for node in range(cluster.wiring.nodes)]

    def _at_home(self, node, command):
        return ["sh", "-c", AT_HOME, "sh", str(self.socket_folder), self.cluster.socket(node), *command]

    def address(self, node):
        return next(end.ipv4 for cable in self.cluster.wiring.cables for end in cable.ends
                    if end.place == f"node-{node}" and end.ipv4)

    def _name_hosts(self):
        lines = ["127.0.0.1 localhost"]
        lines += [f"{self.address(i)} {name}" for i, name in enumerate(self.names)]
        hosts = self.folder / "hosts"
        hosts.write_text("\n".join(lines) + "\n")
        self.cluster.namespaces.call(["mount", "--bind", str(hosts), "/etc/hosts"])

    def client_config(self, name, known):
        """For ssh -F: nothing of the machine's or the user's own configuration is read."""
        key = (self.folder / "host_key.pub").read_text().split()[:2]
        known_hosts = self.folder / f"{name}_hosts"
        known_hosts.write_text("".join(f"{host} {' '.join(key)}\n" for host in known))
        config = self.folder / name
        config.write_text(
            f"IdentityFile {self.folder}/user_key\nIdentitiesOnly yes\nStrictHostKeyChecking yes\n"
            f"UserKnownHostsFile {known_hosts}\nGlobalKnownHostsFile /dev/null\n")
        return config

    def _serve(self, node):
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized")
        config = self.folder / f"sshd-{node}"
        forced = self.forced_command.get(node)
        config.write_text(
            f"Port 22\nHostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/authorized\n"
            "PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
            f"SetEnv MLXCOMM_SOCKET={self.socket_folder}/mlxcommd.sock LAB_HOST=node-{node}\n"
            + (f"ForceCommand {forced}\n" if forced else ""))
        server = self.cluster.run(node, self._at_home(node, [SSHD, "-D", "-e", "-f", config]))
        server.wait_for("Server listening on 0.0.0.0 port 22")
        return server

    # --- launching ------------------------------------------------------------------

    def command(self, *words, config=None):
        return [find_program("mlxcommctl"), "launch", "--ssh", f"ssh -F {config or self.config}",
                *map(str, words)]

    def launch(self, *words, config=None):
        """`mlxcommctl launch WORDS` on node-0, as a process."""
        return self.cluster.run(0, self._at_home(0, self.command(*words, config=config)),
                                {"MLXCOMM_SOCKET": f"{self.socket_folder}/mlxcommd.sock"})

    def run(self, *words, config=None, **kwargs):
        """The same, run to completion, with standard output and error separate."""
        return self.call(self.command(*words, config=config), **kwargs)

    def call(self, command, **kwargs):
        """Runs any command on node-0 to completion; the ssh in its PATH is the lab's."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        ssh = folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.config} "$@"\n')
        ssh.chmod(0o755)
        return subprocess.run(
            self.cluster.namespaces.enter("node-0", folder=str(self.cluster.folder)) +
            self._at_home(0, command),
            capture_output=True, text=True, timeout=300,
            env={**os.environ, "MLXCOMM_SOCKET": f"{self.socket_folder}/mlxcommd.sock",
                 "PATH": f"{folder}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}, **kwargs)

    def wait_gone(self, pid):
        """Waits until no process with that pid (in the lab) runs; orphans there are not reaped, and
        an ended one no longer has a program."""
        def gone():
            return subprocess.run(self.cluster.namespaces.enter() + ["test", "-e", f"/proc/{pid}/exe"],
                                  check=False).returncode != 0

        wait_until(gone, f"process {pid} has ended")
