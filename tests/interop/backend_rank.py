"""One rank of a program that requests MLX's backends by name, and knows nothing of mlxcomm; its arguments say
how. Prints what it got.

NAME[:strict]    init by that name, and a sum over it and over group=None
"""

import sys

import mlx.core as mx


def total(group=None):
    return int(mx.distributed.all_sum(mx.array(1), group=group).item())


for word in sys.argv[1:]:
    name, *how = word.split(":")
    try:
        group = mx.distributed.init(strict="strict" in how, backend=name)
    except (RuntimeError, ValueError) as error:
        print(f"{word}: {type(error).__name__} {error}")
        continue
    again = mx.distributed.init(backend=name)
    assert (again.rank(), again.size()) == (group.rank(), group.size())
    print(f"{word}: {group.rank()} of {group.size()}, sum {total(group)}, by default {total()}")
