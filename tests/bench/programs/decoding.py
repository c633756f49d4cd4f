"""A tensor-parallel decoder of 12 layers that generates tokens; a case is its hidden size.

A token takes two all_sums a layer, as in mlx-lm's sharded models: after attention's output projection and
after the feed-forward block. Every rank has its part of each matrix.
"""

import mlx.core as mx
from program import all_sum, main, rank, ranks

LAYERS = 12


def blocks_of(hidden):
    """[(into, out)] of each block, this rank's part: hidden x 4 hidden / ranks, and back."""
    part = 4 * hidden // ranks
    made = []
    for number in range(2 * LAYERS):
        into, out = mx.random.normal((2, hidden, 4 * hidden), scale=hidden ** -0.5,
                                     key=mx.random.key(number))
        made.append((mx.contiguous(into[:, rank * part:][:, :part]),
                     mx.contiguous(out[:, rank * part:][:, :part].T / 2)))
    mx.eval(made)
    return made


def decoder(case):
    hidden = int(case)
    blocks = blocks_of(hidden)
    x = mx.ones((1, hidden))
    tokens = []

    def next_token():
        nonlocal x
        for into, out in blocks:
            x = x + all_sum(mx.maximum(x @ into, 0) @ out)
        x = x / mx.linalg.norm(x) * hidden ** 0.5
        tokens.append(mx.argmax(x).item())  # A program reads each: the next one follows from it.

    return next_token, lambda: tokens


main(decoder)
