"""One rank that times all_sum through mx.eval, as peers/timed_all_reduce.cc times the others.

Arguments: mlxcomm | ring | alone, the folder for rank-N.json, seconds for a size, seconds of a pause
(0: none), sizes in bytes. alone: no other rank, and an addition in place of all_sum.
"""

import json
import pathlib
import statistics
import sys
import time
import types

import numpy as np

backend, folder = sys.argv[1:3]
budget, pause_seconds = map(float, sys.argv[3:5])
sizes = list(map(int, sys.argv[5:]))
if backend == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx

SLOW_SECONDS, BATCH_SECONDS, ALONE_BYTES = 0.02, 100e-6, 64 * 1024
FIRST, WARM_UPS = 3, 20  # The first ones touch their memory for the first time.
SWEPT_FLOATS, SWEPT_AT_ONCE = 4 << 20, 4096  # While computing in a pause.
swept = np.zeros(SWEPT_FLOATS if pause_seconds > 0 else 0, np.float32)

asked = time.monotonic()
if backend == "alone":
    world = types.SimpleNamespace(rank=lambda: 0, size=lambda: 1)
else:
    world = mx.distributed.init(backend="any" if backend == "mlxcomm" else backend, strict=True)
joined = time.monotonic()


def all_sum(data):
    if backend == "alone":
        return mx.add(data, data, stream=mx.cpu)  # As all_sum, which never runs on a GPU.
    return mx.distributed.all_sum(data, group=world)


def seconds_of(data, times):
    begin = time.monotonic()
    for _ in range(times):
        total = all_sum(data)
        mx.eval(total)
    return time.monotonic() - begin, total


def agreed(own):
    """Returns rank 0's number on every rank, so all of them meet here."""
    if backend == "alone":
        return own
    return all_sum(mx.array([own if world.rank() == 0 else 0], dtype=mx.float32)).item()


def warm_up(data):
    """Seconds of a warm operation, the same number on all ranks."""
    seconds_of(data, FIRST)
    one = agreed(seconds_of(data, 1)[0])
    if one < SLOW_SECONDS:
        seconds_of(data, WARM_UPS)
        one = agreed(seconds_of(data, WARM_UPS)[0] / WARM_UPS)
    return max(1e-8, one)


def take_pause():
    """Same as Pause::Take of peers/timed_all_reduce.cc."""
    moment = (time.monotonic() // pause_seconds + 2) * pause_seconds
    first = 0
    while time.monotonic() < moment:
        part = swept[first:first + SWEPT_AT_ONCE]
        np.multiply(part, 0.5, out=part)
        first = (first + SWEPT_AT_ONCE) % SWEPT_FLOATS


def median_us(size):
    pattern = (1 + mx.arange(max(1, size // 4)) % 3).astype(mx.float32)
    expected = pattern * (2 if backend == "alone" else world.size() * (world.size() + 1) // 2)
    data = pattern * (world.rank() + 1)
    mx.eval(data, expected)
    one = warm_up(data)
    one_by_one = size >= ALONE_BYTES or pause_seconds > 0
    batch = 1 if one_by_one else max(1, int(BATCH_SECONDS / one))
    count = min(100 if one_by_one else 2000, max(3, int(budget / (one * batch + pause_seconds))))
    taken = []
    for _ in range(count):
        if one_by_one:
            data = pattern * (world.rank() + 1)  # Writes it again, as gradients are written.
            mx.eval(data)
            agreed(0)
        if pause_seconds > 0:
            take_pause()
        seconds, total = seconds_of(data, batch)
        taken.append(1e6 * seconds / batch)
        if not mx.array_equal(total, expected).item():
            sys.exit(f"rank {world.rank()}: a wrong sum of {size} bytes")
    return statistics.median(taken)


pathlib.Path(folder, f"rank-{world.rank()}.json").write_text(json.dumps(
    {"rank": world.rank(), "ranks": world.size(), "asked_seconds": asked, "joined_seconds": joined,
     "median_us": {str(size): median_us(size) for size in sizes}}))
