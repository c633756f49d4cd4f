"""An expert-parallel step: each rank has one expert and sends it the tokens that chose it. A case is the
number of tokens of each rank.

With mlxcomm by all_to_all_v, there and back. MLX has no such operation, so programs over its backends gather
all tokens on every rank, which computes its expert's, and add the results.
"""

import sys

import mlx.core as mx
from program import backend, main, rank, ranks, world

WIDTH, HIDDEN = 256, 512


def experts(case):
    count = int(case)
    everyone = mx.random.normal((ranks, count, WIDTH), key=mx.random.key(1))
    weights = [[mx.random.normal(shape, scale=0.05, key=mx.random.key(2 + number))
                for shape in ((WIDTH, HIDDEN), (HIDDEN, WIDTH))] for number in range(ranks)]
    # A router that is regular, so that every step has the same work: token t of rank r goes to (t + r).
    chosen = [[(token + sender) % ranks for token in range(count)] for sender in range(ranks)]
    order = mx.array(sorted(range(count), key=lambda token: chosen[rank][token]))
    back = mx.argsort(order)
    sent = [chosen[rank].count(to) for to in range(ranks)]
    received = [chosen[sender].count(rank) for sender in range(ranks)]
    mine = mx.array(chosen).reshape(-1, 1) == rank
    tokens = everyone[rank]
    mx.eval(tokens, weights, order, back, mine)

    def expert(x, number=rank):
        into, out = weights[number]
        return mx.maximum(x @ into, 0) @ out

    def exchange(x):
        import mlxcomm

        there = mlxcomm.all_to_all_v(x[order], sent, received)
        return mlxcomm.all_to_all_v(expert(there), received, sent)[back]

    def gather_all(x):
        gathered = mx.distributed.all_gather(x, group=world)
        results = mx.distributed.all_sum(mx.where(mine, expert(gathered), 0), group=world)
        return results[rank * count:][:count]

    def all_experts(x):
        """What the exchange must come to."""
        return mx.stack([expert(x[token:][:1], chosen[rank][token])[0] for token in range(count)])

    layer = {"mlxcomm": exchange, "alone": expert}.get(backend, gather_all)
    x = tokens

    def step():
        nonlocal x
        x = tokens + 0.1 * layer(x)
        mx.eval(x)

    def check():
        if world is not None and not mx.allclose(layer(x), all_experts(x), atol=1e-5).item():
            sys.exit(f"{case} tokens: rank {rank} of {backend} got other results than the experts give")
        return [0]

    return step, check


main(experts)
