"""A rank for the tests of routes: sums, gathers, and exchanges with every other rank, and checks
each value; then, given a file's name, it sums on until that file exists."""

import os
import sys

import mlx.core as mx
import mlxcomm


def pattern(count, rank):
    return mx.arange(count) % 1000 + rank


def check_collectives(world, count):
    rank, size = world.rank(), world.size()
    total = mx.distributed.all_sum(pattern(count, rank), group=world)
    expected = size * pattern(count, 0) + size * (size - 1) // 2
    assert bool(mx.all(total == expected)), f"all_sum of {count}"
    every = mx.distributed.all_gather(pattern(count, rank), group=world)
    expected = mx.concatenate([pattern(count, other) for other in range(size)])
    assert bool(mx.all(every == expected)), f"all_gather of {count}"


def check_pairs(world, count):
    """Every pair in the same order on all ranks: the lower one sends first."""
    rank, size = world.rank(), world.size()
    for low in range(size):
        for high in range(low + 1, size):
            for source, destination in ((low, high), (high, low)):
                if rank == source:
                    mx.eval(mx.distributed.send(pattern(count, source), destination, group=world))
                elif rank == destination:
                    like = mx.zeros((count,), dtype=pattern(1, 0).dtype)
                    got = mx.distributed.recv_like(like, source, group=world)
                    assert bool(mx.all(got == pattern(count, source))), f"recv of {count}"


def sum_until(world, stop_file):
    """The ranks agree on the end: one that sees the file says so in the sum."""
    steps = 0
    while True:
        ends = 1.0 if os.path.exists(stop_file) else 0.0
        values = mx.concatenate([mx.array([ends]), mx.full((50_000,), world.rank() + 1.0)])
        total = mx.distributed.all_sum(values, group=world)
        size = world.size()
        assert bool(mx.all(total[1:] == size * (size + 1) / 2)), "all_sum in the loop"
        if total[0].item() > 0:
            return
        steps += 1
        if steps == 20:
            print("looping")


def main():
    world = mlxcomm.init(timeout=60)
    try:
        for count in (1, 1000, 100_000, 1_500_000):
            check_collectives(world, count)
            check_pairs(world, count)
        print("checked")
        if len(sys.argv) > 1:
            sum_until(world, sys.argv[1])
    except RuntimeError as error:
        print(f"raised {error}")
        return 3
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
