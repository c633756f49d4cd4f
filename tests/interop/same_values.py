"""One rank of test_same_values.py: a stock program, with the backend named by its argument.

Prints {name: values} as JSON; names ending in "~" may differ by the order of summation.
"""

import json
import sys

system = sys.argv[1]
if system == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402
import mlx.optimizers as optim  # noqa: E402
from mlx.utils import tree_flatten  # noqa: E402

world = mx.distributed.init(backend="any" if system == "mlxcomm" else system, strict=True)
rank, size = world.rank(), world.size()
results = {}


def record(name, value):
    for path, array in tree_flatten({name: value}):
        wide = array if array.dtype == mx.complex64 else array.astype(mx.float32)
        results[path if not name.endswith("~") else path + "~"] = (
            str(array.tolist()) if array.dtype == mx.complex64 else wide.tolist())


def operations():
    for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.int8, mx.int16, mx.int32, mx.int64,
                  mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.bool_, mx.complex64):
        x = ((mx.arange(37) * 7) % 5 + rank).astype(dtype)
        record(f"all_sum {dtype}", mx.distributed.all_sum(x, group=world))
        record(f"all_gather {dtype}", mx.distributed.all_gather(x, group=world))
        record(f"all_max {dtype}", mx.distributed.all_max(x, group=world))
        record(f"all_min {dtype}", mx.distributed.all_min(x, group=world))
    x = mx.random.normal((1000, 17), key=mx.random.key(rank))
    record("all_sum of many~", mx.distributed.all_sum(x, group=world).sum(axis=0))
    record("scalar", mx.distributed.all_sum(mx.array(rank), group=world))
    record("not contiguous", mx.distributed.all_sum(mx.arange(24).reshape(4, 6).T[::2], group=world))


def pipeline():
    """Each rank applies its layer to the data from the left, and sends it to the right."""
    layer = nn.Linear(8, 8)
    layer.weight = mx.eye(8) * (rank + 2)
    layer.bias = mx.ones(8) * rank
    x = mx.arange(16, dtype=mx.float32).reshape(2, 8)
    for step in range(3):
        if rank > 0:
            x = mx.distributed.recv_like(x, rank - 1, group=world)
        y = layer(x)
        if rank < size - 1:
            y = mx.distributed.send(y, rank + 1, group=world)
        mx.eval(y)
        record(f"pipeline step {step}", y)
    if rank == size - 1:
        mx.eval(mx.distributed.send(y, 0, group=world))
    elif rank == 0:
        record("pipeline's end", mx.distributed.recv((2, 8), mx.float32, size - 1, group=world))


def transformations():
    x = mx.arange(6, dtype=mx.float32) + rank

    def loss(v):
        return (mx.distributed.all_sum(v * v, group=world) * mx.arange(6)).sum()

    record("grad", mx.grad(loss)(x))
    value, gradient = mx.compile(mx.value_and_grad(loss))(x)
    record("compile", [value, gradient])
    record("grad of all_gather", mx.grad(
        lambda v: (mx.distributed.all_gather(v, group=world) ** 2).sum())(x))
    record("jvp", mx.jvp(lambda v: mx.distributed.all_sum(v, group=world), [x], [x + 1])[1])
    record("vmap", mx.vmap(lambda v: mx.distributed.all_sum(v * 2, group=world))(x.reshape(2, 3)))


def gradients():
    tree = {"a": mx.arange(5) * (rank + 1.0), "b": [mx.ones((2, 3)) * rank, mx.array([4.0 * rank])]}
    record("average_gradients", nn.average_gradients(tree, group=world))
    record("average_gradients one by one",
           nn.average_gradients(tree, group=world, all_reduce_size=0))


def sharded_layers():
    """MLX's tensor parallelism: forward values and the gradients of this rank's shards."""
    mx.random.seed(3)
    first, second = nn.Linear(12, 8 * size), nn.Linear(8 * size, 12)
    x = mx.random.normal((4, 12))
    first = nn.layers.distributed.shard_linear(first, "all-to-sharded", group=world)
    second = nn.layers.distributed.shard_linear(second, "sharded-to-all", group=world)
    assert isinstance(first, nn.layers.distributed.AllToShardedLinear)
    assert isinstance(second, nn.layers.distributed.ShardedToAllLinear)
    model = nn.Sequential(first, nn.relu, second)
    value, gradient = nn.value_and_grad(model, lambda v: (model(v) ** 2).mean())(x)
    record("shard_linear~", [model(x), value, gradient])
    record("shard_linear to the input~", mx.grad(lambda v: (model(v) ** 2).mean())(x))


def data_parallel_training():
    mx.random.seed(5)
    model = nn.Sequential(nn.Linear(6, 16), nn.tanh, nn.Linear(16, 1))
    optimizer = optim.SGD(0.1)
    x = mx.random.normal((8, 6), key=mx.random.key(10 + rank))
    target = x.sum(axis=1, keepdims=True)
    step = nn.value_and_grad(model, lambda: ((model(x) - target) ** 2).mean())
    losses = []
    for _ in range(5):
        loss, gradient = step()
        optimizer.update(model, nn.average_gradients(gradient, group=world))
        mx.eval(model.parameters(), optimizer.state)
        losses.append(mx.distributed.all_sum(loss, group=world))
    record("training~", [losses, model.parameters()])


operations()
pipeline()
transformations()
gradients()
sharded_layers()
data_parallel_training()
print(json.dumps(results))
