"""Why: a test file that uses a Linux feature when it is imported, for example to decide what to
skip, loses all its tests on a Mac, and no Mac has collected them. How: see collect_as_macos.py.
"""

import pathlib
import sys

from conftest import completed

FOLDER = pathlib.Path(__file__).parent
TESTS = FOLDER.parent


def test_all_tests_are_collected_as_on_a_mac():
    done = completed([sys.executable, FOLDER / "collect_as_macos.py", "--rootdir", TESTS.parent, TESTS],
                     cwd=TESTS.parent)
    files = {line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    expected = {str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("test_*.py")}
    assert files == expected
