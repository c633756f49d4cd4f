"""Every public call as programs make it, for type checkers alone (test_types.py): it never runs.

Lines that end in "type: ignore" are wrong, and the checkers complain about each that they accept.
"""

from typing import NamedTuple, Optional

import mlx.core as mx
import mlxcomm
from typing_extensions import assert_type

Group = mx.distributed.Group


class Losses(NamedTuple):
    train: mx.array
    test: mx.array


def joins() -> None:
    assert_type(mlxcomm.init(), Group)
    world = mlxcomm.init("job", 0, 2, socket="/run/socket", timeout=30, arena_bytes=1 << 30)
    assert_type(mlxcomm.rank(), int)
    assert_type(mlxcomm.size(world), int)
    assert_type(mlxcomm.name(world), str)
    assert_type(mlxcomm.is_ours(world), bool)
    assert_type(mlxcomm.counters()["operations"], int)
    assert_type(mlxcomm.mpi_library(), str)
    assert_type(mlxcomm.__version__, str)
    mlxcomm.install()
    mlxcomm.install("ring")
    mlxcomm.install(take=["ring", "jaccl"])
    mlxcomm.uninstall()
    mlxcomm.init(rank="0")  # type: ignore
    mlxcomm.init(timeout="3")  # type: ignore
    mlxcomm.install(take=["rings"])  # type: ignore
    mlxcomm.is_ours(None)  # type: ignore
    mlxcomm.rank("train")  # type: ignore


def divides(world: Group, color: Optional[int]) -> None:
    assert_type(mlxcomm.split(0, key=3, name="rows", group=world, timeout=3), Group)
    assert_type(mlxcomm.split(color), Optional[Group])
    assert_type(mlxcomm.shrink(world, timeout=2.5), Group)
    mlxcomm.set_timeout(None, 60)
    mlxcomm.set_timeout(world, None)
    mlxcomm.barrier(world, timeout=1)
    mlxcomm.check(world)
    mlxcomm.split("red")  # type: ignore
    mlxcomm.split(color).rank()  # type: ignore
    mlxcomm.set_timeout(world, "60")  # type: ignore
    mlxcomm.barrier(group="train")  # type: ignore


def computes(x: mx.array, world: Group) -> None:
    assert_type(mlxcomm.all_reduce(x), mx.array)
    assert_type(mlxcomm.all_reduce(x) + 1, mx.array)
    mlxcomm.all_reduce(x, "mean", group=world, stream=mx.cpu, timeout=30).item()
    assert_type(mlxcomm.all_reduce([x, x], op="max"), list[mx.array])
    assert_type(mlxcomm.all_reduce((x, x)), tuple[mx.array, mx.array])
    assert_type(mlxcomm.all_reduce(Losses(x, x), "mean"), Losses)
    assert_type(mlxcomm.reduce(x, 0, "prod"), mx.array)
    assert_type(mlxcomm.reduce_scatter(x, "min", stream=mx.default_stream(mx.cpu)), mx.array)
    assert_type(mlxcomm.broadcast(x, root=1), mx.array)
    assert_type(mlxcomm.all_gather(x), mx.array)
    assert_type(mlxcomm.all_gather_v(x, [1, 2]), mx.array)
    assert_type(mlxcomm.gather(x, 0), mx.array)
    assert_type(mlxcomm.scatter(x, 0), mx.array)
    assert_type(mlxcomm.all_to_all(x), mx.array)
    assert_type(mlxcomm.all_to_all_v(x, (1, 2), range(2)), mx.array)
    assert_type(mlxcomm.send(x, 1, tag=3), mx.array)
    assert_type(mlxcomm.recv((2, 3), mx.float32, 0, after=x), mx.array)
    assert_type(mlxcomm.recv_like(x, 0), mx.array)
    mlxcomm.all_reduce(1.0)  # type: ignore
    mlxcomm.all_reduce("abc")  # type: ignore
    mlxcomm.all_reduce([[x]])  # type: ignore
    mlxcomm.all_reduce(x, op="summ")  # type: ignore
    mlxcomm.all_reduce(x, op=5)  # type: ignore
    mlxcomm.all_reduce(x, group="train")  # type: ignore
    mlxcomm.all_reduce(x, timeout="3")  # type: ignore
    mlxcomm.reduce(x)  # type: ignore
    mlxcomm.broadcast(x, root="0")  # type: ignore
    mlxcomm.all_gather_v(x, 5)  # type: ignore
    mlxcomm.recv((2, 3), "float32", 0)  # type: ignore


def trains(x: mx.array) -> None:
    assert_type(mlxcomm.average_gradients({"weight": x}), dict[str, mx.array])
    assert_type(mlxcomm.average_gradients([x], all_reduce_size=0), list[mx.array])
    assert_type(mlxcomm.crossings(x, [x]), int)
    mlxcomm.average_gradients(x, group="train")  # type: ignore


def checks(x: mx.array) -> None:
    with mlxcomm.call_name("layer0"):
        mlxcomm.check_equal({"weight": x})
    mlxcomm.call_name(5)  # type: ignore
    for turn in mlxcomm.join([1.0, 2.0], like=[x]):
        assert_type(turn, mlxcomm.Turn[float])
        assert_type(turn.batch, Optional[float])
        assert_type(turn.average([x]), list[mx.array])
    mlxcomm.join(5)  # type: ignore


def fails(world: Group) -> None:
    try:
        mlxcomm.barrier(world)
    except mlxcomm.RankLostError as error:
        assert_type(error.rank, Optional[int])
        assert_type(error.node, Optional[str])
        assert_type(error.pid, Optional[int])
        assert_type(error.group, Optional[str])
        assert_type(error.code, str)
        print(error.ranks)  # type: ignore
    except (mlxcomm.InvalidArgumentError, mlxcomm.MismatchError, mlxcomm.DeadlineExceededError,
            mlxcomm.DaemonLostError, mlxcomm.DaemonStoppingError, mlxcomm.ResourceExhaustedError,
            mlxcomm.CancelledError, mlxcomm.AlreadyExistsError, mlxcomm.UnavailableError,
            mlxcomm.PermissionDeniedError) as error:
        caught: mlxcomm.Error = error
        assert_type(caught.rank, Optional[int])
