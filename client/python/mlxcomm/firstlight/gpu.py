"""Checks operations on MLX's default device: `python -m mlxcomm.firstlight.gpu [BYTES]`, on two ranks. Rank 0
prints a line of JSON for each assumption. A crash is a result, too."""

import json
import os
import sys

import mlx.core as mx

import mlxcomm

LARGE_BYTES = 1 << 30


def judge_sum(world, name, size, size_meant):
    """With a size below size_meant, a wrong sum refutes the assumption, but a right one does not confirm
    it."""
    before = mlxcomm.counters()["operations"]
    mine = mx.full((size // 4,), world.rank() + 1, dtype=mx.float32)
    total = mx.distributed.all_sum(mine, group=world) * 2  # Runs on the default device.
    wrong = int(mx.sum(total != world.size() * (world.size() + 1)).item())
    ours = "" if mlxcomm.counters()["operations"] > before else ", and the daemon was not used"
    right = "confirmed" if size >= size_meant else "not tried"
    seen = f"{size} bytes on {mx.default_device()}: {wrong} elements wrong{ours}"
    return name, "refuted" if wrong or ours else right, seen


def judge_sharing(world):
    first = mx.distributed.all_sum(mx.ones((1 << 20,), dtype=mx.float32), group=world)
    mx.eval(first)
    before = mlxcomm.counters()["inputs_in_arena"]
    mx.eval(mx.distributed.all_sum(first, group=world))
    if mlxcomm.counters()["inputs_in_arena"] > before:
        return "gpu-shares", "confirmed", "the next operation read a result without a copy"
    return "gpu-shares", "refuted", "a result was copied for the next operation"


def verdicts(world, large_bytes):
    device = mx.default_device()
    if sys.platform == "darwin":
        yield "gpu-default", "confirmed" if device.type == mx.DeviceType.gpu else "refuted", str(device)
    else:
        yield "gpu-default", "not tried", f"{device}; assumed only on macOS"
    yield judge_sum(world, "gpu-small", 1024, 1024)
    yield judge_sharing(world)
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meant = min(LARGE_BYTES, memory_bytes // 8) // 4 * 4
    yield judge_sum(world, "gpu-large", min(large_bytes // 4 * 4, meant), meant)


if __name__ == "__main__":
    group = mlxcomm.init(timeout=60)
    for name, verdict, seen in verdicts(group, int(sys.argv[1]) if len(sys.argv) > 1 else LARGE_BYTES):
        if group.rank() == 0:
            print(json.dumps({"assumption": name, "verdict": verdict, "seen": seen}), flush=True)
