"""All commands and options of mlxcommctl, as it lists them, and how the tests run each verb."""

import json
import os
import tempfile

from conftest import find_program, mlxcommctl

# mlxcommctl web writes its bookmark there.
STATE = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = STATE.name


def commands():
    """Every command by its path ("" is mlxcommctl itself, "cluster create" a verb of a verb)."""
    table = json.loads(mlxcommctl("completion", "--json").stdout)
    return {command["path"]: command for command in table["commands"]}


def verbs():
    """The verbs: commands without subcommands."""
    return {path: command for path, command in commands().items()
            if path and not command["has_commands"]}


def named(command):
    return [option for option in command["options"] if not option["positional"]]


def has(command, name):
    return any(name in option["names"] for option in command["options"])


# What verbs need to end without changing the machine. Those of a cluster use a key file "there" in the
# current folder; a service is put below it.
ARGUMENTS = {
    "cluster create": ["--key-file", "own"],
    "cluster join": ["--key-file", "own", "--from", "there"],
    "cluster key rotate": ["--key-file", "there"],
    "cluster key show": ["--key-file", "there"],
    "service install": ["--root", "root", "--program", find_program("mlxcommd")],
    "service uninstall": ["--root", "root"],
    "service restart": ["--dry-run"],
    "web": ["--for", "1ms"],
}
