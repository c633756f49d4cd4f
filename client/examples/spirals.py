"""Data-parallel training on points of three spirals: plain MLX and one added line.

Without a launcher it trains in one process. As several ranks (mlxcommctl launch -n 2 spirals.py) each takes
its share of the global batches.
"""

import argparse
import math
import time

import mlxcomm; mlxcomm.install()  # the one added line

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten

ARMS, POINTS, HELD_OUT = 3, 2400, 480


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 128), nn.Linear(128, 128), nn.Linear(128, ARMS)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nn.relu(layer(x))
        return self.layers[-1](x)


def spirals():
    """Returns float32 points of shape (POINTS, 2), and the arm of each point."""
    places, noise = mx.random.split(mx.random.key(0))
    radius = mx.random.uniform(0.05, 1.0, (POINTS,), key=places)
    arm = mx.arange(POINTS) % ARMS
    angle = 2 * math.pi * (arm / ARMS + radius) + 0.1 * mx.random.normal((POINTS,), key=noise)
    return mx.stack([radius * mx.cos(angle), radius * mx.sin(angle)], axis=1), arm


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=120, help="examples in a global batch")
    parser.add_argument("--save", metavar="FILE", help="write the final parameters to this .npz file")
    arguments = parser.parse_args()

    world = mx.distributed.init()
    mx.random.seed(1)

    points, arms = spirals()
    train_points, train_arms = points[HELD_OUT:], arms[HELD_OUT:]

    model = Classifier()
    optimizer = optim.SGD(learning_rate=0.1, momentum=0.9)
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))

    share = arguments.batch // world.size()
    steps = len(train_arms) // arguments.batch
    begin = time.perf_counter()
    for epoch in range(arguments.epochs):
        shuffled = mx.random.permutation(len(train_arms), key=mx.random.key(epoch + 1))
        for step in range(steps):
            batch = shuffled[step * arguments.batch:(step + 1) * arguments.batch]
            mine = batch[world.rank() * share:(world.rank() + 1) * share]
            loss, grads = loss_and_grad(model, train_points[mine], train_arms[mine])
            grads = nn.average_gradients(grads)
            optimizer.update(model, grads)
            mx.eval(model.parameters(), optimizer.state, loss)
        loss = mx.distributed.all_sum(loss) / world.size()
        mx.eval(loss)  # Run this on every rank: evaluating it on one rank would be a mismatch.
        accuracy = mx.mean(mx.argmax(model(points[:HELD_OUT]), axis=1) == arms[:HELD_OUT])
        if world.rank() == 0:
            print(f"epoch {epoch + 1:2} of {arguments.epochs}: loss {loss.item():.4f}, "
                  f"accuracy {accuracy.item():.1%}", flush=True)

    if world.rank() == 0:
        print(f"{world.size()} rank(s), {arguments.epochs} epochs in "
              f"{time.perf_counter() - begin:.1f} s: accuracy on {HELD_OUT} held-out points "
              f"{accuracy.item():.1%}", flush=True)
        if arguments.save:
            mx.savez(arguments.save, **dict(tree_flatten(model.parameters())))


if __name__ == "__main__":
    main()
