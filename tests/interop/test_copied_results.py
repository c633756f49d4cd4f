"""Results that are copied out of shared memory, which Metal may not accept: values and guarantees are the
same, and users can see it."""

import json
import os
import pathlib
import shutil
import sys
import types

import pytest
from mlxcomm import check_results

from conftest import completed, find_program, lines_of

COPY = {"MLXCOMM_RESULTS": "copy"}
FUNCTIONS = pathlib.Path(__file__).with_name("functions.py")


def ranks(cluster, text, size=2, **environment):
    return lines_of([cluster.python(r, size, text, environment=environment) for r in range(size)])


REUSED = """
import mlx.core as mx, mlxcomm, numpy as np
w = mlxcomm.init()
n, r = w.size(), w.rank()
x = mx.arange(6, dtype=mx.float32).reshape(2, 3) + r
# What is computed from a result while others are under way: MLX may use its memory again.
y = mx.ones(300_000)
for _ in range(20):
    y = mlxcomm.all_reduce(y) / n + 1
    y = y * 1
np.testing.assert_array_equal(np.array(y), np.full(300_000, 21, np.float32))
# A result outlives its group, and one that is dropped unevaluated, or while it is made, harms nobody.
kept = mlxcomm.all_gather(x)
mx.async_eval(kept)
mx.async_eval(mlxcomm.all_reduce(mx.ones(1_000_000)))
assert kept.tolist() == sum(((mx.arange(6).reshape(2, 3) + k).tolist() for k in range(n)), [])
print("right")
"""


@pytest.mark.parametrize("environment", [{}, COPY])
def test_every_kind_is_copied_and_right(cluster, environment):
    c = cluster(1)
    for process in [c.rank(r, 2, FUNCTIONS, arguments=["values"], environment=environment) for r in (0, 1)]:
        assert process.finish() == 0 and process.lines[-1] == "all agree", process.lines[-30:]
        copied = int(process.lines[-2].removeprefix("copied "))
        assert copied > 250 if environment else copied == 0


def test_memory_of_copies_is_reused_only_after_its_last_reader(cluster):
    assert ranks(cluster(1), REUSED, **COPY) == [["right"]] * 2


def test_a_failed_operation_gives_no_result_and_leaves_no_memory_taken(solo):
    """Why: the daemon may still write to a failed operation's range for a moment, and frees it afterwards."""
    text = """
import mlx.core as mx, mlxcomm
w = mlxcomm.init(arena_bytes=4 << 20)
part = mlxcomm.split(0)
try:
    mx.eval(mlxcomm.all_reduce(mx.ones(4 if w.rank() else 5), group=part, timeout=20))
    print("no error")
except mlxcomm.MismatchError:
    for _ in range(20):  # Each half of the arena, and more with its input were anything left of others.
        mx.eval(mlxcomm.all_reduce(mx.ones(500_000)))
    print("goes on")
"""
    assert ranks(solo, text, **COPY) == [["goes on"]] * 2


def test_status_and_the_log_report_it(solo):
    text = """
import subprocess, sys, mlx.core as mx, mlxcomm
w = mlxcomm.init()
mx.eval(mlxcomm.all_reduce(mx.ones(1 << 20)))
mlxcomm.barrier()
if w.rank() == 0: print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout)
mlxcomm.barrier()
"""
    lines, _ = lines_of([solo.python(r, 2, text, find_program("mlxcommctl"), "status", environment=COPY)
                         for r in (0, 1)])
    reported = [line for line in lines if "results are copied out of shared memory" in line]
    assert len(reported) == 1 and "ranks 0, 1: 2 results, 8.0 MiB" in reported[0], lines


def test_a_wrong_word_is_reported_before_any_wait():
    done = completed([sys.executable, "-c", "import mlxcomm\nmlxcomm.init(rank=0, size=2)"],
                     env={**os.environ, "MLXCOMM_RESULTS": "maybe"})
    assert "ValueError: MLXCOMM_RESULTS: expected share or copy" in done.stderr


@pytest.mark.parametrize("environment, said", [({}, "shared"), (COPY, "copied: MLXCOMM_RESULTS=copy")])
def test_the_self_test_reports_its_steps(solo, environment, said):
    done = completed([sys.executable, "-m", "mlxcomm.check_results"],
                     env={**os.environ, "MLXCOMM_SOCKET": solo.socket(0), **environment})
    assert done.returncode == 0 and done.stdout.startswith(said), done.stdout + done.stderr


def test_the_self_test_finds_a_device_that_reads_other_bytes(monkeypatch, capsys):
    """Why: such results are not copied, but wrong, which the word "copied" would hide."""
    monkeypatch.setattr(check_results, "_mlxcomm", types.SimpleNamespace(
        join=lambda *_: None, why_results_are_copied=lambda _, reads: reads and "it reads other bytes"))
    assert check_results.main() == 1 and capsys.readouterr().out == "wrong: it reads other bytes\n"


def doctor(cluster, ctl=None, folder=None, **environment):
    """Doctor's findings about the Python package: code, object and what was found."""
    done = completed([ctl or find_program("mlxcommctl"), "doctor", "--json", "--socket", cluster.socket(0)],
                     cwd=folder, env={**os.environ, **environment})
    assert done.returncode in (0, 1, 4), done.stderr
    reported = json.loads(done.stdout)["findings"]
    return [(f["code"], f["object"], f["found"]) for f in reported if "MC404" <= f["code"] <= "MC409"]


@pytest.mark.parametrize("results, code, said", [
    ("share", "MC409", "results are in the daemon's memory"),
    ("copy", "MC406", "MLXCOMM_RESULTS=copy is set"),
    ("maybe", "MC408", 'MLXCOMM_RESULTS: expected share or copy, got "maybe"')])
def test_doctor_shows_where_results_are(solo, results, code, said):
    found, = doctor(solo, MLXCOMM_RESULTS=results)
    assert found[0] == code and said in found[2], found
    assert found[1] == f"Python package of {os.path.dirname(find_program('mlxcommctl'))}/python3"
    assert solo.status()["jobs"] == []
    # Without a daemon none is started for the question.
    solo.daemons[0].end()
    assert doctor(solo, MLXCOMM_RESULTS=results) == []


@pytest.fixture
def elsewhere(tmp_path):
    """make(script) returns a mlxcommctl beside a python3 that is this script."""

    def make(script):
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        (folder / "python3").write_text(script)
        (folder / "python3").chmod(0o755)
        return shutil.copy(find_program("mlxcommctl"), folder)

    return make


def test_doctor_asks_the_python_of_the_path_and_takes_no_module_from_where_it_is_run(
        solo, elsewhere, tmp_path):
    """Why: root runs it too, in any folder."""
    ctl = elsewhere("#!/bin/sh\nexit 1\n")
    trap = tmp_path / "trap" / "mlxcomm"
    trap.mkdir(parents=True)
    for name in ("__init__.py", "check_results.py"):
        (trap / name).write_text("print('wrong: run from here')\nraise SystemExit(1)\n")
    path = f".:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    found, = doctor(solo, ctl, trap.parent, PATH=path, MLXCOMM_RESULTS="share")
    assert found[:2] == ("MC409", f"Python package of {os.path.dirname(sys.executable)}/python3")


def test_doctor_finds_nothing_if_no_python_has_the_package(solo, elsewhere, tmp_path):
    assert doctor(solo, elsewhere("#!/bin/sh\nexit 1\n"), PATH=str(tmp_path)) == []
