"""On a switch, where others could read what passes: payload is encrypted, even if only one end requests it.
faults/test_trust.py checks that nothing of it can be read then."""

from conftest import wait_until
from ground.outcomes import all_fine
from ground.wiring import switch


def kinds(c):
    return {rail["security"] for node in (0, 1) for rail in c.rails(node, 1 - node)}


def test_rails_between_machines_are_encrypted_by_default(lab):
    """Why: to a daemon a switch and an Ethernet cable look alike."""
    assert kinds(lab(switch(2), peer_settings="reconnect_delay_max_ms: 200 security: AUTO")) == {"tls"}


def test_either_end_can_require_encryption_on_one_interface(lab):
    c = lab(switch(2), peer_settings="reconnect_delay_max_ms: 200 security: PLAIN")
    assert kinds(c) == {"plain"}
    interface = c.rails(1, 0)[0]["local_interface"]
    c.settings["peers"] += f' interface_security {{ interface: "{interface}" security: TLS }}'
    c.restart(1)
    c.wait_linked()
    wait_until(lambda: kinds(c) == {"tls"}, "it is encrypted")
    all_fine(c.ranks([0, 1], "sum:100000"))
