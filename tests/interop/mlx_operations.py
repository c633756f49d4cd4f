"""A rank that uses MLX's transformations, arrays of the arena and groups over mlxcomm."""

import os

import mlx.core as mx
import mlx.nn as nn
import mlxcomm
import numpy as np

mlxcomm.install()
world = mx.distributed.init()
rank, size = world.rank(), world.size()
assert mlxcomm.is_ours(world)

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
