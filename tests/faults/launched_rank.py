"""A rank as a launcher starts it: mlxcomm gets nothing but the launcher's variables.

Prints its job, sums, checks the sum; with a folder as argument it then stays until the file `go` exists, so
that a test can have two jobs at once.
"""

import pathlib
import sys

import mlx.core as mx
import mlxcomm
from mlxcomm.environment import find_place

place = find_place()
mlxcomm.install()
world = mx.distributed.init()
got = mx.distributed.all_sum(mx.array([float(world.rank() + 1)])).item()
assert got == world.size() * (world.size() + 1) / 2, got
# In one piece: if print writes it in two, a launcher may mix it with another rank's.
sys.stdout.write(f"rank {world.rank()} of {world.size()} in {place.job}\n")
sys.stdout.flush()
if len(sys.argv) > 1:  # All ranks notice the file in the same step; otherwise one would be left alone.
    go = pathlib.Path(sys.argv[1]) / "go"
    while mx.distributed.all_sum(mx.array(1.0 if go.exists() else 0.0)).item() == 0:
        pass
