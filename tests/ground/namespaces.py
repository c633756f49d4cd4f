"""Hosts that are network namespaces, and that leave nothing behind.

All live below one keeper, a `cat` that is process 1 of its own pid, mount, network (and, without root, user)
namespace and reads a pipe that only this process holds. When this process ends, the keeper ends too, and with
it the kernel ends all processes on the hosts, and removes namespaces, cables and mounts. The machine's own
interfaces, mounts and files are never touched.
"""

import os
import shutil
import signal
import subprocess
import sys

from conftest import PATIENCE, Process, wait_until

PREPARE = "mount -t tmpfs lab /run && mkdir /run/netns && ip link set lo up && echo ready && exec cat"


class NotAllowed(Exception):
    """Why namespaces are not possible here."""


class Namespaces:
    def __init__(self):
        if sys.platform != "linux":
            raise NotAllowed("the lab needs Linux's network namespaces")
        missing = [p for p in ("unshare", "nsenter", "ip", "tc") if not shutil.which(p, path=_path())]
        if missing:
            raise NotAllowed(f"the lab needs {' and '.join(missing)} (util-linux, iproute2)")
        try:
            if os.geteuid() != 0:
                raise NotAllowed("no root")
            self._start_keeper([])
        except NotAllowed:  # A container's root may have as few rights as an ordinary user.
            self._start_keeper(["--user", "--map-root-user"])

    def _start_keeper(self, user):
        self._enter_user = ["--user", "--preserve-credentials"] if user else []
        self._unshare = subprocess.Popen(
            ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", PREPARE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": _path()}, start_new_session=True)
        if self._unshare.stdout.readline() != "ready\n":
            why = self._unshare.communicate()[1].strip().replace("\n", "; ")
            raise NotAllowed(f"network namespaces are not allowed here: {why}")
        self.keeper = only_child(self._unshare.pid)

    def enter(self, host=None, folder="/"):
        """The prefix of a command that runs it on that host."""
        command = ["nsenter", "--target", str(self.keeper), *self._enter_user, "--mount", "--pid",
                   "--net", f"--wd={folder}"]
        return command + (["ip", "netns", "exec", host] if host else [])

    def call(self, command, host=None, text=None):
        """Runs it to completion; returns its output. Raises when it fails."""
        done = subprocess.run(self.enter(host) + command, input=text, capture_output=True, text=True,
                              env={**os.environ, "PATH": _path()})
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} on {host}: {done.stderr or done.stdout}")
        return done.stdout

    def add_host(self, name):
        self.call(["ip", "netns", "add", name])
        self.ip(name, "link set lo up")

    def ip(self, host, *lines):
        self.call(["ip", "-n", host, "-batch", "-"], text="\n".join(lines) + "\n")

    def start(self, host, command, environment=None):
        return HostProcess(self.enter(host) + command, environment)

    def close(self):
        """Ends the keeper, which waits for all processes here; stopped ones must have been ended before."""
        self._unshare.stdin.close()
        self._unshare.wait(timeout=PATIENCE)
        self._unshare.stdout.close()
        self._unshare.stderr.close()


class HostProcess(Process):
    """A process on a host; signals go to it and not to the nsenter that waits for it."""

    def __init__(self, command, environment=None):
        super().__init__(command, {"PATH": _path(), **(environment or {})})
        self.pid = only_child(self.child.pid)

    def signal(self, number):
        if self.child.poll() is not None:
            return
        os.kill(self.pid, number)
        if number == signal.SIGCONT:
            self.child.send_signal(number)  # It was stopped together with the process.

    def said(self):
        """All lines so far, without waiting."""
        while not self._queue.empty():
            line = self._queue.get()
            if line is None:
                self._queue.put(None)  # For the next call that waits.
                break
            self.lines.append(line)
        return self.lines

    def end(self):
        """Ends the process and waits for nsenter: a killed nsenter would leave a zombie in the namespaces."""
        try:
            self.signal(signal.SIGKILL)
            self.child.send_signal(signal.SIGCONT)
        except ProcessLookupError:
            pass
        try:
            self.child.wait(timeout=PATIENCE)
        finally:
            super().end()


def only_child(pid):
    """The process that unshare or nsenter has forked; None: it ended before one was seen."""
    def child():
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                children = file.read().split()
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                ended = file.read().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return [None]
        return [int(children[0])] if children else [None] if ended else None

    return wait_until(child, f"process {pid} has forked")[0]


def _path():
    """ip and tc are in folders outside of ordinary users' PATH."""
    beside = os.path.dirname(sys.executable)
    return os.pathsep.join([beside, os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
