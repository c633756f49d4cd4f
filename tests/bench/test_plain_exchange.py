"""The limit of two daemons by itself: it sums every size, and reports what failed."""

import json
import os
import socket
import subprocess

import pytest

from conftest import PATIENCE, find_test_program, free_port


@pytest.fixture
def start(tmp_path):
    """Starts a rank that exchanges these sizes; it is ended with the test."""
    program = find_test_program("bench", "peers/plain_exchange_all_reduce")
    if not os.path.exists(program):
        pytest.skip("the benchmark's programs were not built")
    started = []

    def rank(number, address, sizes=(1024,), ranks=2):
        started.append(subprocess.Popen(
            [program, tmp_path, "0.001", *map(str, sizes)], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "MLX_RANK": str(number), "MLX_WORLD_SIZE": str(ranks),
                 "EXCHANGE_ADDRESS": address}))
        return started[-1]

    yield rank
    for process in started:
        process.kill()
        process.communicate()


def failure(process):
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 1
    return said


@pytest.mark.parametrize("first", [0, 1])
def test_sums_whatever_the_size_and_whoever_is_first(start, tmp_path, first):
    """Why: halves, pieces and lookahead may end anywhere. How: sizes that no vector divides,
    none for one of the ranks, several pieces; the ranks check every element."""
    address = f"127.0.0.1:{free_port()}"
    sizes = [4, 8, 12, 65540, 262144, 3 * 2**20 + 4]
    ranks = [start(number, address, sizes) for number in (first, 1 - first)]
    assert [(rank.communicate(timeout=PATIENCE)[1], rank.returncode) for rank in ranks] == [("", 0)] * 2
    for number in (0, 1):
        found = json.loads((tmp_path / f"rank-{number}.json").read_text())
        assert (found["rank"], found["ranks"]) == (number, 2)
        assert [size["bytes"] for size in found["sizes"]] == sizes


@pytest.mark.parametrize("rank, ranks", [(0, 1), (0, 3), (2, 2)])
def test_exchanges_between_two_ranks_only(start, rank, ranks):
    assert f"not rank {rank} of {ranks}" in failure(start(rank, "127.0.0.1:1", ranks=ranks))


@pytest.mark.parametrize("address", ["here", "127.0.0.1", "host:name"])
def test_an_address_that_is_none_is_named(start, address):
    assert f"not ADDRESS:PORT: {address}" in failure(start(0, address))


def test_an_address_that_is_taken_is_named(start):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert f"cannot listen at {address}: Address already in use" in failure(start(0, address))


def test_a_rank_that_goes_away_ends_the_other(start):
    """How: a process that is no rank accepts the connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        rank = start(1, f"127.0.0.1:{other.getsockname()[1]}")
        other.accept()[0].close()
        said = failure(rank)
    assert "the other rank" in said and ("closed" in said or "reset" in said)
