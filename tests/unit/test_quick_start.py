"""What tests/quick_start reads from README, and how it compares what is said with what is promised."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "quick_start"))

import readme  # noqa: E402

STATUS = ["job train  running  2 ranks", "vm    up     3.8 s   2        3.8 MiB  0.1.0  (this node)"]


def test_readmes_own_lines_are_found_in_their_order():
    steps = readme.steps((ROOT / "README.md").read_text(encoding="utf-8"))
    assert [step.name if isinstance(step, readme.File) else step.text.split(" &&")[0] for step in steps] == [
        "config/install-deps", "train.py", "mlxcommctl launch -n 2 train.py", ". ~/mlxcomm-venv/bin/activate"]
    status = steps[3]
    assert status.other and status.shortened and status.promised[-1] == "health: all is well"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 136


@pytest.mark.parametrize(("said", "missing"), [
    ("job train  running  2 ranks\nmore\nmac  up  0.1 ms  2  5.1 MiB  0.2.0  (this node)\n", []),
    ("job other  running  2 ranks\nmac  up  1.2 s  2  5.1 MiB  0.2.0  (this node)\n", STATUS[:1]),
    ("mac  up  1.2 s  2  5.1 MiB  0.2.0  (this node)\njob train  running  2 ranks\n", STATUS[1:])])
def test_a_shortened_output_has_other_figures_and_more_lines(said, missing):
    assert readme.what_is_missing(readme.Command("x", STATUS, shortened=True), said) == missing


def test_another_output_is_told_to_the_letter():
    command = readme.Command("x", ["rank 0: loss 0.0000", "rank 1: loss 0.0000"])
    assert readme.what_is_missing(command, "rank 1: loss 0.0000\nrank 0: loss 0.0000\n") == []
    wrong = "rank 1: loss 0.1600\nrank 0: loss 0.0000\n"
    assert readme.what_is_missing(command, wrong) == command.promised[1:]
