"""Failures become exceptions."""

import importlib
import inspect
import pathlib
import pickle
import re
import traceback

import pytest

mlxcomm = pytest.importorskip("mlxcomm", reason="the package is not installed: tests/run installs it")
from mlxcomm import errors  # noqa: E402 - what is imported above may not be there.

ROOT = pathlib.Path(__file__).parents[4]
CODES = {
    name: int(number)
    for name, number in re.findall(r"MLXCOMM_(\w+) = (\d+),",
                                   (ROOT / "client/lib/mlxcomm.h").read_text().split(
                                       "typedef enum mlxcomm_data_type")[0])
}


def test_header_was_read():
    assert CODES["OK"] == 0 and CODES["RANK_LOST"] == 4 and len(CODES) >= 13


def test_a_class_of_a_program_is_never_raised():
    mine = type("Mine", (mlxcomm.Error,), {"code": "RANK_LOST"})
    error = importlib.reload(errors).make_error((4, "RANK_LOST", 0, "text", "mac-a", 7, "train"))
    assert not isinstance(error, mine) and error.rank == 0


@pytest.mark.parametrize("code", sorted(set(CODES) - {"OK"}))
def test_each_code_of_the_header_is_an_exception(code):
    error = errors.make_error((CODES[code], code, 3, "what happened", "mac-b", 71, "train/rows"))
    assert isinstance(error, RuntimeError)
    assert error.code == code and error.rank == 3
    assert (error.node, error.pid, error.group) == ("mac-b", 71, "train/rows")
    assert str(error) == f"{code}: what happened"
    if code != "INTERNAL":
        assert type(error) is not mlxcomm.Error
    # The name that programs use to catch it.
    assert type(error).__name__ in mlxcomm.__all__
    assert inspect.getsource(type(error)).startswith(f"class {type(error).__name__}(")


def test_unknown_details_are_none():
    error = errors.make_error((5, "DAEMON_LOST", -1, "gone", "", 0, ""))
    assert (error.rank, error.node, error.pid, error.group) == (None, None, None, None)


def test_an_unknown_code_is_an_internal_error():
    error = errors.make_error((99, "FROM_THE_FUTURE", -1, "text", "", 0, ""))
    assert type(error) is mlxcomm.Error and "FROM_THE_FUTURE" in str(error)


def test_errors_can_be_pickled():
    error = errors.make_error((4, "RANK_LOST", 2, "rank 2", "mac-b", 71, "train"))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again) == vars(error) and again.pid == 71
    shown = traceback.format_exception_only(error)
    assert shown == ["mlxcomm.RankLostError: RANK_LOST: rank 2\n"]
