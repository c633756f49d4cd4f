"""The run as a whole, with places that do not come up, and one that is interrupted."""
import contextlib
import json

import pytest

from bench import measuring, parts
from bench.findings import has_figures, ours_lost
from ground.namespaces import NotAllowed


class Here:
    """A place that comes up, or raises."""

    ranks = 1

    def __init__(self, name, error=None):
        self.name, self.error = name, error

    @contextlib.contextmanager
    def up(self):
        if self.error:
            raise self.error
        yield self


class Step(parts.Part):
    """Its one turn gives a figure, or is interrupted."""

    def __init__(self, place, error=None):
        super().__init__("overlap", place, 2)
        self.error = error
        self.add("mlxcomm", self.run, 1)

    def run(self):
        if self.error:
            raise self.error
        return 1.5

    def found(self, turn):
        return {"kind": "step", "model": self.place.name, "system": turn.name,
                "step_seconds": turn.into}


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """Measures these parts: returns its result, which is also in the file."""
    def run(*made):
        monkeypatch.setitem(parts.PARTS, "overlap", lambda _: list(made))
        monkeypatch.setattr(measuring, "ALL", [])  # With any peers that this machine has.
        result = measuring.measure(["overlap"], parts.Extent(), tmp_path / "bench.json")
        assert json.loads((tmp_path / "bench.json").read_text()) == result
        assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]
        return result
    return run


def test_a_place_that_does_not_come_up_ends_no_other_and_is_told(measure):
    """Why: one daemon that did not start lost the figures of 20 minutes."""
    result = measure(Step(Here("first")), Step(Here("broken", AssertionError("gave up"))),
                     Step(Here("forbidden", NotAllowed("no root"))), Step(Here("last")))
    assert [has_figures(entry) for entry in result["found"]] == [True, False, False, True]
    assert result["left_out"] == ["overlap, broken: AssertionError: gave up",
                                  "overlap, forbidden: no root"]
    # What the machine does not allow is no failure of ours.
    assert [entry["place"] for entry in ours_lost(result["found"])] == ["broken"]


def test_an_interrupted_run_keeps_what_there_is_and_names_what_is_missing(measure):
    result = measure(Step(Here("first")), Step(Here("second"), KeyboardInterrupt()),
                     Step(Here("third")))
    assert [entry["step_seconds"] for entry in result["found"]] == [[1.5, 1.5], [], []]
    assert [entry["lost"] for entry in ours_lost(result["found"])] == ["interrupted"] * 2


def test_figures_are_in_the_file_after_each_place(measure, tmp_path):
    """How: the second place reads the figures of the first from the file."""
    second = Step(Here("second"))
    second.turns[0].run = lambda: len(json.loads((tmp_path / "bench.json").read_text())["found"])
    result = measure(Step(Here("first")), second)
    assert result["found"][1]["step_seconds"] == [1, 1]
