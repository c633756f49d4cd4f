"""A daemon restarts as another program while operations of other nodes pass through it: they lose nothing."""

import signal

from conftest import wait_until
from ground.cluster import PATIENT
from ground.outcomes import all_fine, at_work
from ground.wiring import chain, pair

MIB = 1 << 20


def upgrade(cluster, node):
    before = cluster.own_part(node)["start"]
    cluster.daemons[node].signal(signal.SIGUSR2)
    wait_until(lambda: (cluster.own_part(node) or {"start": before})["start"] != before,
               f"node {node} is another program")


def test_operations_that_pass_through_it_go_on(lab):
    """The node in between has no rank of the job, so it does not wait for the job's end."""
    c = lab(chain(3), peer_settings=PATIENT)
    with at_work(c, (0, 2), MIB):
        for _ in range(10):
            upgrade(c, 1)
            c.wait_linked()


def test_an_idle_node_is_upgraded_beside_a_job_of_others(lab):
    c = lab(pair())
    with at_work(c, (0, 0), MIB):
        upgrade(c, 1)
        c.wait_linked()
        all_fine(c.ranks(range(2), "sum:8", f"sum:{MIB}", job="both"))
