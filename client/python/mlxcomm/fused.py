"""Replaces two functions of mlx.nn by versions with fewer operations. For each operation the ranks wait for
each other, and with a GPU each adds two crossings between GPU and CPU streams.

    average_gradients  one operation for each 32 MiB of gradients of one dtype; MLX needs one for each array
                       when dtypes differ
    sum_gradients      for sharded layers: layers with the same input x (the projections for query, key and
                       value) share one operation in the backward pass

``mlxcomm.install()`` replaces them for mlxcomm's groups only. If the program replaces
``mx.distributed.all_sum`` (a profiler, a test), MLX's own code runs and calls the replacement.
"""

import collections
import functools
import math
import sys
import threading
import weakref
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

_UTILS, _LAYERS = "mlx.nn.utils", "mlx.nn.layers.distributed"
_put_there: list = []  # (function's name, MLX's own, ours)
_waiting: list = []    # AfterImport hooks for modules that are not imported yet.
_all_sum = None        # mx.distributed.all_sum after install().


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
    """Replaces the functions now if their modules are loaded, otherwise when they are imported."""
    global _all_sum
    if _put_there or _waiting:
        return
    _all_sum = mx.distributed.all_sum
    for name, function, put in ((_UTILS, "average_gradients", _put_average_gradients),
                                (_LAYERS, "sum_gradients", _put_sum_gradients)):
        if hasattr(sys.modules.get(name), function):  # A module that is still loading may not have it.
            put()
        else:
            _waiting.append(AfterImport(name, put))


def uninstall_fused() -> None:
    for hook in _waiting:
        hook.forget()
    _waiting.clear()
    for name, original, ours in _put_there:
        _replace_everywhere(ours, name, original)
    _put_there.clear()


def _put_average_gradients():
    original = sys.modules[_UTILS].average_gradients

    @functools.wraps(original)
    @ends_at_caller
    def chosen(gradients, group=None, all_reduce_size=BUCKET_BYTES, communication_stream=None):
        group = group or mx.distributed.init()
        if _is_for_us(group, gradients):
            return average_gradients(gradients, group, all_reduce_size, communication_stream)
        return original(gradients, group, all_reduce_size, communication_stream)

    _put("average_gradients", original, chosen)


def _is_for_us(group, gradients):
    if group.size() == 1 or not is_ours(group) or mx.distributed.all_sum is not _all_sum:
        return False
    # MLX's version also takes integers, and some values that are not arrays.
    try:
        return all(mx.issubdtype(leaf.dtype, mx.inexact) for leaf in _leaves("gradients", gradients))
    except TypeError:
        return False


def _put_sum_gradients():
    original = sys.modules[_LAYERS].sum_gradients

    @functools.lru_cache
    def chosen(group):
        marked = original(group)
        return _OnceForEach(marked) if group.size() > 1 and is_ours(group) else marked

    _put("sum_gradients", original, functools.wraps(original)(chosen))


class _OnceForEach:
    """An identity whose gradient is summed over the ranks. The same array gives the same result, so MLX adds
    the cotangents of all its users before the one operation that sums them.

    It tracks arrays that are being differentiated, for each thread and default stream, as long as the Python
    object lives and still refers to the same array (x += y makes it another).
    """

    def __init__(self, marked):
        self._marked = marked
        self._of_thread = threading.local()

    def __call__(self, x):
        if not _mlxcomm.is_traced(x) or mx.distributed.all_sum is not _all_sum:
            return self._marked(x)
        known = self._known()
        place = id(x)
        stream = mx.default_stream(mx.default_device())
        one = known.get(place)
        if one is None or one.stream != stream or not _mlxcomm.is_same(one.array, x):
            forget = functools.partial(_forget, known, place)
            one = known[place] = _Known(weakref.ref(x, forget), stream, _mlxcomm.same(x), self._marked(x))
        return _mlxcomm.same(one.result)  # A new object, so that += on it changes no other user's.

    def _known(self):
        """Returns this thread's table, by id() of the input."""
        if not hasattr(self._of_thread, "known"):
            self._of_thread.known = {}
        return self._of_thread.known


_Known = collections.namedtuple("_Known", "reference stream array result")


def _forget(known, place, reference):
    one = known.get(place)
    if one is not None and one.reference is reference:
        del known[place]


def _put(name, original, ours):
    _put_there.append((name, original, ours))
    _replace_everywhere(original, name, ours)


def _replace_everywhere(old, name, new):
    """Also replaces the function in modules that did ``from mlx.nn import average_gradients``."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict) and names.get(name) is old:
            setattr(module, name, new)
