"""Replaces mlx.nn.average_gradients by a version with one operation for each 32 MiB of gradients of one
dtype; MLX needs one for each array when dtypes differ. For each operation the ranks wait for each other, and
with a GPU each adds two crossings between GPU and CPU streams.

``mlxcomm.install()`` replaces it for mlxcomm's groups only. If the program replaces
``mx.distributed.all_sum`` (a profiler, a test), MLX's own code runs and calls the replacement.
"""

import functools
import math
import sys
from numbers import Real
from typing import Any, Optional, TypeVar

import mlx.core as mx
from _mlxcomm_startup import AfterImport
from mlx.utils import tree_flatten, tree_map

from . import _mlxcomm, arguments, call_checks
from .groups import init as _init
from .groups import is_ours
from .operations import Stream, all_reduce
from .tracebacks import ends_at_caller

Tree = TypeVar("Tree")
BUCKET_BYTES = 32 * 1024**2  # The default of mlx.nn.average_gradients.

_UTILS = "mlx.nn.utils"
_replaced: list = []  # MLX's function and ours.
_waiting: list = []   # The AfterImport hook, if the module is not imported yet.
_all_sum = None       # mx.distributed.all_sum after install().


@ends_at_caller
def crossings(*trees: Any) -> int:
    """Counts the arrays that MLX will pass from one stream to another when `trees` are evaluated.

    A crossing between a GPU stream and the CPU stream of an operation costs up to 180 us. Nothing is
    evaluated.

    Args:
        trees: arrays, or lists, tuples and dicts of arrays.

    Example, with the CPU as default device (on a GPU the result is 2):
        >>> mlxcomm.crossings(mlxcomm.all_reduce(mx.ones(3) + 1) * 2)
        0
    """
    return _mlxcomm.crossings([leaf for tree in trees for leaf in _leaves("trees", tree)])


@ends_at_caller
def average_gradients(gradients: Tree, group: Optional[mx.distributed.Group] = None,
                      all_reduce_size: float = BUCKET_BYTES,
                      communication_stream: Stream = None) -> Tree:
    """Averages each gradient over all ranks, as ``mlx.nn.average_gradients`` but in fewer operations.

    Args:
        gradients: a tree (lists, tuples, dicts) of floating or complex arrays, with the same structure,
            shapes and dtypes on all ranks.
        group: from `mlxcomm.init` or `split`; by default ``init()``.
        all_reduce_size: bytes. Gradients of one dtype are packed until they reach this size, and each pack is
            one operation, which begins as soon as its gradients are computed. 0: one operation for each
            gradient.
        communication_stream: a CPU stream; by default MLX's.

    Returns:
        The same tree; its arrays may share memory. Half-precision means are rounded once, from float32.

    Raises:
        ValueError: a gradient has a bool or integer dtype.
        TypeError: `gradients` contains something other than arrays.
        mlxcomm.Error: raised by the evaluation.

    Example (rank 0 of 2):
        >>> gradients = {"weight": mx.ones((2, 2)) * mlxcomm.rank(), "bias": mx.ones(2)}
        >>> mlxcomm.average_gradients(gradients)["weight"]
        array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
    """
    arrays = _leaves("gradients", gradients)
    stream = arguments.stream(communication_stream, "communication_stream")
    bucket_bytes = _bytes(all_reduce_size)
    group = _init() if arguments.group(group) is None else group
    if group.size() == 1 or not arrays:
        return gradients
    if call_checks.enabled:
        call_checks.note("average_gradients")
    if bucket_bytes is None:
        means = [all_reduce(array, "mean", group=group, stream=stream) for array in arrays]
    else:
        means = _mlxcomm.all_reduce_many(arrays, "mean", bucket_bytes, group, stream, 0)
    of_each = iter(means)
    return tree_map(lambda _: next(of_each), gradients)


def _bytes(size):
    """Returns None if each array gets its own operation, and 0, which means one for all, if `size` exceeds
    any memory."""
    if not isinstance(size, Real) or isinstance(size, bool):
        raise arguments.wrong("all_reduce_size", "a number of bytes", size)
    if math.isnan(size):
        raise arguments.wrong("all_reduce_size", "a number of bytes", size, ValueError)
    if size <= 0:
        return None
    return math.ceil(size) if size < 2**63 else 0


def _leaves(name, tree):
    leaves = [leaf for _, leaf in tree_flatten(tree)]
    for leaf in leaves:
        arguments.array(name, leaf, "arrays, or lists, tuples and dicts of them")
    return leaves


def install_fused() -> None:
    """Replaces the function now if its module is loaded, otherwise when it is imported."""
    global _all_sum
    if _replaced or _waiting:
        return
    _all_sum = mx.distributed.all_sum
    if hasattr(sys.modules.get(_UTILS), "average_gradients"):  # Not while the module is still loading.
        _put_average_gradients()
    else:
        _waiting.append(AfterImport(_UTILS, _put_average_gradients))


def uninstall_fused() -> None:
    for hook in _waiting:
        hook.forget()
    _waiting.clear()
    replace_everywhere({ours: original for original, ours in _replaced})
    _replaced.clear()


def _put_average_gradients():
    original = sys.modules[_UTILS].average_gradients

    @functools.wraps(original)
    @ends_at_caller
    def chosen(gradients, group=None, all_reduce_size=BUCKET_BYTES, communication_stream=None):
        group = group or mx.distributed.init()
        if _is_for_us(group, gradients):
            return average_gradients(gradients, group, all_reduce_size, communication_stream)
        return original(gradients, group, all_reduce_size, communication_stream)

    _replaced.append((original, chosen))
    replace_everywhere({original: chosen})


def _is_for_us(group, gradients):
    if group.size() == 1 or not is_ours(group) or mx.distributed.all_sum is not _all_sum:
        return False
    # MLX's version also takes integers, and some values that are not arrays.
    try:
        return all(mx.issubdtype(leaf.dtype, mx.inexact) for leaf in _leaves("gradients", gradients))
    except TypeError:
        return False


def replace_everywhere(functions: dict) -> None:
    """Replaces functions in their modules, and in those that imported them by name, except this package's."""
    by_old = {id(old): new for old, new in functions.items()}
    for module in list(sys.modules.values()):
        names, own = getattr(module, "__dict__", None), getattr(module, "__name__", None)
        if not isinstance(names, dict) or (isinstance(own, str) and own.split(".")[0] == "mlxcomm"):
            continue
        for name, value in list(names.items()):
            if id(value) in by_old:
                setattr(module, name, by_old[id(value)])
