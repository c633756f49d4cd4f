"""A daemon through which others' operations pass becomes another program: they pause, and lose nothing."""

import signal

from conftest import wait_until
from ground.cluster import PATIENT
from ground.outcomes import all_fine, until_looping
from ground.wiring import chain, pair

MIB = 1 << 20


def upgrade(cluster, node):
    before = cluster.own_part(node)["start"]
    cluster.daemons[node].signal(signal.SIGUSR2)
    wait_until(lambda: (cluster.own_part(node) or {"start": before})["start"] != before,
               f"node {node} is another program")


def test_operations_that_pass_through_it_go_on(lab, tmp_path):
    """The job has no rank on the node in between, which therefore does not wait for its end."""
    c = lab(chain(3), peer_settings=PATIENT)
    stop = tmp_path / "stop"
    ranks = [c.rank(rank, 2, node, f"loop:8:{MIB}:{stop}") for rank, node in enumerate((0, 2))]
    until_looping(ranks)
    for _ in range(10):
        upgrade(c, 1)
        c.wait_linked()
    stop.touch()
    all_fine(ranks)


def test_an_idle_node_is_upgraded_beside_a_job_of_others(lab, tmp_path):
    c = lab(pair())
    stop = tmp_path / "stop"
    ranks = [c.rank(rank, 2, 0, f"loop:8:{MIB}:{stop}") for rank in range(2)]
    until_looping(ranks)
    upgrade(c, 1)
    c.wait_linked()
    all_fine(c.ranks(range(2), "sum:8", f"sum:{MIB}", job="both"))
    stop.touch()
    all_fine(ranks)
