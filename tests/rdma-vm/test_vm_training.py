"""MLX trains over RDMA rails of soft-RoCE: every gradient is compared with what one process computes alone,
and in the end the parameters of all ranks, bit by bit."""

import pathlib

import pytest

from conftest import wait_until
from soft_roce import LIMITS, MUCH, chosen

TRAIN = pathlib.Path(__file__).parents[1] / "lab" / "train.py"


@pytest.mark.parametrize("limits", chosen(LIMITS, often=0))
def test_training_gives_what_one_process_computes(undisturbed_soft_roce, tmp_path, limits):
    c = undisturbed_soft_roce(limits)
    before = c.rdma_bytes()
    ranks = [c.rank(rank, 2, TRAIN, node=rank, arguments=[tmp_path / "stop"]) for rank in range(2)]
    for rank in ranks:
        rank.wait_for("looping")
    wait_until(lambda: c.rdma_bytes() > before + MUCH, "gradients go over the RDMA rail")
    (tmp_path / "stop").touch()
    for rank in ranks:
        assert rank.finish() == 0, rank.lines
        assert "the same bits on all ranks" in rank.lines[-1]
