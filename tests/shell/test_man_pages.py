"""Man pages, which the programs write from their parsers, contain everything that --help shows, and man can
read them."""

import re
import shutil

import pytest

from conftest import completed, find_program
from shell.command_table import commands, named

PAGES = {"mlxcommctl": "manual", "mlxcommd": "--man"}


def said(program, *arguments):
    return completed([find_program(program), *arguments], check=True).stdout


def page(program):
    return said(program, PAGES[program])


def options_in(text):
    items = [line for line in text.splitlines() if line.startswith(".It ")]
    return {"-" + name for line in items for name in re.findall(r"Fl ([-\w]+)", line)}


def test_every_verb_and_option_of_mlxcommctl_is_in_its_page():
    parts = re.split(r"^\.Ss (.+)$", page("mlxcommctl").split(".Sh VERBS")[1].split("\n.Sh ")[0],
                     flags=re.MULTILINE)
    written = dict(zip(parts[1::2], parts[2::2]))
    wanted = {path: command for path, command in commands().items()
              if path and not command["has_commands"]}
    assert set(written) == set(wanted)
    for path, command in wanted.items():
        options = {name for option in named(command) for name in option["names"]} - {"-h", "--help"}
        assert options_in(written[path]) == options, path
        assert command["description"] in written[path], path


def test_every_option_of_mlxcommd_is_in_its_page():
    options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", said("mlxcommd", "--help"), re.MULTILINE))
    assert {"--config", "--private", "--version"} < options
    written = page("mlxcommd").split(".Sh OPTIONS")[1].split("\n.Sh ")[0]
    assert options_in(written) == options - {"--help"}


@pytest.mark.parametrize("program", PAGES)
def test_a_page_is_what_man_reads(program):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed (config/install-deps --tests installs it)")
    done = completed(["mandoc", "-Tlint", "-W", "warning"], input=page(program))
    assert done.returncode == 0, done.stdout + done.stderr
