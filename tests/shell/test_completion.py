"""Completion in real shells: what is offered is what mlxcommctl takes, for every verb."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from conftest import PATIENCE
from shell.command_table import commands, mlxcommctl, named

SHELLS = ("bash", "zsh", "fish")
COMMANDS = commands()


def needs(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed (config/install-deps --tests installs it)")


def script(shell, tmp_path):
    path = tmp_path / f"completion.{shell}"
    path.write_text(mlxcommctl("completion", shell).stdout)
    return path


def bash_offers(line, tmp_path):
    """As bash calls the function: the words, the last one being completed."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source '{script('bash', tmp_path)}'\nCOMP_WORDS=({quoted})\n"
         f"COMP_CWORD={len(words) - 1}\n_mlxcommctl\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return set(done.stdout.split("\n")) - {""}


def fish_offers(line, tmp_path):
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source '{script('fish', tmp_path)}'; complete -C '{line}'"],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {offer.split("\t")[0] for offer in done.stdout.splitlines()}


class Terminal:
    """An interactive zsh: its completion is a part of its line editor."""

    def __init__(self, tmp_path):
        self.ours, theirs = pty.openpty()
        self.unread = ""
        environment = {**os.environ, "TERM": "xterm", "PS1": "ready> "}
        self.child = subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
                                      env=environment, cwd=tmp_path, start_new_session=True)
        os.close(theirs)
        self.read_until("ready> ")
        self.write("stty cols 400 rows 400; LISTMAX=1000; bindkey -e; autoload -U compinit; "
                   f"compinit -u -D; source {script('zsh', tmp_path)}; print loa''ded\n")
        self.read_until("loaded\r\n")
        self.read_until("ready> ")

    def write(self, text):
        os.write(self.ours, text.encode())

    def read_until(self, text):
        """All up to it, without the editor's moves; what follows is kept."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.unread = re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[=>])", "", self.unread)
            before, found, after = self.unread.partition(text)
            if found:
                self.unread = after
                return before + found
            ready, _, _ = select.select([self.ours], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} in time: {self.unread!r}"
            self.unread += os.read(self.ours, 65536).decode(errors="replace")

    def completed(self, line):
        """The line as zsh makes it of this one and a tab, told by `print` around it."""
        self.write("\x15" + line + "\t\x01print -r -- '[\x05]'\n")
        shown = self.read_until("]\r\n")
        self.read_until("ready> ")
        return shown.rpartition("[")[2].partition("]")[0].strip()

    def end(self):
        self.child.kill()
        self.child.wait()
        os.close(self.ours)


@pytest.fixture
def zsh(tmp_path):
    needs("zsh")
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.end()


def expected(path):
    command = COMMANDS[path]
    below = {p.split(" ")[-1] for p in COMMANDS if p and p.rpartition(" ")[0] == path}
    return below, {name for option in named(command) for name in option["names"]}


@pytest.mark.parametrize("shell, offers", [("bash", bash_offers), ("fish", fish_offers)])
@pytest.mark.parametrize("path", COMMANDS)
def test_all_that_a_verb_takes_is_offered_and_nothing_else(shell, offers, path, tmp_path):
    needs(shell)
    below, options = expected(path)
    line = f"mlxcommctl {path} ".replace("  ", " ")
    long = {name for name in options if name.startswith("--")}
    offered = offers(line + "--", tmp_path)
    assert offered == long
    if below:
        assert below <= offers(line, tmp_path) <= below | options


@pytest.mark.parametrize("shell, offers", [("bash", bash_offers), ("fish", fish_offers)])
def test_values_are_offered_and_words_of_options_are_no_verbs(shell, offers, tmp_path):
    needs(shell)
    (tmp_path / "some.sock").write_text("")
    assert offers("mlxcommctl plan --op all_g", tmp_path) == {"all_gather", "all_gather_v"}
    assert offers("mlxcommctl completion ", tmp_path) >= {"bash", "zsh", "fish"}
    assert offers("mlxcommctl status --socket so", tmp_path) == {"some.sock"}
    # A job may be called as a verb is.
    assert "--tracks" in offers("mlxcommctl record --job plan --", tmp_path)
    assert "some.sock" in offers("mlxcommctl launch -n 2 -- cat so", tmp_path)
    assert "printf" in offers("mlxcommctl launch -n 2 -- print", tmp_path)


def test_zsh_completes_verbs_options_and_values(zsh):
    assert zsh.completed("mlxcommctl stat") == "mlxcommctl status"
    assert zsh.completed("mlxcommctl plan --ranks-p") == "mlxcommctl plan --ranks-per-node"
    assert zsh.completed("mlxcommctl plan --op all_r") == "mlxcommctl plan --op all_reduce"
    assert zsh.completed("mlxcommctl completion z") == "mlxcommctl completion zsh"
    line = "mlxcommctl record --job plan --tr"  # A job may be called as a verb is.
    assert zsh.completed(line) == line + "acks"


def test_zsh_knows_every_verb(zsh):
    for path in COMMANDS:
        if path:
            assert zsh.completed("mlxcommctl " + path) == "mlxcommctl " + path


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_the_shell_can_read(shell, tmp_path):
    needs(shell)
    done = subprocess.run([shell, "-n", str(script(shell, tmp_path))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_shell_is_wrong_usage():
    done = mlxcommctl("completion", "tcsh")
    assert done.returncode == 2 and "bash, zsh or fish" in done.stderr
