"""README's "One machine": runs its program and its commands as written, and checks their output."""

import os
import pathlib
import re

from conftest import Process, find_program, mlxcommctl, wait_until

README = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
UNITS = "(?:ns|us|ms|s|min|h|B|KiB|MiB|GiB)"


def blocks():
    """The lines of each block of the section; with 9,000 steps instead of 30,000."""
    section = README.partition("## One machine\n")[2].partition("\n## ")[0]
    shorter = re.sub(r"\b([123])000(\d)\b", lambda steps: f"{3 * int(steps[1])}00{steps[2]}", section)
    return [text.splitlines() for text in re.findall(r"```\w*\n(.*?)```", shorter, re.DOTALL)]


def pattern(promised):
    """Figures, units and the machine's name differ elsewhere."""
    def of(word):
        if re.fullmatch(r"\d+\.\d+(\.\d+)?", word):
            return r"[0-9.]+"
        return {"vm": r"\S+"}.get(word) or (UNITS if re.fullmatch(UNITS, word) else re.escape(word))

    return r"\s+".join(map(of, promised.split()))


def test_readmes_program_and_commands_do_what_it_shows(tmp_path):
    program, launch, status = blocks()
    assert program[0] == "# train.py" and launch[0].startswith("$ mlxcommctl launch "), launch
    assert status[0].endswith(" && mlxcommctl status")
    (tmp_path / "train.py").write_text("\n".join(program))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLX")}
    environment.update(XDG_RUNTIME_DIR=str(tmp_path), TMPDIR=str(tmp_path),
                       PATH=f"{os.path.dirname(find_program('mlxcommctl'))}:{os.environ['PATH']}")
    shown = re.compile(r".*\n".join(map(pattern, status[1:])))

    def look():
        said = mlxcommctl("status", env=environment).stdout
        assert job.child.poll() is None, (said, job.lines)
        return shown.search(said)

    with Process(["env", "-i", *(f"{name}={value}" for name, value in environment.items()),
                  *launch[0].split()[1:]], cwd=tmp_path) as job:
        wait_until(look, "status shows what is promised")
        assert job.finish() == 0, job.lines
    for promised, line in zip(sorted(launch[1:]), sorted(job.lines), strict=True):
        assert re.fullmatch(pattern(promised), line), job.lines


# Why: pip 23.0 of Debian 12 does not know -C, so README's first command failed there.
def test_scripts_that_build_the_package_suit_the_pip_of_debian_12():
    root = pathlib.Path(__file__).parents[2]
    for script in ("client/examples/demo", "tests/run", "tests/bench/run"):
        text = (root / script).read_text(encoding="utf-8")
        assert "--config-settings=build-dir=" in text, script
        assert not re.search(r'-C"?,? [f"]*build-dir', text), script


def test_readme_is_short():
    assert len(README.splitlines()) <= 136
