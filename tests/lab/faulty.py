"""A rank of a program with a fault: faulty.py WHAT STOP. It prints what its calls raise, and stays until the
file STOP exists.

exception   rank 1 ends with one
mismatch    ranks call different things
argument    one call's argument is wrong, and the next call is right
"""

import os
import sys
import time

import mlx.core as mx
import mlxcomm


def say(call):
    try:
        mx.eval(call())
        print("fine", flush=True)
    except Exception as error:
        print(f"raised {getattr(error, 'code', '')} {error}", flush=True)


def main():
    what, stop = sys.argv[1:]
    mlxcomm.install()
    world = mx.distributed.init()
    print("looping", flush=True)
    # A failure may overtake the result of a call that the failed rank has finished.
    say(lambda: mx.distributed.all_sum(mx.ones(8), group=world))
    count = 8
    if what == "exception" and world.rank() == 1:
        raise ValueError("no such token")
    if what == "argument":
        say(mlxcomm.shrink)  # From a group that has not failed.
    if what == "mismatch":
        count += world.rank()
    say(lambda: mx.distributed.all_sum(mx.ones(count), group=world))
    while not os.path.exists(stop):
        time.sleep(0.01)


if __name__ == "__main__":
    main()
