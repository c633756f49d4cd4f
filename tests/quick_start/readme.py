"""What README.md tells a new user to type, from "Install" to "Several machines", and what it promises then.

A block of sh holds commands, one a line. A block of python that begins with "# NAME" is that file. A block
that begins with "$ " is a command and what it says. What stands in prose as `mlxcommctl ...` in the quick
start is a command of the terminal of the block before.
"""

import dataclasses
import re

FIRST, BEHIND = "## Install", "## Several machines"
QUICK_START = "## One machine"
OTHER_TERMINAL = "in another terminal"
SHORTENED = "shortened"
UNITS = ("ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB")


@dataclasses.dataclass
class File:
    name: str
    text: str


@dataclasses.dataclass
class Command:
    text: str
    promised: list = dataclasses.field(default_factory=list)  # Lines.
    other: bool = False      # In another terminal, while the last one of the first terminal runs.
    shortened: bool = False  # More may be said, and figures are others.


def steps(text):
    """Files and commands in README's order."""
    begin, end = text.index(FIRST), text.index(BEHIND)
    found, other, shortened, in_quick_start = [], False, False, False
    for prose, kind, block in re.findall(r"(.*?)(?:^```(\w*)\n(.*?)^```$|\Z)", text[begin:end],
                                         re.DOTALL | re.MULTILINE):
        in_quick_start = in_quick_start or QUICK_START in prose
        if in_quick_start:
            found += [Command(code, other=other) for code in re.findall(r"`(mlxcommctl [^`]+)`", prose)]
        other, shortened = OTHER_TERMINAL in prose, SHORTENED in prose
        if kind == "sh":
            found += [Command(line) for line in block.splitlines() if line]
        elif kind == "python":
            name = re.match(r"# (\S+)\n", block)
            assert name, f"a block of python in README's quick start says no name of a file: {block[:60]}"
            found.append(File(name[1], block))
        elif block:
            first, *promised = block.splitlines()
            assert first.startswith("$ "), f"a block in README's quick start has no command: {first}"
            found.append(Command(first[2:], promised, other, shortened))
    return found


def pattern(promised):
    """Of a line of a shortened output: figures, units and names of machines and processes are others
    elsewhere."""
    def of(word):
        if re.fullmatch(r"\d+\.\d+\.\d+\S*", word):
            return r"\d+\.\d+\.\d+\S*"
        if re.fullmatch(r"\d+\.\d+", word):
            return r"[0-9.]+"
        if word == "vm":
            return r"\S+"
        return "(?:" + "|".join(UNITS) + ")" if word in UNITS else re.escape(word)

    return re.compile(r"\s+".join(map(of, promised.split())) + r"\s*")


def what_is_missing(command, said):
    """Promised lines that are not there: in a shortened output all have to come in their order, else all of
    the output is told, in any order, for ranks write when they come to it."""
    lines = said.splitlines()
    if not command.shortened:
        return sorted(set(command.promised) - set(lines))
    missing = []
    for promised in command.promised:
        wanted = pattern(promised)
        at = next((i for i, line in enumerate(lines) if wanted.fullmatch(line)), None)
        if at is None:
            missing.append(promised)
        else:
            lines = lines[at + 1:]
    return missing
