"""Man pages describe all that --help does: a missing verb or option is noticed here."""

import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import PATIENCE, find_program
from shell.command_table import commands, named

ROOT = pathlib.Path(__file__).parents[2]
PAGES = {"mlxcommctl": ROOT / "client/ctl/cli/mlxcommctl.1", "mlxcommd": ROOT / "daemon/process/mlxcommd.8"}


def fragment(path, command):
    """The text to paste below VERBS for it, as a start."""
    lines = [f".Ss {path}", command["description"].rstrip(".") + ".", ".Bl -tag -width Ds"]
    for option in named(command):
        if "--help" in option["names"]:
            continue
        names = " , ".join("Fl " + name[1:] for name in option["names"])
        lines += [f".It {names}" + (" Ar value" if option["takes_value"] else ""),
                  option["description"].rstrip(".") + "."]
    return "\n".join([*lines, ".El"])


def options_in(text):
    items = [line for line in text.splitlines() if line.startswith(".It ")]
    return {"-" + name for line in items for name in re.findall(r"Fl ([-\w]+)", line)}


def sections(text):
    """The text below each .Ss."""
    parts = re.split(r"^\.Ss (.+)$", text.split(".Sh VERBS")[1].split("\n.Sh ")[0], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def test_every_verb_and_option_of_mlxcommctl_is_in_its_page():
    written = sections(PAGES["mlxcommctl"].read_text())
    wanted = {path: command for path, command in commands().items()
              if path and not command["has_commands"]}
    missing = [fragment(path, command) for path, command in wanted.items() if path not in written]
    assert not missing, "add below VERBS:\n\n" + "\n".join(missing)
    assert set(written) == set(wanted), "verbs that are gone"
    for path, command in wanted.items():
        options = {name for option in named(command) for name in option["names"]} - {"-h", "--help"}
        assert options_in(written[path]) == options, path


def test_every_option_of_mlxcommd_is_in_its_page():
    told = subprocess.run([find_program("mlxcommd"), "--help"], capture_output=True, text=True,
                          timeout=PATIENCE).stdout
    options = set(re.findall(r"(?<![\w-])(--[\w-]+)", told.split("Options:")[1]))
    written = PAGES["mlxcommd"].read_text().split(".Sh OPTIONS")[1].split("\n.Sh ")[0]
    assert {name for name in options_in(written) if name.startswith("--")} == options


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_is_what_man_reads(page):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed (config/install-deps --tests installs it)")
    done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", str(page)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
