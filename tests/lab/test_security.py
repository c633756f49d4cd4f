"""On a switch: what others on it can see of a job, and that packets that they send do not disturb
it."""

import pathlib
import struct
import sys

import pytest

from conftest import wait_until
from ground.outcomes import all_fine
from ground.wiring import switch

LISTENER = pathlib.Path(__file__).with_name("listener.py")
RANK = pathlib.Path(__file__).parents[1] / "ground" / "rank.py"
HEARD = 2_000_000
# A rank's input to the sum, and its result: many equal numbers one after the other.
PAYLOAD = [struct.pack("<f", value) * 16 for value in (1, 2, 3)]


@pytest.mark.parametrize("security, hidden", [("AUTO", True), ("TLS", True), ("PLAIN", False)])
def test_nobody_on_the_switch_reads_payload(lab, tmp_path, security, hidden):
    """How: a packet socket at the switch's port of node-1, while both nodes sum. AUTO as well,
    because to a daemon a switch and an Ethernet cable look alike."""
    c = lab(switch(2), peer_settings=f"reconnect_delay_max_ms: 200 security: {security}")
    rails = [rail for node in (0, 1) for rail in c.rails(node, 1 - node)]
    assert {rail["security"] for rail in rails} == {"tls" if hidden else "plain"}
    port = c.wiring.cable("1-s0").end_at("switch-0").interface
    listener = c.namespaces.start("switch-0", [sys.executable, str(LISTENER), port,
                                               str(tmp_path / "heard"), str(HEARD)])
    listener.wait_for("listening")
    ranks = [c.python_rank(RANK, rank, 2, rank, arguments=["sum:float32:1000000"]) for rank in (0, 1)]
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
    listener.wait_for("heard enough")
    listener.end()
    heard = (tmp_path / "heard").read_bytes()
    assert any(values in heard for values in PAYLOAD) is not hidden


def test_one_end_alone_can_ask_for_it_on_one_interface(lab):
    c = lab(switch(2), peer_settings="reconnect_delay_max_ms: 200 security: PLAIN")
    assert {rail["security"] for rail in c.rails(0, 1)} == {"plain"}
    interface = c.rails(1, 0)[0]["local_interface"]
    c.settings["peers"] += f' interface_security {{ interface: "{interface}" security: TLS }}'
    c.restart(1)
    c.wait_linked()
    wait_until(lambda: {rail["security"] for rail in c.rails(0, 1)} == {"tls"}, "it is encrypted")
    all_fine(c.ranks([0, 1], "sum:100000"))
