"""A way whose MTU has become smaller than that of its ends: large packets vanish, small ones pass."""

import json

from conftest import find_program, wait_until
from ground.cluster import QUICK
from ground.outcomes import all_fine, until_looping
from ground.wiring import detour, switch

MIB = 1 << 20


def report(c, node, *words):
    process = c.run(node, [find_program("mlxcommctl"), *words])
    process.finish()
    return "\n".join(process.said())


def in_packets(c):
    """What the system hands over in one piece, no device here would drop."""
    for node in (0, 1):
        for end, _ in c.wiring.cables_of(node):
            c.namespaces.ip(f"node-{node}", f"link set dev {end.interface} gso_max_segs 1")
        c.restart(node)
    c.wait_linked()


def set_mtu(c, mtu):
    """Of the first switch. What is larger it drops, and says so to nobody."""
    c.namespaces.ip("switch-0", f"link set dev port-0 mtu {mtu}", f"link set dev port-1 mtu {mtu}")


def wait_named(c, cables):
    """Until both daemons name the cables on which only small packets pass."""
    for node in (0, 1):
        wait_until(lambda node=node: (c.link(node, 1 - node) or {}).get("large_lost_on", "") == cables,
                   f"node-{node} names {cables!r}")


def rails_without_a_large_frame(c):
    """Returns how many connections ended without passing a large frame."""
    return sum("a rail ended without passing a large frame" in line for line in c.log(0))


def routes_replaced(c):
    return sum("a better route was found" in line for line in c.log(0))


def test_a_job_goes_round_a_cable_that_carries_small_packets_only(lab, tmp_path):
    """Why: each connection over such a cable made its ends neighbours, which need no way through others. So
    the job had one only from a connection's silence to the next connection."""
    c = lab(detour(), peer_settings=QUICK)
    in_packets(c)
    stop = tmp_path / "stop"
    ranks = c.ranks([0, 1], f"loop:8:{MIB}:{stop}")
    until_looping(ranks)
    replaced = routes_replaced(c)
    set_mtu(c, 1000)
    wait_named(c, "lan-0 - lan-0")
    seen = rails_without_a_large_frame(c)
    wait_until(lambda: rails_without_a_large_frame(c) >= seen + 4, "the cable is dialed again and again")
    assert routes_replaced(c) == replaced
    assert "through node-2" in c.link(0, 1)["detail"]
    found = json.loads(report(c, 0, "doctor", "--json"))["findings"]
    assert "lan-0 - lan-0" in next(one for one in found if one["code"] == "MC515")["found"], found
    set_mtu(c, 1500)
    wait_named(c, "")
    wait_until(lambda: len(c.link(0, 1)["rails"]) == 1 and c.rails(0, 1), "the way through node-2 has gone")
    stop.touch()
    all_fine(ranks)


def test_a_job_goes_on_over_the_cable_that_carries_large_packets(lab, tmp_path):
    """Why: each connection over the other one got frames, which waited for its silence, and status told of a
    link that is well."""
    c = lab(switch(2, switches=2), peer_settings=QUICK)
    in_packets(c)
    stop = tmp_path / "stop"
    ranks = c.ranks([0, 1], f"loop:8:{MIB}:{stop}")
    until_looping(ranks)
    set_mtu(c, 1000)
    wait_named(c, "lan-0 - lan-0")
    seen = rails_without_a_large_frame(c)
    wait_until(lambda: rails_without_a_large_frame(c) >= seen + 4, "the cable is dialed again and again")
    assert "small frames pass, large ones do not on lan-0 - lan-0" in report(c, 0, "status")
    set_mtu(c, 1500)
    wait_named(c, "")
    c.wait_rails(0, 1, 2)
    stop.touch()
    all_fine(ranks)
