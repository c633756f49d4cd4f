"""One rank of test_fully_sharded_training_is_that_of_one_process: MLX's fully_shard, whose
backward pass is sum_scatter, beside plain training on the whole batch."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlxcomm

mlxcomm.install()
world = mx.distributed.init()
rank, size = world.rank(), world.size()


def train(model, x, target):
    optimizer = optim.SGD(0.1)
    loss_of = nn.value_and_grad(model, lambda v, t: ((model(v) - t) ** 2).mean())
    losses = []
    for _ in range(5):
        loss, gradient = loss_of(x, target)
        optimizer.update(model, gradient)
        mx.eval(model.parameters(), optimizer.state)
        losses.append(loss)
    return mx.stack(losses)


def make_model():
    mx.random.seed(1)
    return nn.Sequential(nn.Linear(6, 4 * size), nn.tanh, nn.Linear(4 * size, size))


x = mx.random.normal((4 * size, 6), key=mx.random.key(0))
target = mx.random.normal((4 * size, size), key=mx.random.key(1))
expected = train(make_model(), x, target)
mine = slice(4 * rank, 4 * rank + 4)
sharded = nn.layers.distributed.fully_shard(make_model(), group=world)
shards = sum(v.size for _, v in nn.utils.tree_flatten(sharded.parameters()))
assert shards * size == sum(v.size for _, v in nn.utils.tree_flatten(make_model().parameters()))
losses = train(sharded, x[mine], target[mine])
got = mx.distributed.all_sum(losses) / size
assert mx.allclose(got, expected, rtol=1e-5), (got, expected)
print("the same", got.tolist())
