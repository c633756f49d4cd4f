"""One rank of test_functions.py: mlxcomm's own functions against numpy.

Argument: values | gradients | transforms | mistakes.
"""

import os
import sys

import mlx.core as mx
import mlx.nn as nn
import mlxcomm
import numpy as np

world = mlxcomm.init()
rank, size = world.rank(), world.size()
INTEGERS = [mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64]
FLOATS = [mx.float16, mx.bfloat16, mx.float32, mx.float64]
DTYPES = [mx.bool_, *INTEGERS, *FLOATS, mx.complex64]
NUMPY = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
         "and": np.bitwise_and, "or": np.bitwise_or}


def has_meaning(op, dtype):
    if op == "mean":
        return dtype in FLOATS or dtype == mx.complex64
    if op in ("and", "or"):
        return dtype not in FLOATS and dtype != mx.complex64
    return True


def values_of(of_rank, shape, dtype):
    """Small whole numbers: the order of additions does not matter."""
    whole = (np.arange(int(np.prod(shape))) % 3 + of_rank % 2).reshape(shape)
    return whole.astype(bool) if dtype == mx.bool_ else whole


def as_mlx(whole, dtype):
    # MLX's float64 exists only on the CPU.
    with mx.stream(mx.cpu):
        return mx.array(whole.astype(np.int32)).astype(dtype)


def as_numpy(x):
    with mx.stream(mx.cpu):
        wide = {mx.bool_: mx.bool_, mx.complex64: mx.complex64}.get(
            x.dtype, mx.float64 if x.dtype in FLOATS else mx.int64)
        return np.array(x.astype(wide))


def same(result, expected, *what):
    got = as_numpy(result)
    assert got.shape == expected.shape and np.array_equal(got, expected), (what, got, expected)


def combined(op, shape, dtype):
    everyone = [values_of(r, shape, dtype) for r in range(size)]
    if op == "mean":
        return sum(everyone) / size
    function = NUMPY[op]
    if dtype == mx.bool_:
        function = np.logical_or if op in ("sum", "max", "or") else np.logical_and
    total = everyone[0]
    for other in everyone[1:]:
        total = function(total, other)
    return total


def check_reductions():
    for dtype in DTYPES:
        for op in ("sum", "prod", "min", "max", "and", "or", "mean"):
            if not has_meaning(op, dtype):
                continue
            shape = (size * 2, 3)
            x = as_mlx(values_of(rank, shape, dtype), dtype)
            expected = combined(op, shape, dtype)
            if op == "mean":  # Rounded once, to the dtype.
                expected = as_numpy(as_mlx(expected * size, dtype) / size)
            result = mlxcomm.all_reduce(x, op)
            assert result.dtype == dtype
            same(result, expected, "all_reduce", op, dtype)
            root = size - 1
            same(mlxcomm.reduce(x, root, op), expected if rank == root else expected * 0,
                 "reduce", op, dtype)
            same(mlxcomm.reduce_scatter(x, op), expected[2 * rank:2 * rank + 2],
                 "reduce_scatter", op, dtype)


def check_movements():
    for dtype in DTYPES:
        shape = (size, 5)
        everyone = np.stack([values_of(r, shape, dtype) + (0 if dtype == mx.bool_ else r)
                             for r in range(size)])
        x = as_mlx(everyone[rank], dtype)
        root = size // 2
        same(mlxcomm.broadcast(x, root), everyone[root], "broadcast", dtype)
        same(mlxcomm.all_gather(x), np.concatenate(everyone), "all_gather", dtype)
        rows = np.concatenate([everyone[r][:r] for r in range(size)])
        same(mlxcomm.all_gather_v(x[:rank]), rows, "all_gather_v", dtype)
        same(mlxcomm.all_gather_v(x[:rank], range(size)), rows, "all_gather_v with counts", dtype)
        gathered = np.concatenate(everyone) if rank == root else np.zeros((0, 5), everyone.dtype)
        same(mlxcomm.gather(x, root), gathered, "gather", dtype)
        same(mlxcomm.scatter(x, root), everyone[root][rank:rank + 1], "scatter", dtype)
        same(mlxcomm.all_to_all(x), np.stack([everyone[r][rank] for r in range(size)]),
             "all_to_all", dtype)
        # Rank r sends (r + s) % 2 rows to rank s.
        send_counts = [(rank + s) % 2 for s in range(size)]
        same(mlxcomm.all_to_all_v(x[:sum(send_counts)], send_counts), received_rows(everyone),
             "all_to_all_v", dtype)
    scalar = mlxcomm.all_gather(mx.array(rank))
    assert scalar.tolist() == list(range(size))
    # Transposed arrays and slices are not contiguous.
    matrix = np.arange(24).reshape(4, 6) + rank
    same(mlxcomm.all_reduce(as_mlx(matrix, mx.int32).T[::2]),
         sum((np.arange(24).reshape(4, 6) + r).T[::2] for r in range(size)), "transposed")
    for shape in [(0,), (size * 0, 4), (1,), (4097,)]:
        same(mlxcomm.all_reduce(mx.ones(shape)), np.full(shape, size, dtype=float), shape)


def received_rows(everyone):
    """For all_to_all_v: rank r's rows for this rank follow those for lower ranks."""
    blocks = []
    for r in range(size):
        counts = [(r + s) % 2 for s in range(size)]
        begin = sum(counts[:rank])
        blocks.append(everyone[r][begin:begin + counts[rank]])
    return np.concatenate(blocks)


def check_messages():
    """Tags keep messages apart. A send waits for its receiver, so those that may be received in
    another order use streams of their own."""
    if rank == 0:
        first = mlxcomm.send(mx.full((3,), 1.0), 1, tag=1, stream=mx.new_stream(mx.cpu))
        second = mlxcomm.send(mx.full((3,), 2.0), 1, tag=2, stream=mx.new_stream(mx.cpu))
        mx.eval(first, second)
    elif rank == 1:
        second = mlxcomm.recv((3,), mx.float32, 0, tag=2)
        first = mlxcomm.recv((3,), mx.float32, 0, tag=1, after=second)
        assert first.tolist() == [1.0] * 3 and second.tolist() == [2.0] * 3
    mlxcomm.barrier()


def check_inputs_in_the_arena():
    """A result is in the daemon's memory, so as an input it needs no copy."""
    held = mlxcomm.all_reduce(mx.ones(1000))
    mx.eval(held)
    before = mlxcomm.counters()["inputs_in_arena"]
    mx.eval(mlxcomm.all_reduce(held))
    copies = os.environ.get("MLXCOMM_RESULTS") == "copy"
    assert copies or mlxcomm.counters()["inputs_in_arena"] == before + 1


# --- gradients ------------------------------------------------------------------------


def check_adjoint(name, operation, x):
    """The sum over ranks of <A x, y> equals that of <x, A' y>: A' is the adjoint of A."""
    result = operation(x)
    y = mx.random.normal(result.shape, key=mx.random.key(100 + rank))
    _, (gradient,) = mx.vjp(operation, [x], [y])
    assert gradient.shape == x.shape
    both = mx.stack([(result * y).sum(), (x * gradient).sum()])
    forward, backward = mlxcomm.all_reduce(both).tolist()
    assert abs(forward - backward) < 1e-4 * max(1, abs(forward)), (name, forward, backward)


def check_gradients():
    x = mx.random.normal((size * 2, 3), key=mx.random.key(rank))
    counts = [[1 + (r + 2 * s) % 3 for s in range(size)] for r in range(size)]
    root = size - 1
    uneven = mx.random.normal((sum(counts[rank]), 2), key=mx.random.key(rank))
    linear = {
        "reduce": lambda v: mlxcomm.reduce(v, root),
        "reduce mean": lambda v: mlxcomm.reduce(v, 0, "mean"),
        "reduce_scatter": mlxcomm.reduce_scatter,
        "reduce_scatter mean": lambda v: mlxcomm.reduce_scatter(v, "mean"),
        "broadcast": lambda v: mlxcomm.broadcast(v, root),
        "gather": lambda v: mlxcomm.gather(v, root),
        "scatter": lambda v: mlxcomm.scatter(v, root),
        "all_to_all": mlxcomm.all_to_all,
    }
    for name, operation in linear.items():
        check_adjoint(name, operation, x)
        # Forward mode: a linear map is its own derivative.
        _, (tangent,) = mx.jvp(operation, [x], [x * 2])
        assert mx.allclose(tangent, operation(x * 2)), name
    check_adjoint("gather of a scalar", lambda v: mlxcomm.gather(v, 0), x[0, 0])
    check_adjoint("all_to_all_v", lambda v: mlxcomm.all_to_all_v(
        v, counts[rank], [counts[r][rank] for r in range(size)]), uneven)

    # MLX's convention: the loss that each rank computes from the result counts once.
    weights = mx.arange(1, 4, dtype=mx.float32)
    gradient = mx.grad(lambda v: (mlxcomm.all_reduce(v) * weights).sum())(mx.ones(3) * rank)
    assert gradient.tolist() == [1, 2, 3]
    gradient = mx.grad(lambda v: (mlxcomm.all_reduce(v, "mean") * weights).sum())(mx.ones(3))
    assert mx.allclose(gradient, weights / size)
    mine = mx.array([rank, -rank, 0], dtype=mx.float32)
    gradient = mx.grad(lambda v: (mlxcomm.all_reduce(v, "max") * weights).sum())(mine)
    largest = [rank == size - 1, rank == 0, True]
    assert gradient.tolist() == [w if is_it else 0 for w, is_it in zip([1, 2, 3], largest)]
    gradient = mx.grad(lambda v: (mlxcomm.all_gather(v) ** 2).sum())(mx.ones(2) * (rank + 1))
    assert gradient.tolist() == [2 * (rank + 1)] * 2
    gradient = mx.grad(lambda v: (mlxcomm.all_gather_v(v, list(range(1, size + 1))) ** 2).sum())(
        mx.ones((rank + 1, 2)) * rank)
    assert gradient.tolist() == [[2 * rank] * 2] * (rank + 1)
    blocks = mx.stack([mx.array([rank, -rank], dtype=mx.float32)] * size)
    gradient = mx.grad(lambda v: (mlxcomm.reduce_scatter(v, "min") * 5).sum())(blocks)
    assert gradient.tolist() == [[5 if rank == 0 else 0, 5 if rank == size - 1 else 0]] * size
    gradient = mx.grad(lambda v: (mlxcomm.reduce(v, 0, "max") * 5).sum())(blocks[0])
    assert gradient.tolist() == [5 if rank == size - 1 else 0, 5 if rank == 0 else 0]

    # A message's gradient comes back.
    if rank == 0:
        _, (gradient,) = mx.vjp(lambda v: mlxcomm.send(v * 3, 1, tag=7), [mx.ones(4)],
                                [mx.zeros(4)])
        assert gradient.tolist() == [3 * 2 * 3.0] * 4, gradient
    elif rank == 1:
        loss = lambda like: (mlxcomm.recv_like(like, 0, tag=7) ** 2).sum()  # noqa: E731
        value, gradient = mx.value_and_grad(loss)(mx.zeros(4))
        mx.eval(value, gradient)
        assert value.item() == 36 and gradient.tolist() == [0] * 4
    mlxcomm.barrier()

    for op in ("prod", "and", "or"):
        x = mx.ones(size) if op == "prod" else mx.ones(size, dtype=mx.int32)
        for operation in (lambda v: mlxcomm.all_reduce(v, op), lambda v: mlxcomm.reduce(v, 0, op),
                          lambda v: mlxcomm.reduce_scatter(v, op)):
            try:
                mx.vjp(operation, [x], [operation(x)])
                raise SystemExit(f"a gradient of {op}")
            except ValueError as error:
                assert f'"{op}"' in str(error) and "gradient" in str(error)
            mlxcomm.barrier()


def check_sharded_layers():
    """MLX's tensor parallelism: gradients are those of the whole layers in one process."""
    def gradients(*layers):
        model = nn.Sequential(layers[0], nn.relu, layers[1])
        to_layers = nn.value_and_grad(model, lambda: (model(x) ** 2).sum())()[1]["layers"]
        to_input = mx.grad(lambda v: (model(v) ** 2).sum())(x)
        return to_input, to_layers[0]["weight"], to_layers[2]["weight"]

    mx.random.seed(3)
    first, second, x = nn.Linear(12, 8 * size), nn.Linear(8 * size, 12), mx.random.normal((4, 12))
    shard = nn.layers.distributed.shard_linear
    sharded = gradients(shard(first, "all-to-sharded", group=world),
                        shard(second, "sharded-to-all", group=world))
    to_input, to_first, to_second = gradients(first, second)
    own = slice(8 * rank, 8 * rank + 8)
    for got, expected in zip(sharded, (to_input, to_first[own], to_second[:, own])):
        assert mx.allclose(got, expected, rtol=1e-4, atol=1e-4), (got, expected)


# --- transformations ------------------------------------------------------------------


def check_vmap():
    """A mapped operation is the operation of each slice."""
    x = mx.random.normal((3, size * 2, 2), key=mx.random.key(rank))
    counts = [1] * (size - 1) + [size + 1]
    operations = {
        "all_reduce": mlxcomm.all_reduce,
        "reduce": lambda v: mlxcomm.reduce(v, 0),
        "reduce_scatter": mlxcomm.reduce_scatter,
        "broadcast": lambda v: mlxcomm.broadcast(v, size - 1),
        "all_gather": mlxcomm.all_gather,
        "all_gather_v": lambda v: mlxcomm.all_gather_v(v, [size * 2] * size),
        "gather": lambda v: mlxcomm.gather(v, 0),
        "scatter": lambda v: mlxcomm.scatter(v, 0),
        "all_to_all": mlxcomm.all_to_all,
        "all_to_all_v": lambda v: mlxcomm.all_to_all_v(
            v, counts, [counts[rank]] * size),
    }
    for name, operation in operations.items():
        one_by_one = [operation(x[i]) for i in range(3)]
        mx.eval(*one_by_one)
        for axis in (0, 1, 2):
            mapped = mx.vmap(operation, in_axes=axis)(mx.moveaxis(x, 0, axis))
            assert mx.array_equal(mapped, mx.stack(one_by_one)), (name, axis)
    before = mlxcomm.counters()["operations"]
    mx.eval(mx.vmap(mlxcomm.all_gather)(x[:, 0, 0]))
    assert mlxcomm.counters()["operations"] == before + 1
    per_example = mx.vmap(mx.grad(lambda v: (mlxcomm.reduce_scatter(v) ** 2).sum()))(x)
    alone = [mx.grad(lambda v: (mlxcomm.reduce_scatter(v) ** 2).sum())(x[i]) for i in range(3)]
    assert mx.allclose(per_example, mx.stack(alone))
    if rank == 0:
        mx.eval(mx.vmap(lambda v: mlxcomm.send(v, 1), in_axes=1)(mx.arange(6).reshape(2, 3)))
    elif rank == 1:
        got = mx.vmap(lambda v: mlxcomm.recv_like(v, 0))(mx.zeros((3, 2), dtype=mx.int32))
        assert got.tolist() == [[0, 3], [1, 4], [2, 5]]
    mlxcomm.barrier()


def check_compile():
    def step(x):
        y = mlxcomm.all_to_all(mlxcomm.all_reduce(x * 2) + rank)
        return mlxcomm.all_gather(y).sum() + mlxcomm.broadcast(x, 0).sum()

    compiled = mx.compile(step)
    for offset in range(3):
        x = mx.arange(size * 2, dtype=mx.float32).reshape(size, 2) + offset
        assert mx.allclose(compiled(x), step(x))
    both = mx.compile(mx.value_and_grad(lambda x: (mlxcomm.reduce_scatter(x) ** 2).sum()))
    value, gradient = both(x)
    expected, expected_gradient = mx.value_and_grad(
        lambda x: (mlxcomm.reduce_scatter(x) ** 2).sum())(x)
    assert mx.allclose(value, expected) and mx.allclose(gradient, expected_gradient)
    shapeless = mx.compile(lambda x: mlxcomm.all_gather(mlxcomm.all_reduce(x)) + 1, shapeless=True)
    for length in (2, 5):
        assert shapeless(mx.ones(length)).tolist() == [size + 1] * length * size
    if rank == 0:
        mx.eval(mx.compile(lambda x: mlxcomm.send(x * 2, 1, tag=3))(mx.ones(4)))
    elif rank == 1:
        receive = mx.compile(lambda: mlxcomm.recv((4,), mx.float32, 0, tag=3) + 1)
        assert receive().tolist() == [3] * 4
    # Equal operations stay two: on another rank they may not be equal.
    before = mlxcomm.counters()["operations"]
    mx.eval(mx.compile(lambda x: mlxcomm.all_reduce(x) + mlxcomm.all_reduce(x))(mx.ones(3)))
    assert mlxcomm.counters()["operations"] == before + 2


def check_laziness():
    before = mlxcomm.counters()["operations"]
    result = mlxcomm.all_reduce(mx.ones(3))
    # It is never received, because it is never evaluated.
    mlxcomm.send(mx.ones(3), (rank + 1) % size)
    assert mlxcomm.counters()["operations"] == before
    mx.eval(result)
    assert mlxcomm.counters()["operations"] == before + 1


# --- mistakes -------------------------------------------------------------------------


def check_mistakes():
    """Each is a ValueError at once that names the mistake; nothing is communicated. Mistakes that a group of
    one finds as well are in tests/unit/client/python/test_arguments.py."""
    x = mx.ones((size + 1, 2))
    mistakes = [
        (lambda: mlxcomm.all_reduce(x.astype(mx.int32), "mean"), "op: expected an operator for int32"),
        (lambda: mlxcomm.all_reduce(x.astype(mx.complex64), "or"), "op: expected an operator for complex64"),
        (lambda: mlxcomm.reduce_scatter(x), "x: expected a leading axis"),
        (lambda: mlxcomm.all_to_all(x), "x: expected a leading axis"),
        (lambda: mlxcomm.scatter(x, 0), "x: expected a leading axis"),
        (lambda: mlxcomm.broadcast(x, size), f"root: expected a rank below {size}"),
        (lambda: mlxcomm.send(x, rank), f"destination: expected another rank (not {rank})"),
        (lambda: mlxcomm.recv((2,), mx.float32, rank), f"source: expected another rank (not {rank})"),
        (lambda: mlxcomm.all_to_all_v(x, [(size + 1) * (one == rank) for one in range(size)], [0] * size),
         f"receive_counts[{rank}]: expected {size + 1} as in send_counts"),
        (lambda: mlxcomm.send(x, size), "destination: expected another rank"),
        (lambda: mlxcomm.all_gather_v(x, [1]), "counts"),
        (lambda: mlxcomm.all_gather_v(x, [size] * size), f"counts[{rank}]: expected {size + 1}, the rows"),
        (lambda: mlxcomm.all_gather_v(mx.array(1.0)), "x: expected an array with a leading axis"),
        (lambda: mlxcomm.all_to_all_v(x, [1] * size), f"send_counts: expected {size + 1} in total"),
        (lambda: mlxcomm.all_to_all_v(x, [1]), "send_counts"),
        (lambda: mlxcomm.all_reduce(x, group=mx.distributed.init(backend="ring"), stream="x"), "stream"),
    ]
    before = mlxcomm.counters()["operations"]
    for number, (call, words) in enumerate(mistakes):
        try:
            call()
            raise SystemExit(f"mistake {number} was taken: {words}")
        except (ValueError, TypeError) as error:
            said = str(error)
            assert said.startswith(words) and ": expected " in said and ", got " in said, (number, said)
    # all_to_all_v asks for the counts before it can notice that the sum is wrong.
    assert mlxcomm.counters()["operations"] <= before + 1
    try:
        mx.eval(mx.jvp(lambda v: mlxcomm.send(v, (rank + 1) % size), [x], [x]))
        raise SystemExit("a tangent was sent")
    except ValueError as error:
        assert "jvp" in str(error)
    try:
        mx.load("/no/such/file.npy")
    except RuntimeError as error:  # MLX's other errors stay unchanged.
        assert type(error) is RuntimeError
    assert mlxcomm.all_reduce(mx.ones(2)).tolist() == [size] * 2  # It still works.


CHECKS = {
    "values": [check_reductions, check_movements, check_messages, check_inputs_in_the_arena, check_laziness],
    "gradients": [check_gradients, check_sharded_layers],
    "transforms": [check_vmap, check_compile],
    "mistakes": [check_mistakes],
}
for check in CHECKS[sys.argv[1]]:
    check()
print("copied", mlxcomm.counters()["results_copied"])
print("all agree")
