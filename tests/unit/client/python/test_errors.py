"""Failures as exceptions. Needs neither MLX nor the extension."""

import importlib.util
import pathlib
import pickle
import re
import sys
import traceback

import pytest

ROOT = pathlib.Path(__file__).parents[4]
PACKAGE = ROOT / "client/python/mlxcomm"
spec = importlib.util.spec_from_file_location("errors_under_test", PACKAGE / "errors.py")
errors = importlib.util.module_from_spec(spec)
spec.loader.exec_module(errors)

CODES = {
    name: int(number)
    for name, number in re.findall(r"MLXCOMM_(\w+) = (\d+),",
                                   (ROOT / "client/lib/mlxcomm.h").read_text().split(
                                       "typedef enum mlxcomm_data_type")[0])
}


def test_header_was_read():
    assert CODES["OK"] == 0 and CODES["RANK_LOST"] == 4 and len(CODES) >= 13


def test_rank_0_is_a_rank():
    assert errors.make_error((4, "RANK_LOST", 0, "text", "mac-a", 7, "train")).rank == 0


@pytest.mark.parametrize("code", sorted(set(CODES) - {"OK"}))
def test_each_code_of_the_header_is_an_exception(code):
    error = errors.make_error((CODES[code], code, 3, "what happened", "mac-b", 71, "train/rows"))
    assert isinstance(error, RuntimeError)
    assert error.code == code and error.rank == 3
    assert (error.node, error.pid, error.group) == ("mac-b", 71, "train/rows")
    assert str(error) == f"{code}: what happened"
    if code != "INTERNAL":
        assert type(error) is not errors.Error and type(error).__doc__


def test_what_is_not_known_is_none():
    error = errors.make_error((5, "DAEMON_LOST", -1, "gone", "", 0, ""))
    assert (error.rank, error.node, error.pid, error.group) == (None, None, None, None)


def test_code_that_nobody_knows_is_an_internal_error():
    error = errors.make_error((99, "FROM_THE_FUTURE", -1, "text", "", 0, ""))
    assert type(error) is errors.Error and "FROM_THE_FUTURE" in str(error)


def test_goes_through_pickle_by_the_name_that_programs_use(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxcomm", errors)
    error = errors.make_error((4, "RANK_LOST", 2, "rank 2", "mac-b", 71, "train"))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again) == vars(error) and again.pid == 71
    shown = traceback.format_exception_only(error)
    assert shown == ["mlxcomm.RankLostError: RANK_LOST: rank 2\n"]


# Why: an exception that cannot be named cannot be caught.
def test_package_exports_each_of_them():
    exported = (PACKAGE / "__init__.py").read_text().split("__all__")[1]
    for code in set(CODES) - {"OK"}:
        name = type(errors.make_error((CODES[code], code, -1, "", "", 0, ""))).__name__
        assert f'"{name}"' in exported, f"{name} is not in mlxcomm.__all__"
