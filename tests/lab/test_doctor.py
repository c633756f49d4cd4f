"""What topology and doctor report about real cables."""

import json

from conftest import find_program, wait_until
from ground.cluster import PATIENT
from ground.wiring import chain, pair, ring


def tell(c, node, *words):
    process = c.run(node, [find_program("mlxcommctl"), *words])
    process.finish()
    return "\n".join(process.said())


def findings(c, node):
    told = json.loads(tell(c, node, "doctor", "--json"))["findings"]
    return [(finding["code"], finding["object"], finding["found"]) for finding in told]


def test_a_cut_ring_is_told_by_topology_and_doctor(lab):
    c = lab(ring(4), peer_settings=PATIENT)
    assert json.loads(tell(c, 0, "topology", "--json"))["shape"] == "ring"
    c.cut("0-3")

    def is_line():
        return json.loads(tell(c, 1, "topology", "--json"))["shape"] == "line"

    wait_until(is_line, "the cut is seen from a node that has no end of it")
    found = wait_until(lambda: [f for f in findings(c, 1) if f[0] == "MC202"], "doctor says so")
    assert found[0][1] == "node node-0, interface to-3", found
    assert not [f for f in findings(c, 0) if f[0] == "MC508"], "that cable is there"
    # In the other direction.
    assert "5 of 5 came back" in tell(c, 0, "ping", "node-3", "-i", "1ms")
    assert "rail to-3 - to-0 is down" in tell(c, 0, "events", "-n", "100")
    assert "style=dashed" in tell(c, 0, "topology", "--dot")


def test_doctor_finds_ends_of_a_cable_with_different_mtus(lab):
    c = lab(pair())
    assert not [f for f in findings(c, 0) if f[0] == "MC505"]
    c.namespaces.ip("node-1", "link set dev to-0 mtu 1400")
    # A daemon examines its interfaces once a second at most, however often it is asked.
    found = wait_until(lambda: [f[2] for f in findings(c, 0) if f[0] == "MC505"], "doctor says so")
    assert found == ["MTU 1500 and 1400"]


def test_doctor_finds_a_cable_that_leads_back(lab):
    """How: node-0 also dials an address of its own, as over a looped cable."""
    c = lab(pair(), peer_settings='reconnect_delay_max_ms: 200 connect: "10.0.0.1:7470"')
    own = c.wiring.cable("0-1").end_at("node-0").ipv4
    c.settings["peers"] = f'reconnect_delay_max_ms: 200 connect: "{own}:7470"'
    c.restart(0)
    found = wait_until(lambda: [f for f in findings(c, 0) if f[0] == "MC302"], "it is found")
    assert "this node itself" in found[0][2], found


def test_a_node_with_another_key_says_why_it_is_alone(lab):
    c = lab(pair(), discovery=True, keys=[0, 1])
    found = wait_until(lambda: [f for f in findings(c, 0) if f[0] == "MC211"], "doctor says so")
    assert found[0][1] == "node node-0", found
    said = tell(c, 0, "status", "-v")
    assert "looks for neighbours on to-1; has heard" in said and "hears other clusters alone" in said, said
    assert not [f for f in findings(c, 0) if f[0] in ("MC214", "MC309")]


def test_a_cable_cut_in_a_chain_is_told_once(lab):
    """Why: each pair of nodes whose circuit used it would report it."""
    c = lab(chain(4), peer_settings=PATIENT, discovery=True)
    c.cut("1-2")

    def told():
        return [f for f in findings(c, 0) if f[0] == "MC502"]

    found = wait_until(lambda: [f for f in told() if "node-1 to node-2" in f[1]], "the cause is told")
    assert len(found) == 1, found
