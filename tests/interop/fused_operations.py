"""One rank of test_fused.py: many arrays in one operation, compared with one operation each.

Argument: values | memory | transforms | crossings | averages.
"""

import collections
import sys
import types

import mlx.core as mx
import mlx.nn as nn
import mlxcomm
import numpy as np
from mlx.utils import tree_flatten, tree_map

world = mlxcomm.init(arena_bytes=64 << 20 if sys.argv[1] == "memory" else None)
rank, size = world.rank(), world.size()
STOCK = types.SimpleNamespace(average_gradients=nn.average_gradients)  # install() replaces globals.


def operations(function):
    """The evaluated result of `function`, and how many operations of the daemon it took."""
    before = mlxcomm.counters()["operations"]
    result = function()
    mx.eval(result)
    return result, mlxcomm.counters()["operations"] - before


def same(a, b):
    flat_a, flat_b = tree_flatten(a), tree_flatten(b)
    assert [name for name, _ in flat_a] == [name for name, _ in flat_b]
    for (name, x), (_, y) in zip(flat_a, flat_b):
        assert x.shape == y.shape and x.dtype == y.dtype, (name, x, y)
        assert mx.array_equal(x, y).item(), (name, x, y)


def whole(shape, dtype=mx.float32, offset=0):
    """Small whole numbers, so that the order of additions does not matter."""
    count = int(np.prod(shape))
    return (mx.arange(offset, offset + count) % 5 + rank).reshape(shape).astype(dtype)


def some_arrays():
    """Scalars, empty ones, and non-contiguous ones; one is larger than what is copied through
    the cache."""
    return [whole((3, 4)), whole(()), whole((0, 7)), whole((6, 5)).T, whole((100,), offset=1)[::3],
            mx.broadcast_to(whole((1, 4)), (8, 4)), whole((3 << 20,), offset=2)]


def values():
    arrays = some_arrays()
    before = [mx.array(np.array(x)) for x in arrays]
    for op in ("sum", "prod", "min", "max", "mean"):
        each = [mlxcomm.all_reduce(x, op) for x in arrays]
        together, count = operations(lambda op=op: mlxcomm.all_reduce(arrays, op))
        assert count == 1 and isinstance(together, list), (op, count)
        same(together, each)
    same(arrays, before)  # It overwrites what it packed, not its argument.

    dtypes = [mx.float32, mx.bfloat16, mx.int8, mx.bool_, mx.complex64, mx.uint64]
    mixed = tuple(whole((2, n + 1), dtypes[n % len(dtypes)], n) for n in range(20))
    together, count = operations(lambda: mlxcomm.all_reduce(mixed, "max"))
    assert count == len(dtypes) and isinstance(together, tuple), count
    same(together, tuple(mlxcomm.all_reduce(x, "max") for x in mixed))

    # Arguments may lie in the daemon's memory already, and one array may occur twice.
    born_there = mlxcomm.all_reduce(whole((64,)))
    together = mlxcomm.all_reduce([born_there, born_there, whole((2,))])
    mx.eval(together)
    same(together[:2], [born_there * size] * 2)
    assert mlxcomm.all_reduce([]) == [] and mlxcomm.all_reduce(()) == ()
    one, count = operations(lambda: mlxcomm.all_reduce([whole((3,))]))
    assert count == 1 and one[0].shape == (3,)

    pair = collections.namedtuple("pair", "a b")
    assert isinstance(mlxcomm.all_reduce(pair(whole((2,)), whole((3,)))), pair)
    for wrong, kind, words in (([mx.ones(2), mx.array([1])], ValueError, "got mean, which needs a floating"),
                               ([mx.ones(2), 3], TypeError, "x[1]: expected an mx.array, got 3 (int)")):
        try:
            mlxcomm.all_reduce(wrong, "mean")
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(wrong)


def memory():
    """Packed arrays take the daemon's memory once: 40 of 64 MiB."""
    arrays = [whole((5 << 19,), offset=n) for n in range(4)]
    reduced = mlxcomm.all_reduce(arrays)
    mx.eval(reduced)
    same(reduced[3], arrays[3] * 1 + sum_of_others(arrays[3]))
    del reduced
    try:
        # Twice as much, and nothing is released.
        mx.eval([mlxcomm.all_reduce([a, a]) for a in arrays])
    except mlxcomm.ResourceExhaustedError as error:
        assert "arena" in str(error), error
    else:
        raise AssertionError("80 of 64 MiB")


def sum_of_others(own):
    others = [mx.array(own) - rank + other for other in range(size) if other != rank]
    return sum(others[1:], others[0])


def transforms():
    x = [whole((2, 3)), whole((4,)), whole(())]

    def loss(one_by_one):
        def of(arrays):
            reduced = ([mlxcomm.all_reduce(a, "mean") for a in arrays] if one_by_one
                       else mlxcomm.all_reduce(arrays, "mean"))
            return sum((r * (n + 1) * r).sum() for n, r in enumerate(reduced))
        return of

    same(mx.grad(loss(False))(x), mx.grad(loss(True))(x))

    def largest(arrays):  # Its gradient needs the packed input.
        return sum((r * r).sum() for r in mlxcomm.all_reduce(arrays, "max"))

    def largest_each(arrays):
        return sum((mlxcomm.all_reduce(a, "max") ** 2).sum() for a in arrays)

    same(mx.grad(largest)(x), mx.grad(largest_each)(x))
    _, tangents = mx.jvp(lambda a, b: mlxcomm.all_reduce([a, b]), [x[0], x[1]],
                         [mx.ones((2, 3)), mx.ones((4,))])
    same(tangents, [mx.full((2, 3), float(size)), mx.full((4,), float(size))])

    def both(a, b):
        return tuple(mlxcomm.all_reduce([a, b]))

    batch = whole((5, 2, 3)), whole((4, 5))
    same(list(mx.vmap(both, in_axes=(0, 1))(*batch)),
         [mlxcomm.all_reduce(batch[0]), mlxcomm.all_reduce(batch[1].T)])
    same(mx.vmap(both, in_axes=(0, None))(batch[0], x[1])[0], mlxcomm.all_reduce(batch[0]))
    empty = mx.vmap(both)(mx.zeros((0, 3)), mx.zeros((0, 2)))
    assert [y.shape for y in empty] == [(0, 3), (0, 2)], empty

    # Equal ones are two, on all ranks.
    @mx.compile
    def twice(a, b):
        return mlxcomm.all_reduce([a, b]) + mlxcomm.all_reduce([a, b])

    for _ in range(3):
        result, count = operations(lambda: twice(x[0], x[1]))
        assert count == 2, count
        same(result, [mlxcomm.all_reduce(x[0]), mlxcomm.all_reduce(x[1])] * 2)


def crossings():
    """The crossings that a Mac has between its GPU's stream and the CPU's, here between two of
    the CPU."""
    communication = mx.default_stream(mx.cpu)
    with mx.stream(mx.new_stream(mx.cpu)):
        def gradients(*dtypes):
            return [(whole((8, n + 1)) * 2).astype(dtypes[n % len(dtypes)]) for n in range(20)]

        def crossed(average, *dtypes):
            averaged = average(gradients(*dtypes), world, communication_stream=communication)
            count = mlxcomm.crossings([y + 1 for y in averaged])
            mx.eval(averaged)
            return count

        one = [mlxcomm.all_reduce(g, stream=communication) for g in gradients(mx.float32)]
        assert mlxcomm.crossings([y + 1 for y in one]) == 40
        mx.eval(one)
        assert crossed(mlxcomm.average_gradients, mx.float32) == 2
        assert crossed(STOCK.average_gradients, mx.float32) == 2
        # With several dtypes MLX communicates each array separately.
        assert crossed(mlxcomm.average_gradients, mx.float32, mx.bfloat16) == 4
        # Evaluated arrays are there already.
        done = gradients(mx.float32)
        mx.eval(done)
        packed = mlxcomm.all_reduce(done, stream=communication)
        assert mlxcomm.crossings(packed) == 2 and mlxcomm.crossings(done) == 0
        mx.eval(packed)
        assert mlxcomm.crossings(packed) == 0


def averages():
    tree = {"a": [whole((40, 40)), whole((7,), mx.bfloat16)], "b": {"c": whole((), mx.bfloat16)},
            "d": whole((9, 9))}
    expected = tree_map(lambda x: mlxcomm.all_reduce(x, "mean"), tree)
    for bytes_, count_expected in ((32 << 20, 2), (1, 4), (6500, 2), (6400, 3), (0, 4), (-1, 4)):
        result, count = operations(
            lambda b=bytes_: mlxcomm.average_gradients(tree, all_reduce_size=b))
        assert count == count_expected, (bytes_, count)
        same(result, expected)
    same(STOCK.average_gradients(tree, world), expected)
    # As in MLX for different dtypes, and size 0: the tree's types stay.
    odd = {"t": (whole((2,)), whole((3,), mx.bfloat16)), "none": {}, "l": [whole((1,)), {}], "0": whole(())}
    for bytes_ in (0, 32 << 20, float("inf"), 2**70, 0.5):
        ours = mlxcomm.average_gradients(odd, all_reduce_size=bytes_)
        stock = STOCK.average_gradients(odd, world, 0)
        assert isinstance(ours["t"], tuple) and ours["none"] == {} and ours["l"][1] == {}, ours
        same(ours, stock)

    mlxcomm.install()
    from mlx.nn.utils import average_gradients
    assert nn.average_gradients is average_gradients is not STOCK.average_gradients
    result, count = operations(lambda: nn.average_gradients(tree))
    assert count == 2, count
    same(result, expected)
    # The mean of integers is a float, as in MLX.
    result = nn.average_gradients({"n": mx.array([1, 2]) * (rank + 1), "x": mx.ones(2)}, world)
    assert result["n"].dtype == mx.float32, result
    alone = mlxcomm.split(rank)
    same(nn.average_gradients(tree, alone), tree)
    assert nn.average_gradients({}) == {}
    mlxcomm.uninstall()
    assert nn.average_gradients is STOCK.average_gradients
    import mlx.nn.utils
    assert mlx.nn.utils.average_gradients is STOCK.average_gradients


{"values": values, "memory": memory, "transforms": transforms, "crossings": crossings,
 "averages": averages}[sys.argv[1]]()
print("all agree")
