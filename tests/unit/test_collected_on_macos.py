"""Why: a test file that uses a Linux feature when it is imported, for example to decide what to
skip, loses all its tests on a Mac, and no Mac has collected them. How: see collect_as_macos.py.
"""

import pathlib
import sys

import pytest

from conftest import completed

FOLDER = pathlib.Path(__file__).parent
TESTS = FOLDER.parent


def collect(*arguments):
    done = completed([sys.executable, FOLDER / "collect_as_macos.py", *arguments], cwd=TESTS.parent)
    return done.returncode, done.stdout + done.stderr


def test_all_tests_are_collected_as_on_a_mac():
    code, said = collect("--rootdir", TESTS.parent, TESTS)
    files = {line.partition("::")[0] for line in said.splitlines() if "::" in line}
    assert code == 0, said[-4000:]
    expected = {str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("test_*.py")}
    assert files == expected


@pytest.mark.parametrize("line", [
    "import sys\nassert sys.platform == 'linux'",
    "import os\nassert os.uname().sysname == 'Linux'",
    "import os\nos.sched_getaffinity(0)",
    "import socket\nsocket.AF_NETLINK",
    "open('/proc/meminfo')",
    "import os\nos.listdir('/proc/self/fd')",
    "import pathlib\nassert pathlib.Path('/proc').exists()",
    "import os\nassert os.path.exists('/sys/class/net')",
])
def test_calls_that_only_linux_has_are_found(tmp_path, line):
    """Why: a stand-in that accepts everything detects nothing."""
    (tmp_path / "test_one.py").write_text(f"{line}\ndef test_nothing(): pass\n", encoding="ascii")
    code, said = collect("--rootdir", tmp_path, tmp_path)
    assert code == 2 and "1 error" in said, said


def test_what_asks_first_is_collected(tmp_path):
    (tmp_path / "test_one.py").write_text(
        "import os, pathlib, sys\n"
        "if sys.platform == 'linux' or pathlib.Path('/proc/self').exists(): open('/proc/self/stat')\n"
        "cores = os.sched_getaffinity(0) if hasattr(os, 'sched_getaffinity') else os.cpu_count()\n"
        "def test_nothing(): pass\n", encoding="ascii")
    code, said = collect("--rootdir", tmp_path, tmp_path)
    assert code == 0 and "1 test collected" in said, said
