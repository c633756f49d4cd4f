"""A rank that trains a small network until a file exists, checking every gradient.

Stock MLX through mlxcomm. Batches are derived from step and rank, so each rank also computes the
expected average over all ranks. In the end all compare their parameters, bit by bit.
"""

import os
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
import mlxcomm
from mlx.utils import tree_flatten, tree_map


def batch(step, rank):
    x = mx.random.normal((32, 16), key=mx.random.key(step * 64 + rank))
    return x, mx.sin(x.sum(axis=1, keepdims=True))


def main():
    stop = sys.argv[1]
    mlxcomm.install()
    world = mx.distributed.init()
    mx.random.seed(7)
    model = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(),
                          nn.Linear(256, 1))
    optimizer = optimizers.Adam(learning_rate=1e-3)
    gradients_of = nn.value_and_grad(model, lambda m, x, y: mx.mean((m(x) - y) ** 2))
    step = 0
    while True:
        every = [gradients_of(model, *batch(step, rank))[1] for rank in range(world.size())]
        averaged = nn.average_gradients(every[world.rank()], group=world)
        expected = tree_map(lambda *parts: sum(parts) / world.size(), *every)
        for (name, got), (_, wanted) in zip(tree_flatten(averaged), tree_flatten(expected)):
            assert bool(mx.all(mx.abs(got - wanted) <= 1e-6 + 1e-4 * mx.abs(wanted))), (step, name)
        optimizer.update(model, averaged)
        mx.eval(model.parameters(), optimizer.state)
        ends = mx.distributed.all_sum(mx.array(1.0 if os.path.exists(stop) else 0.0), group=world)
        if ends.item() > 0:
            break
        step += 1
        if step == 5:
            print("looping")
    for name, values in tree_flatten(model.parameters()):
        others = mx.distributed.all_gather(values.reshape(1, -1), group=world)
        bits = others.view(mx.uint32)
        assert bool(mx.all(bits == bits[world.rank()])), name
    print(f"{step} steps, the same bits on all ranks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
