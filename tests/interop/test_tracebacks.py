"""Programs that end with an error: the traceback's last frame is the program's own line."""

import re
import signal
import sys

import pytest

from conftest import RANK, Process, wait_until

# Before, an exception that went through Python keeps its frames (mlxcomm/tracebacks.py).
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 and newer")

HERE = "import os, sys, mlx.core as mx, mlxcomm\n"
JOIN = "world = mlxcomm.init(); rank = world.rank()\n"
LOSE = JOIN + "if rank == 1: os.kill(os.getpid(), 9)\n"

# How each program ends, as rank 0 of two; its last line is the one at fault.
TOGETHER = {
    "mismatch": (JOIN + "mx.eval(mlxcomm.all_reduce(mx.zeros(4 + rank)))", "mlxcomm.MismatchError"),
    "mismatch of mx.distributed": (
        "mlxcomm.install(); rank = mx.distributed.init().rank()\n"
        "mx.eval(mx.distributed.all_sum(mx.zeros(4 + rank)))", "mlxcomm.MismatchError"),
    "lost rank": (LOSE + "mlxcomm.barrier()", "mlxcomm.RankLostError"),
    "lost rank in a call that evaluates": (
        LOSE + "mlxcomm.all_gather_v(mx.zeros(4))", "mlxcomm.RankLostError"),
    "lost rank in a split": (LOSE + "mlxcomm.split(0)", "mlxcomm.RankLostError"),
    "lost rank, asked for again": (
        LOSE + "try: mlxcomm.barrier()\nexcept mlxcomm.Error: pass\nmlxcomm.check()",
        "mlxcomm.RankLostError"),
}
# Without any other rank.
ALONE = {
    "no such root": ("mlxcomm.broadcast(mx.zeros(4), -1)", "ValueError"),
    "no array": ("mlxcomm.all_reduce([1])", "TypeError"),
    "no daemon": ("mlxcomm.init('job', 0, 2)", "mlxcomm.UnavailableError"),
    "no daemon for mx.distributed": (
        "os.environ.update(MLX_RANK='0', MLX_WORLD_SIZE='2')\nmlxcomm.install()\nmx.distributed.init()",
        "mlxcomm.UnavailableError"),
    "no place for mx.distributed": (
        "mlxcomm.install()\nmx.distributed.init(strict=True)", "mlxcomm.UnavailableError"),
    "average of integers": (
        "mlxcomm.average_gradients({'a': 1})", "TypeError"),
}


def check(lines, program, text, kind):
    begin = lines.index("Traceback (most recent call last):")
    frames = [found for line in lines[begin:] if (found := re.match(r'  File "(.*)", line (\d+), in ', line))]
    assert frames, lines
    assert [one[1] for one in frames] == [str(program)], lines
    assert int(frames[0][2]) == text.count("\n") + 1, lines
    said = lines[begin + 3:]
    assert any(line == kind or line.startswith(f"{kind}: ") for line in said), lines


@pytest.mark.parametrize("what", TOGETHER)
def test_traceback_ends_at_the_programs_line_when_ranks_fail(solo, tmp_path, what):
    text, kind = TOGETHER[what]
    program = tmp_path / "program.py"
    program.write_text(HERE + text)
    ranks = [solo.rank(number, 2, program) for number in range(2)]
    assert ranks[0].finish() == 1, ranks[0].lines
    check(ranks[0].lines, program, HERE + text, kind)


@pytest.mark.parametrize("what", ALONE)
def test_traceback_ends_at_the_programs_line_when_a_call_is_refused(tmp_path, what):
    text, kind = ALONE[what]
    program = tmp_path / "program.py"
    program.write_text(HERE + text)
    process = Process([sys.executable, str(program)], {"MLXCOMM_SOCKET": "/nowhere/at/all.sock"})
    assert process.finish() == 1, process.lines
    check(process.lines, program, HERE + text, kind)


# Why: the frames of runpy and of python -m mlxcomm stood before the program's first.
@pytest.mark.parametrize("way", ["program.py", "-m program", "-c TEXT"])
def test_traceback_begins_at_the_programs_line_below_python_m_mlxcomm(tmp_path, way):
    program, text = tmp_path / "program.py", "def divide():\n 1 / 0\ndivide()\n"
    program.write_text(text)
    words = [text if word == "TEXT" else word for word in way.split()]
    process = Process([sys.executable, "-m", "mlxcomm", *words], cwd=tmp_path)
    assert process.finish() == 1, process.lines
    shown = "<string>" if "-c" in words else str(program)
    assert process.lines[0] == "Traceback (most recent call last):", process.lines
    assert [line for line in process.lines if line.startswith("  File ")] == [
        f'  File "{shown}", line 3, in <module>', f'  File "{shown}", line 2, in divide'], process.lines
    assert process.lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("call", ["mlxcomm.barrier()", "mx.eval(mlxcomm.all_reduce(mx.ones(3)))",
                                  "mlxcomm.all_gather_v(mx.ones(3))", "mlxcomm.split(0)"])
@pytest.mark.parametrize("way", [(), ("-m", "mlxcomm")])
def test_traceback_of_ctrl_c_is_only_the_programs_line(solo, tmp_path, call, way):
    program = tmp_path / "program.py"
    program.write_text(HERE + JOIN + call)
    solo.rank(1, 2, RANK, arguments=["wait"])
    waiting = Process([sys.executable, *way, str(program)],
                      {"MLX_RANK": "0", "MLX_WORLD_SIZE": "2", "MLXCOMM_JOB": "job",
                       "MLXCOMM_SOCKET": solo.socket(0)})
    solo.ranks.append(waiting)
    wait_until(lambda: any(rank["operation"] for job in solo.status()["jobs"] for rank in job["ranks"]),
               "rank 0 waits")
    waiting.signal(signal.SIGINT)
    assert waiting.finish() == -signal.SIGINT, waiting.lines
    check(waiting.lines, program, HERE + JOIN + call, "KeyboardInterrupt")


# Why: Ctrl-C reaches all ranks, and the traceback of a failed operation ended in the package's own function.
def test_ctrl_c_while_an_operation_fails_shows_only_the_programs_line(solo, tmp_path):
    text = HERE + LOSE + (
        "try: mlxcomm.barrier()\n"
        "except mlxcomm.RankLostError: pass\n"
        "import ctypes, functools, operator\n"
        "fails = functools.partial(mlxcomm._mlxcomm.check, world)\n"
        "list(map(operator.call, [ctypes.pythonapi.PyErr_SetInterrupt, fails]))")
    program = tmp_path / "program.py"
    program.write_text(text)
    ranks = [solo.rank(number, 2, program) for number in range(2)]
    assert ranks[0].finish() == -signal.SIGINT, ranks[0].lines
    check(ranks[0].lines, program, text, "KeyboardInterrupt")


# Why: errors of the program's functions, and mistakes of the package, must keep their frames.
def test_frames_of_the_programs_functions_and_of_the_packages_mistakes_stay(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(HERE + (
        "def wrong(rank, size): raise ValueError('mine')\n"
        "os.environ.update(MLX_RANK='0', MLX_WORLD_SIZE='2')\n"
        "mlxcomm.install()\n"
        "import traceback\n"
        "try: mx.distributed.init(backend='jaccl', all_gather_factory=wrong)\n"
        "except ValueError as error: print(traceback.extract_tb(error.__traceback__)[-1].name)\n"
        "from mlxcomm import groups\n"
        "groups.find_place = lambda *_: {}['x']\n"
        "try: mlxcomm.init('job', 0, 2)\n"
        "except KeyError as error: print(len(traceback.extract_tb(error.__traceback__)) > 1)\n"))
    process = Process([sys.executable, str(program)], {"MLXCOMM_SOCKET": "/nowhere/at/all.sock"})
    assert process.finish() == 0, process.lines
    assert process.lines == ["wrong", "True"]
