"""tests/run: a failure is named and stops only what needs it, and everything that it starts ends with it."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import sys

import pytest

from conftest import Process, completed, wait_until

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "run"


@pytest.fixture
def run(tmp_path):
    """The script as a module, with its logs in the test's folder."""
    loader = importlib.machinery.SourceFileLoader("tests_run", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
    loader.exec_module(module)
    module.ROOT = module.LOGS = tmp_path
    return module


def test_a_failed_step_stops_only_the_steps_that_need_it(run):
    # The log of an earlier run must not count for a step that has not run.
    steps = [run.Step("a", [["false"]]), run.Step("b", [["true"]], ["a"], lane="test"),
             run.Step("c", [["true"]], lane="test"), run.Step("d", [["no-such-program"]])]
    steps[1].log.write_text("100% tests passed, 0 tests failed out of 53\n", encoding="utf-8")
    all_of_them = run.Run(steps)
    all_of_them.run()
    assert [step.state for step in steps] == ["FAILED", "not run", "passed", "FAILED"]
    reported = "\n".join(run.summary(all_of_them))
    assert "53" not in reported and "FAILED: a" in reported


def test_a_step_of_tests_in_which_none_has_run_fails(run):
    step = run.Step("b", [["true"]], results=run.LOGS / "b.xml")
    run.Run([step]).carry_out(step)
    assert step.state == "FAILED" and "no test has run" in step.log.read_text(encoding="utf-8")


# Why: after Ctrl-C pytest's fixtures end what they have started; a process that ignores it is killed.
@pytest.mark.parametrize("deaf_to", ["", "INT TERM"])
def test_everything_ends_with_the_script(tmp_path, deaf_to):
    child = f"trap '' {deaf_to}; echo $$ > {tmp_path}/pid; while :; do sleep 600; done"
    script = f"""
import importlib.machinery, importlib.util, pathlib, sys
sys.path.append({str(SCRIPT.parent)!r})
loader = importlib.machinery.SourceFileLoader("tests_run", {str(SCRIPT)!r})
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("tests_run", loader))
loader.exec_module(run)
run.ROOT = run.LOGS = pathlib.Path({str(tmp_path)!r})
run.PATIENCE = 0.5
steps = [run.Step("a", [["sh", "-c", {child!r}]]), run.Step("b", [["true"]])]
print("begins")
run.Run(steps).run()
print([step.state for step in steps])
"""
    with Process([sys.executable, "-u", "-c", script]) as process:
        process.wait_for("begins")
        pid = tmp_path / "pid"
        wait_until(lambda: pid.exists() and pid.read_text(encoding="ascii").strip(), "the step has begun")
        process.signal(signal.SIGTERM)
        assert process.finish() == 0, process.lines
        assert process.lines[-1] == "['FAILED', 'not run']", process.lines
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text(encoding="ascii")), 0)


def test_each_extra_step_has_its_turn(run):
    """Why: a step that CI skips for one commit must run for another. How: the numbers of some commits."""
    found = run.steps(True)
    extras = {step.extra for step in found if step.extra}
    turns = set()
    for count in range(len(extras)):
        run.number_of_commits = lambda count=count: count
        chosen = run.chosen(run.steps(True), everything=True, extra=["turn"], only=[])
        assert {step.name for step in found if not step.extra} <= {step.name for step in chosen}
        turns |= {step.extra for step in chosen if step.extra}
    assert turns == extras


# Why: with a newer pytest xdist silently ignored the groups.
def test_tests_of_a_group_have_one_worker(tmp_path):
    (tmp_path / "test_group.py").write_text("""
import os, pathlib, pytest
@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("which", range(6))
def test_where(which):
    pathlib.Path(os.environ["PYTEST_XDIST_WORKER"]).touch()
""", encoding="utf-8")
    done = completed([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "--dist",
                      "loadgroup", "--rootdir", tmp_path, tmp_path], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("gw*"))) == 1
