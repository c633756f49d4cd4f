"""`mlxcomm.join`: ranks with fewer batches than others take part until the last one has none."""


import pytest

from conftest import lines_of

TRAIN = """
import mlx.core as mx, mlx.nn as nn, mlxcomm
world = mlxcomm.init()
rank = world.rank()
model = nn.Linear(1, 1, bias=False)
model.weight = mx.zeros((1, 1))
step = nn.value_and_grad(model, lambda model, x: (model(x) * x).sum())
seen = []
for turn in mlxcomm.join({batches}, like=model.trainable_parameters()):
    gradients = None if turn.batch is None else step(model, mx.array([[turn.batch]]))[1]
    mean = turn.average(gradients)
    seen.append((turn.ranks, turn.batch is not None, round(mean["weight"].item(), 3)))
print(seen, flush=True)
mx.eval(mx.distributed.all_sum(mx.ones(1), group=world))   # Nothing is left behind.
"""


def run(c, sizes):
    ranks = [c.python(r, len(sizes), TRAIN.format(batches=f"[float(rank + 1)] * {size}"), node=r % 2)
             for r, size in enumerate(sizes)]
    return [eval(lines[-1]) for lines in lines_of(ranks)]


@pytest.mark.parametrize("sizes", [(10, 9), (9, 10), (3, 0), (0, 0), (2, 5, 1)])
def test_ranks_without_batches_contribute_zeros_and_are_counted(cluster, sizes):
    seen = run(cluster(2), sizes)
    for number in range(max(sizes)):
        having = [r for r, size in enumerate(sizes) if size > number]
        mean = round(sum((r + 1.0) ** 2 for r in having) / len(having), 3)
        for r in range(len(sizes)):
            assert seen[r][number] == (len(having), r in having, mean)
    assert {len(turns) for turns in seen} == {max(sizes)}
