"""A rank for the fault tests: does what its arguments say, one word after the other.

sum:TYPE:COUNT   one all_sum, checked         gather:COUNT   one all_gather
loop             all_sums until one fails     wait           sleeps until it is killed
again            the last operation once more, to see the latched error
"""

import sys
import time

import mlx.core as mx
import mlxcomm


def all_sum(world, dtype, count):
    result = mx.distributed.all_sum(mx.full((count,), world.rank() + 1, dtype=dtype), group=world)
    mx.eval(result)
    expected = world.size() * (world.size() + 1) // 2
    assert bool(mx.all(result == expected)), result


def main():
    try:
        world = mlxcomm.init(timeout=60)
    except mlxcomm.Error as error:
        print(f"refused {type(error).__name__} rank={error.rank} {error}")
        return 3
    print(f"joined {world.rank()} of {world.size()}")
    steps = 0
    try:
        for word in sys.argv[1:]:
            what, *arguments = word.split(":")
            if what == "sum":
                all_sum(world, getattr(mx, arguments[0]), int(arguments[1]))
            elif what == "gather":
                mx.eval(mx.distributed.all_gather(mx.ones((int(arguments[0]),)), group=world))
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
        print(f"raised {error}")
    try:
        mlxcomm.check(world)
    except mlxcomm.Error as error:
        print(f"checked {type(error).__name__} code={error.code} rank={error.rank}")
    try:
        all_sum(world, mx.float32, 4)
        print("NOT LATCHED")
    except RuntimeError as error:
        print(f"latched {error}")
    return 3


if __name__ == "__main__":
    sys.exit(main())
