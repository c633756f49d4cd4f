"""A small transformer trained by data x tensor x pipeline parallel ranks, and by this process
alone, from the same parameters on the same batches: the losses must be the same.

Arguments: the sizes of the three; their product is the number of ranks. Ranks next to each
other share a layer's matrices (tensor), then follow stages (pipeline), then batches (data).
"""

import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlxcomm
from mlx.nn.layers.distributed import shard_linear

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH, STEPS = 23, 32, 4, 4, 12, 8, 6
MICROBATCHES = 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head_width = WIDTH // HEADS

    def shard(self, group):
        for name in ("query", "key", "value"):
            self[name] = shard_linear(self[name], "all-to-sharded", group=group)
        self.out = shard_linear(self.out, "sharded-to-all", group=group)

    def __call__(self, x):
        batch, length, _ = x.shape
        query, key, value = (
            project(x).reshape(batch, length, -1, self.head_width).transpose(0, 2, 1, 3)
            for project in (self.query, self.key, self.value))
        scores = query @ key.transpose(0, 1, 3, 2) / self.head_width ** 0.5
        mask = nn.MultiHeadAttention.create_additive_causal_mask(length)
        mixed = mx.softmax(scores + mask, axis=-1) @ value
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.before_attention, self.before_up = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def shard(self, group):
        self.attention.shard(group)
        self.up = shard_linear(self.up, "all-to-sharded", group=group)
        self.down = shard_linear(self.down, "sharded-to-all", group=group)

    def __call__(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.down(nn.gelu(self.up(self.before_up(x))))


class Stage(nn.Module):
    """Some layers of the whole; the first stage embeds tokens, the last predicts them."""

    def __init__(self, number, count):
        super().__init__()
        mx.random.seed(7)  # Every rank makes the whole and keeps its part.
        embedding, position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layers = [Layer() for _ in range(LAYERS)]
        head = nn.Linear(WIDTH, VOCABULARY)
        mine = LAYERS // count
        self.layers = layers[number * mine:(number + 1) * mine]
        if number == 0:
            self.embedding, self.position = embedding, position
        if number == count - 1:
            self.head = head

    def __call__(self, x):
        if "embedding" in self:
            x = self.embedding(x) + self.position(mx.arange(LENGTH))
        for layer in self.layers:
            x = layer(x)
        return self.head(x) if "head" in self else x


def batch_of(step):
    """Sequences that add a constant: the next token follows from the previous two."""
    start = mx.random.randint(0, VOCABULARY, (BATCH, 1), key=mx.random.key(2 * step))
    stride = mx.random.randint(1, VOCABULARY, (BATCH, 1), key=mx.random.key(2 * step + 1))
    tokens = (start + stride * mx.arange(LENGTH + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


class Parallel:
    """This rank's place, and one step of training there."""

    def __init__(self, data=1, tensor=1, pipeline=1):
        sizes = data * tensor * pipeline
        rank = mlxcomm.init().rank() if sizes > 1 else 0
        tensor_at, pipeline_at = rank % tensor, rank // tensor % pipeline
        data_at = rank // (tensor * pipeline)
        self.groups = [None, None, None]
        if sizes > 1:
            world = mlxcomm.init()
            self.groups = [
                mlxcomm.split(rank % (tensor * pipeline), name=f"data{rank % (tensor * pipeline)}"),
                mlxcomm.split(rank // tensor, name=f"tensor{rank // tensor}"),
                world.split(data_at * tensor + tensor_at)]
        self.data, self.tensor, self.pipeline = self.groups
        self.stage, self.stages = pipeline_at, pipeline
        self.part = slice(data_at * BATCH // data, (data_at + 1) * BATCH // data)
        self.model = Stage(pipeline_at, pipeline)
        if tensor > 1:
            for layer in self.model.layers:
                layer.shard(self.tensor)
        self.optimizer = optim.SGD(0.05, momentum=0.9)

    def loss_of(self, parameters, before, tokens, targets):
        """The last stage's loss; the others' is zero, and their sends bring the gradient back."""
        self.model.update(parameters)
        first, last = self.stage == 0, self.stage == self.stages - 1
        x = tokens if first else mlxcomm.recv_like(before, self.stage - 1, group=self.pipeline)
        y = self.model(x)
        if last:
            return nn.losses.cross_entropy(y, targets, reduction="mean")
        return (mlxcomm.send(y, self.stage + 1, group=self.pipeline) * 0).sum()

    def step(self, tokens, targets):
        tokens, targets = tokens[self.part], targets[self.part]
        differentiate = mx.value_and_grad(self.loss_of, argnums=(0, 1))
        loss, total = mx.array(0.0), None
        for x, y in zip(mx.split(tokens, MICROBATCHES), mx.split(targets, MICROBATCHES)):
            parameters = self.model.trainable_parameters()
            before = mx.zeros((*x.shape, WIDTH))
            value, (gradient, to_stage_before) = differentiate(parameters, before, x, y)
            mx.eval(value, gradient, to_stage_before)
            self.model.update(parameters)
            loss = loss + value / MICROBATCHES
            scaled = nn.utils.tree_map(lambda g: g / MICROBATCHES, gradient)
            total = scaled if total is None else nn.utils.tree_map(mx.add, total, scaled)
        if self.data is not None:
            total = nn.average_gradients(total, group=self.data)
            loss = mlxcomm.all_reduce(loss, "mean", group=self.data)
        if self.pipeline is not None:
            loss = mlxcomm.broadcast(loss, self.stages - 1, group=self.pipeline)
        self.optimizer.update(self.model, total)
        mx.eval(loss, self.model.parameters(), self.optimizer.state)
        return loss.item()


def main():
    parallel, alone = Parallel(*map(int, sys.argv[1:])), Parallel()
    for step in range(STEPS):
        batch = batch_of(step)
        together, by_itself = parallel.step(*batch), alone.step(*batch)
        assert abs(together - by_itself) < 2e-4 * by_itself, (step, together, by_itself)
        print(f"step {step}: {together:.6f} {by_itself:.6f}")
    assert step == STEPS - 1
    print("same losses")


if __name__ == "__main__":
    main()
