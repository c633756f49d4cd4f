"""tests/lint in a small repository: correct files pass, and one fault of each kind is refused. Also the texts
that tests/prose.py reads."""

import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import prose

ROOT = pathlib.Path(__file__).parents[2]
FILES = {
    "daemon/count.h": "#pragma once\n\nint Twice(int count);\n",
    "daemon/count.cc": '#include "daemon/count.h"\n\nint Twice(int count) { return 2 * count; }\n',
    "daemon/other.cc": '#include "daemon/count.h"\n\nint Four(int count) { return Twice(Twice(count)); }\n',
    "tool": '#!/usr/bin/env bash\necho "$1"\n',
    "program": "#!/usr/bin/env python3\nprint(1)\n",
    "notes.md": "Notes für all.\n",
    "README.md": "# Counting\n\nIt counts.\n",
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (folder / name).chmod(0o755)


def commit(folder):
    git = "git -c user.name=n -c user.email=n@example.org"
    subprocess.run(f"git init -q && git add . && {git} commit -q -m all", shell=True, cwd=folder, check=True)


def make_repository(folder):
    for name in (".clang-format", ".clang-tidy", ".gitignore", ".pre-commit-config.yaml", ".ruff.toml",
                 "tests/clang_tidy", "tests/lint", "tests/prose.py"):
        write(folder, {name: (ROOT / name).read_bytes()})
    unit = folder / "build/lint/Unity/unity_0_cxx.cxx"
    entries = [{"directory": str(folder), "file": str(file), "command": f"c++ -I{folder} -c {file}"}
               for file in (unit, folder / "daemon/other.cc")]
    write(folder, {**FILES, unit: f'#include "{folder}/daemon/count.cc"\n',
                   "build/lint/compile_commands.json": json.dumps(entries)})
    commit(folder)


def lint(folder, *options):
    """The hooks that failed, and everything that was printed. It needs neither a network nor a home."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([sys.executable, folder / "tests" / "lint", *options], cwd=folder, text=True,
                          errors="replace", capture_output=True, env={"PATH": path, "HOME": "/nowhere"})
    failed = re.findall(r"^- hook id: (\S+)\n(?:- duration.*\n)?- exit code", done.stdout, re.MULTILINE)
    assert done.returncode == (1 if failed else 0), done.stdout + done.stderr
    return set(failed), done.stdout


# Why: a tool that does not run, or whose findings are ignored, finds nothing.
def test_a_fault_of_each_kind_is_refused_with_its_place(tmp_path):
    make_repository(tmp_path)
    assert lint(tmp_path, "--whole")[0] == set()
    write(tmp_path, {
        "daemon/count.cc": FILES["daemon/count.cc"].replace("{ return", "{  return") + "int ill_named();\n",
        "daemon/count.h": FILES["daemon/count.h"] + "int half_of(int count);\n",
        "daemon/wide.c": f"//{109 * 'ü'}\n",
        "notes.md": b"Notes. \n\tA tab\r\nLatin \xe4\nno end",
        "program": "#!/usr/bin/env python3\nimport os\nprint(1)\n",
        "tool": "#!/usr/bin/env bash\necho $1\n",
        "README.md": "# Counting\n\nWhoever counts is told.\n",
    })
    failed, output = lint(tmp_path)
    assert failed == {"line-ends", "tabs", "utf-8", "width", "clang-format", "ruff", "shellcheck", "english",
                      "clang-tidy"}, output
    for fault in ("notes.md:1:Notes. ", "notes.md:2:", "notes.md:3:Latin", "notes.md:4:no end",
                  "daemon/wide.c:1:", "daemon/count.cc:3:.*clang-format", "program:2:.*F401",
                  "tool:2:.*SC2086", "README.md:3: 'Whoever'", "daemon/count.h:4:.*half_of",
                  "daemon/count.cc:4:.*ill_named.*readability-identifier-naming"):
        assert re.search(f"^{fault}", output, re.MULTILINE), (fault, output)

    # Fixable findings are fixed; names and quotes must not be changed automatically.
    assert not lint(tmp_path, "--fix")[0] & {"clang-format", "ruff"}
    assert (tmp_path / "program").read_text() == FILES["program"]


def found_in(name, text):
    """Each finding's line and the phrase, or the whole text."""
    return [fault.removeprefix(f"{name}:").split("':")[0] for fault in prose.faults_of(name, text)]


# Why: a finding of what is no English would be edited around; a fault that passes is only seen by readers.
def test_prose_is_read_and_code_is_not():
    assert found_in("README.md", "# A\n\nOne. The daemon is\ntold of it.\n") == ["3: 'is told"]
    assert found_in("README.md", "So many came that some waited. He told it. Who waits?\n") == []
    text = "# Whoever\n\n```\nwhoever\n```\n\n`whoever` and [a link](whoever/is/told.md).\n"
    assert found_in("README.md", text + "[whoever](a.md)\n") == ["8: 'whoever"]
    text = 'auto a = R"(whoever " // anew)" "whoever // is told"; int whoever = 1\'000;\n'
    assert found_in("a.cc", text + "/* whoever\n * calls */ f();  // anew\n") == ["2: 'whoever", "3: 'anew"]
    setting = 'bool a = 1 [(setting) = {\n  help: "It goes on "\n  "by itself." }];  // Anew.\n'
    assert found_in("a.proto", setting) == ["2: 'goes on", "3: 'Anew", "3: 'by itself"]
    text = 'return absl::StrCat("nobody at ", path);\n'
    assert found_in("client/ctl/a.cc", text) == ["1: 'nobody"]
    assert found_in("daemon/a.cc", text) == [], "other programs' strings have other readers"
    words = f"{'word ' * 39}word.\n"
    assert found_in("README.md", words) == []
    assert found_in("README.md", f"A {words}") == ["1: a sentence of 41 words, and 40 are allowed"]


# Why: a hook that is not configured for its stage never runs.
def test_the_hook_of_commit_messages_refuses_a_subject(tmp_path):
    make_repository(tmp_path)
    message = tmp_path / "message"
    for subject, code in (("daemon: read once more", 1), ("a" * 81, 1), ("daemon: counts twice", 0)):
        message.write_text(f"{subject}\n")
        words = ["-m", "pre_commit", "run", "--hook-stage", "commit-msg", "--commit-msg-filename", message]
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "build/pre-commit")})
        assert done.returncode == code, done.stdout + done.stderr
