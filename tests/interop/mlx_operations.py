"""One rank of test_operations_agree_with_numpy: every operation, type and odd shape."""

import os

import mlx.core as mx
import mlx.nn as nn
import mlxcomm
import numpy as np

mlxcomm.install()
world = mx.distributed.init()
rank, size = world.rank(), world.size()
assert mlxcomm.is_ours(world)
HAS_SUM_SCATTER = mx.__version__ not in ("0.31.2", "0.32.0")  # There on GPUs alone.
SHAPES = [(), (0,), (1,), (3,), (17, 5), (4096,), (4097,), (300, 1001)]


def value(shape, of_rank):
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.float32) % 20 + of_rank).reshape(shape)


for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.float64, mx.int8, mx.int16, mx.int32,
              mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.complex64):
    for shape in SHAPES:
        mine = mx.array(value(shape, rank)).astype(dtype, stream=mx.cpu)
        everyone = [value(shape, r) for r in range(size)]
        whole = {"all_sum": sum(everyone), "all_max": everyone[-1], "all_min": everyone[0]}
        if shape:
            whole["all_gather"] = np.concatenate(everyone)
        if HAS_SUM_SCATTER and shape and shape[0] % size == 0:
            rows = shape[0] // size
            whole["sum_scatter"] = sum(everyone)[rank * rows:(rank + 1) * rows]
        for name, expected in whole.items():
            result = getattr(mx.distributed, name)(mine)
            assert result.dtype == dtype and result.shape == expected.shape, (name, dtype, shape)
            got = np.array(result.astype(mx.float32, stream=mx.cpu))
            assert np.array_equal(got, expected), (name, dtype, shape)
flags = mx.array([rank == 0, True, False])
assert mx.distributed.all_sum(flags).tolist() == [True, True, False]
assert mx.distributed.all_min(flags).tolist() == [size == 1, True, False]

# A ring of messages: even ranks send first, so that the ranks do not wait in a circle.
right, left = (rank + 1) % size, (rank - 1) % size
for count in (5, 200_000):
    data = mx.full((count,), rank, dtype=mx.float32)
    if rank % 2 == 0:
        mx.eval(mx.distributed.send(data, right))
        got = mx.distributed.recv((count,), mx.float32, left)
        mx.eval(got)
    else:
        got = mx.distributed.recv_like(data, left)
        mx.eval(got)
        mx.eval(mx.distributed.send(data, right))
    assert bool(mx.all(got == left))

# Transposed and sliced arrays are not contiguous.
matrix = mx.array(value((64, 32), rank)).T[::2]
assert np.array_equal(np.array(mx.distributed.all_sum(matrix)),
                      sum(value((64, 32), r).T[::2] for r in range(size)))

compiled = mx.compile(lambda x: mx.distributed.all_sum(x * 2) + 1)
assert bool(mx.all(compiled(mx.ones(10)) == 2 * size + 1))
gradient = mx.grad(lambda x: mx.distributed.all_sum(x * x).sum())(mx.ones(4) * 3)
assert np.allclose(np.array(gradient), 6), gradient
averaged = nn.average_gradients({"a": mx.ones(5) * rank, "b": [mx.ones((2, 2))]})
assert np.allclose(np.array(averaged["a"]), (size - 1) / 2)

# Results lie in the arena, unless they are copied: as inputs they need no copy.
before = mlxcomm.counters()["inputs_in_arena"]
held = mx.distributed.all_sum(mx.ones(1000))
mx.eval(held)
mx.eval(mx.distributed.all_sum(held))
if os.environ.get("MLXCOMM_RESULTS") != "copy":
    assert mlxcomm.counters()["inputs_in_arena"] > before
mlxcomm.barrier()

# A group that MLX makes: with a negative color a rank is alone.
half = world.split(rank % 2, size - rank)
assert mlxcomm.is_ours(half) and half.rank() == (size - 1 - rank) // 2
assert mx.distributed.all_sum(mx.array(rank), group=half).item() == sum(range(rank % 2, size, 2))
assert world.split(-1 if rank == 0 else 0).size() == max(1, 1 if rank == 0 else size - 1)
# Complex numbers are ordered as in MLX: by the real part, then the imaginary one.
mine = mx.array([1 + 1j * rank, rank - 1j * rank, complex(-0.5, float("nan")) if rank == 1 else 7j])
everyone = mx.stack([mx.array([1 + 1j * r, r - 1j * r]) for r in range(size)])
for function, one in ((mx.distributed.all_max, mx.maximum), (mx.distributed.all_min, mx.minimum)):
    expected = everyone[0]
    for row in everyone[1:]:
        expected = one(expected, row)
    got = function(mine)
    assert got[:2].tolist() == expected.tolist(), (got, expected)
    assert size == 1 or mx.isnan(got[2]).item()
print("all agree")
