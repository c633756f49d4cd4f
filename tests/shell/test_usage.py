"""mlxcommctl's help, versions, options before the verb and words of other tools; and every command that
--help and the READMEs show is accepted."""

import json
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import find_program
from conftest import mlxcommctl as ctl

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The changelog names verbs that are gone.
DOCUMENTS = [ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md", ROOT / ".github" / "SECURITY.md",
             *(path for folder in ("client", "config", "daemon", "proto", "systemd-launchd", "tests")
               for path in sorted((ROOT / folder).rglob("*.md")) if "build" not in path.parts)]


def verbs():
    found = []
    for command in json.loads(ctl("completion", "--json").stdout)["commands"]:
        found.append(command["path"])
    return [path for path in found if path and not any(other.startswith(path + " ") for other in found)]


def test_every_form_of_help_works():
    top = ctl("--help")
    assert top.returncode == 0 and top.stdout.startswith("mlxcommctl: inspect and control mlxcommd\n")
    assert ctl().stdout == ctl("help").stdout == ctl("-h").stdout == top.stdout
    launch = ctl("launch", "--help").stdout
    assert ctl("help", "launch").stdout == launch and "Start the ranks of a job" in launch
    assert ctl("help", "nosuch").returncode == 2
    assert ctl("help", "launch", "t.py").stdout == launch, "nothing is run"
    assert ctl("help", "cluster", "key", "show").stdout == ctl("cluster", "key", "show", "--help").stdout


def test_every_form_of_version_works():
    version = ctl("--version")
    assert version.returncode == 0 and re.fullmatch(r"\d+\.\d+\.\d+\S*\n", version.stdout)
    for word in ("version", "-V", "-v"):
        assert ctl(word).stdout == version.stdout


def test_help_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w", encoding="ascii") as full:
        for words in (["--help"], ["--version"], ["launch", "--help"]):
            done = subprocess.run([find_program("mlxcommctl"), *words], stdout=full, stderr=subprocess.PIPE)
            assert done.returncode == 1, words


def test_launch_does_not_lose_output_silently():
    command = [find_program("mlxcommctl"), "launch", "-n", "1", "--", "echo", "hello"]
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "output is lost" in done.stderr
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', *command], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output is closed" in done.stderr


def test_options_may_stand_before_the_verb(tmp_path):
    socket = str(tmp_path / "none.sock")
    for words in (["--socket", socket, "--json", "status"], ["--json", f"--socket={socket}", "status"]):
        done = ctl(*words)
        assert done.returncode == 3 and json.loads(done.stdout)["error"]["code"] == "UNAVAILABLE"
        assert socket in done.stderr
    assert ctl("--json", "cluster", "key", "show", "--key-file", socket).returncode == 1
    assert ctl("--watch", "status").returncode == 2


@pytest.mark.parametrize(("word", "ours"), [
    ("logs", "service logs"), ("nodes", "status"), ("run", "launch"), ("start", "service install"),
    ("top", "status --watch"), ("dashboard", "web"), ("statsu", "status"), ("init", "cluster create")])
def test_words_of_other_tools_lead_to_ours(word, ours):
    done = ctl(word)
    assert done.returncode == 2
    said = f'mlxcommctl: mlxcommctl has no verb "{word}"; did you mean "{ours}"?'
    assert done.stderr.splitlines()[0] == said


def test_help_fits_the_screen_and_shows_two_examples_that_work():
    for verb in ["", *verbs()]:
        text = ctl(*verb.split(), "--help").stdout
        assert [line for line in text.splitlines() if len(line) > 80] == [], verb
        assert not re.search(r":(INT|FLOAT|UINT|TEXT)|Excludes:|Needs:| in \[", text), verb
        examples = text.split("\nExamples:\n")[1].split("\n\n")[0].splitlines()
        assert len(examples) >= 2, verb
        for example in examples:
            assert commands_in(example), example
            check(example)


def commands_in(line):
    """The calls of mlxcommctl in a shell line, without the shell's own syntax."""
    line = re.sub(r'sudo |"\$\(command -v mlxcommctl\)"|(?<=\s)#.*$', lambda found: "mlxcommctl"
                  if "command -v" in found[0] else "", line)
    calls = []
    for part in re.split(r"&&|\|\|?|;|<\(|\)(?=\s|$)", line):
        words = part.strip()
        if not re.match(r"(ssh .* )?mlxcommctl(\s|$)", words):
            continue
        words = words[words.index("mlxcommctl"):]
        calls.append(re.sub(r"\s*\d?>+\s*\S+|\s&$", "", words))
    return calls


def check(line):
    for call in commands_in(line):
        done = ctl("__check", *shlex.split(call)[1:])
        assert done.returncode == 0, f"{call}: {done.stderr}"


def shown_in(text):
    """Lines of shell blocks, and calls in prose."""
    for kind, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if kind in ("sh", "bash"):
                yield line.strip()
            elif line.startswith("$ "):
                yield line[2:]
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for call in re.findall(r"`(mlxcommctl [^`]+)`", prose):
        if len(call.split()) > 2:  # Otherwise it is the name of a verb.
            yield " ".join(call.split())


# Why: `doctor --recent 10m`, copied from its own README, was refused.
def test_every_command_of_the_documents_is_accepted():
    refused, checked = [], 0
    for path in DOCUMENTS:
        for line in shown_in(path.read_text(encoding="utf-8")):
            if re.search(r"\.\.\.|…|[a-z]\|[a-z]| VERB| [A-Z]$", line):
                continue  # A pattern, not a command.
            checked += len(commands_in(line))
            try:
                check(line)
            except AssertionError as error:
                refused.append(f"{path.relative_to(ROOT)}: {error}")
    assert not refused, "\n".join(refused)
    assert checked > 30
