"""A training step with average_gradients, in buckets of 32 MiB; a case is the model: digits, transformer, or
lora (low-rank adapters of the transformer's linear layers, as mlx_lm.lora trains them)."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from program import main, rank, world

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


def with_adapters():
    """Trains only low-rank adapters of all linear layers, like mlx_lm.lora."""
    model = Transformer()
    model.freeze()
    linear_to_lora_layers(model.layers, len(model.layers.layers), {"rank": 8, "scale": 20.0, "dropout": 0.0})
    return model


MODELS = {"digits": Classifier, "transformer": Transformer, "lora": with_adapters}


def trainer(name):
    mx.random.seed(1)
    model = MODELS[name]()
    optimizer = optim.SGD(learning_rate=0.01, momentum=0.9)
    loss_and_gradient = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))
    mx.eval(model.parameters())
    number = 0

    def step():
        nonlocal number
        x, y = model.batch(mx.random.key(2 * number + rank))
        number += 1
        loss, gradients = loss_and_gradient(model, x, y)
        if world is not None:
            gradients = nn.average_gradients(gradients, world)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, loss)

    def norms():
        return [mx.linalg.norm(array.reshape(-1)).item() for _, array in tree_flatten(model.parameters())]

    return step, norms


main(trainer)
