"""MLX's distributed API with the name of each backend, over 1, 2, 4 and 8 ranks: values are right, and every
operation goes through the daemon."""

import json
import os
import pathlib
import sys
from collections import Counter

import mlxcomm
import pytest

from conftest import completed
from interop.counted import lines_of

FOLDER = pathlib.Path(__file__).parent
NAMES = ["any", "ring", "jaccl", "mpi", "nccl"]
OF_THE_SHIM = ["any", "mpi"]
RANKS = [1, 2, 4, 8]


def run(c, ranks, name, *words, **variables):
    command = c.launched(ranks, sys.executable, FOLDER / "named_operations.py", name, *words)
    done = completed(command, env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    reported = [json.loads(lines_of(done.stdout, rank)[-1]) for rank in range(ranks)]
    assert all(one["agree"] == reported[0]["agree"] and one["agree"] > 500 for one in reported)
    assert all(one["sockets"] == [] for one in reported), "a rank has a socket of its own"
    return reported


# The daemon's names for MLX's operations. A split is two all_gathers of the parent group.
KINDS = {"all_sum": ["all_reduce"], "all_max": ["all_reduce"], "all_min": ["all_reduce"],
         "complex all_max": ["all_reduce"], "complex all_min": ["all_reduce"], "all_gather": ["all_gather"],
         "sum_scatter": ["reduce_scatter"], "split": ["all_gather", "all_gather"],
         "send": ["message"], "recv": [], "recv_like": []}
KINDS_OF_THE_SHIM = {**KINDS, "complex all_max": ["all_gather"], "complex all_min": ["all_gather"]}


def by_kind(reported, kinds):
    """Returns the daemon's expected counts: each operation of a group and each message once."""
    counts = Counter()

    def add(called, is_message):
        for name, many in called.items():
            for kind in kinds[name]:
                counts[kind] += many * ((kind == "message") == is_message)

    for one in reported:
        add(one["world"], True)
        received = one["world"].get("recv", 0) + one["world"].get("recv_like", 0)
        assert one["world"].get("send", 0) == received and one["half"] == reported[0]["half"]
    add(reported[0]["world"], False)
    for _ in range(min(2, len(reported))):
        add(reported[0]["half"], False)
    return +counts


def marks(name, ranks):
    """Each name has two ranks, and some name has each number of ranks; the others are slow."""
    return [] if ranks <= 2 or (name, ranks) in (("ring", 4), ("any", 8)) else pytest.mark.slow


@pytest.mark.parametrize("name, ranks", [pytest.param(name, ranks, marks=marks(name, ranks))
                                         for ranks in RANKS for name in NAMES])
def test_every_operation_of_mlx_goes_through_the_daemon(counted, name, ranks):
    c = counted(1)
    reported = run(c, ranks, name)
    assert c.all_done_on_one_node() == by_kind(reported, KINDS)


# Why: MLX's own MPI backend over our library also takes over unchanged programs. Its waiting ranks poll.
@pytest.mark.xdist_group("ranks that look")
@pytest.mark.parametrize("name, ranks", [
    pytest.param(name, ranks, marks=pytest.mark.slow if ranks > 2 else [])
    for ranks in RANKS[1:] for name in OF_THE_SHIM])
def test_every_operation_goes_through_the_daemon_by_the_shim(counted, name, ranks):
    c = counted(1)
    reported = run(c, ranks, name, "without sum_scatter", MLXCOMM_INSTALL="")
    assert c.all_done_on_one_node() == by_kind(reported, KINDS_OF_THE_SHIM)


WAYS_ALONE = {
    "stock": {},
    "hooked": {"MLXCOMM_INSTALL": "all", "MLXCOMM_SOCKET": "/nowhere/at/all.sock"},
    "by the shim": {"MLX_MPI_LIBNAME": mlxcomm.mpi_library(), "MLXCOMM_SOCKET": "/nowhere/at/all.sock"},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_group_of_one_is_as_in_stock_mlx(name):
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("MLX", "JACCL"))}
    reported = {}
    for way, variables in WAYS_ALONE.items():
        done = completed([sys.executable, FOLDER / "alone.py", name], env={**cleared, **variables})
        assert done.returncode == 0, done.stderr
        reported[way] = done.stdout.splitlines()
    assert reported["hooked"] == reported["stock"] and reported["by the shim"] == reported["stock"]
    assert len(reported["stock"]) == 19 and reported["stock"][0] == "0 1 1"
