"""Colours: on a terminal, and only there; NO_COLOR (https://no-color.org) turns them off."""

import os
import pty
import subprocess

import pytest

from conftest import PATIENCE, find_program
from shell.command_table import ARGUMENTS, has, mlxcommctl, verbs


def on_a_terminal(*arguments, folder=None, **variables):
    """All that the program writes to its terminal."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    environment.update({"TERM": "xterm-256color", **variables})
    child = subprocess.Popen([find_program("mlxcommctl"), *arguments], stdin=theirs, stdout=theirs,
                             stderr=theirs, env=environment, cwd=folder)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:  # Linux's result when the other end is closed.
        pass
    os.close(ours)
    child.wait(timeout=PATIENCE)
    return text.decode()


@pytest.mark.parametrize("variables, coloured", [
    ({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_status_is_coloured_on_a_terminal_that_wants_it(cluster, variables, coloured):
    text = on_a_terminal("status", "--socket", cluster(1).socket(0), **variables)
    assert "health" in text and ("\x1b[" in text) == coloured


def test_status_is_plain_in_a_pipe(cluster):
    done = mlxcommctl("status", "--socket", cluster(1).socket(0))
    assert "health" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize("verb", [v for v, command in verbs().items() if has(command, "--json")
                                  and not any(o["required"] for o in command["options"])])
def test_json_is_never_coloured(solo, verb, tmp_path):
    where = ["--socket", solo.socket(0)] if has(verbs()[verb], "--socket") else []
    mlxcommctl("cluster", "create", "--key-file", "there", cwd=tmp_path)
    arguments = ARGUMENTS.get(verb, [])
    assert "\x1b" not in on_a_terminal(*verb.split(), "--json", *arguments, *where, folder=tmp_path)
