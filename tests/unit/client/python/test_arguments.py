"""Wrong arguments: one line that names the argument, what was expected, and what was passed.

Why: the extension's own answer is five lines of C++ signatures, and "'<' not supported" names nothing.
How: each argument of each public function gets each value that is wrong for it; the others are right.
"""

import inspect
import math
import re

import pytest

mlxcomm = pytest.importorskip("mlxcomm", reason="the package is not installed: tests/run installs it")
import mlx.core as mx  # noqa: E402 - what is imported above may not be there.

X = mx.ones(4)
TEXTS = [5, b"train", ["train"], "a\0b", "\udc80"]
NAMES = [*TEXTS, "x" * 400, "a\nb", "\x9b"]
RANKS = [None, "0", 0.0, [0], False, -1, 1, 2**32, 2**70, mx.ones(2)]
NUMBERS = ["1", 1.5, [1], {}, True, -2**70, 2**70]
SECONDS = ["3", "three", [1], 1j, X, True, 0, -1, math.inf, math.nan]
COUNTS = [5, 1.5, "ab", [1.5], ["4"], [[4]], [True], {4: 1}, {4}, [-4], [2**40], [3], [2, 2], []]
STREAMS = [5, "cpu", [mx.cpu], mx.gpu, mx.Device(mx.gpu, 0)]
ARRAYS = [None, 1.0, "abc", {}, [1.0], [[X]], object()]

# Wrong values by argument name, for all functions.
WRONG = {
    "after": [1.0, "abc", [X]],
    "all_reduce_size": [None, "1", [1], True, math.nan],
    "arena_bytes": [*NUMBERS, 0, -1],
    "batches": [None, 5, object()],
    "color": [*NUMBERS, -1, 2**31],
    "communication_stream": STREAMS,
    "counts": COUNTS,
    "destination": RANKS,
    "dtype": [None, "float32", float, 5],
    "gradients": [None, 1.0, "abc", {"weight": 1}, [X, None]],
    "group": [5, "train", [None], X],
    "job": NAMES,
    "like": [1.0, "abc", {"weight": 1}, [X, None]],
    "key": [*NUMBERS, 2**31, -2**31 - 1],
    "name": NAMES,
    "op": [None, 5, ["sum"], "summ", "", "s" * 400, "a\nb", "and"],
    "rank": [*NUMBERS, -1, 2, 5],
    "receive_counts": COUNTS,
    "root": RANKS,
    "seconds": SECONDS,
    "send_counts": [None, *COUNTS],
    "shape": [None, 5, "ab", [1.5], ["4"], [[4]], [True], {4: 1}, [2**40], [-4], [2**30] * 3],
    "size": [*NUMBERS, -1, 0],
    "socket": TEXTS,
    "source": RANKS,
    "stream": STREAMS,
    "tag": [None, "1", 1.5, [1], -1, 2**32],
    "take": [5, "rings", ["rings"], [5], [["ring"]]],
    "timeout": SECONDS,
    "tree": [None, 1.0, "abc", {"weight": 1}],
    "trees": [None, 1.0, "abc", {"weight": 1}],
    "x": ARRAYS,
}
# Valid values for required arguments, and for arguments that depend on the wrong one.
RIGHT = {"batches": [], "color": 0, "destination": 0, "dtype": mx.float32, "gradients": X, "root": 0,
         "seconds": 1, "send_counts": [4], "shape": [4], "source": 0, "tree": X, "x": X}
TOGETHER = {"rank": {"size": 2}, "size": {"rank": 0}, "receive_counts": {"send_counts": [4]}}


def calls():
    for function in mlxcomm.__all__:
        if inspect.isclass(getattr(mlxcomm, function)):
            continue
        for name in inspect.signature(getattr(mlxcomm, function)).parameters:
            for number, value in enumerate(WRONG[name]):
                yield pytest.param(function, name, value, id=f"{function}-{name}-{number}")


@pytest.fixture
def alone(monkeypatch):
    """Without a launcher: a group of one, which needs no daemon."""
    for name in ("MLX_RANK", "MLX_WORLD_SIZE", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLXCOMM_SOCKET", "/nowhere/at/all.sock")


@pytest.mark.parametrize(("function", "name", "value"), list(calls()))
def test_an_error_names_each_wrong_argument_in_one_line(alone, function, name, value):
    called = getattr(mlxcomm, function)
    parameters = inspect.signature(called).parameters
    arguments = {one: RIGHT[one] for one, parameter in parameters.items()
                 if parameter.default is parameter.empty and one in RIGHT}
    arguments.update(TOGETHER.get(name, {}))
    positional = parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
    if "group" in parameters and name != "group" and parameters["group"].default is inspect.Parameter.empty:
        arguments["group"] = None
    with pytest.raises((TypeError, ValueError)) as raised:
        called(value) if positional else called(**{**arguments, name: value})
    said = str(raised.value)
    assert "\n" not in said and len(said) < 200, said
    assert re.fullmatch(rf"{name}(\[\d+\])?: expected .+, got .+", said), said


# Why: a list of a program's own class came back as a plain list, contrary to the types.
def test_many_arrays_keep_the_class_of_their_list(alone):
    for kind in (list, tuple, type("List", (list,), {}), type("Tuple", (tuple,), {})):
        assert type(mlxcomm.all_reduce(kind([X, X]))) is kind


@pytest.mark.parametrize(("call", "said"), [
    (lambda: mlxcomm.all_reduce(1.0),
     "TypeError: x: expected an mx.array, or a list or tuple of them, got 1.0 (float)"),
    (lambda: mlxcomm.all_reduce([X, [X]]), "TypeError: x[1]: expected an mx.array, got list"),
    (lambda: mlxcomm.all_reduce(X, group="train"),
     "TypeError: group: expected a group from mlxcomm.init() or split(), got 'train' (str)"),
    (lambda: mlxcomm.all_reduce(X, timeout="3"),
     "TypeError: timeout: expected seconds, more than 0, got '3' (str)"),
    (lambda: mlxcomm.all_reduce(X, timeout=-1), "ValueError: timeout: expected seconds, more than 0, got -1"),
    (lambda: mlxcomm.broadcast(X, root="0"), "TypeError: root: expected a rank of the group, got '0' (str)"),
    (lambda: mlxcomm.all_to_all_v(X, [mx.ones((2, 2))]),
     "TypeError: send_counts[0]: expected a number of rows, got shape (2, 2), mlx.core.float32 (array)"),
    (lambda: mlxcomm.shrink(), "ValueError: group: expected more than one rank, got one"),
    (lambda: mlxcomm.broadcast(X, "0" * 999),
     f"TypeError: root: expected a rank of the group, got '{'0' * 39}... (str)"),
])
def test_messages_are_as_documented(alone, call, said):
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert f"{type(raised.value).__name__}: {raised.value}" == said
