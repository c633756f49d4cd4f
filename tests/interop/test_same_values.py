"""The same stock program gives the same values with MLX's own ring and through daemons."""

import json
import pathlib
import sys

import mlx.nn as nn
import pytest

from conftest import Process, free_port, lines_of

FOLDER = pathlib.Path(__file__).parent
# Sums of normal numbers in a different order: relative to the largest of an array.
TOLERANCE = 1e-5


def results_of(processes):
    return [json.loads(lines[-1]) for lines in lines_of(processes)]


def ring(tmp_path, ranks):
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{free_port()}"] for _ in range(ranks)]))
    processes = [Process([sys.executable, "-u", str(FOLDER / "same_values.py"), "ring"],
                         {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)})
                 for rank in range(ranks)]
    try:
        return results_of(processes)
    finally:
        for process in processes:
            process.end()


def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 4)])
def test_stock_program_gives_the_values_of_mlx_ring(cluster, tmp_path, nodes, ranks):
    expected = ring(tmp_path, ranks)
    c = cluster(nodes)
    got = results_of([c.rank(r, ranks, FOLDER / "same_values.py", node=r % nodes,
                             arguments=["mlxcomm"]) for r in range(ranks)])
    for rank in range(ranks):
        assert got[rank].keys() == expected[rank].keys() and len(got[rank]) > 60
        for name, values in expected[rank].items():
            if not name.endswith("~"):
                assert got[rank][name] == values, (rank, name)
                continue
            pairs = list(zip(flat(got[rank][name]), flat(values), strict=True))
            largest = max(abs(value) for _, value in pairs)
            worst = max(abs(a - b) for a, b in pairs)
            assert worst <= TOLERANCE * max(1, largest), (rank, name, worst)


@pytest.mark.skipif(not hasattr(nn.layers.distributed, "fully_shard"), reason="this MLX has no fully_shard")
@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 4)])
def test_fully_sharded_training_is_that_of_one_process(cluster, nodes, ranks):
    c = cluster(nodes)
    processes = [c.rank(r, ranks, FOLDER / "fully_sharded.py", node=r % nodes)
                 for r in range(ranks)]
    for lines in lines_of(processes):
        assert lines[-1].startswith("the same")
