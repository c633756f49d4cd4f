"""The operations as lazily evaluated MLX functions.

An operation runs when its array is evaluated (``mx.eval``, ``print``, ``.item()``). Arguments and shapes are
checked immediately.

Common arguments:
    group: from `mlxcomm.init` or `split`; by default ``init()``. In a group of one rank, the result is the
        input.
    stream: a CPU stream; by default MLX's CPU stream. Operations on one stream run one after the other, so
        use a separate stream for a group that must not wait.
    timeout: seconds until DeadlineExceededError; by default the group's (`set_timeout`).

The call raises TypeError for an argument of the wrong type, and ValueError for a wrong dtype, shape, rank or
count. The evaluation raises a subclass of `mlxcomm.Error`.

The examples run on two ranks, after ``import mlx.core as mx, mlxcomm``, and show the output of rank 0.

**Order.** All ranks of a group must run its operations in the same order, and MLX evaluates in graph order,
not in line order. Ranks that build the same graph are safe. Otherwise make the order explicit: use one result
in the next operation, or ``second_input = mx.depends(second_input, first_result)``, or evaluate in between.
If ranks make different calls, ``mlxcomm.MismatchError`` lists them. If a rank never evaluates an operation,
the others wait until ``DeadlineExceededError`` names it.

**Gradients.** `all_reduce` and `all_gather` follow MLX: the gradient of a loss that every rank computes from
the result is not summed over ranks. All others are linear maps over all ranks with their true adjoint, which
is itself an operation: every rank must differentiate, and evaluate the gradient, even if that is zero.

**Transformations.** ``vmap`` runs one operation for the batch. Forward mode (``mx.jvp``) works for linear
operations except send and recv. ``mx.compile`` works; equal operations are never merged.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Optional, TypeVar, Union, get_args

import mlx.core as mx

from . import _mlxcomm, arguments, call_checks
from .groups import init as _init
from .tracebacks import ends_at_caller

__all__ = ["all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v", "broadcast", "gather",
           "recv", "recv_like", "reduce", "reduce_scatter", "scatter", "send"]

Group = mx.distributed.Group
if TYPE_CHECKING:
    from mlx.core import StreamOrDevice as Stream
else:
    Stream = Union[None, mx.Stream, mx.Device]
Operator = Literal["sum", "prod", "min", "max", "and", "or", "mean"]
_OPERATORS = get_args(Operator)
# An array, or a list or tuple of arrays; the result is of the same type.
Arrays = TypeVar("Arrays", bound=Union[mx.array, list[mx.array], tuple[mx.array, ...]])


def _on(group, stream, timeout):
    if call_checks.enabled:
        call_checks.note(sys._getframe(1).f_code.co_name)
    stream, timeout_ns = arguments.stream(stream), arguments.nanoseconds(timeout)
    return (_init() if arguments.group(group) is None else group, stream, timeout_ns)


def _operate(name, x, on, *, peer=0, tag=0, op="sum", counts=(), receive_counts=()):
    """Builds an operation; its kind ignores arguments that it does not use."""
    return _mlxcomm.operate(_mlxcomm.kinds[name], arguments.array("x", x), peer, tag, _operator(op), counts,
                            receive_counts, *on)


def checked(name: str, kind: str, op: Operator, x: mx.array, *, group: Group,
            stream: Stream = None) -> mx.array:
    """Builds the operation behind MLX's function `name`, with the calling line recorded."""
    call_checks.note(name)
    return _operate(kind, x, (group, arguments.stream(stream), 0), op=op)


def _operator(op):
    if not isinstance(op, str) or op not in _OPERATORS:
        raise arguments.wrong("op", f"one of {', '.join(_OPERATORS)}", op,
                              ValueError if isinstance(op, str) else TypeError)
    return op


def _tag(tag):
    return arguments.whole("tag", tag, "0 <= tag < 2^32", 0, 2**32)


@ends_at_caller
def all_reduce(x: Arrays, op: Operator = "sum", *, group: Optional[Group] = None,
               stream: Stream = None, timeout: Optional[float] = None) -> Arrays:
    """Combines x over all ranks; every rank gets the result.

    Args:
        x: an array with the same shape and dtype on all ranks; or a list or tuple of arrays, which are packed
            into one operation for each dtype.
        op: "sum", "prod", "min", "max", "mean" (floating and complex), "and", "or" (bool and integers,
            bitwise). "min" and "max" give NaN if any input is NaN.

    Returns:
        x's shape and dtype, bitwise equal on all ranks and in every run. For a list or tuple, one of the same
        class, whose arrays may share memory.

    Example (rank 0 of 2):
        >>> mlxcomm.all_reduce(mx.array([1.0, 2.0]))
        array([2, 4], dtype=float32)
        >>> mlxcomm.all_reduce(mx.array([0, -1]) * mlxcomm.rank(), "min")
        array([0, -1], dtype=int32)
        >>> loss, accuracy = mlxcomm.all_reduce((mx.array(0.5), mx.array([0.25, 1.0])), "mean")

    Gradient (MLX's convention): sum: the cotangent; mean: the cotangent / size; min, max:
    the cotangent where x equals the result; prod, and, or: ValueError.

    Rounding: the error of a sum of n inputs is at most (n - 1) u S, where S is the sum of their absolute
    values and u = 2^-24 (float32) or 2^-53 (float64). float16 and bfloat16 are combined in float32 and
    rounded on each node and at each of h <= nodes hops between nodes: (h + 1) u S + (n - 1) 2^-24 S,
    u = 2^-11 (float16) or 2^-8 (bfloat16).
    """
    if not isinstance(x, (list, tuple)):
        arguments.array("x", x, "an mx.array, or a list or tuple of them")
        return _operate("all_reduce", x, _on(group, stream, timeout), op=op)
    results = _mlxcomm.all_reduce_many(arguments.arrays("x", x), _operator(op), 0,
                                       *_on(group, stream, timeout))
    return getattr(x, "_make", type(x))(results)


@ends_at_caller
def reduce(x: mx.array, root: int, op: Operator = "sum", *, group: Optional[Group] = None,
           stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Combines x over all ranks as `all_reduce` does; only rank `root` gets the result.

    Args:
        x: the same shape and dtype on all ranks.
        root: a rank of the group, the same on all ranks.
        op: as for `all_reduce`.

    Returns:
        x's shape and dtype; zeros on the other ranks.

    Example (rank 0 of 2):
        >>> mlxcomm.reduce(mx.array([1.0, 2.0]), root=0)
        array([2, 4], dtype=float32)
        >>> mlxcomm.reduce(mx.array([1.0, 2.0]), root=1)
        array([0, 0], dtype=float32)

    Gradient: the root's cotangent on every rank (a broadcast); mean: divided by size; min, max: only where x
    equals the result; prod, and, or: ValueError.
    """
    return _operate("reduce", x, _on(group, stream, timeout), peer=arguments.rank("root", root), op=op)


@ends_at_caller
def reduce_scatter(x: mx.array, op: Operator = "sum", *, group: Optional[Group] = None,
                   stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Combines x over all ranks; rank r gets block r of the result.

    Args:
        x: shape (size * n, ...), the same on all ranks: n rows for each rank.
        op: as for `all_reduce`.

    Returns:
        Shape (n, ...).

    Example (rank 0 of 2):
        >>> mlxcomm.reduce_scatter(mx.array([1.0, 2.0, 3.0, 4.0]))
        array([2, 4], dtype=float32)

    Gradient: the cotangents of all ranks (an all_gather); mean, min, max as for `reduce`.
    """
    return _operate("reduce_scatter", x, _on(group, stream, timeout), op=op)


@ends_at_caller
def broadcast(x: mx.array, root: int, *, group: Optional[Group] = None,
              stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Sends the x of rank `root` to every rank.

    Args:
        x: the same shape and dtype on all ranks; its values are read only on the root.
        root: a rank of the group, the same on all ranks.

    Returns:
        The root's x.

    Example (rank 0 of 2):
        >>> mlxcomm.broadcast(mx.array([10, 20]) + mlxcomm.rank(), root=1)
        array([11, 21], dtype=int32)

    Gradient: the sum of all cotangents (a reduce) on the root, zero elsewhere.
    """
    return _operate("broadcast", x, _on(group, stream, timeout), peer=arguments.rank("root", root))


@ends_at_caller
def all_gather(x: mx.array, *, group: Optional[Group] = None,
               stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Concatenates the x of all ranks in order of rank; every rank gets the result.

    Args:
        x: shape (n, ...), the same on all ranks; a scalar counts as one row.

    Returns:
        Shape (size * n, ...).

    Example (rank 0 of 2):
        >>> mlxcomm.all_gather(mx.array([10, 20]) + mlxcomm.rank())
        array([10, 20, 11, 21], dtype=int32)

    Gradient (MLX's convention): this rank's rows of the cotangent.
    """
    return _operate("all_gather", x, _on(group, stream, timeout))


@ends_at_caller
def all_gather_v(x: mx.array, counts: Optional[Sequence[int]] = None, *,
                 group: Optional[Group] = None, stream: Stream = None,
                 timeout: Optional[float] = None) -> mx.array:
    """Like `all_gather`, but with a different number of rows on each rank.

    Args:
        x: shape (counts[rank], ...); the rest of the shape is the same on all ranks.
        counts: the rows of each rank, the same list on all ranks. None runs and evaluates an `all_gather` of
            the counts first; inside ``mx.compile`` they must be given.

    Returns:
        Shape (sum(counts), ...).

    Example (rank 0 of 2):
        >>> mlxcomm.all_gather_v(mx.ones(1 + mlxcomm.rank()), counts=[1, 2])
        array([1, 1, 1], dtype=float32)

    Gradient (MLX's convention): this rank's rows of the cotangent.
    """
    arguments.array("x", x)
    group, stream, wait = _on(group, stream, timeout)
    if counts is None:
        if x.ndim == 0:
            raise arguments.wrong("x", "an array with a leading axis", x, ValueError)
        mine = mx.array([x.shape[0]], dtype=mx.int64)
        counts = all_gather(mine, group=group, stream=stream, timeout=timeout).tolist()
    return _operate("all_gather_v", x, (group, stream, wait), counts=arguments.counts("counts", counts))


@ends_at_caller
def gather(x: mx.array, root: int, *, group: Optional[Group] = None,
           stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Concatenates the x of all ranks in order of rank; only rank `root` gets the result.

    Args:
        x: shape (n, ...), the same on all ranks; a scalar counts as one row.
        root: a rank of the group, the same on all ranks.

    Returns:
        Shape (size * n, ...) on the root, (0, ...) elsewhere.

    Example (rank 0 of 2):
        >>> mlxcomm.gather(mx.array([10]) + mlxcomm.rank(), root=0)
        array([10, 11], dtype=int32)

    Gradient: this rank's rows of the root's cotangent (a scatter).
    """
    return _operate("gather", x, _on(group, stream, timeout), peer=arguments.rank("root", root))


@ends_at_caller
def scatter(x: mx.array, root: int, *, group: Optional[Group] = None,
            stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Sends block r of the root's x to rank r.

    Args:
        x: shape (size * n, ...), the same on all ranks; its values are read only on the root.
        root: a rank of the group, the same on all ranks.

    Returns:
        Shape (n, ...).

    Example (rank 0 of 2):
        >>> mlxcomm.scatter(mx.array([10, 20]) + mlxcomm.rank(), root=1)
        array([11], dtype=int32)

    Gradient: the concatenated cotangents (a gather) on the root, zero elsewhere.
    """
    return _operate("scatter", x, _on(group, stream, timeout), peer=arguments.rank("root", root))


@ends_at_caller
def all_to_all(x: mx.array, *, group: Optional[Group] = None,
               stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Sends block r of x to rank r; block r of the result comes from rank r.

    Args:
        x: shape (size * n, ...), the same on all ranks: n rows for each rank.

    Returns:
        x's shape.

    Example (rank 0 of 2):
        >>> mlxcomm.all_to_all(mx.array([10, 20]) + mlxcomm.rank())
        array([10, 11], dtype=int32)

    Gradient: the cotangent's blocks sent back (an all_to_all).
    """
    return _operate("all_to_all", x, _on(group, stream, timeout))


@ends_at_caller
def all_to_all_v(x: mx.array, send_counts: Sequence[int],
                 receive_counts: Optional[Sequence[int]] = None, *,
                 group: Optional[Group] = None, stream: Stream = None,
                 timeout: Optional[float] = None) -> mx.array:
    """Like `all_to_all`, but with a different number of rows for each pair of ranks.

    Args:
        x: shape (sum(send_counts), ...), in order of destination rank.
        send_counts: how many rows to send to each rank.
        receive_counts: how many rows each rank sends to this one. None runs and evaluates an `all_to_all` of
            the counts first; inside ``mx.compile`` they must be given.

    Returns:
        Shape (sum(receive_counts), ...), in order of source rank.

    Raises:
        mlxcomm.MismatchError: a rank sends a number of rows that its receiver does not expect.

    Example (rank 0 of 2): rank 0 keeps one row and sends two, rank 1 keeps its only row.
        >>> x = mx.array([1, 2, 3] if mlxcomm.rank() == 0 else [4])
        >>> mlxcomm.all_to_all_v(x, [1, 2] if mlxcomm.rank() == 0 else [0, 1])
        array([1], dtype=int32)

    Gradient: the cotangent's rows sent back (an all_to_all_v).
    """
    arguments.array("x", x)
    group, stream, wait = _on(group, stream, timeout)
    send_counts = arguments.counts("send_counts", send_counts)
    if receive_counts is None:
        if len(send_counts) != group.size():
            raise ValueError(f"send_counts: expected one for each of {group.size()} ranks, "
                             f"got {len(send_counts)}")
        mine = mx.array(send_counts, dtype=mx.int64)
        receive_counts = all_to_all(mine, group=group, stream=stream, timeout=timeout).tolist()
    return _operate("all_to_all_v", x, (group, stream, wait), counts=send_counts,
                    receive_counts=arguments.counts("receive_counts", receive_counts))


@ends_at_caller
def send(x: mx.array, destination: int, tag: int = 0, *, group: Optional[Group] = None,
         stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Sends x to another rank when the result, which equals x, is evaluated.

    The n-th send to a rank with a tag matches the n-th recv there with that tag.

    Args:
        x: an array of any shape and dtype.
        destination: another rank of the group.
        tag: 0 <= tag < 2^32, as in the matching `recv`.

    Returns:
        x.

    Raises:
        ValueError: the destination is this rank.

    Example (rank 0 of 2):
        >>> if mlxcomm.rank() == 0:
        ...     mx.eval(mlxcomm.send(mx.array([1.0, 2.0]), destination=1))
        ... else:
        ...     x = mlxcomm.recv((2,), mx.float32, source=0)
        ...     mx.eval(x)

    Gradient: the cotangent plus the receiver's gradient, which comes back with the same tag.
    """
    return _operate("send", x, _on(group, stream, timeout),
                    peer=arguments.rank("destination", destination), tag=_tag(tag))


@ends_at_caller
def recv(shape: Sequence[int], dtype: mx.Dtype, source: int, tag: int = 0, *,
         after: Optional[mx.array] = None, group: Optional[Group] = None,
         stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Receives an array that another rank sends.

    Args:
        shape, dtype: of the array that is sent.
        source: another rank of the group.
        tag: 0 <= tag < 2^32, as in the matching `send`.
        after: an array to evaluate first; its values are not read. The source gets a gradient only if `after`
            is given, because gradients flow only to inputs.

    Returns:
        The array that was sent.

    Raises:
        ValueError: the source is this rank.
        mlxcomm.MismatchError: the sent array has another shape or dtype.

    Example (rank 0 of 2):
        >>> if mlxcomm.rank() == 0:
        ...     print(mlxcomm.recv((2,), mx.float32, source=1))
        ... else:
        ...     mx.eval(mlxcomm.send(mx.array([1.0, 2.0]), destination=0))
        array([1, 2], dtype=float32)

    Gradient (with `after`): sends the cotangent to the source with the same tag; `after` gets zeros, which
    must be evaluated.
    """
    if not isinstance(dtype, mx.Dtype):
        raise arguments.wrong("dtype", "an mx.Dtype such as mx.float32", dtype)
    if after is not None:
        arguments.array("after", after)
    return _mlxcomm.recv(arguments.shape(shape), dtype, arguments.rank("source", source), _tag(tag), after,
                         *_on(group, stream, timeout))


@ends_at_caller
def recv_like(x: mx.array, source: int, tag: int = 0, *, group: Optional[Group] = None,
              stream: Stream = None, timeout: Optional[float] = None) -> mx.array:
    """Receives an array of x's shape and dtype; `recv` with ``after=x``.

    Args:
        x: gives shape and dtype; the source gets a gradient if x is differentiated.
        source: another rank of the group.
        tag: 0 <= tag < 2^32, as in the matching `send`.

    Returns:
        The array that was sent.

    Example (rank 0 of 2):
        >>> x = mx.array([1.0, 2.0]) * (1 + mlxcomm.rank())
        >>> mlxcomm.recv_like(x, source=1) if mlxcomm.rank() == 0 else mlxcomm.send(x, destination=0)
        array([2, 4], dtype=float32)

    Gradient: as for `recv`.
    """
    arguments.array("x", x)
    return recv(x.shape, x.dtype, source, tag, after=x, group=group, stream=stream, timeout=timeout)
