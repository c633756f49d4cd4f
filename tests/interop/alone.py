"""A process without a launcher, with the backend that its argument names: prints what each operation of
MLX returns or raises for a group of one."""

import sys

import mlx.core as mx

d = mx.distributed
group = d.init(backend=sys.argv[1])
x = mx.arange(4.0)
CALLS = {
    "all_sum": lambda **k: d.all_sum(x, **k), "all_max": lambda **k: d.all_max(x, **k),
    "all_min": lambda **k: d.all_min(x, **k), "all_gather": lambda **k: d.all_gather(x, **k),
    "all_gather of one number": lambda **k: d.all_gather(x[0], **k),
    "sum_scatter": lambda **k: d.sum_scatter(x, **k), "send": lambda **k: d.send(x, 0, **k),
    "recv": lambda **k: d.recv((2,), mx.float32, 0, **k), "recv_like": lambda **k: d.recv_like(x, 0, **k),
}

print(group.rank(), group.size(), d.init().size())
for name, call in CALLS.items():
    for where in ({}, {"group": group}):
        try:
            print(name, call(**where).tolist())
        except (RuntimeError, ValueError) as error:
            print(name, type(error).__name__, error)
