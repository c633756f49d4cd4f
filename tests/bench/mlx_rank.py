"""One rank that times all_sum through mx.eval, as peers/timed_all_reduce.cc times the others.

Arguments: mlxcomm | ring | alone, the folder for rank-N.json, seconds for a size, sizes in bytes...,
pause=SECONDS if there is to be one between operations. alone: no other rank, and a sum of two arrays in
place of all_sum.
"""

import json
import math
import os
import resource
import statistics
import sys
import time
import types

system, folder, budget = sys.argv[1], sys.argv[2], float(sys.argv[3])
words = sys.argv[4:]
pause_seconds = sum(float(word.removeprefix("pause=")) for word in words if word.startswith("pause="))
sizes = [int(word) for word in words if not word.startswith("pause=")]
if system == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx

SLOW_SECONDS, BATCH_SECONDS, ALONE_BYTES = 0.02, 100e-6, 64 * 1024
FIRST, WARM_UPS = 3, 20  # The first ones touch their memory for the first time.
# As in peers/pause.h.
TICK_SECONDS, TICKS, AHEAD_SECONDS_MAX, SWEPT_FLOATS = 20e-6, 1 << 20, 1, 4 << 20
if pause_seconds > 0:
    import numpy as np  # Only then: it takes memory, which is measured.

    swept = np.zeros(SWEPT_FLOATS, np.float32)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


asked = time.monotonic()
if system == "alone":
    world = types.SimpleNamespace(rank=lambda: 0, size=lambda: 1)
else:
    world = mx.distributed.init(backend="any" if system == "mlxcomm" else system, strict=True)
joined = time.monotonic()
found, cpu, reduced = [], 0.0, 0


def all_sum(data):
    if system == "alone":
        return mx.add(data, nothing, stream=mx.cpu)  # As all_sum, which never runs on a GPU.
    return mx.distributed.all_sum(data, group=world)


def seconds_of(data, times):
    global cpu, reduced
    cpu_before, begin = cpu_seconds(), time.monotonic()
    for _ in range(times):
        total = all_sum(data)
        mx.eval(total)
    seconds = time.monotonic() - begin
    cpu += cpu_seconds() - cpu_before
    reduced += times * data.nbytes
    return seconds, total


def agreed(own):
    """Rank 0's number, on every rank; so all of them meet here."""
    if system == "alone":
        return max(1e-8, own)
    found = mx.array([own if world.rank() == 0 else 0], dtype=mx.float32)
    return max(1e-8, all_sum(found).item())


def next_moment(telling):
    """The clock's time at which all begin: Pause::NextTick and MomentOf of peers/pause.h."""
    ticks = math.ceil((time.monotonic() + telling + pause_seconds) / TICK_SECONDS)
    tick = int(agreed(ticks % TICKS))
    now = int(time.monotonic() / TICK_SECONDS)
    ahead = (tick - now) % TICKS
    return (now + ahead) * TICK_SECONDS if ahead * TICK_SECONDS <= AHEAD_SECONDS_MAX else 0


def compute_until(moment):
    first = 0
    while time.monotonic() < moment:
        part = swept[first:first + 4096]
        np.multiply(part, 0.5, out=part)
        first = (first + 4096) % SWEPT_FLOATS


for size in sizes:
    pattern = (1 + mx.arange(max(1, size // 4)) % 3).astype(mx.float32)
    nothing = mx.zeros_like(pattern)
    expected = pattern * (world.size() * (world.size() + 1) // 2)
    data = pattern * (world.rank() + 1)
    mx.eval(data, expected, nothing)
    seconds_of(data, FIRST)
    one = agreed(seconds_of(data, 1)[0])
    if one < SLOW_SECONDS:
        seconds_of(data, WARM_UPS)
        one = agreed(seconds_of(data, WARM_UPS)[0] / WARM_UPS)
    one_by_one = size >= ALONE_BYTES or pause_seconds > 0
    batch = 1 if one_by_one else max(1, int(BATCH_SECONDS / one))
    count = min(100 if one_by_one else 2000, max(3, int(budget / (one * batch + pause_seconds))))
    taken, telling = [], one  # [(seconds of the pause before it, microseconds)]
    for _ in range(count):
        asked = time.monotonic()
        if pause_seconds > 0:
            moment = next_moment(2 * telling)
        told = time.monotonic()
        telling = max(one, told - asked)
        if one_by_one:
            data = pattern * (world.rank() + 1)  # Again, as gradients are.
            mx.eval(data)
            compute_until(moment) if pause_seconds > 0 else agreed(0)
        paused = time.monotonic() - told
        seconds, total = seconds_of(data, batch)
        taken.append((paused, 1e6 * seconds / batch))
        if not mx.array_equal(total, expected).item():
            sys.exit(f"rank {world.rank()}: a wrong sum of {size} bytes")
    # Those after a whole pause, if there are any: on a busy machine agreeing on one may take long.
    whole = [sample for sample in taken if sample[0] >= pause_seconds] or taken
    samples, pauses = sorted(us for _, us in whole), [paused for paused, _ in whole]
    tenth = len(samples) // 10
    found.append({"bytes": size, "median_us": statistics.median(samples), "min_us": samples[0],
                  "p10_us": samples[tenth], "p90_us": samples[-1 - tenth],
                  "pause_seconds": statistics.median(pauses) if pause_seconds > 0 else 0,
                  "operations": count * batch})

peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
path = os.path.join(folder, f"rank-{world.rank()}.json")
with open(path + ".part", "w", encoding="ascii") as file:
    json.dump({"rank": world.rank(), "ranks": world.size(), "pid": os.getpid(),
               "asked_seconds": asked, "joined_seconds": joined, "cpu_seconds": cpu,
               "resident_bytes_max": peak, "reduced_bytes": reduced, "sizes": found}, file)
os.rename(path + ".part", path)
