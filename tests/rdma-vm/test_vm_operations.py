"""Every operation over RDMA rails of soft-RoCE, every byte checked: unreliable queue pairs within
Apple's limits, and reliable ones. And many jobs on one queue pair."""

import pytest

from operations.test_operations import run, start
from soft_roce import LIMITS, MUCH, chosen, queue_pairs

TYPES = {"APPLE": "UC", "LINUX": "RC"}
JOBS = ["messages", "groups", "cancel", "unequal", "messages"] * 2


def assert_carried(cluster, before, ended):
    """Expects that the RDMA rail carried most of the data. Returns False if a call of the driver took longer
    than ten seconds, as may happen under emulation: then TCP carried the rest."""
    if cluster.drivers_ended() != ended:
        return False
    assert cluster.rdma_bytes() > before + MUCH
    return True


@pytest.mark.parametrize("limits", LIMITS)
def test_every_operation_agrees_with_an_oracle(undisturbed_soft_roce, limits):
    c = undisturbed_soft_roce(limits)
    before, ended = c.rdma_bytes(), c.drivers_ended()
    run(c, "every", 2, 2)
    assert_carried(c, before, ended)


@pytest.mark.parametrize("limits", chosen(LIMITS, often=0))
def test_ten_jobs_share_one_queue_pair(undisturbed_soft_roce, limits):
    """Why: Apple's devices have ten queue pairs for all processes. How: the kernel counts them."""
    c = undisturbed_soft_roce(limits)
    c.wait_rdma(True)
    pairs, before, ended = c.pairs(), c.rdma_bytes(), c.drivers_ended()
    ranks = [rank for job, task in enumerate(JOBS) for rank in start(c, task, 2, 2, job=f"job-{job}")]
    devices = sorted((device, state) for device, _, kind, state in queue_pairs() if kind == TYPES[limits])
    assert devices == [("rxe0", "RTS"), ("rxe1", "RTS")]
    for rank in ranks:
        assert rank.finish() == 0, rank.lines
        assert rank.lines[-1] == "fine"
    if assert_carried(c, before, ended):
        assert c.pairs() == pairs
