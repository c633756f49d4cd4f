"""One rank of stock MLX with its MPI backend: every operation, type and odd size, against
numpy. Nothing here knows mlxcomm; the argument is what mx.distributed.init is given."""

import os
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

world = mx.distributed.init(strict=True, backend=sys.argv[1])
rank, size = world.rank(), world.size()
assert size == int(os.environ["MLX_WORLD_SIZE"]) and rank == int(os.environ["MLX_RANK"])
COUNTS = [1, 2, 3, 17, 4096, 4097, 300_001]
MIB = 1 << 20
TYPES = (mx.bool_, mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32,
         mx.uint64, mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64)


def large(dtype):
    """Fills a chunk several times, for one type of each size."""
    return [5 * MIB // dtype.size] if dtype in (mx.int8, mx.bfloat16, mx.float32, mx.complex64) else []


def value(count, of_rank, dtype):
    if dtype == mx.bool_:
        return (np.arange(count) + of_rank) % 3 == 0
    whole = np.arange(count, dtype=np.float32) % 20 + of_rank
    return whole + 1j * (whole[::-1] - 3) if dtype == mx.complex64 else whole


def check(got, expected, *what):
    mx.eval(got)
    kind = mx.complex64 if np.iscomplexobj(expected) else mx.float32
    seen = np.array(got.astype(kind, stream=mx.cpu))
    assert seen.shape == expected.shape and np.array_equal(seen, expected), (rank, what)


def ordered(values):
    """numpy orders complex numbers as MLX does: by the real part, then the imaginary."""
    return np.sort(np.stack(values), axis=0)


for dtype in TYPES:
    sizes = COUNTS + [MIB // dtype.size, *large(dtype)]
    for count in sizes:
        mine = mx.array(value(count, rank, dtype)).astype(dtype, stream=mx.cpu)
        mx.eval(mine)
        all_of_them = [value(count, r, dtype) for r in range(size)]
        total = np.any(all_of_them, axis=0) if dtype == mx.bool_ else sum(all_of_them)
        check(mx.distributed.all_sum(mine), total, "sum", dtype, count)
        check(mx.distributed.all_gather(mine), np.concatenate(all_of_them), "gather", dtype, count)
        if count <= MIB:
            check(mx.distributed.all_max(mine), ordered(all_of_them)[-1], "max", dtype, count)
            check(mx.distributed.all_min(mine), ordered(all_of_them)[0], "min", dtype, count)

# Nothing at all, one number, and non-contiguous data.
check(mx.distributed.all_gather(mx.zeros((0, 3))), np.zeros((0, 3), np.float32), "empty")
check(mx.distributed.all_sum(mx.array(1.0)), np.array(size, np.float32), "one number")
matrix = mx.array(value(64 * 32, rank, mx.float32).reshape(64, 32)).T[::2]
check(mx.distributed.all_sum(matrix),
      sum(value(64 * 32, r, mx.float32).reshape(64, 32).T[::2] for r in range(size)), "strides")

# A ring of messages: even ranks send first, so that the ranks do not wait in a circle.
right, left = (rank + 1) % size, (rank - 1) % size
for dtype in TYPES:
    for count in (1, 5, 200_000, *large(dtype)):
        data = mx.array(value(count, rank, dtype)).astype(dtype, stream=mx.cpu)
        if rank % 2 == 0:
            mx.eval(mx.distributed.send(data, right))
            check(mx.distributed.recv((count,), dtype, left), value(count, left, dtype), "recv", dtype)
        else:
            check(mx.distributed.recv_like(data, left), value(count, left, dtype), "recv", dtype)
            mx.eval(mx.distributed.send(data, right))

half = world.split(rank % 2, size - rank)
assert half.rank() == (size - 1 - rank) // 2
if half.size() > 1:
    check(mx.distributed.all_sum(mx.array(float(rank)), group=half),
          np.array(sum(range(rank % 2, size, 2)), np.float32), "split")
    del half
alone = world.split(rank)
assert (alone.rank(), alone.size()) == (0, 1)
again = world.split(0, size - rank)
check(mx.distributed.all_gather(mx.array([rank]), group=again),
      np.arange(size, dtype=np.float32)[::-1], "reversed")

# Training as in MLX's documentation: all ranks stay equal, bit for bit.
mx.random.seed(7)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = optim.SGD(learning_rate=0.02)
inputs = mx.random.normal((size * 32, 64))
targets = inputs[:, :1] * 2 - 1
loss_and_gradients = nn.value_and_grad(
    model, lambda m, x, y: nn.losses.mse_loss(m(x), y, reduction="mean"))
mine = slice(rank * 32, (rank + 1) * 32)
losses = []
for _ in range(20):
    loss, gradients = loss_and_gradients(model, inputs[mine], targets[mine])
    optimizer.update(model, nn.average_gradients(gradients))
    mx.eval(model.parameters(), optimizer.state)
    losses.append(mx.distributed.all_sum(loss).item() / size)
assert losses[-1] < losses[0] / 2, losses
weights = model.layers[0].weight
check(mx.distributed.all_max(weights), np.array(weights), "weights are alike")
print("all agree")
