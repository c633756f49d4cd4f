"""A rank of stock MLX's MPI backend for the fault tests; mlxcomm is never imported.

loop   all_sums until one fails      sum:COUNT   one      wait   until it is killed
handle sets a handler for SIGINT, as programs do that save when they are stopped
At a failure it says what it caught, and what the next operation says.
"""

import signal
import sys
import time

import mlx.core as mx


def all_sum(world, count):
    mx.eval(mx.distributed.all_sum(mx.ones(count), group=world))


def main():
    try:
        world = mx.distributed.init(backend="mpi")
    except RuntimeError as error:
        print(f"refused {error}")
        return 3
    print(f"rank {world.rank()} of {world.size()}")
    try:
        for word in sys.argv[1:]:
            what, *arguments = word.split(":")
            if what == "sum":
                all_sum(world, int(arguments[0]))
            elif what == "send":
                mx.eval(mx.distributed.send(mx.ones(int(arguments[0])), 1 - world.rank(), group=world))
            elif what == "handle":
                signal.signal(signal.SIGINT, lambda *_: print("heard"))
            elif what == "wait":
                print("waiting")
                time.sleep(3600)
            for step in range(10**9 if what == "loop" else 0):
                all_sum(world, 50_000)
                if step == 20:
                    print("looping")
        print("done")
        return 0
    except KeyboardInterrupt:
        print("interrupted")
        return 3
    except RuntimeError as error:
        print(f"raised {type(error).__name__} {error}")
    try:
        all_sum(world, 4)
        print("NOT LATCHED")
    except RuntimeError as error:
        print(f"latched {error}")
    return 3


if __name__ == "__main__":
    sys.exit(main())
