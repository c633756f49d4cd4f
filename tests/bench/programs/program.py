"""What the programs share: one rank of a program that runs as users' programs do, and times its steps.

Arguments of each program: mlxcomm | ring | mpi | alone, the folder for rank-N.json, CASE=STEPS...
alone: the same work of every rank at the same time, without communication.
"""

import glob
import json
import os
import pathlib
import resource
import statistics
import sys
import time

backend, folder, *words = sys.argv[1:]
if backend == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx

WARM_UP_SECONDS, WARM_UP_STEPS_MIN = 0.3, 3


def join():
    """Returns the world, or None for `alone`."""
    if backend == "alone":
        return None
    return mx.distributed.init(backend="any" if backend == "mlxcomm" else backend, strict=True)


world = join()
rank = world.rank() if world else int(os.environ.get("MLX_RANK", "0"))
ranks = world.size() if world else int(os.environ.get("MLX_WORLD_SIZE", "1"))


def all_sum(x):
    return x if world is None else mx.distributed.all_sum(x, group=world)


def agreed(number):
    """Returns rank 0's number, on every rank."""
    return int(all_sum(mx.array(number if rank == 0 or world is None else 0)).item())


def of_daemons():
    """CPU time of the daemons so far, where the system shows it (Linux)."""
    paths = [path for pid in os.environ.get("BENCH_DAEMONS", "").split()
             for path in glob.glob(f"/proc/{pid}/task/*/schedstat")]
    return sum(int(pathlib.Path(path).read_text().split()[0]) for path in paths) / 1000


def spent():
    """CPU time and context switches of this process so far; sleeping takes a voluntary one."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_us": 1e6 * (usage.ru_utime + usage.ru_stime), "daemons_us": of_daemons(),
            "sleeps": usage.ru_nvcsw, "preemptions": usage.ru_nivcsw}


def check_same(case, values):
    """The ranks compare the numbers that they computed."""
    own = mx.array([values], dtype=mx.float32)
    if world is None:
        return
    all_of_them = mx.distributed.all_gather(own, group=world)
    if not mx.array_equal(all_of_them, mx.repeat(own, ranks, axis=0)).item():
        sys.exit(f"{case}: the ranks of {backend} computed different values: {all_of_them.tolist()}")


def timed(step, steps):
    """Calls step() until it is warm, and then `steps` times. Returns the figures of a step."""
    begin, one = time.monotonic(), 1.0
    for _ in range(WARM_UP_STEPS_MIN):
        began = time.monotonic()
        step()
        one = time.monotonic() - began
    left = WARM_UP_SECONDS - (time.monotonic() - begin)
    for _ in range(agreed(max(0, min(steps, int(left / one))))):
        step()
    taken = []
    before = spent()
    for _ in range(steps):
        began = time.monotonic()
        step()
        taken.append(1e6 * (time.monotonic() - began))
    figures = {name: (after - before[name]) / steps for name, after in spent().items()}
    deciles = statistics.quantiles(taken, n=10) if steps > 1 else taken * 9
    return {"median_us": statistics.median(taken), "p90_us": deciles[8], **figures}


def main(make):
    """make(case) returns a function that takes a step, and one that returns numbers that must be the same on
    all ranks in the end."""
    found = {}
    for word in words:
        case, steps = word.split("=")
        step, values = make(case)
        found[case] = timed(step, int(steps))
        check_same(case, values())
    pathlib.Path(folder, f"rank-{rank}.json").write_text(
        json.dumps({"rank": rank, "ranks": ranks, "steps": found}))
