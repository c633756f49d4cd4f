"""One rank of stock MLX by the backend that its argument names: every operation and type that MLX has,
against numpy, and each operation is counted here as it is called. Nothing here knows mlxcomm.

Prints as JSON {"agree": how many results were compared, "world", "half": the operations called on the
world and on the half of it that this rank is in, by MLX's names, "sockets": those of the internet that
the process held}. Arguments that follow: "without sum_scatter", for backends that lack it (MLX's MPI);
"large", for arrays of several chunks and for arrays that are empty or not contiguous.
"""

import json
import sys
from collections import Counter

import mlx.core as mx
import numpy as np
from internet_sockets import internet_sockets

world = mx.distributed.init(strict=True, backend=sys.argv[1])
HAS_SUM_SCATTER = ("without sum_scatter" not in sys.argv[2:] and
                   mx.__version__ not in ("0.31.2", "0.32.0"))  # There only on GPUs.
rank, size = world.rank(), world.size()
TYPES = (mx.bool_, mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64,
         mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64)
# One number, fewer than the ranks, an odd size, and more than one piece.
SHAPES = [(), (1,), (3,), (17, 5), (8 * 1031,)]
LARGE = {mx.int8: [(5 << 20,)], mx.float32: [(300, 1001), (5 << 18,)]} if "large" in sys.argv[2:] else {}
called = {"world": Counter(), "half": Counter()}
agree = 0


def call(name, *arguments, group=world):
    """Evaluated at once, as one operation, which a group of one does not have."""
    if group.size() > 1:
        is_ordered = name in ("all_max", "all_min") and arguments[0].dtype == mx.complex64
        called["world" if group is world else "half"][f"complex {name}" if is_ordered else name] += 1
    result = getattr(mx.distributed, name)(*arguments, group=group)
    mx.eval(result)
    return result


def value(shape, of_rank, dtype):
    """Small whole numbers, whose sum is the same in every order and every type."""
    whole = (np.arange(int(np.prod(shape))) % 7 + of_rank % 3).reshape(shape)
    if dtype == mx.bool_:
        return whole % 3 == 0
    return whole + 1j * (whole[::-1] - 3 if whole.ndim else whole) if dtype == mx.complex64 else whole


def as_mlx(values, dtype):
    with mx.stream(mx.cpu):  # MLX has float64 only there.
        return mx.array(values.astype(np.complex64 if np.iscomplexobj(values) else np.int32)).astype(dtype)


def check(got, expected, dtype, *what):
    global agree
    assert got.dtype == dtype and got.shape == expected.shape, (rank, what, got.dtype, got.shape)
    kind = mx.complex64 if dtype == mx.complex64 else mx.float64
    seen = np.array(got.astype(kind, stream=mx.cpu))
    assert np.array_equal(seen, expected), (rank, what, seen, expected)
    agree += 1


def ordered(values):
    """numpy orders complex numbers as MLX does: by the real part, then the imaginary."""
    return np.sort(np.stack(values), axis=0)


def check_collectives(group, ranks):
    for dtype in TYPES:
        for shape in SHAPES + LARGE.get(dtype, []):
            mine = as_mlx(value(shape, rank, dtype), dtype)
            everyone = [value(shape, r, dtype) for r in ranks]
            total = np.any(everyone, axis=0) if dtype == mx.bool_ else np.sum(everyone, axis=0)
            check(call("all_sum", mine, group=group), total, dtype, "all_sum", dtype, shape)
            check(call("all_max", mine, group=group), ordered(everyone)[-1], dtype, "all_max", dtype, shape)
            check(call("all_min", mine, group=group), ordered(everyone)[0], dtype, "all_min", dtype, shape)
            gathered = np.concatenate([np.atleast_1d(one) for one in everyone])
            # A group of one returns its input, even if that has no rows.
            if shape or len(ranks) > 1:
                check(call("all_gather", mine, group=group), gathered, dtype, "all_gather", dtype, shape)
            if HAS_SUM_SCATTER and shape and shape[0] % len(ranks) == 0:
                rows = shape[0] // len(ranks)
                part = total[list(ranks).index(rank) * rows:][:rows]
                check(call("sum_scatter", mine, group=group), part, dtype, "sum_scatter", dtype, shape)


def check_messages():
    """Round the ring; even ranks send first, so that the ranks do not deadlock."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for dtype in TYPES:
        for shape in SHAPES + LARGE.get(dtype, []):
            mine, expected = as_mlx(value(shape, rank, dtype), dtype), value(shape, left, dtype)
            if rank % 2 == 0:
                check(call("send", mine, right), value(shape, rank, dtype), dtype, "send", dtype, shape)
                check(call("recv", shape, dtype, left), expected, dtype, "recv", dtype, shape)
            else:
                check(call("recv_like", mine, left), expected, dtype, "recv_like", dtype, shape)
                check(call("send", mine, right), value(shape, rank, dtype), dtype, "send", dtype, shape)


def check_odd_arrays():
    check(call("all_gather", mx.zeros((0, 3))), np.zeros((0, 3)), mx.float32, "empty")
    matrix = as_mlx(value((64, 32), rank, mx.float32), mx.float32).T[::2]
    total = sum(value((64, 32), r, mx.float32).T[::2] for r in range(size))
    check(call("all_sum", matrix), total, mx.float32, "strides")
    # Through MPI the order is that of MLX's own functions.
    for name in ("all_max", "all_min") if HAS_SUM_SCATTER else ():
        mine = mx.array([complex(-0.5, np.nan) if rank == 1 else 7j])
        assert mx.isnan(call(name, mine)).item() or size == 1, (rank, name, "of a NaN")


check_collectives(world, range(size))
if LARGE:
    check_odd_arrays()
if size > 1:
    check_messages()
    # The first named one is the default from then on, as in stock MLX.
    again = mx.distributed.init()
    assert (again.rank(), again.size()) == (rank, size)
    called["world"]["all_sum"] += 1
    assert mx.distributed.all_sum(mx.array(1)).item() == size


def split(*arguments):
    """Of stock MLX's backends only MPI and NCCL can split."""
    if size > 1:
        called["world"]["split"] += 1
    return world.split(*arguments)


half = split(rank % 2, size - rank)
members = sorted(range(rank % 2, size, 2), reverse=True)
assert (half.rank(), half.size()) == (members.index(rank), len(members)), (half.rank(), half.size())
check_collectives(half, members)
alone = split(rank)
assert (alone.rank(), alone.size()) == (0, 1) and call("all_sum", mx.array(3), group=alone).item() == 3
print(json.dumps({"agree": agree, **called, "sockets": internet_sockets()}))
