"""One rank of the benchmark: times all_sum through mx.eval for each size, prints JSON.

Arguments: mlxcomm | ring, rounds, sizes in bytes...
"""

import json
import sys
import time

system, rounds, sizes = sys.argv[1], int(sys.argv[2]), [int(s) for s in sys.argv[3:]]
if system == "mlxcomm":
    import mlxcomm

    mlxcomm.install()

import mlx.core as mx

begin = time.perf_counter()
world = mx.distributed.init(backend="any" if system == "mlxcomm" else system, strict=True)
init_ms = (time.perf_counter() - begin) * 1e3
times = {}
for size in sizes:
    data = mx.ones((max(1, size // 4),), dtype=mx.float32)
    mx.eval(data)
    taken = []
    for _ in range(rounds + 2):
        mx.eval(mx.distributed.all_sum(mx.ones(1), group=world))  # Begin together.
        begin = time.perf_counter()
        total = mx.distributed.all_sum(data, group=world)
        mx.eval(total)
        taken.append((time.perf_counter() - begin) * 1e6)
        del total
    times[size] = taken[2:]  # The first two warm up.
if world.rank() == 0:
    print(json.dumps({"init_ms": init_ms, "times": times}), flush=True)
