"""Operations on MLX's default device, tried on two ranks: `python -m mlxcomm.first_light [BYTES]`.

`mlxcommctl firstlight` runs it and reads what rank 0 prints: a line of JSON for each assumption,
with its verdict. The exit code of a rank that crashes is a result, too.
"""

import json
import os
import platform
import sys

import mlx.core as mx

import mlxcomm

SMALL_BYTES = 1024
LARGE_BYTES = 1 << 30


def memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def tell(world, assumption, verdict, seen):
    if world.rank() == 0:
        print(json.dumps({"assumption": assumption, "verdict": verdict, "seen": seen}), flush=True)


def total_of(world, count):
    """How many elements of a sum are wrong after an operation of the default device on it."""
    mine = mx.full((count,), world.rank() + 1, dtype=mx.float32)
    total = mx.distributed.all_sum(mine, group=world) * 2
    expected = world.size() * (world.size() + 1)
    wrong = mx.sum(total != expected)
    mx.eval(wrong)
    return int(wrong.item())


def judge_sum(world, assumption, size, size_meant):
    """A smaller size than intended refutes the assumption if it is wrong, and never confirms it."""
    before = mlxcomm.counters()["operations"]
    wrong = total_of(world, size // 4)
    ours = mlxcomm.counters()["operations"] > before
    seen = f"{size} bytes on {mx.default_device()}: {wrong} elements wrong"
    if not ours:
        seen += ", and the daemon was not asked"
    right = "confirmed" if size >= size_meant else "not tried"
    tell(world, assumption, right if wrong == 0 and ours else "refuted", seen)


def judge_sharing(world):
    """Whether a result, which lies in shared memory, enters the next operation without a copy."""
    first = mx.distributed.all_sum(mx.ones((1 << 20,), dtype=mx.float32), group=world)
    mx.eval(first)
    before = mlxcomm.counters()["inputs_in_arena"]
    second = mx.distributed.all_sum(first, group=world)
    mx.eval(second)
    shared = mlxcomm.counters()["inputs_in_arena"] > before
    tell(world, "gpu-shares", "confirmed" if shared else "refuted",
         "a result went on without a copy" if shared else "a result was copied to go on")


def main(large_bytes):
    world = mlxcomm.init(timeout=60)
    device = mx.default_device()
    if platform.system() == "Darwin":
        verdict = "confirmed" if device.type == mx.DeviceType.gpu else "refuted"
        tell(world, "gpu-default", verdict, str(device))
    else:
        tell(world, "gpu-default", "not tried", f"{device}; it is taken of macOS alone")
    judge_sum(world, "gpu-small", SMALL_BYTES, SMALL_BYTES)
    judge_sharing(world)
    meant = min(LARGE_BYTES, memory_bytes() // 8) // 4 * 4
    judge_sum(world, "gpu-large", min(large_bytes // 4 * 4, meant), meant)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LARGE_BYTES)
