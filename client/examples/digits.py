"""Data-parallel training on scikit-learn's handwritten digits, as a user would write it.

Plain MLX; one added line. Alone it trains in one process; started as several ranks (by
client/examples/demo, or mlxcommctl launch -n 2 -- python digits.py) each takes its share of
the same global batches.
"""

import argparse
import time

import mlxcomm; mlxcomm.install()  # the one added line

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from sklearn.datasets import load_digits
from tqdm import tqdm


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(64, 256), nn.Linear(256, 256), nn.Linear(256, 10)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nn.relu(layer(x))
        return self.layers[-1](x)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=128, help="examples in a global batch")
    parser.add_argument("--save", help="write the final parameters to this .npz file")
    arguments = parser.parse_args()

    world = mx.distributed.init()
    mx.random.seed(1)

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = mx.array(digits.data[order] / 16.0, dtype=mx.float32)
    labels = mx.array(digits.target[order])
    held_out = 297
    train_images, train_labels = images[held_out:], labels[held_out:]

    model = Classifier()
    optimizer = optim.SGD(learning_rate=0.05, momentum=0.9)
    loss_and_grad = nn.value_and_grad(
        model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))

    share = arguments.batch // world.size()
    steps = len(train_labels) // arguments.batch
    begin = time.perf_counter()
    bar = tqdm(total=arguments.epochs * steps, disable=world.rank() != 0, ncols=88)
    for epoch in range(arguments.epochs):
        shuffled = np.random.default_rng(epoch + 1).permutation(len(train_labels))
        for step in range(steps):
            batch = shuffled[step * arguments.batch:(step + 1) * arguments.batch]
            mine = mx.array(batch[world.rank() * share:(world.rank() + 1) * share])
            loss, grads = loss_and_grad(model, train_images[mine], train_labels[mine])
            grads = nn.average_gradients(grads)
            optimizer.update(model, grads)
            mx.eval(model.parameters(), optimizer.state, loss)
            bar.update()
        loss = mx.distributed.all_sum(loss) / world.size()
        accuracy = mx.mean(mx.argmax(model(images[:held_out]), axis=1) == labels[:held_out])
        bar.set_postfix(loss=f"{loss.item():.4f}", accuracy=f"{accuracy.item():.1%}")
    bar.close()

    if world.rank() == 0:
        print(f"{world.size()} rank(s), {arguments.epochs} epochs in "
              f"{time.perf_counter() - begin:.1f} s: loss {loss.item():.4f}, "
              f"accuracy on {held_out} held-out digits {accuracy.item():.1%}", flush=True)
        if arguments.save:
            np.savez(arguments.save, **{k: np.array(v) for k, v in tree_flatten(model.parameters())})


if __name__ == "__main__":
    main()
