"""tests/lint, in a small repository: correct files pass, and one fault of each kind is refused."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TOOLS = ("editorconfig", "clang-format", "ruff", "shellcheck", "english", "clang-tidy")
SOURCE = """#include "daemon/count.h"

int Twice(int count) { return 2 * count; }
"""
FILES = {
    "daemon/count.h": "#pragma once\n\nint Twice(int count);\n",
    "daemon/count.cc": SOURCE,
    "daemon/other.cc": '#include "daemon/count.h"\n\nint Four(int count) { return Twice(Twice(count)); }\n',
    "tool": '#!/usr/bin/env bash\necho "$1"\n',
    "program": "#!/usr/bin/env python3\nprint(1)\n",
    "notes.md": "Notes.\n",
    "README.md": "# Counting\n\nIt counts.\n",
}


def lint_module():
    loader = importlib.machinery.SourceFileLoader("lint", str(ROOT / "tests" / "lint"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = bytecode
    return module


def git(folder, *arguments):
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *arguments], cwd=folder,
                   check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    for name in (".clang-format", ".clang-tidy", ".editorconfig", ".gitignore", ".ruff.toml", "tests/lint",
                 "tests/prose.py", "tests/requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    write(tmp_path, FILES)
    entries = [{"directory": str(tmp_path), "file": name,
                "command": f"c++ -std=c++20 -Wall -I{tmp_path} -o all.dir/{name}.o -c {name}"}
               for name in FILES if name.endswith(".cc")]
    write(tmp_path, {"build/lint/compile_commands.json": json.dumps(entries)})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all of it")
    return tmp_path


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def lint(folder, *options, path=None):
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    done = subprocess.run([sys.executable, folder / "tests" / "lint", *options], cwd=folder, text=True,
                          capture_output=True, timeout=300, env=environment)
    failed = re.findall(r"^=== (\S+?)(?: of what.*)?: FAILED", done.stdout, re.MULTILINE)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    assert lines[-1].endswith(f" {len(failed)} failed"), done.stdout
    assert done.returncode == (1 if failed else 0), done.stdout + done.stderr
    return failed, lines


# Why: a tool that is not run, or whose findings are not read, finds nothing either.
def test_a_fault_of_each_kind_is_refused_with_its_place(repository):
    failed, lines = lint(repository)
    assert failed == [], lines

    write(repository, {
        "daemon/count.cc": SOURCE.replace("{ return", "{  return") + "int ill_named() { return 1; }\n",
        "notes.md": "Notes. \n\tA tab\r\nno end",
        "program": "#!/usr/bin/env python3\nimport os\nprint(1)\n",
        "tool": "#!/usr/bin/env bash\necho $1\n",
        "README.md": "# Counting\n\nWhoever counts is told.\n",
    })
    failed, lines = lint(repository)
    assert sorted(failed) == sorted(TOOLS), lines
    for beginning, words in (
            ("notes.md:1: ", "white space at the end"), ("notes.md:2: ", "a tab"),
            ("notes.md:2: ", "carriage return"), ("notes.md:3: ", "no end"),
            ("daemon/count.cc:3:", "-Wclang-format-violations"), ("program:2:", "F401"),
            ("tool:2:", "SC2086"), ("README.md:3: ", "'Whoever'"),
            ("daemon/count.cc:4:", "'ill_named' [readability-identifier-naming]")):
        assert any(line.startswith(beginning) and words in line for line in lines), (beginning, lines)

    # What a tool can fix itself is fixed; names and quotes are not its to choose.
    failed, lines = lint(repository, "--fix")
    assert "clang-format" not in failed and "ruff" not in failed, lines
    assert (repository / "program").read_text() == "#!/usr/bin/env python3\nprint(1)\n"


# Why: a header is checked through a source; and the time should depend only on what was changed.
def test_changed_header_is_looked_at_through_its_source_and_nothing_else(repository):
    write(repository, {"daemon/count.h": "#pragma once\n\nint Twice(int count);\nint half_of(int count);\n"})
    failed, lines = lint(repository)
    assert failed == ["clang-tidy"], lines
    assert any(line.startswith("daemon/count.h:4:") for line in lines)
    assert not any("other.cc" in line for line in lines)
    git(repository, "commit", "-q", "-a", "-m", "a header")
    assert lint(repository)[0] == ["clang-tidy"], "what the last commit changed is looked at"
    assert lint(repository, "--base", "HEAD")[0] == []


# Why: a machine without a program would find nothing, and report success.
def test_missing_program_is_a_failure_that_names_what_installs_it(repository, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git"))
    failed, lines = lint(repository, "--whole", path=str(programs))
    assert failed == ["shellcheck"], lines  # The others are beside the Python that runs it.
    assert "shellcheck is missing: config/install-deps --tests installs it" in lines


# Why: the rules are younger than most comments, and a change of one line is no reason to rewrite a
# file. A README is short, and is read as a whole.
def test_english_of_comments_is_looked_at_where_lines_changed_and_of_readmes_everywhere(repository):
    def english(*options):
        failed, lines = lint(repository, *options)
        assert failed in ([], ["english"]), lines
        return [line for line in lines if re.match(r"(\S+):\d+: '", line)]

    old = SOURCE + "// Whoever calls this is told.\n"
    write(repository, {"daemon/count.cc": old, "README.md": "# Counting\n\nIt is told.\n"})
    git(repository, "commit", "-q", "-a", "-m", "an old comment")
    write(repository, {"daemon/other.cc": FILES["daemon/other.cc"] + "\n// A line of its own.\n"})
    git(repository, "commit", "-q", "-a", "-m", "another file")
    write(repository, {"daemon/count.cc": "// First.\n" + old + "// So many.\n",
                       "daemon/new.h": "// Begins anew.\n#pragma once\n"})
    where = [line.split("'")[0] for line in english()]
    assert where == ["README.md:3: ", "daemon/count.cc:6: ", "daemon/new.h:1: "], where
    assert sum(line.startswith("daemon/count.cc:5: ") for line in english("--whole")) == 2


def test_header_without_a_source_beside_it_is_seen_through_whoever_includes_it():
    module = lint_module()
    commands = {"a/one.cc": ("one", ()), "b/two.cc": ("two", ()), "b/three.cc": ("two", ())}
    texts = {"a/inner.h": "", "a/outer.h": '#include "a/inner.h"', "b/lone.h": "",
             "a/one.cc": "", "b/two.cc": '#include "a/outer.h"', "b/three.cc": ""}

    def sources_for(*changed):
        return module.sources_for(set(changed), commands, texts)

    assert sources_for("a/inner.h") == (["b/two.cc"], [])
    assert sources_for("a/one.h", "b/three-inl.h") == (["a/one.cc", "b/three.cc"], [])
    assert sources_for("b/lone.h", "b/elsewhere.cc") == ([], ["b/elsewhere.cc", "b/lone.h"])


# Why: clang-tidy takes seconds for a file, and most changed files have been checked before.
def test_what_was_fine_is_not_looked_at_again_until_something_changes_that_it_includes(repository):
    def looked_at():
        failed, lines = lint(repository, "--whole")
        assert failed == [], lines
        summary = next(line for line in lines if line.startswith("=== clang-tidy"))
        return int(re.search(r"(\d+) as they were", summary)[1]) if "as they were" in summary else 0

    assert looked_at() == 0
    assert looked_at() == 2
    write(repository, {"daemon/count.h": "#pragma once\n\nint Twice(int count);\nint Half(int count);\n"})
    assert looked_at() == 0
    write(repository, {"daemon/count.cc": SOURCE + "\nint Half(int count) { return count / 2; }\n"})
    assert looked_at() == 1
    write(repository, {"daemon/count.cc": SOURCE + "\nint half_of(int count) { return count / 2; }\n"})
    for _ in range(2):
        assert lint(repository, "--whole")[0] == ["clang-tidy"], "what is not fine is told each time"


def test_sources_of_different_programs_are_not_read_together():
    module = lint_module()
    module.CORES = 1
    commands = {f"a/{n}.cc": ("a", ("-Ia",)) for n in range(10)} | {"b/main.cc": ("b", ("-Ia",))}
    units = module.units_of(sorted(commands), commands)
    assert [len(unit) for unit in units] == [6, 4, 1]


# Why: scripts without an ending are easily forgotten.
def test_scripts_are_found_by_their_first_line():
    module = lint_module()
    assert module.interpreter_of("tests/lint") == "python3"
    assert module.interpreter_of("client/examples/demo") == "bash"
    assert module.interpreter_of("tests/rdma-vm/init") == "sh"
    assert module.interpreter_of("CMakeLists.txt") == ""
