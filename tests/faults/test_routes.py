"""Jobs over nodes that are not all linked to each other: chains and rings of real daemons, where
nodes in between forward frames, and daemons in between that die."""


from conftest import RANK, SIGKILL, wait_until
from ground.outcomes import until_looping

CHAIN = [(1, 0), (2, 1)]
RING = [(1, 0), (2, 1), (3, 2), (3, 0)]


def way(c, node, to):
    """How `node` reaches the other, by its own report: "reached through node-1"."""
    status = c.status(node)
    links = status["nodes"][0]["links"] if status else []
    return next((link["detail"] for link in links if link["peer"] == f"node-{to}"), None)


def ranks_on(c, nodes, *words, job="job"):
    return [c.rank(rank, len(nodes), RANK, node=node, job=job, arguments=words)
            for rank, node in enumerate(nodes)]


def test_jobs_run_over_a_chain(cluster):
    c = cluster(3, links=CHAIN)
    everywhere = ranks_on(c, [0, 1, 2], "check", job="everywhere")
    assert [rank.finish() for rank in everywhere] == [0, 0, 0], [r.lines for r in everywhere]
    # The node in between only forwards frames here.
    ends = ranks_on(c, [0, 2], "check", job="ends")
    assert [rank.finish() for rank in ends] == [0, 0], [rank.lines for rank in ends]


def test_a_node_that_dies_in_between_fails_the_job_around_it(cluster):
    c = cluster(3, links=CHAIN, peer_settings="grace_period_ms: 300")
    ranks = ranks_on(c, [0, 2], "loop")
    until_looping(ranks)
    c.daemons[1].signal(SIGKILL)
    for rank, other in zip(ranks, (2, 0)):
        line = rank.wait_for("raised")
        assert "RANK_LOST" in line and f"node-{other}" in line, line
        assert f"node-{2 - other} lost its link to node node-1: " in line, line
        assert rank.finish() == 3


def test_job_goes_on_when_the_daemon_in_between_comes_back(cluster, tmp_path):
    c = cluster(3, links=CHAIN, peer_settings="grace_period_ms: 60000")
    stop = tmp_path / "stop"
    ranks = ranks_on(c, [0, 2], "check", f"until:{stop}")
    until_looping(ranks)
    c.daemons[1].signal(SIGKILL)
    wait_until(lambda: "waiting for it to come back" in (way(c, 0, 2) or ""), "the way is gone")
    c.daemons[1].end()
    c.start_daemon(1)
    wait_until(lambda: way(c, 0, 2) == "reached through node-1", "it is back")
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]


def test_job_over_a_ring_outlives_a_node_that_it_only_went_through(cluster, tmp_path):
    c = cluster(4, links=RING)
    everywhere = ranks_on(c, [0, 1, 2, 3], "check", job="everywhere")
    assert [rank.finish() for rank in everywhere] == [0] * 4, [r.lines for r in everywhere]
    stop = tmp_path / "stop"
    ranks = ranks_on(c, [0, 2], "check", f"until:{stop}", job="opposite")
    until_looping(ranks)
    first = way(c, 0, 2)
    assert first in ("reached through node-1", "reached through node-3")
    through, other = (1, 3) if first.endswith("1") else (3, 1)
    c.daemons[through].signal(SIGKILL)
    wait_until(lambda: way(c, 0, 2) == f"reached through node-{other}", "they go the other way")
    stop.touch()
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
