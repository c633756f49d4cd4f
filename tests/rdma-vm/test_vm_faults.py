"""Ports and devices of a soft-RoCE rail go away, and daemons are killed: TCP carries on, and the rail comes
back."""

import pytest

from conftest import SIGKILL, wait_until
from ground.outcomes import at_work, heard, ranks_on, until_looping
from operations.test_operations import run
from soft_roce import LIMITS, MUCH, QUICK, add_device, chosen, delete_device, set_port


def carries(cluster):
    """Waits until a large part of the job has used the rail."""
    wait_until(lambda: cluster.rdma_bytes() > MUCH, "the RDMA rail carries operations")


@pytest.mark.parametrize("limits, end", chosen([("APPLE", 0), ("LINUX", 1)], often=0))
def test_a_port_that_goes_down_in_mid_operation_is_not_noticed(soft_roce, limits, end):
    """How: the daemons also have a connection over loopback, which continues."""
    c = soft_roce(limits, spare=True)
    with at_work(c, range(2), 1_000_000):
        carries(c)
        set_port(end, "down")
        c.wait_rdma(False)
        set_port(end, "up")
        c.wait_rdma(True)
        carries(c)


def test_a_device_that_is_deleted_in_mid_operation_is_not_noticed(soft_roce):
    """Why: the kernel keeps a deleted device until no process has it open."""
    c = soft_roce("APPLE")
    with at_work(c, range(2), 1_000_000):
        carries(c)
        delete_device(0)
        c.wait_rdma(False)
        assert "tcp" in c.rails(0)
        add_device(0)
        c.wait_rdma(True)
        carries(c)


@pytest.mark.parametrize("limits", chosen(LIMITS, often=1))
def test_ranks_get_an_error_when_a_daemon_is_killed(soft_roce, limits):
    """A daemon that is started in its place gets a rail again."""
    c = soft_roce(limits, peer_settings=QUICK)
    ranks = ranks_on(c, range(2), "loop:8:1000000:never")
    until_looping(ranks)
    carries(c)
    c.daemons[1].signal(SIGKILL)
    _, what = heard(ranks[0])
    assert what.startswith("RANK_LOST") and "node-1" in what and what.endswith("rank 1"), what
    c.start_daemon(1)
    c.wait_linked()
    c.wait_rdma(True)
    run(c, "messages", 2, 2)
