"""mypy and pyright check typed_program.py, which has right and wrong calls."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import completed, find_program

mlxcomm = pytest.importorskip("mlxcomm", reason="the package is not installed: tests/run installs it")
import mlx.core as mx  # noqa: E402 - what is imported above may not be there.

TYPED = pytest.mark.skipif(mx.__version__ in ("0.31.2", "0.32.0"), reason="this MLX's own types have gaps")
PROGRAM = pathlib.Path(__file__).with_name("typed_program.py")


@TYPED
def test_mypy_accepts_only_right_calls(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--config-file", "",
                           "--cache-dir", str(tmp_path), str(PROGRAM)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# How: basedpyright is pyright as a wheel without npm.
@TYPED
def test_pyright_accepts_only_right_calls(tmp_path):
    pyright = find_program("basedpyright")
    if pyright is None:
        pytest.skip("no basedpyright (interop/requirements-slow.txt)")
    shutil.copy(PROGRAM, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({
        "typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error"}))
    done = completed([pyright, "--pythonpath", sys.executable, "--project", tmp_path])
    assert done.returncode == 0, done.stdout + done.stderr


# Why: nothing checks the types of a call that is not in the program.
def test_the_program_has_every_public_name():
    text = PROGRAM.read_text()
    assert not [name for name in mlxcomm.__all__ if not re.search(rf"mlxcomm\.{name}\b", text)]

