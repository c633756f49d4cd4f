"""Every kind of operation has the same name in all programs and documents.

Why: the names come from one table (proto/types/operation.h), but functions are written by hand in
C, C++ and Python; a user would be the first to find one that is missing there, or has another
number.
How: the extension reports the table; the library's names, the headers' functions, the package's functions and
the values that mlxcommctl offers are compared with it.
"""

import ctypes
import json
import pathlib
import re
from typing import get_args

import pytest

from conftest import mlxcommctl

mlxcomm = pytest.importorskip("mlxcomm", reason="the package is not installed: tests/run installs it")
ROOT = pathlib.Path(__file__).parents[4]


@pytest.fixture(scope="module")
def kinds():
    return mlxcomm._mlxcomm.kinds


@pytest.fixture(scope="module")
def library():
    found = [*(pathlib.Path(mlxcomm.__file__).parent / "lib").glob("libmlxcomm.*")]
    made = ctypes.CDLL(str(found[0]))
    made.mlxcomm_kind_name.restype = ctypes.c_char_p
    return made


def offered(verb, option):
    """Returns the values of an option."""
    table = json.loads(mlxcommctl("completion", "--json", check=True).stdout)
    command = next(command for command in table["commands"] if command["path"] == verb)
    return next(one for one in command["options"] if option in one["names"])["values"]


def camel(name):
    """The spelling in mlxcomm.hpp."""
    return {"recv": "Receive"}.get(name, "".join(word.capitalize() for word in name.split("_")))


def test_each_kind_has_its_own_number(kinds):
    assert len(kinds) >= 13 and sorted(kinds.values()) == list(range(1, len(kinds) + 1))


def test_the_c_library_has_each_name_and_exports_one_function_for_all(kinds, library):
    assert library.mlxcomm_submit
    for name, number in kinds.items():
        assert library.mlxcomm_kind_name(number).decode() == name
        assert not hasattr(library, f"mlxcomm_{name}"), name
    assert library.mlxcomm_kind_name(0) is None
    assert library.mlxcomm_kind_name(len(kinds) + 1) is None


def test_the_headers_have_each(kinds):
    in_c = (ROOT / "client/lib/mlxcomm.h").read_text()
    in_cpp = (ROOT / "client/lib/mlxcomm.hpp").read_text()
    for name, number in kinds.items():
        assert f"MLXCOMM_{name.upper()} = {number}," in in_c
        assert f"MLXCOMM_INLINE mlxcomm_code mlxcomm_{name}(" in in_c
        assert f" {camel(name)}(" in in_cpp and f" {camel(name)}Async(" in in_cpp


def numbers(path, enumeration):
    """Returns the numbers of an enumeration, by names without case and underscores."""
    header = (ROOT / path).read_text()
    body = re.search(rf"enum (?:class )?{enumeration}\b[^{{]*{{(.*?)}}", header, re.DOTALL)[1]
    found = re.findall(r"^ *(?:k|MLXCOMM_(?:PLAN_)?)(\w+) = (\d+),", body, re.MULTILINE)
    return {name.replace("_", "").lower(): int(number) for name, number in found}


# Why: client/lib casts the numbers of mlxcomm.h to those of proto/types.
@pytest.mark.parametrize("path, ours, theirs", [
    ("failure", "FailureCode", "mlxcomm_code"), ("operation", "DataType", "mlxcomm_data_type"),
    ("operation", "ReduceOperator", "mlxcomm_operator"), ("operation", "PlanKind", "mlxcomm_plan"),
    ("operation", "OperationKind", "mlxcomm_kind")])
def test_the_header_has_the_numbers_of_proto_types(path, ours, theirs):
    spelled = {"product": "prod", "receive": "recv", "none": "ok"}
    expected = {spelled.get(name, name): one for name, one in numbers(f"proto/types/{path}.h", ours).items()}
    if ours == "ReduceOperator":
        del expected["ok"]  # kNone is for operations that do not reduce.
    assert len(expected) > 4 and numbers("client/lib/mlxcomm.h", theirs) == expected


def test_the_package_has_a_function_for_each(kinds):
    for name in kinds:
        assert callable(getattr(mlxcomm, name)), name
        assert name in mlxcomm.__all__


def test_mlxcommctl_offers_each(kinds):
    of_bench = set(offered("bench", "--op"))
    assert of_bench < set(kinds) | {"send_recv"}
    assert of_bench >= {"all_reduce", "all_to_all", "send_recv"} and "barrier" not in of_bench


def test_operators_have_the_same_names_in_python_and_mlxcommctl():
    import mlx.core as mx

    with pytest.raises(ValueError, match=r"op: expected one of .*, got 'sums'") as reported:
        mlxcomm.all_reduce(mx.zeros(1), "sums")
    in_python = str(reported.value).split("one of ")[1].split(", got")[0].split(", ")
    assert offered("bench", "--operator") == in_python == list(get_args(mlxcomm.operations.Operator))
    for op in in_python:
        mlxcomm.all_reduce(mx.zeros(1, dtype=mx.bool_ if op in ("and", "or") else mx.float32), op)
