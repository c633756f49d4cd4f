"""A rank over MLX: does what its arguments say, one word after the other.

sum:TYPE:COUNT   one all_sum, checked         gather:COUNT   one all_gather
loop             all_sums until one fails     wait           sleeps until it is killed
until:FILE       all_sums until it exists     check          sums, gathers and messages between all, checked
send:COUNT       to the other of two ranks    handle         sets a handler for SIGINT

With `mpi` as the first word it is a rank of stock MLX's MPI backend, and mlxcomm is never imported.
After an error it checks the latched one.
"""

import os
import signal
import sys
import time

import mlx.core as mx


def all_sum(world, dtype, count):
    result = mx.distributed.all_sum(mx.full((count,), world.rank() + 1, dtype=dtype), group=world)
    mx.eval(result)
    expected = world.size() * (world.size() + 1) // 2
    assert bool(mx.all(result == expected)), result


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
    """The ranks agree on the end: a rank that sees the file reports it in the sum."""
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


def check(world):
    import mlxcomm

    try:
        mlxcomm.check(world)
    except mlxcomm.Error as error:
        print(f"checked {type(error).__name__} code={error.code} rank={error.rank}")


def join(is_stock):
    if is_stock:
        return mx.distributed.init(backend="mpi")
    import mlxcomm

    return mlxcomm.init(timeout=60)


def main():
    words = sys.argv[1:]
    is_stock = words[:1] == ["mpi"]
    try:
        world = join(is_stock)
    except RuntimeError as error:
        print(f"refused {type(error).__name__} rank={getattr(error, 'rank', None)} {error}")
        return 3
    print(f"joined {world.rank()} of {world.size()}")
    steps = 0
    try:
        for word in words[is_stock:]:
            what, *arguments = word.split(":")
            if what == "sum":
                all_sum(world, getattr(mx, arguments[0]), int(arguments[1]))
            elif what == "gather":
                mx.eval(mx.distributed.all_gather(mx.ones((int(arguments[0]),)), group=world))
            elif what == "check":
                for count in (1, 1000, 100_000, 1_500_000):
                    check_collectives(world, count)
                    check_pairs(world, count)
            elif what == "send":
                mx.eval(mx.distributed.send(mx.ones(int(arguments[0])), 1 - world.rank(), group=world))
            elif what == "handle":
                signal.signal(signal.SIGINT, lambda *_: print("heard"))
            elif what == "until":
                sum_until(world, arguments[0])
            elif what == "wait":
                print("waiting")
                time.sleep(3600)
            elif what == "loop":
                while True:
                    all_sum(world, mx.float32, 50_000)
                    steps += 1
                    if steps == 20:
                        print("looping")
        print("done")
        return 0
    except RuntimeError as error:
        print(f"raised {type(error).__name__} {error}" if is_stock else f"raised {error}")
    if not is_stock:
        check(world)
    try:
        all_sum(world, mx.float32, 4)
        print("NOT LATCHED")
    except RuntimeError as error:
        print(f"latched {error}")
    return 3


if __name__ == "__main__":
    sys.exit(main())
