"""A way whose MTU has become smaller than that of its ends: large packets vanish, small ones pass."""

import json

from conftest import find_program, wait_until
from lab.cluster import QUICK
from lab.outcomes import heard, stopwatch, until_looping
from lab.wiring import switch

MIB = 1 << 20


def tell(c, node, *words):
    process = c.run(node, [find_program("mlxcommctl"), *words])
    process.finish()
    return "\n".join(process.said())


def test_large_packets_that_vanish_are_a_lost_rank_and_doctor_names_the_mtu(lab):
    """Why: connections can be made and heartbeats pass, so each new one looked like the cable's return.
    How: a switch between the two drops what is larger than 1000 bytes and says so to nobody."""
    c = lab(switch(2), peer_settings=QUICK)
    for node in (0, 1):  # What the system hands over in one piece, no device here would drop.
        c.namespaces.ip(f"node-{node}", "link set dev lan-0 gso_max_segs 1")
        c.restart(node)
    c.wait_linked()
    ranks = c.ranks([0, 1], f"loop:8:{MIB}:never")
    until_looping(ranks)
    since = stopwatch()
    c.namespaces.ip("switch-0", "link set dev port-0 mtu 1000", "link set dev port-1 mtu 1000")
    for rank in ranks:
        when, what = heard(rank)
        assert "RANK_LOST" in what, what
        assert since(when) < 0.5 + 1.5 + 2, (since(when), what)
    for node in (0, 1):
        wait_until(lambda node=node: (c.link(node, 1 - node) or {}).get("large_lost"), "status says so")
        assert "small frames pass, large ones do not" in tell(c, node, "status")
        found = json.loads(tell(c, node, "doctor", "--json"))["findings"]
        codes = {finding["code"]: finding for finding in found}
        assert "MTU" in codes["MC515"]["remedy"] and "MC501" not in codes, found
    c.namespaces.ip("switch-0", "link set dev port-0 mtu 1500", "link set dev port-1 mtu 1500")
    c.wait_linked()
    wait_until(lambda: not any((c.link(node, 1 - node) or {}).get("large_lost") for node in (0, 1)),
               "large frames pass again")
