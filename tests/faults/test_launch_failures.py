"""mlxcommctl launch when ranks fail or do not join: its messages, survivors and exit code."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile

import pytest

from conftest import Process, find_program, mlxcommctl

BEGIN = """
import os, pathlib, signal, sys
import mlx.core as mx
import mlxcomm
world = mlxcomm.init()
rank = world.rank()
def step(group=None):
    return mlxcomm.all_reduce(mx.ones(4), group=group).sum().item()
step()
"""
SIZE = "import mlx.core as mx; print(mx.distributed.init(backend='ring').size())"
SURVIVE = """
try:
    step()
except mlxcomm.RankLostError as error:
    print("saw", error.code, "of rank", error.rank, flush=True)
    sys.exit(1)
"""
# How rank 1 ends; launch's exit code; what its summary says.
ENDS = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL; did the machine run out"),
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "was killed by SIGSEGV"),
    "exit code": ("sys.exit(3)", 3, "ended with exit code 3"),
    "exception": ("raise KeyError('weights')", 1, "ended with exit code 1"),
}


@pytest.fixture(autouse=True)
def own_private_daemon(monkeypatch):
    """Gives the test a private daemon of its own."""
    with tempfile.TemporaryDirectory(prefix="mlxcomm-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


def launch(*words, **kwargs):
    return Process([find_program("mlxcommctl"), "launch", *map(str, words)], **kwargs)


def python(tmp_path, text, *options, **kwargs):
    """Launches the text as train.py."""
    (tmp_path / "train.py").write_text(text)
    return launch(*options, "--", sys.executable, tmp_path / "train.py", **kwargs)


# Why: survivors were killed before they had printed their error, and often the wrong rank was blamed.
@pytest.mark.parametrize("how", ENDS)
def test_survivors_print_their_error_and_the_first_rank_is_blamed(tmp_path, how):
    end, code, summary = ENDS[how]
    for _ in range(3):
        process = python(tmp_path, BEGIN + f"if rank == 1: {end}\n" + SURVIVE, "-n", 3)
        assert process.finish() == code, process.lines
        for survivor in (0, 2):
            assert f"[{survivor}] saw RANK_LOST of rank 1" in process.lines
        said = rf"mlxcommctl: job train failed: rank 1 \(pid \d+\) {summary}.*"
        assert re.fullmatch(said, process.lines[-3])
        assert process.lines[-2].startswith("mlxcommctl: mlxcommd reported RANK_LOST: rank 1 (")
        assert "KeyError: 'weights'" in process.lines[-2] or how != "exception"
        assert process.lines[-1] == "mlxcommctl: then failed: rank 0 (exit code 1), rank 2 (exit code 1)" \
            or process.lines[-1] == "mlxcommctl: then failed: rank 2 (exit code 1), rank 0 (exit code 1)"


# Why: README recommends shrink, which did not work under launch.
def test_survivors_shrink_and_go_on_with_keep_going(tmp_path):
    text = BEGIN + """
if rank == 1: os.kill(os.getpid(), signal.SIGKILL)
try:
    step()
except mlxcomm.RankLostError:
    rest = mlxcomm.shrink()
    print("sum", sum(step(rest) for _ in range(20)), flush=True)
"""
    process = python(tmp_path, text, "-n", 3, "--keep-going")
    assert process.finish() == 137, process.lines
    assert sorted(line for line in process.lines if "sum" in line) == ["[0] sum 160.0", "[2] sum 160.0"]
    assert any(line.endswith("was killed by SIGKILL; the others continue") for line in process.lines)
    assert any(line.startswith("mlxcommctl: job train failed: rank 1 ") for line in process.lines)


def test_a_survivor_that_does_not_end_is_ended_after_the_grace(tmp_path):
    process = launch("-n", 2, "--grace", "50ms", "--", "sh", "-c",
                     'if [ "$MLX_RANK" = 1 ]; then until [ -e up ]; do sleep 0.01; done; exit 7; fi; '
                     'trap "echo told" TERM; touch up; while :; do sleep 0.05; done', cwd=tmp_path)
    assert process.finish() == 7
    assert any(line.endswith("ended with exit code 7; the others have 50 ms to end")
               for line in process.lines)
    assert "[0] told" in process.lines
    said = r"mlxcommctl: job sh failed: rank 1 \(pid \d+\) ended with exit code 7"
    assert re.fullmatch(said, process.lines[-1])


# Why: each rank of such a program trains on its own, and nothing looks wrong.
def test_a_python_without_mlxcomm_is_an_error(tmp_path):
    base = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([base, "-S", "-c", "import mlxcomm"], capture_output=True).returncode == 0:
        pytest.skip("this Python has mlxcomm itself")
    process = launch("-n", 2, "--", base, "-I", "-c", "print('trained')", environment={"PYTHONPATH": ""})
    assert process.finish() == 1
    assert process.lines[-1].startswith("mlxcommctl: no rank joined job python3")
    assert "has no package mlxcomm: run the ranks with a Python that has it" in process.lines[-1]


# Why: init(backend="ring") gave each rank a group of one and a sum went through MPI: the mean was wrong.
@pytest.mark.parametrize("backend", ["any", "ring", "jaccl", "mpi"])
def test_every_backend_works_in_a_python_that_has_mlx_and_no_mlxcomm(tmp_path, backend):
    site = tmp_path / "site"
    site.mkdir()
    for module in ("mlx", "mlx_cpu.libs", "numpy", "numpy.libs"):
        if (there := pathlib.Path(sysconfig.get_path("platlib"), module)).exists():
            (site / module).symlink_to(there)
    (site / "sitecustomize.py").write_text("print('the environment runs its own')\n")
    (tmp_path / "mean.py").write_text(
        "import mlx.core as mx, mlx.nn as nn\n"
        f"world = mx.distributed.init(strict=True, backend='{backend}')\n"
        "ones = mx.array([1.0])\n"
        "print(world.size(), mx.distributed.is_available('jaccl'),\n"
        "      (mx.distributed.all_sum(ones) / world.size()).item(),\n"
        "      nn.average_gradients({'g': ones})['g'].item())\n")
    base = getattr(sys, "_base_executable", sys.executable)
    process = launch("-n", 2, "--", base, "mean.py", cwd=tmp_path, environment={"PYTHONPATH": str(site)})
    assert process.finish() == 0, process.lines
    for rank in range(2):
        assert f"[{rank}] 2 True 1.0 1.0" in process.lines
        assert f"[{rank}] the environment runs its own" in process.lines


# Why: Python reads no .pth in a folder of PYTHONPATH, so each rank had a group of one.
def test_mlxcomm_is_loaded_where_only_pythonpath_has_it(tmp_path):
    (tmp_path / "size.py").write_text(SIZE)
    base = getattr(sys, "_base_executable", sys.executable)
    process = launch("-n", 2, "--", base, "size.py", cwd=tmp_path,
                     environment={"PYTHONPATH": sysconfig.get_path("platlib")})
    assert process.finish() == 0, process.lines
    assert {"[0] 2", "[1] 2"} <= set(process.lines)


# Why: each rank had a group of one, and the exit code was 0.
def test_options_that_keep_python_from_loading_mlxcomm_are_an_error(tmp_path):
    (tmp_path / "size.py").write_text(SIZE)
    process = launch("-n", 2, "--", sys.executable, "-S", "size.py", cwd=tmp_path,
                     environment={"PYTHONPATH": sysconfig.get_path("platlib")})
    assert process.finish() == 1, process.lines
    why = "did not load mlxcomm when it started: run the ranks without -S, -I and -E"
    assert process.lines[-1].endswith(why)


# Why: ranks of a frozen program, which has its own Python, trained separately if they named a backend.
# How: a Python with another name, in a child of the rank, represents such a program.
@pytest.mark.slow
@pytest.mark.parametrize("kind, code, why", [
    ("frozen", 1, "the program has loaded MLX without mlxcomm: call mlxcomm.install() in it, or pass"),
    ("script without mlxcomm", 1, "has no package mlxcomm: run the ranks with a Python that has it"),
    ("script", 0, None),
])
def test_programs_other_than_python_that_do_not_join(tmp_path, kind, code, why):
    (tmp_path / "train.py").write_text(
        f"import sys; sys.path.insert(0, {sysconfig.get_path('platlib')!r})\n"
        "import pathlib, time, mlx.core\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n")
    program = tmp_path / "program"
    command = {"frozen": f"PYTHONHOME={sys.base_prefix} ./trainer -I -S train.py; exit $?",
               "script without mlxcomm": f"exec {sys.executable} -I -S train.py",
               "script": f"exec {sys.executable} train.py"}[kind]
    shutil.copy(os.path.realpath(sys.executable), tmp_path / "trainer")
    program.write_text(f"#!/bin/sh\n{command}\n")
    program.chmod(0o755)
    process = launch("-n", 2, "--", "./program", cwd=tmp_path)
    said = process.wait_for("ranks 0, 1 have not joined job program after 10 s")
    (tmp_path / "go").touch()
    assert process.finish() == code, process.lines
    assert why is None or (why in said and why in process.lines[-1]), process.lines


# Why: a program without mx.distributed, such as `python -m mlx_lm generate`, is not an error.
@pytest.mark.slow
@pytest.mark.parametrize("options, code, why", [
    ((), 0, ", and none asked for a group (mx.distributed.init)"),
    # Without mlxcomm's hook it is unknown what the program asked for.
    (("-S",), 1, f"; its Python, {sys.executable}, did not load mlxcomm when it started: run the ranks "
                 "without -S, -I and -E"),
])
def test_ranks_that_do_not_join_are_reported_after_ten_seconds_and_at_the_end(tmp_path, options, code, why):
    text = ("import os, pathlib, time\n"
            "while not pathlib.Path(__file__).with_name('go').exists(): time.sleep(0.01)\n")
    (tmp_path / "train.py").write_text(text)
    process = launch("-n", 2, "--", sys.executable, *options, "train.py", cwd=tmp_path,
                     environment={"PYTHONPATH": sysconfig.get_path("platlib")})
    process.wait_for("mlxcommctl: ranks 0, 1 have not joined job train after 10 s")
    (tmp_path / "go").touch()
    assert process.finish() == code
    assert process.lines[-1] == f"mlxcommctl: no rank joined job train: each ran alone{why}"


def test_a_program_without_a_group_is_not_an_error(tmp_path):
    assert launch("-n", 2, "--", "true").finish() == 0


REFUSED = {
    ("-n", "2"): (2, "launch needs a program, such as: mlxcommctl launch -n 2 -- python train.py"),
    ("-np", "2", "--", "true"): (2, "use -n 2 (ranks on each host) or -N 2 (in all), not -np 2"),
    ("-n", "2", "--", "pyhton", "t.py"): (127, 'no program pyhton in PATH; did you mean "python'),
    ("-n", "2", "--", "python t.py"): (127, 'no program "python t.py": remove the quotes'),
    ("-n", "2", "none.py"): (127, "none.py is not in "),
    ("-n", "2", "--", "python3", "-u", "none.py"): (127, "none.py is not in "),
    ("--job", "", "--", "true"): (2, "--job: expected a name of 1 to 200 bytes"),
    ("--job", "../x", "--", "true"): (2, 'got "../x"'),
    ("--job", "x" * 300, "--", "true"): (2, "--job: expected a name of 1 to 200 bytes"),
    ("-n", "1", "-N", "3", "--", "true"): (2, "--total: the hosts have room for 1 ranks, not 3"),
    ("--grace", "soon", "--", "true"): (2, 'from 0 ns to 1 h (500ms, 10s, 5m, 1h), got "soon"'),
    ("--copy", "--", "true"): (2, "--copy: expected a Python script"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_mistakes_name_the_right_command(tmp_path, words):
    code, text = REFUSED[words]
    done = mlxcommctl("launch", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr and len(done.stderr.splitlines()) <= 2


def test_a_script_runs_with_the_python_beside_mlxcommctl(tmp_path):
    (tmp_path / "train.py").write_text(
        "import mlxcomm, os, sys\nprint(os.environ['MLXCOMM_JOB'], sys.argv[1:])\n")
    process = launch("-N", 2, "train.py", "--epochs", 3, cwd=tmp_path, environment={"PATH": "/usr/bin:/bin"})
    assert process.finish() == 0, process.lines
    assert sorted(process.lines) == [f"[{rank}] train ['--epochs', '3']" for rank in (0, 1)]


def test_jobs_at_the_same_time_have_different_names(tmp_path):
    wait = 'echo "name $MLXCOMM_JOB"; until [ -e go ]; do sleep 0.02; done'
    first = launch("--", "sh", "-c", wait, cwd=tmp_path)
    assert first.wait_for("name") == "[0] name sh"
    second = launch("--", "sh", "-c", wait, cwd=tmp_path)
    assert second.wait_for("name") == "[0] name sh-2"
    (tmp_path / "go").touch()
    assert (first.finish(), second.finish()) == (0, 0)
    third = launch("--", "sh", "-c", 'echo "name $MLXCOMM_JOB"')
    assert third.wait_for("name") == "[0] name sh"
    assert third.finish() == 0


def test_a_job_of_the_cluster_keeps_its_name(solo, tmp_path):
    (tmp_path / "train.py").write_text(
        BEGIN + "print('up', flush=True)\ngo = pathlib.Path(__file__).with_name('go')\n"
        "while not mlxcomm.all_reduce(mx.array(float(go.exists()))).item(): pass\n")
    held = [solo.rank(number, 2, tmp_path / "train.py", job="train") for number in range(2)]
    for rank in held:
        rank.wait_for("up")
    process = launch("--socket", solo.socket(0), "-n", 2, "train.py", cwd=tmp_path)
    process.wait_for("up")
    process.wait_for("up")
    status = mlxcommctl("status", "--socket", solo.socket(0)).stdout
    assert "job train  running" in status and "job train-2  running" in status
    (tmp_path / "go").touch()
    assert process.finish() == 0


# Why: ranks of two launches of one script at the same moment would meet.
def test_on_several_nodes_a_job_has_a_name_of_its_own(duo, tmp_path):
    names = set()
    for _ in range(2):
        process = launch("--socket", duo.socket(0), "-n", 2, "--", "sh", "-c", "echo $MLXCOMM_JOB")
        assert process.finish() == 0
        names |= {line[4:] for line in process.lines}
    assert len(names) == 2 and all(re.fullmatch(r"sh-[a-z2-9]{4}", name) for name in names), names


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_a_failure_of_a_rank(tmp_path, sent):
    process = launch("-n", 2, "--", "sh", "-c", "echo up; while :; do sleep 0.05; done")
    process.wait_for("up")
    process.wait_for("up")
    process.signal(sent)
    assert process.finish() == 128 + sent
    assert not any("failed" in line for line in process.lines)
    word = "interrupted" if sent == signal.SIGINT else "Terminated"
    assert process.lines.count(f"mlxcommctl: {word}; ending 2 ranks") == 1
