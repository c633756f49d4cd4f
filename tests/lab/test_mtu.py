"""A switch gets a smaller MTU than its hosts: large packets vanish, small ones pass."""

import json

from conftest import wait_until
from ground.cluster import QUICK
from ground.outcomes import at_work
from ground.wiring import detour, switch
from lab.doctor import report

MIB = 1 << 20


def in_packets(c):
    """Makes the system send packets, because no device here would drop a whole segment."""
    for node in (0, 1):
        for end, _ in c.wiring.cables_of(node):
            c.namespaces.ip(f"node-{node}", f"link set dev {end.interface} gso_max_segs 1")
        c.restart(node)
    c.wait_linked()


def set_mtu(c, mtu):
    """Sets the MTU of the first switch, which drops larger packets silently."""
    c.namespaces.ip("switch-0", f"link set dev port-0 mtu {mtu}", f"link set dev port-1 mtu {mtu}")


def wait_named(c, cables):
    for node in (0, 1):
        wait_until(lambda node=node: (c.link(node, 1 - node) or {}).get("large_lost_on", "") == cables,
                   f"node-{node} names {cables!r}")


def rails_without_a_large_frame(c):
    """Returns how many connections ended without passing a large frame."""
    return sum("a rail ended without passing a large frame" in line for line in c.log(0))


def routes_replaced(c):
    return sum("a better route was found" in line for line in c.log(0))


def test_a_job_goes_round_a_cable_that_carries_small_packets_only(lab):
    """Why: each connection over such a cable made its ends neighbours, which need no route through others. So
    the job had a route only from one connection's silence to the next connection."""
    c = lab(detour(), peer_settings=QUICK)
    in_packets(c)
    with at_work(c, [0, 1], MIB):
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
        wait_until(lambda: len(c.link(0, 1)["rails"]) == 1 and c.rails(0, 1), "the route is gone")


def test_a_job_goes_on_over_the_cable_that_carries_large_packets(lab):
    """Why: frames went to each new connection over the bad cable and waited there, and status called
    the link healthy."""
    c = lab(switch(2, switches=2), peer_settings=QUICK)
    in_packets(c)
    with at_work(c, [0, 1], MIB):
        set_mtu(c, 1000)
        wait_named(c, "lan-0 - lan-0")
        seen = rails_without_a_large_frame(c)
        wait_until(lambda: rails_without_a_large_frame(c) >= seen + 4, "the cable is dialed again and again")
        assert "small frames pass, large ones do not on lan-0 - lan-0" in report(c, 0, "status")
        set_mtu(c, 1500)
        wait_named(c, "")
        c.wait_rails(0, 1, 2)
