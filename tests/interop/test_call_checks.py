"""MLXCOMM_CHECK: a result that one rank evaluates and another forgets, or an order that differs, is an error
that names the lines, before a wrong value is returned. Without it values are wrong, as with MLX's ring."""


import pytest

BEGIN = """
import mlx.core as mx, mlx.nn as nn, mlxcomm
world = mx.distributed.init()
r = world.rank()
loss, accuracy = mx.array([1.0 + r]), mx.array([100.0 * (r + 1)])
"""
# The program; the call that is evaluated on rank 0 alone, and the one in which rank 1 waits, as rank 1
# reports it.
FORGOTTEN = {
    "a print": ("""
a = mx.distributed.all_sum(loss)
if r == 0: print(a.item())
print(mx.distributed.all_sum(accuracy).item())
""", "the 1st all_sum, train.py:7, which rank 1 never evaluated", "the 2nd all_sum, train.py:9"),
    "a gradient": ("""
model = nn.Linear(2, 1)
step = nn.value_and_grad(model, lambda model, x: model(x).sum())
value, gradients = step(model, mx.ones((1, 2)))
total = mx.distributed.all_sum(value)
gradients = nn.average_gradients(gradients)
if r == 0: print(total.item())
mx.eval(gradients)
""", "the 1st all_sum, train.py:10, which rank 1 never evaluated", "the 1st average_gradients, train.py:11"),
    "a compiled function": ("""
@mx.compile
def both(x, y):
    return mx.distributed.all_sum(x), mx.distributed.all_max(y)
a, b = both(loss, accuracy)
c = mx.distributed.all_sum(accuracy)
mx.eval(c if r == 0 else a)
mx.eval(a, b, c)
""", "the 1st all_sum, train.py:11", "(all_sum, train.py:9"),
    "a batch": ("""
a = mx.vmap(mx.distributed.all_sum)(mx.ones((2, 1)))
b = mx.distributed.all_sum(mx.ones((2, 1)))
mx.eval(a if r == 0 else b)
mx.eval(a, b)
""", "the gradient or vmap of the 1st all_sum, train.py:7", "the 2nd all_sum, train.py:8"),
    "a sharded layer": ("""
from mlx.nn.layers.distributed import shard_linear
layer = shard_linear(nn.Linear(4, 2), "sharded-to-all", group=world)
a = layer(mx.ones((1, 2)))
b = layer(mx.ones((1, 2)))
mx.eval(a if r == 0 else b)
""", "the 1st all_sum, train.py:9, which rank 1 never evaluated", "the 2nd all_sum, train.py:10"),
    "an order": ("""
sums = []
for name in ["w1", "w2"][::1 - 2 * r]:
    with mlxcomm.call_name(name):
        sums.append(mx.distributed.all_sum(mx.ones(2)))
for one in sums: mx.eval(one)
""", 'the 1st all_sum "w1", train.py:10', 'the 1st all_sum "w2", train.py:10'),
}


def ranks(c, tmp_path, text, **variables):
    path = tmp_path / "train.py"
    path.write_text(BEGIN + text)
    return [c.rank(rank, 2, path, node=rank % c.count, environment={"MLXCOMM_INSTALL": "all", **variables})
            for rank in (0, 1)]


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("what", FORGOTTEN)
def test_a_forgotten_evaluation_names_both_lines(cluster, tmp_path, what, nodes):
    text, on_0, on_1 = FORGOTTEN[what]
    processes = ranks(cluster(nodes), tmp_path, text, MLXCOMM_CHECK="order")
    for process in processes:
        assert process.finish() == 1, process.lines
        said = process.lines[-1]
        assert said.startswith("mlxcomm.MismatchError: MISMATCH: "), process.lines
    assert on_0 in processes[1].lines[-1] and on_1 in processes[1].lines[-1], processes[1].lines[-1]


# Why: values must be the same as without checks, and every way of calling must be known.
@pytest.mark.parametrize("check", ["order", "values:1"])
def test_right_programs_are_right_with_checks(cluster, tmp_path, check):
    text = """
x = mx.arange(4, dtype=mx.float32).reshape(2, 2) + r
assert mx.distributed.all_sum(x).tolist() == [[1, 3], [5, 7]]
assert mx.distributed.all_max(x).tolist() == [[1, 2], [3, 4]]
assert mx.distributed.all_min(x).tolist() == [[0, 1], [2, 3]]
assert mx.distributed.all_gather(x).shape == (4, 2)
assert mx.distributed.sum_scatter(x).tolist() == [[1, 3], [5, 7]][r:r + 1]
assert mx.vmap(mx.distributed.all_sum)(x).tolist() == [[1, 3], [5, 7]]
assert mx.grad(lambda x: mx.distributed.all_sum(x).sum())(x).tolist() == [[1, 1], [1, 1]]
step = mx.compile(lambda x: mx.distributed.all_sum(x) * 2)
assert [step(x).tolist() for _ in range(3)] == [[[2, 6], [10, 14]]] * 3
for _ in range(200):
    mx.eval(nn.average_gradients({"a": x, "b": x.astype(mx.float16)}))
if r == 0: mx.eval(mx.distributed.send(x, 1))
else: assert mx.distributed.recv_like(x, 0).tolist() == [[0, 1], [2, 3]]
mlxcomm.check_equal({"same": mx.ones(3), "also": [mx.array(2)]})
try: mlxcomm.check_equal({"same": mx.ones(3), "other": x})
except mlxcomm.MismatchError as error: print(error, error.rank)
"""
    for process in ranks(cluster(1), tmp_path, text, MLXCOMM_CHECK=check):
        assert process.finish() == 0, process.lines
        assert process.lines[-1] == (
            "MISMATCH: other, mlx.core.float32 of shape (2, 2), is not the same on all ranks: rank 1 differs "
            "from rank 0 1")


def test_a_wrong_value_of_the_variable_is_reported(cluster, tmp_path):
    for process in ranks(cluster(1), tmp_path, "", MLXCOMM_CHECK="yes"):
        assert process.finish() != 0
        assert any('MLXCOMM_CHECK: expected order, values or values:N' in line for line in process.lines)


def test_without_checks_the_message_names_the_remedy(cluster, tmp_path):
    text = ("a = mx.distributed.all_sum(mx.ones(3))\nif r == 0: mx.eval(a)\n"
            "mx.eval(mx.distributed.all_sum(loss))\n")
    for process in ranks(cluster(1), tmp_path, text):
        assert process.finish() == 1
        assert process.lines[-1].endswith("MLXCOMM_CHECK=order names it."), process.lines[-1]
