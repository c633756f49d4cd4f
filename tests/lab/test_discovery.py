"""Daemons without configured addresses find each other, and strangers on the cable have no effect."""

import sys

import pytest

from conftest import wait_until
from ground import heller
from ground.cluster import ALERT, PORT
from ground.outcomes import all_fine, at_work, stopwatch
from ground.wiring import chain, mesh, pair, ring, switch

HELLER = heller.__file__
MEANT_SECONDS = 3
PATIENCE_SECONDS = 30  # For a machine that serves others, too.


@pytest.fixture
def found(lab):
    """A lab whose daemons find each other."""
    def make(wiring, **settings):
        return lab(wiring, discovery=True, **settings)
    return make


def discovery(c, node):
    """The node's report about its hellos. Numbers are text there, as JSON has it for 64 bits."""
    return c.own_part(node)["discovery"]


def count(c, node, what):
    return int(discovery(c, node).get(what, 0))


def ring_names(c, node):
    """The ring order, if the node sees all others."""
    status = c.status(node)
    names = {one["id"]: one["name"] for one in status["nodes"]}
    return [names[one] for one in status["ring"]]


SHAPES = [(pair(), "pair"), (pair(cables=2), "pair"), (ring(3), "ring"), (ring(4), "ring"),
          (ring(8), "ring"), (chain(4), "line"), (mesh(4), "mesh"), (switch(4), "switch"),
          (switch(8), "switch")]


@pytest.mark.parametrize("wiring, shape", SHAPES, ids=[s[0].description for s in SHAPES])
def test_nodes_find_each_other_and_agree_on_their_shape(found, wiring, shape):
    c = found(wiring)
    seen = [c.status(node) for node in range(wiring.nodes)]
    assert {status["shape"] for status in seen} == {shape}
    assert len({tuple(status["ring"]) for status in seen}) == 1
    around = [int(name.split("-")[1]) for name in ring_names(c, 0)]
    pairs = list(zip(around, around[1:] + ([] if shape == "line" else around[:1])))
    assert all(b in wiring.neighbours(a) for a, b in pairs), around
    for node in range(wiring.nodes):
        for other in wiring.neighbours(node):
            assert {rail["origin"] for rail in c.rails(node, other)} == {"discovered"}
    all_fine(c.ranks(range(wiring.nodes), "sum:8", "sum:1000000"))


@pytest.mark.parametrize("wiring", [pair(), ring(4), ring(8), switch(8)],
                         ids=lambda wiring: wiring.description)
def test_all_reduce_soon_after_the_last_daemons_start(found, wiring, record_property):
    """How: ranks wait, then the last daemon and rank start. It should take less than 3 s, and is tried up to
    three times; a busy machine does not fail the test."""
    c = found(wiring)
    last = wiring.nodes - 1
    took = []
    while len(took) < 3 and not (took and took[-1] < MEANT_SECONDS):
        c.kill(last)
        # Ranks that wait while a node is lost are refused, because it may have been theirs.
        for node in range(last):
            wait_until(lambda: f"node-{last}" not in ring_names(c, node), "it is missed")
        job = f"job-{len(took)}"
        ranks = [c.rank(rank, wiring.nodes, rank, "sum:8", job=job) for rank in range(last)]
        since = stopwatch()
        daemon = c.start_daemon(last)
        daemon.wait_for("is ready")
        ranks.append(c.rank(last, wiring.nodes, last, "sum:8", job=job))
        all_fine(ranks)
        took.append(since())
    record_property("seconds", min(took))
    assert min(took) < PATIENCE_SECONDS


def test_ring_order_is_kept_when_a_node_restarts(found):
    c = found(ring(4))
    before = ring_names(c, 0)
    assert before == ["node-0", "node-1", "node-2", "node-3"]
    c.kill(2)
    wait_until(lambda: len(ring_names(c, 0)) == 3, "it is missed")
    assert c.status(0)["shape"] == "line"
    c.start_daemon(2)
    c.wait_linked()
    assert [ring_names(c, node) for node in range(4)] == [before] * 4


def test_a_node_that_was_away_is_found_when_its_cable_is_back(found):
    """Its interface was down, so all its sockets there are gone."""
    c = found(pair(), peer_settings=f"{ALERT} grace_period_ms: 300")
    c.cut("0-1")
    wait_until(lambda: not c.rails(0, 1) and c.link(0, 1)["state"] == "lost", "it is lost")
    c.restore("0-1")
    c.wait_linked()
    all_fine(c.ranks(range(2), "sum:8"))


def test_listed_and_found_is_one_rail(lab):
    c = lab(pair(cables=2), family=6, top_settings="discovery { enabled: true }")
    wait_until(lambda: len(discovery(c, 0).get("neighbours", [])) == 2, "both cables are found")
    wait_until(lambda: len(discovery(c, 1).get("neighbours", [])) == 2, "from both sides")
    c.wait_rails(0, 1, 2)
    assert len(c.link(0, 1)["rails"]) == 2


def test_discovery_is_off_where_addresses_are_listed(lab):
    c = lab(pair())
    assert "discovery" not in c.own_part(0)


def test_only_allowed_interfaces_are_used(lab):
    c = lab(pair(cables=2), discovery=True,
            top_settings='discovery { enabled: true interfaces: "to-?a" }')
    c.wait_rails(0, 1, 1)
    used = {one["name"]: one.get("used", False) for one in discovery(c, 0)["interfaces"]}
    assert used == {"lo": False, "to-1a": True, "to-1b": False}
    why = next(one["detail"] for one in discovery(c, 0)["interfaces"] if one["name"] == "to-1b")
    assert "not among" in why


def test_a_foreign_cluster_on_the_same_switch_is_ignored(found):
    c = found(switch(4), keys=[0, 0, 1, 1])
    for node in range(4):
        wait_until(lambda: count(c, node, "foreign") > 5, "the others are heard")
        names = {one["name"] for one in c.status(node)["nodes"]}
        assert names == ({"node-0", "node-1"} if node < 2 else {"node-2", "node-3"})
        assert [one["name"] for one in discovery(c, node)["neighbours"]] == [
            f"node-{other}" for other in c.friends(node)]
        assert "strangers_refused" not in c.own_part(node) or \
            int(c.own_part(node)["strangers_refused"]) == 0
    both = [c.rank(rank, 2, node, "sum:8") for rank, node in enumerate((0, 1))]
    others = [c.rank(rank, 2, node, "sum:8") for rank, node in enumerate((2, 3))]
    all_fine(both)
    all_fine(others)


@pytest.mark.parametrize("what, counted", [
    ("garbage", "unread"), ("foreign", "foreign"), ("forged", "over_limit"), ("replay", "replayed"),
    ("mixed", "replayed")])
def test_a_flood_of_hellos_costs_little_and_disturbs_no_job(found, what, counted):
    """Why: any host on a switch can send.
    How: node-3 sends as fast as it can, until the end. A new node, which sends six hellos in 1.5 s,
    is found by its first ones; it would need hundreds if no share of the reads were reserved for it."""
    c = found(switch(4))
    before = int(c.own_part(0)["memory_bytes"])
    c.kill(2)
    c.kill(3)
    heller = c.run(3, [sys.executable, HELLER, "lan-0", PORT, what, 0])
    heller.wait_for("begins")
    with at_work(c, range(2), 100_000):
        wait_until(lambda: count(c, 0, counted) > 10000, "the flood is counted")
        c.start_daemon(2)
        wait_until(lambda: c.rails(0, 2) and c.rails(1, 2), "the new node is found")
        assert count(c, 2, "hellos_sent") < 30
    assert int(c.own_part(0)["memory_bytes"]) < before + 16 * 2**20
    heller.end()
