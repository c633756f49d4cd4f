"""One rank that trains and times its steps: gradients averaged in buckets of 32 MiB.

Arguments: none | mlxcomm | ring, the folder for rank-N.json, demo | transformer, steps.
With `none` every rank trains for itself, at the same time as the others.
"""

import json
import os
import pathlib
import statistics
import sys
import time

system, folder, model_name, steps = *sys.argv[1:4], int(sys.argv[4])
if system == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_map

WARM_UP_STEPS = 2
# After mlxcomm.install() the name means ours.
stock_average_gradients = getattr(nn.average_gradients, "__wrapped__", nn.average_gradients)
VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 4096, 384, 6, 6, 32, 2


class Classifier(nn.Module):
    """The demo's (client/examples/digits.py)."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(64, 256), nn.Linear(256, 256), nn.Linear(256, 10)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nn.relu(layer(x))
        return self.layers[-1](x)

    @staticmethod
    def batch(key):
        return mx.random.uniform(shape=(64, 64), key=key), mx.random.randint(0, 10, (64,), key=key)


class Transformer(nn.Module):
    """14 million parameters: 53 MiB of gradients, so two buckets."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.TransformerEncoder(LAYERS, WIDTH, HEADS, mlp_dims=4 * WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def __call__(self, tokens):
        mask = nn.MultiHeadAttention.create_additive_causal_mask(LENGTH)
        return self.head(self.layers(self.embedding(tokens), mask))

    @staticmethod
    def batch(key):
        tokens = mx.random.randint(0, VOCABULARY, (BATCH, LENGTH + 1), key=key)
        return tokens[:, :-1], tokens[:, 1:]


world = None
if system != "none":
    world = mx.distributed.init(backend="any" if system == "mlxcomm" else system, strict=True)
rank = int(os.environ["MLX_RANK"])
mx.random.seed(1)
model = {"demo": Classifier, "transformer": Transformer}[model_name]()
optimizer = optim.SGD(learning_rate=0.01, momentum=0.9)
loss_and_gradient = nn.value_and_grad(
    model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))
mx.eval(model.parameters())


def step(number):
    x, y = model.batch(mx.random.key(2 * number + rank))
    mx.eval(x, y)
    begin = time.monotonic()
    loss, gradients = loss_and_gradient(model, x, y)
    if world is not None:
        gradients = nn.average_gradients(gradients, world)
    optimizer.update(model, gradients)
    mx.eval(model.parameters(), optimizer.state, loss)
    return time.monotonic() - begin


def count_crossings():
    """Arrays that MLX passes between the model's stream and the operations' in a step. On a Mac
    these are the GPU's and a CPU's; here both are of the CPU, and the count is the same."""
    operations = mx.default_stream(mx.cpu)
    averages = {
        "each gradient by itself": lambda g: stock_average_gradients(
            g, world, all_reduce_size=0, communication_stream=operations),
        # Of one dtype: with several, its own would call ours again.
        "MLX's average_gradients": lambda g: stock_average_gradients(
            g, world, communication_stream=operations),
        "mlxcomm's average_gradients": lambda g: mlxcomm.average_gradients(
            g, world, communication_stream=operations)}
    x, y = model.batch(mx.random.key(0))
    counts = {}
    with mx.stream(mx.new_stream(mx.cpu)):
        for name, average in averages.items():
            parameters = tree_map(lambda p: p * 1, average(loss_and_gradient(model, x, y)[1]))
            counts[name] = mlxcomm.crossings(parameters)
            mx.eval(parameters)
    return counts


taken = [step(number) for number in range(WARM_UP_STEPS + steps)][WARM_UP_STEPS:]
path = pathlib.Path(folder, f"rank-{rank}.json")
path.with_suffix(".part").write_text(json.dumps(
    {"rank": rank, "ranks": 2, "step_seconds": statistics.median(taken),
     **({"crossings": count_crossings()} if system == "mlxcomm" else {})}))
path.with_suffix(".part").rename(path)
