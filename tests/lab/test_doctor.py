"""What doctor reports about real cables, in addition to the rows of test_fault_table.py."""

import json

from conftest import wait_until
from ground.cluster import PATIENT
from ground.wiring import chain, pair
from lab.doctor import report


def findings(c, node):
    reported = json.loads(report(c, node, "doctor", "--json"))["findings"]
    return [(finding["code"], finding["object"], finding["found"]) for finding in reported]


def test_doctor_finds_a_cable_that_leads_back(lab):
    """How: node-0 also dials an address of its own, as if over a looped cable."""
    c = lab(pair(), peer_settings='reconnect_delay_max_ms: 200 connect: "10.0.0.1:7470"')
    own = c.wiring.cable("0-1").end_at("node-0").ipv4
    c.settings["peers"] = f'reconnect_delay_max_ms: 200 connect: "{own}:7470"'
    c.restart(0)
    found = wait_until(lambda: [f for f in findings(c, 0) if f[0] == "MC302"], "it is found")
    assert "this node itself" in found[0][2], found


def test_a_cable_cut_in_a_chain_is_reported_once(lab):
    """Why: each pair of nodes whose circuit used it would report it."""
    c = lab(chain(4), peer_settings=PATIENT, discovery=True)
    c.cut("1-2")

    def reported():
        return [f for f in findings(c, 0) if f[0] == "MC502"]

    found = wait_until(lambda: [f for f in reported() if "node-1 to node-2" in f[1]], "the cause is told")
    assert len(found) == 1, found
