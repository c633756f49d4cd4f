"""The operations as lazily evaluated MLX functions.

Nothing happens before an array is evaluated (``mx.eval``, ``print``, ``.item()``). Arguments
and shapes are checked at once.

**Order.** The ranks of a group must carry out the group's operations in the same order, and
MLX evaluates in the order of the graph, not in that of the lines. Ranks that build the same
graph are safe. Where they do not, make the order explicit: use one result in the next
operation, or ``second_input = mx.depends(second_input, first_result)``, or evaluate in
between. Ranks that call different things get ``mlxcomm.MismatchError`` with what each called;
where a rank never reaches an operation (its result was never used), the others wait until
``DeadlineExceededError`` names it.

**Gradients.** `all_reduce` and `all_gather` follow MLX: the gradient of a loss that every rank
computes from the result is not summed over ranks. All others are linear maps over all ranks
with their true adjoint, which is an operation itself: every rank has to differentiate and
to evaluate that gradient, even a rank for which it is zero.

**vmap** makes one operation of the batch. Forward mode (``mx.jvp``) works where the operation
is linear, except for send and recv. ``mx.compile`` works; equal operations are never merged.

Common arguments:
    group: of `mlxcomm.init` or split off it; by default ``init()``. In a group of one rank
        results are the input.
    stream: a CPU stream; by default MLX's CPU stream. Operations on one stream wait for
        each other; give a group that should not wait a stream of its own.
    timeout: seconds until DEADLINE_EXCEEDED; by default the group's (`set_timeout`).

Errors at once: ValueError, for a dtype, shape, rank or count that does not fit. Errors
from the evaluation: a subclass of `mlxcomm.Error`.
"""

import operator
from collections.abc import Sequence
from typing import Optional, Union

import mlx.core as mx

from . import _mlxcomm
from .groups import init as _init
from .groups import nanoseconds
from .tracebacks import ends_at_caller

# The names that `mlxcomm` exports.
__all__ = ["all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v", "broadcast", "gather",
           "recv", "recv_like", "reduce", "reduce_scatter", "scatter", "send"]

Group = mx.distributed.Group
Stream = Union[None, mx.Stream, mx.Device]


def _on(group, stream, timeout):
    return (_init() if group is None else group, stream, nanoseconds(timeout))


def _operate(name, x, on, *, peer=0, tag=0, op="sum", counts=(), receive_counts=()):
    """Arguments that the kind does not use are ignored."""
    return _mlxcomm.operate(_mlxcomm.kinds[name], x, peer, tag, op, counts, receive_counts, *on)


def _number(name, value, limit=2**32):
    value = operator.index(value)
    if not 0 <= value < limit:
        raise ValueError(f"{name}: expected 0 <= {name} < {limit}, got {value}")
    return value


def _counts(name, values):
    return [_number(f"{name}[{rank}]", value, 2**31) for rank, value in enumerate(values)]


Arrays = Union[mx.array, list[mx.array], tuple[mx.array, ...]]


@ends_at_caller
def all_reduce(x: Arrays, op: str = "sum", *, group: Optional[Group] = None,
               stream: Stream = None, timeout: Optional[float] = None) -> Arrays:
    """The x of all ranks combined, on every rank.

    Args:
        x: the same shape and dtype on all ranks. Or a list or tuple of such arrays: they are packed
            together, and all of one dtype are one operation, whatever their shapes.
        op: "sum", "prod", "min", "max", "mean" (floating and complex), "and", "or" (bool
            and integers, bitwise). "min" and "max" give NaN where any input is NaN.

    Returns:
        x's shape and dtype (of a list a list, of a tuple a tuple, whose arrays may share memory);
        bitwise the same on all ranks and in every run. An element of a
        sum of n inputs is off by at most (n - 1) u S, S being the sum of their absolute
        values, u = 2^-24 (float32) or 2^-53 (float64). float16 and bfloat16 are combined in
        float32 and rounded on each node and at each of h <= nodes hops between nodes:
        (h + 1) u S + (n - 1) 2^-24 S, u = 2^-11 (float16) or 2^-8 (bfloat16).

    Gradient (MLX's convention): sum: the cotangent; mean: the cotangent / size; min, max:
    the cotangent where x equals the result; prod, and, or: ValueError.
    """
    if isinstance(x, (list, tuple)):
        for place, one in enumerate(x):
            if not isinstance(one, mx.array):
                raise TypeError(f"all_reduce: x[{place}]: expected an array, got {type(one).__name__}")
        results = _mlxcomm.all_reduce_many(list(x), op, 0, *_on(group, stream, timeout))
        if isinstance(x, tuple):
            return x._make(results) if hasattr(x, "_make") else tuple(results)
        return results
    return _operate("all_reduce", x, _on(group, stream, timeout), op=op)


@ends_at_caller
def reduce(x: mx.array, root: int, op: str = "sum", *, group: Optional[Group] = None,
           stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """As `all_reduce`, at rank `root` alone. Other ranks get zeros of x's shape.

    Gradient: root's cotangent on every rank (a broadcast); mean: that / size; min, max: that
    where x equals the result; prod, and, or: ValueError.
    """
    return _operate("reduce", x, _on(group, stream, timeout), peer=_number("root", root), op=op)


@ends_at_caller
def reduce_scatter(x: mx.array, op: str = "sum", *, group: Optional[Group] = None,
                   stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Rank r gets block r of what `all_reduce` would give.

    Args:
        x: shape (size * n, ...), the same on all ranks: n rows for each rank.
        op: as for `all_reduce`.

    Returns:
        Shape (n, ...).

    Gradient: the cotangents of all ranks (an all_gather); mean, min, max as for `reduce`.
    """
    return _operate("reduce_scatter", x, _on(group, stream, timeout), op=op)


@ends_at_caller
def broadcast(x: mx.array, root: int, *, group: Optional[Group] = None,
              stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """The root's x, on every rank.

    Args:
        x: the same shape and dtype on all ranks; read at the root alone.

    Gradient: at the root the sum of all cotangents (a reduce), elsewhere zero.
    """
    return _operate("broadcast", x, _on(group, stream, timeout), peer=_number("root", root))


@ends_at_caller
def all_gather(x: mx.array, *, group: Optional[Group] = None,
               stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """The x of all ranks one after the other, in order of rank.

    Args:
        x: shape (n, ...), the same on all ranks; a scalar counts as one row.

    Returns:
        Shape (size * n, ...).

    Gradient (MLX's convention): this rank's rows of the cotangent.
    """
    return _operate("all_gather", x, _on(group, stream, timeout))


@ends_at_caller
def all_gather_v(x: mx.array, counts: Optional[Sequence[int]] = None, *,
                 group: Optional[Group] = None, stream: Stream = None,
                 timeout: Optional[float] = None) -> mx.array:
    """As `all_gather`, with a different number of rows on each rank.

    Args:
        x: shape (counts[rank], ...); the rest of the shape is the same on all ranks.
        counts: the rows of each rank, the same list on all of them. None asks the other ranks by
            an `all_gather`, which evaluates; inside ``mx.compile`` they must be given.

    Returns:
        Shape (sum(counts), ...).

    Gradient (MLX's convention): this rank's rows of the cotangent.
    """
    group, stream, wait = _on(group, stream, timeout)
    if counts is None:
        if x.ndim == 0:
            raise ValueError("all_gather_v: expected an array with a leading axis, got a scalar")
        mine = mx.array([x.shape[0]], dtype=mx.int64)
        counts = all_gather(mine, group=group, stream=stream, timeout=timeout).tolist()
    return _operate("all_gather_v", x, (group, stream, wait), counts=_counts("counts", counts))


@ends_at_caller
def gather(x: mx.array, root: int, *, group: Optional[Group] = None,
           stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """As `all_gather`, at rank `root` alone.

    Returns:
        At the root shape (size * n, ...), elsewhere (0, ...).

    Gradient: this rank's rows of the root's cotangent (a scatter).
    """
    return _operate("gather", x, _on(group, stream, timeout), peer=_number("root", root))


@ends_at_caller
def scatter(x: mx.array, root: int, *, group: Optional[Group] = None,
            stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Rank r gets block r of the root's x.

    Args:
        x: shape (size * n, ...), the same on all ranks; read at the root alone.

    Returns:
        Shape (n, ...).

    Gradient: at the root all cotangents one after the other (a gather), elsewhere zero.
    """
    return _operate("scatter", x, _on(group, stream, timeout), peer=_number("root", root))


@ends_at_caller
def all_to_all(x: mx.array, *, group: Optional[Group] = None,
               stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Block r of x goes to rank r; block r of the result comes from rank r.

    Args:
        x: shape (size * n, ...), the same on all ranks.

    Returns:
        x's shape.

    Gradient: the cotangent's blocks sent back (an all_to_all).
    """
    return _operate("all_to_all", x, _on(group, stream, timeout))


@ends_at_caller
def all_to_all_v(x: mx.array, send_counts: Sequence[int],
                 receive_counts: Optional[Sequence[int]] = None, *,
                 group: Optional[Group] = None, stream: Stream = None,
                 timeout: Optional[float] = None) -> mx.array:
    """As `all_to_all`, with a different number of rows from each rank to each.

    Args:
        x: shape (sum(send_counts), ...), in order of the rank that it goes to.
        send_counts: how many rows go to each rank.
        receive_counts: how many come from each. None asks the other ranks by an `all_to_all`,
            which evaluates; inside ``mx.compile`` they must be given.

    Returns:
        Shape (sum(receive_counts), ...), in order of the rank that it comes from.

    Errors: MISMATCH when a rank sends another a number of rows that it does not expect.
    Gradient: the cotangent's rows sent back (an all_to_all_v).
    """
    group, stream, wait = _on(group, stream, timeout)
    send_counts = _counts("send_counts", send_counts)
    if receive_counts is None:
        if len(send_counts) != group.size():
            raise ValueError(f"send_counts: expected one for each of {group.size()} ranks, "
                             f"got {len(send_counts)}")
        mine = mx.array(send_counts, dtype=mx.int64)
        receive_counts = all_to_all(mine, group=group, stream=stream, timeout=timeout).tolist()
    return _operate("all_to_all_v", x, (group, stream, wait), counts=send_counts,
                    receive_counts=_counts("receive_counts", receive_counts))


@ends_at_caller
def send(x: mx.array, destination: int, tag: int = 0, *, group: Optional[Group] = None,
         stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Sends x when the result, which equals x, is evaluated.

    The n-th send to a rank with a tag meets the n-th recv there with that tag.

    Errors: ValueError for this rank itself and in a group of one.
    Gradient: the cotangent plus what comes back from the receiver's gradient, with that tag.
    """
    return _operate("send", x, _on(group, stream, timeout),
                    peer=_number("destination", destination), tag=_number("tag", tag))


@ends_at_caller
def recv(shape: Sequence[int], dtype: mx.Dtype, source: int, tag: int = 0, *,
         after: Optional[mx.array] = None, group: Optional[Group] = None,
         stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """What `source` sends: its shape and dtype must be these.

    Args:
        after: evaluated before, not read. Gradients flow only from results to inputs, so
            the source gets a gradient only if an input is named here.

    Gradient (with `after`): sends the cotangent to the source, with that tag; `after` gets
    zeros, which have to be evaluated.
    """
    return _mlxcomm.recv(list(shape), dtype, _number("source", source), _number("tag", tag), after,
                         *_on(group, stream, timeout))


@ends_at_caller
def recv_like(x: mx.array, source: int, tag: int = 0, *, group: Optional[Group] = None,
              stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """`recv` with x's shape and dtype, after x."""
    return recv(x.shape, x.dtype, source, tag, after=x, group=group, stream=stream, timeout=timeout)
