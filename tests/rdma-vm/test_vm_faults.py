"""What happens to an RDMA rail of soft-RoCE and to operations on it when ports, devices and daemons go:
TCP carries on, and the rail comes back by itself."""

import pytest

from conftest import SIGKILL, wait_until
from ground.outcomes import all_fine, heard, ranks_on, until_looping
from operations.test_operations import run
from soft_roce import LIMITS, MUCH, QUICK, add_device, chosen, delete_device, set_port


def looping(cluster, stop):
    """Two ranks that sum until the file is there, and check every value."""
    ranks = ranks_on(cluster, range(2), f"loop:8:1000000:{stop}")
    until_looping(ranks)
    return ranks


def carries(cluster):
    """Waits until much of the job has gone over the rail."""
    wait_until(lambda: cluster.rdma_bytes() > MUCH, "the RDMA rail carries operations")


@pytest.mark.parametrize("limits, end", chosen([("APPLE", 0), ("LINUX", 1)], often=0))
def test_a_port_that_goes_down_in_mid_operation_is_not_noticed(soft_roce, tmp_path, limits, end):
    """How: under a job that sums all the time; a connection that takes another way carries on."""
    c = soft_roce(limits, spare=True)
    ranks = looping(c, tmp_path / "stop")
    carries(c)
    set_port(end, "down")
    c.wait_rdma(False)
    set_port(end, "up")
    c.wait_rdma(True)
    carries(c)
    (tmp_path / "stop").touch()
    all_fine(ranks)


def test_a_device_that_is_deleted_in_mid_operation_is_not_noticed(soft_roce, tmp_path):
    """Why: the kernel waits with a deleted device until nobody has it open any more."""
    c = soft_roce("APPLE")
    ranks = looping(c, tmp_path / "stop")
    carries(c)
    delete_device(0)
    c.wait_rdma(False)
    assert "tcp" in c.rails(0)
    add_device(0)
    c.wait_rdma(True)
    carries(c)
    (tmp_path / "stop").touch()
    all_fine(ranks)


@pytest.mark.parametrize("limits", chosen(LIMITS, often=1))
def test_ranks_get_an_error_when_a_daemon_is_killed(soft_roce, tmp_path, limits):
    """And with the daemon that is started in its place there is a rail again."""
    c = soft_roce(limits, peer_settings=QUICK)
    ranks = looping(c, tmp_path / "stop")
    carries(c)
    c.daemons[1].signal(SIGKILL)
    _, what = heard(ranks[0])
    assert what.startswith("RANK_LOST") and "node-1" in what and what.endswith("rank 1"), what
    c.start_daemon(1)
    c.wait_linked()
    c.wait_rdma(True)
    run(c, "messages", 2, 2)
