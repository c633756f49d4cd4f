"""tests/run: every failure is named, no failure keeps the rest from finishing, and everything that
it starts ends with it."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from conftest import PATIENCE, Process, wait_until

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "run"


@pytest.fixture
def run(tmp_path):
    """The script as a module, with its logs in the test's folder."""
    loader = importlib.machinery.SourceFileLoader("tests_run", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
    loader.exec_module(module)
    module.ROOT = module.LOGS = tmp_path
    return module


def step_with_log(run, text):
    step = run.Step("unit tests", [], results=run.LOGS / "none.xml")
    step.log.write_text(text, encoding="utf-8")
    step.state = "FAILED"
    return step


def test_a_crash_is_told_with_its_test(run):
    shown = run.what_failed(step_with_log(run, """\
[ RUN      ] A.IsFine
[       OK ] A.IsFine (0 ms)
[ RUN      ] A.Crashes
Check failed: 1 == 2
2/3 Test #2: a_tests ......***Exception: SegFault  0.1 sec
[ RUN      ] B.IsFine
[       OK ] B.IsFine (0 ms)
3/3 Test #3: b_tests ......   Passed    0.1 sec
"""))
    assert "IsFine" not in shown and "b_tests" not in shown
    assert shown.splitlines()[:2] == ["[ RUN      ] A.Crashes", "Check failed: 1 == 2"]
    assert "SegFault" in shown


def test_a_rerun_is_told_with_its_name(run):
    step = step_with_log(run, "RERUN tests/a.py::test_b[c]\n1 passed, 1 rerun in 0.1s\n")
    told = "\n".join(run.table(run.Run([step], everything=False)))
    assert "rerun: tests/a.py::test_b[c] (unit tests)" in told


def test_a_step_that_the_script_cannot_carry_out_fails_and_the_others_go_on(run, capsys):
    def find():
        raise ValueError("a mistake of the script's own")

    steps = [run.Step("a", [find]), run.Step("b", [["true"]], after=["a"], lane="processes"),
             run.Step("c", [["true"]], lane="processes"), run.Step("d", [["no-such-program"]])]
    all_of_them = run.Run(steps, everything=False)
    all_of_them.go_along("compile")
    all_of_them.go_along("processes")
    assert [step.state for step in steps] == ["FAILED", "not run", "fine", "FAILED"]
    assert "a mistake of the script's own" in capsys.readouterr().out
    assert "no-such-program" in steps[3].log.read_text(encoding="utf-8")


# Why: a user who reads only the last lines must not see those of an earlier run.
def test_what_has_not_run_tells_nothing_of_an_earlier_run(run):
    steps = [run.Step("a", [["false"]]),
             run.Step("b", [["true"]], after=["a"], results=run.LOGS / "b.xml")]
    steps[1].log.write_text("100% tests passed, 0 tests failed out of 53\n", encoding="utf-8")
    both = run.Run(steps, everything=False)
    both.run()
    assert [step.state for step in steps] == ["FAILED", "not run"]
    assert "53" not in "\n".join(run.table(both))


def test_a_step_of_tests_in_which_none_has_run_fails(run):
    step = run.Step("b", [["true"]], results=run.LOGS / "b.xml")
    run.Run([step], everything=False).carry_out(step)
    assert step.state == "FAILED"
    assert "no test has run" in step.log.read_text(encoding="utf-8")


def test_who_outlives_a_step_ends_with_it(run):
    pid = run.LOGS / "pid"
    step = run.Step("a", [["sh", "-c", f"sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600' & "
                           f"until [ -e {pid} ]; do sleep 0.01; done"]])
    run.Run([step], everything=False).carry_out(step)
    assert step.state == "fine"

    def is_gone():
        try:
            os.kill(int(pid.read_text(encoding="ascii")), 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(is_gone, "the one that was left behind has ended")


# Why: CI ends a run that takes too long, and then all of it counts for nothing. Less of the last steps is
# better than that, as long as nobody takes it for all, and nothing that has failed by then is forgotten.
def test_where_the_minutes_are_over_the_last_steps_are_cut_off_and_named(run):
    def that_says(name, what):
        begun = run.LOGS / name
        return run.Step(name, [["sh", "-c", f"echo '{what}'; touch '{begun}'; exec sleep 600"]], lane=name,
                        can_be_cut=True)

    begun = [that_says("fine so far", "[5/10] Building"), that_says("failed", "FAILED: daemon/node.o")]
    late = run.Step("late", [["true"]], can_be_cut=True)
    other = run.Step("other", [["sh", "-c", "until [ -e cut ]; do sleep 0.01; done"]], lane="other")
    all_of_them = run.Run([*begun, late, other], everything=False, minutes=84)
    lanes = [threading.Thread(target=all_of_them.go_along, args=(step.lane,)) for step in [*begun, other]]
    for lane in lanes:
        lane.start()
    try:
        wait_until(lambda: all((run.LOGS / step.name).exists() for step in begun), "both have begun")
        all_of_them.cut_off()
        (run.ROOT / "cut").touch()
        for lane in lanes:
            lane.join(PATIENCE)
        all_of_them.go_along("compile")
    finally:
        all_of_them.stop()
    assert [step.state for step in (*begun, late, other)] == ["cut off", "FAILED", "cut off", "fine"]
    told = "\n".join(run.table(all_of_them))
    assert "cut off: fine so far: 84 minutes were over ([5/10])" in told
    assert "cut off: late: 84 minutes were over (not begun)" in told
    assert "FAILED: failed: FAILED: daemon/node.o" in told


def test_a_run_cuts_off_once_its_minutes_are_over(run):
    steps = [run.Step("a", [["sleep", "600"]], can_be_cut=True), run.Step("b", [["true"]], lane="other")]
    run.Run(steps, everything=False, minutes=0).run()
    assert [step.state for step in steps] == ["cut off", "fine"]


def test_a_step_is_taken_by_its_name_before_others_that_hold_it(run):
    steps = [run.Step("build", []), run.Step("unit tests", [], after=["build"]),
             run.Step("unit tests by clang", [])]
    assert [step.name for step in run.needed(steps, "unit tests")] == ["build", "unit tests"]
    assert [step.name for step in run.needed(steps, "unit")] == ["build", "unit tests", "unit tests by clang"]


# Why: tests of other programs are skipped where these are missing, and they may not exist for every
# machine.
def test_programs_that_cannot_be_installed_fail_nothing(run, tmp_path):
    run.PYTHON = sys.executable
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("nothing @ file:///nowhere/at/all.whl\n", encoding="ascii")
    done = subprocess.run(list(map(str, run.try_to_install(requirements))), capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout.startswith(f"not all of {requirements} can be installed")


# Why: after Ctrl-C pytest's fixtures end what they have started; a process that ignores it is
# killed after all.
@pytest.mark.parametrize("deaf_to", ["", "INT", "INT TERM"])
def test_what_it_has_started_ends_with_it(tmp_path, deaf_to):
    child = f"trap '' {deaf_to}; echo $$ > {tmp_path}/pid; while :; do sleep 600; done"
    script = f"""
import importlib.machinery, importlib.util, pathlib, sys
sys.path.append({str(SCRIPT.parent)!r})
loader = importlib.machinery.SourceFileLoader("tests_run", {str(SCRIPT)!r})
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
loader.exec_module(run)
run.LOGS, run.PATIENCE = pathlib.Path({str(tmp_path)!r}), 0.5
run.ROOT = run.LOGS
steps = [run.Step("a", [["sh", "-c", {child!r}]]), run.Step("b", [["true"]])]
all_of_them = run.Run(steps, everything=False)
print("begins")
all_of_them.run()
print([step.state for step in steps])
"""
    process = Process([sys.executable, "-u", "-c", script])
    try:
        process.wait_for("begins")
        pid = tmp_path / "pid"
        while not pid.exists() or not pid.read_text(encoding="ascii").strip():
            assert process.child.poll() is None, process.lines
        process.signal(signal.SIGTERM)
        assert process.finish() == 0, process.lines
        assert process.lines[-1] == "['FAILED', 'not run']", process.lines
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text(encoding="ascii")), 0)
    finally:
        process.end()


# Why: a newer pytest took the groups from xdist, unnoticed except for the time: all workers did
# what one should do once, and ranks that poll all the time kept the cores from each other.
def test_tests_of_a_group_have_one_worker(tmp_path):
    (tmp_path / "test_group.py").write_text("""
import os, pathlib, pytest
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("which", range(6))
def test_where(which):
    pathlib.Path(os.environ["PYTEST_XDIST_WORKER"]).touch()
""", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup",
         "--rootdir", tmp_path, tmp_path], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("gw*"))) == 1
