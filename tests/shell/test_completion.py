"""Completion in real shells: for every verb, mlxcommctl accepts everything that is offered."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from conftest import PATIENCE, find_program
from shell.command_table import commands, mlxcommctl, named
from shell.test_macos_scripts import build_bash

COMMANDS = commands()
# The scripts call the mlxcommctl on the command line.
ENVIRONMENT = {**os.environ, "TERM": "xterm", "PS1": "ready> ",
               "PATH": f"{os.path.dirname(find_program('mlxcommctl'))}:{os.environ['PATH']}"}


def needs(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed (config/install-deps --tests installs it)")


def script(shell, tmp_path):
    path = tmp_path / f"completion.{shell}"
    path.write_text(mlxcommctl("completion", shell).stdout)
    return path


def bash_offers(line, tmp_path):
    """Calls the function as bash does: with the words, the last one being completed."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"source '{script('bash', tmp_path)}'\nCOMP_WORDS=({quoted})\n"
         f"COMP_CWORD={len(words) - 1}\n_mlxcommctl mlxcommctl\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, env=ENVIRONMENT)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return set(done.stdout.split("\n")) - {""}


def fish_offers(line, tmp_path):
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source '{script('fish', tmp_path)}'; complete -C '{line}'"],
        capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path,
        env={**ENVIRONMENT, "HOME": str(tmp_path)})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {offer.split("\t")[0] for offer in done.stdout.splitlines()}


class Terminal:
    """An interactive shell: completion is a part of its line editor."""

    def __init__(self, command, setup, tmp_path):
        self.ours, theirs = pty.openpty()
        self.unread = ""
        self.child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs,
                                      env=ENVIRONMENT, cwd=tmp_path, start_new_session=True)
        os.close(theirs)
        self.read_until("ready> ")
        self.write(f"stty cols 400 rows 400; {setup}; echo loa''ded\n")
        self.read_until("loaded\r\n")
        self.read_until("ready> ")

    def write(self, text):
        os.write(self.ours, text.encode())

    def read_until(self, text):
        """Everything up to it, without the editor's cursor moves; the rest is kept."""
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
        """Returns what the shell makes of this line and a tab, by wrapping it in `printf`."""
        self.write("\x15" + line + "\t\x01printf '[%s]\\n' '\x05'\n")
        shown = self.read_until("]\r\n")
        self.read_until("ready> ")
        return shown.rpartition("[")[2].partition("]")[0].strip()

    def end(self):
        self.child.kill()
        self.child.wait()
        os.close(self.ours)


def terminal(shell, tmp_path):
    if shell == "zsh":
        needs("zsh")
        return Terminal(["zsh", "-f", "-i"], "LISTMAX=1000; bindkey -e; autoload -U compinit; "
                        f"compinit -u -D; source {script('zsh', tmp_path)}", tmp_path)
    bash = build_bash() if shell == "bash 3.2" else "bash"
    return Terminal([bash, "--norc", "-i"], f"source {script('bash', tmp_path)}", tmp_path)


@pytest.fixture
def zsh(tmp_path):
    started = terminal("zsh", tmp_path)
    yield started
    started.end()


@pytest.fixture(params=["bash", "bash 3.2", "zsh"])
def any_shell(request, tmp_path):
    started = terminal(request.param, tmp_path)
    started.name = request.param
    yield started
    started.end()


def expected(path):
    command = COMMANDS[path]
    below = {p.split(" ")[-1] for p in COMMANDS if p and p.rpartition(" ")[0] == path}
    return below, {name for option in named(command) for name in option["names"]}


@pytest.mark.parametrize("shell, offers", [("bash", bash_offers), ("fish", fish_offers)])
@pytest.mark.parametrize("path", COMMANDS)
def test_completion_offers_exactly_what_a_verb_takes(shell, offers, path, tmp_path):
    needs(shell)
    below, options = expected(path)
    line = f"mlxcommctl {path} ".replace("  ", " ")
    long = {name for name in options if name.startswith("--")}
    offered = offers(line + "--", tmp_path)
    assert offered == long
    if below:
        assert below <= offers(line, tmp_path) <= below | options


@pytest.mark.parametrize("shell, offers", [("bash", bash_offers), ("fish", fish_offers)])
def test_values_are_completed_and_arguments_of_options_are_not_verbs(shell, offers, tmp_path):
    needs(shell)
    assert offers("mlxcommctl bench --op all_", tmp_path) == {"all_gather", "all_reduce", "all_to_all"}
    assert offers("mlxcommctl completion ", tmp_path) >= {"bash", "zsh", "fish"}
    # A job may have a verb's name.
    assert "--operations" in offers("mlxcommctl record --job bench --", tmp_path)
    assert "printf" in offers("mlxcommctl launch -n 2 -- print", tmp_path)
    assert not offers("mlxcommctl bench --rank ", tmp_path), "files are not numbers"


# Why: file names were split at spaces, and bash treats the text after '=' as a word.
def test_files_and_what_stands_behind_an_equals_sign(any_shell, tmp_path):
    (tmp_path / "my notes.sock").write_text("")
    (tmp_path / "other file").write_text("")
    (tmp_path / "some folder").mkdir()
    (tmp_path / "some folder" / "x").write_text("")
    completed = any_shell.completed
    end = "" if any_shell.name == "zsh" else "/"  # zsh removes it when the cursor leaves it.
    assert completed("mlxcommctl status --socket my") == r"mlxcommctl status --socket my\ notes.sock"
    assert completed("mlxcommctl status --socket some") == r"mlxcommctl status --socket some\ folder" + end
    assert completed("mlxcommctl status --socket=my") == r"mlxcommctl status --socket=my\ notes.sock"
    assert completed("mlxcommctl launch --stdin=n") == "mlxcommctl launch --stdin=none"
    line = "mlxcommctl bench --job=one --op all_"
    assert completed(line + "r") == line + "reduce"
    assert completed("mlxcommctl launch -n 2 -- cat my") == r"mlxcommctl launch -n 2 -- cat my\ notes.sock"
    assert completed("mlxcommctl launch --env A=B --std") == "mlxcommctl launch --env A=B --stdin"
    assert completed("mlxcommctl launch --cwd some") == r"mlxcommctl launch --cwd some\ folder" + end
    if any_shell.name == "bash":  # Others offer files if there is no folder.
        assert completed("mlxcommctl launch --cwd oth") == "mlxcommctl launch --cwd oth"


def test_fish_completes_files_too(tmp_path):
    needs("fish")
    (tmp_path / "my notes.sock").write_text("")
    (tmp_path / "my folder").mkdir()
    assert fish_offers("mlxcommctl status --socket my", tmp_path) == {"my notes.sock", "my folder/"}
    assert fish_offers("mlxcommctl status --socket=my", tmp_path) == {"--socket=my notes.sock",
                                                                      "--socket=my folder/"}
    assert fish_offers("mlxcommctl launch --cwd my", tmp_path) == {"my folder/"}
    assert fish_offers("mlxcommctl launch --stdin=n", tmp_path) == {"--stdin=none"}
    assert "my notes.sock" in fish_offers("mlxcommctl launch -n 2 -- cat my", tmp_path)


# How: queries the daemon of the socket on the line; without one nothing is offered.
def test_names_of_nodes_are_those_that_the_daemon_knows(duo, any_shell, tmp_path):
    line = f"mlxcommctl ping --socket {duo.socket(0)} node-"
    offered = mlxcommctl("__complete", *line.split()).stdout
    assert offered == "node-0\tName of the node\nnode-1\tName of the node\n"
    assert any_shell.completed(line + "1").endswith("node-1")
    assert any_shell.completed(line[:-2]).endswith("node-")
    reported = mlxcommctl("__complete", "mlxcommctl", "ping", "--socket", "nothing", "").stdout
    assert reported == ":hint Name of the node\n"


def test_zsh_completes_verbs_options_and_values(zsh):
    assert zsh.completed("mlxcommctl stat") == "mlxcommctl status"
    assert zsh.completed("mlxcommctl bench --in-p") == "mlxcommctl bench --in-place"
    assert zsh.completed("mlxcommctl bench --op all_r") == "mlxcommctl bench --op all_reduce"
    assert zsh.completed("mlxcommctl completion z") == "mlxcommctl completion zsh"
    line = "mlxcommctl record --job bench --op"  # A job may have a verb's name.
    assert zsh.completed(line) == line + "erations"
