"""One rank that trains and times its steps: gradients averaged in buckets of 32 MiB.

Arguments: mlxcomm | ring | alone, the folder for rank-N.json, MODEL=STEPS (demo or transformer).
alone: every rank trains for itself, at the same time as the others.
"""

import json
import os
import pathlib
import statistics
import sys
import time

backend, folder, *words = sys.argv[1:]
if backend == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

WARM_UP_STEPS = 2
VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 4096, 384, 6, 6, 32, 2


class Classifier(nn.Module):
    """85,000 parameters."""

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


MODELS = {"demo": Classifier, "transformer": Transformer}
rank, ranks = int(os.environ["MLX_RANK"]), int(os.environ["MLX_WORLD_SIZE"])
world = None
if backend != "alone":
    world = mx.distributed.init(backend="any" if backend == "mlxcomm" else backend, strict=True)


def median_us(model_name, steps):
    mx.random.seed(1)
    model = MODELS[model_name]()
    optimizer = optim.SGD(learning_rate=0.01, momentum=0.9)
    loss_and_gradient = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))
    mx.eval(model.parameters())
    taken = []
    for number in range(WARM_UP_STEPS + steps):
        x, y = model.batch(mx.random.key(2 * number + rank))
        mx.eval(x, y)
        begin = time.monotonic()
        loss, gradients = loss_and_gradient(model, x, y)
        if world is not None:
            gradients = nn.average_gradients(gradients, world)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, loss)
        taken.append(1e6 * (time.monotonic() - begin))
    return statistics.median(taken[WARM_UP_STEPS:])


found = {model: median_us(model, int(steps)) for model, steps in (word.split("=") for word in words)}
pathlib.Path(folder, f"rank-{rank}.json").write_text(
    json.dumps({"rank": rank, "ranks": ranks, "median_us": found}))
