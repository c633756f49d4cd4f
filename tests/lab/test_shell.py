"""tests/lab/shell, typed into like a person, on a terminal."""

import os
import pathlib
import pty
import re
import select
import signal
import sys
import time

import pytest

from conftest import PATIENCE, wait_until
from ground.wiring import pair

SHELL = pathlib.Path(__file__).with_name("shell")


class Terminal:
    """A program on a terminal of its own, and what it shows there."""

    def __init__(self, command):
        self.shown = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, {**os.environ, "TERM": "dumb"})

    def until(self, pattern):
        """Reads until the text matches; returns all that has come since the last call."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.shown):
            ready, _, _ = select.select([self.file], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {pattern!r} in time; it shows {self.shown}"
            try:
                data = os.read(self.file, 65536)
            except OSError:  # Linux says end-of-file so.
                data = b""
            assert data, f"ended without {pattern!r}; it showed {self.shown}"
            self.shown += data.decode(errors="replace")
        shown, self.shown = self.shown, ""
        return shown

    def type(self, text):
        os.write(self.file, text.encode())

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.file)


@pytest.fixture
def terminal(lab):
    lab(pair()).end()  # Says that it is skipped, where it is.
    one = Terminal([sys.executable, str(SHELL), "ring(3)"])
    yield one
    one.end()


def test_person_cuts_enters_looks_and_leaves(terminal):
    terminal.until(r"\[all up\]> ")
    terminal.type("cut 0-1\n")
    terminal.until(r"\[0-1 cut\]> ")
    terminal.type("cut 7-8\n")
    assert "no cable 7-8; there are 0-1, 1-2, 0-2" in terminal.until(r"\[0-1 cut\]> ")
    terminal.type("restore 0-1\n")
    terminal.until(r"\[all up\]> ")
    terminal.type("status\n")
    assert "node-2" in terminal.until(r"\[all up\]> ")
    terminal.type("enter 1\n")
    terminal.until(r"node-1\$ ")
    terminal.type("ip -br addr; echo socket $MLXCOMM_SOCKET\n")
    shown = terminal.until(r"socket /.*1\.sock[^$]*node-1\$ ")
    assert "to-0" in shown and "to-2" in shown and "to-1" not in shown, shown
    # The program that says that it has begun is in the foreground itself then; a shell that has
    # forked its next command, but not yet given it the terminal, takes the Ctrl-C and waits on.
    terminal.type("sh -c \"echo be''gun; exec sleep 1000\"\n")
    terminal.until("begun")
    terminal.type("\x03")  # Ctrl-C ends the command and not the shell.
    terminal.until(r"\^C[^$]*node-1\$ ")
    terminal.type("\x04")
    terminal.until(r"\[all up\]> ")
    terminal.type("kill 2\n")
    terminal.until(r"\[node-2 dead\]> ")
    terminal.type("run 0 cat /proc/1/comm\n")
    assert "cat" in terminal.until(r"\[node-2 dead\]> ").split()
    terminal.type("\x04")
    wait_until(lambda: has_ended(terminal.pid), "the shell has ended")


def has_ended(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"
