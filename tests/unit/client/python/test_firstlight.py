"""firstlight's notes and report, for any output of other programs; and that it needs no MLX."""

import json
import os
import sys
import types

import pytest

mlxcomm = pytest.importorskip("mlxcomm", reason="the package is not installed: tests/run installs it")
from mlxcomm.firstlight import steps  # noqa: E402
from mlxcomm.firstlight.assumptions import ASSUMPTIONS, REFUSED, RENAMED  # noqa: E402
from mlxcomm.firstlight.notes import (  # noqa: E402
    CONFIRMED,
    EVENTS_MAX,
    NOT_ASKED,
    REFUTED,
    TEXT_MAX,
    Notes,
    Pseudonyms,
)

from conftest import completed  # noqa: E402

PROGRAM = "#!/bin/sh\ncase \"$1 $2\" in\n%s\n*) exit 1 ;;\nesac\n"


def test_trials_name_assumptions_of_their_step():
    assert {ASSUMPTIONS[name].step for name in RENAMED.values()} == {"rdma"}
    assert REFUSED - {*RENAMED} == {"receives-before"} and "rdma-receives-before" in ASSUMPTIONS


def test_a_refutation_wins_over_confirmations():
    """Why: an assumption may hold for one of two devices and not for the other; the worse result counts."""
    notes = Notes()
    for holds, seen in ((True, "a: worked"), (False, "b: refused"), (True, "c: worked")):
        notes.judge(holds, "rdma-uc", seen)
    assert notes.of("rdma-uc") == (REFUTED, "b: refused")
    notes.leave_out("wake-time", "why")
    notes.judge(True, "wake-time", "heard")
    assert notes.of("wake-time") == (CONFIRMED, "heard")


def test_steps_that_were_not_requested_are_only_counted():
    notes = Notes()
    notes.file["steps"] = [{"name": "pull", "why": "nobody to pull"}, {"name": "rdma", "why": NOT_ASKED}]
    notes.judge(True, "wake-time", "heard\x1b[31m")
    assert notes.of("pull-seen") == ("not tried", "nobody to pull")
    found = notes.summary()
    assert "\x1b" not in found and NOT_ASKED not in found.splitlines()[1]
    assert found.endswith("1 confirmed, 0 refuted, 24 not tried\n21 others were not requested\n")


def test_events_are_limited_and_sorted():
    notes = Notes()
    for at_us in (*range(EVENTS_MAX), 2, 1, 0):
        notes.file["events"].append({"at_us": at_us, "kind": "rail_up"})
    notes.judge(True, "wake-time", "x" * (1 << 20))
    document = json.loads(notes.document(Pseudonyms(True)))
    assert [event["at_us"] for event in document["events"][:5]] == [0, 0, 1, 1, 2]
    assert len(document["events"]) == EVENTS_MAX and document["events_left_out"] == 3
    assert len(document["assumptions"]) == len(ASSUMPTIONS) and len(notes.of("wake-time")[1]) == TEXT_MAX


def test_the_report_has_no_keys_and_names():
    """Why: users send the report to strangers."""
    notes = Notes()
    keys = ["5a" * 32, ":".join(["5A"] * 32), "b" * 43 + "=", "-".join(["AB2C"] * 14)]
    notes.judge(False, "neighbour", f"found studio-max by {' and '.join(keys)} \udcff \"quoted\"")
    notes.file["findings"] = [f"MC203 link to studio-max: {keys[0]}"]
    notes.file["system"] = {"model": "studio-max"}
    notes.file["rdma"] = {"limits": [{"name": "library", "value": "/place/anna/x.dylib"}], "devices": [
        {"trials": [{"text": "on studio-max"}]}]}
    notes.file["events"] = [{"at_us": 1, "source": "daemon", "text": "rail to studio-max"}]
    names = Pseudonyms(True)
    names.know("studio-max", "mac")
    names.know("daemon", "user")
    text = notes.document(names)
    assert not [word for word in ("studio", "anna", *keys) if word in text]
    assert "found mac-1 by (removed: a key) and (removed: a key) and" in text
    assert json.loads(text)["events"][0]["source"] == "daemon", "one of a few words"


def test_pseudonyms_replace_words_and_addresses_by_their_kind():
    names = Pseudonyms(True)
    for name, kind, instead in (("studio", "mac", ""), ("studio-max", "mac", ""), ("/place/anna", "", "~"),
                                ("anna", "user", "")):
        names.know(name, kind, instead)
    for text, found in {
        "studio-max to studio, studios: /place/anna/x of anna, annabel":
            "mac-2 to mac-1, studios: ~/x of user-1, annabel",
        "fe80::347c:94ff:fecd:45c4, fe80::1c2:3:4:5%en5, 169.254.7.9":
            "fe80::200:ff:fe00:1, fe80::1%en5, 169.254.0.1",
        "[fe80::1c2:3:4:5%en5]:7470 and 169.254.7.9:7470.": "[fe80::1%en5]:7470 and 169.254.0.1:7470.",
        "::ffff:169.254.7.9 81.2.69.142 2a00:1450::5 36:7c:94:cd:45:c4 node:10.7.7.7":
            "::ffff:169.254.0.1 192.0.2.1 2001:db8::1 02:00:00:00:00:01 node:10.0.0.1",
    }.items():
        assert names.replace(text) == found
        assert Pseudonyms(False).replace(text) == text
    for text in ("127.0.0.1", "::1", "ff02::1", "0.0.0.0:7470", "26.3", "dead beef: 12:30", "a: b", "::", ""):
        assert names.replace(text) == text


@pytest.fixture
def first_light(tmp_path):
    """Runs it with fake mlxcommctl and mlxcommd beside a Python without MLX."""
    (tmp_path / "python").symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "core.py").write_text("raise ImportError('No module named mlx')")
    package = os.path.dirname(os.path.dirname(mlxcomm.__file__))

    def run(steps, ctl="", daemon=""):
        for name, answers in (("mlxcommctl", ctl), ("mlxcommd", daemon)):
            (tmp_path / name).write_text(PROGRAM % answers)
            (tmp_path / name).chmod(0o755)
        output = tmp_path / "file.json"
        done = completed([tmp_path / "python", "-m", "mlxcomm", "firstlight", "--yes", "--steps", steps, "-o",
                          output], env={**os.environ, "PYTHONPATH": f"{tmp_path}:{package}"})
        assert done.returncode == 0, done.stderr
        return {one["id"]: one for one in json.loads(output.read_text())["assumptions"]}, done

    return run


def test_a_trial_that_crashes_or_lies_hides_no_other(first_light):
    found, _ = first_light("platform", daemon="*wake-time) kill -SEGV $$ ;;\n*shm-fixed-size) echo maybe ;;\n"
                                             "*) printf 'holds\\n\\377\\033[31m' ;;")
    assert found["wake-time"]["verdict"] == "refuted" and "SIGSEGV" in found["wake-time"]["seen"]
    assert found["shm-fixed-size"]["verdict"] == "refuted" and found["process-exit"]["verdict"] == "confirmed"


@pytest.mark.parametrize("answer", ["", "{", "[]", "null", '{"nodes": []}', '{"nodes": 7}', "\\377", "[[[[",
                                    '{"error": {"message": "m"}}', '{"nodes": [{"links": [{}]}]}'])
def test_an_invalid_answer_is_a_reason(first_light, answer):
    found, done = first_light("gpu,loopback,rdma,neighbour,cable,pull,sleep",
                             ctl=f"launch*) exit 1 ;;\n*) printf '{answer}' ;;")
    assert "Traceback" not in done.stderr
    assert found["neighbour"]["verdict"] == found["rdma-uc"]["verdict"] == "not tried"
    assert found["gpu-default"]["verdict"] == found["loopback-values"]["verdict"] == "not tried"


# Why: a rail between two ports of one machine comes back although the cable is out; the step timed out after
# 90 s and left the port down.
def test_a_rail_that_is_back_at_once_still_counts_as_pulled():
    cable = object.__new__(steps.Cable)
    cable.run, cable.listen = types.SimpleNamespace(wait_for_person=lambda seconds: None), lambda: None
    cable.reported = [{"rail": "r", "kind": kind, "at_us": at_us}
                  for at_us, kind in ((7, "rail_down"), (9, "rail_up"))]
    assert cable.await_last("rail_down", ["r"], 0, since_us=5)
    assert not cable.await_last("rail_down", ["r"], 0, since_us=8)
    assert not cable.await_last("rail_down", ["r"], 0)
    assert cable.await_last("rail_up", ["r"], 0)
