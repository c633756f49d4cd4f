"""A relay between two daemons cuts up, holds, ends or doubles data a few times: every value is correct. If it
ends a connection without a reason, as a dying daemon does, a rank may be lost."""

import contextlib
import select
import socket

import pytest
from listening_relay import Relay

from conftest import wait_until
from ground.outcomes import all_fine, ranks_on, until_looping

TIMES = 4
ENDS = ("half_closed", "cut")
MIB = 1 << 20


class DisturbingRelay(Relay):

    def __init__(self, port):
        self.how, self.left = None, TIMES
        super().__init__(port)

    def passing(self, towards):
        return lambda data: None

    def relay(self, one, other, passes):
        other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                if self.how and self.left > 0:
                    self.left -= 1
                    data = getattr(self, self.how)(one, other, data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def bytewise(self, one, other, data):
        for at in range(len(data) - 1):
            other.sendall(data[at:at + 1])
        return data[-1:]

    def held(self, one, other, data):
        """Holds data until the connection is given up."""
        ended = select.poll()
        ended.register(one, select.POLLRDHUP)
        ended.poll()
        return data

    def half_closed(self, one, other, data):
        other.shutdown(socket.SHUT_WR)
        return b""

    def cut(self, one, other, data):
        other.sendall(data[:len(data) // 2])
        one.shutdown(socket.SHUT_RDWR)
        other.shutdown(socket.SHUT_RDWR)
        return b""

    def doubled(self, one, other, data):
        return data * 2


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="the relay polls as Linux does")
@pytest.mark.parametrize("security, how", [
    *(("PLAIN", how) for how in ("bytewise", "held", *ENDS)),
    *(("TLS", how) for how in ("bytewise", "held", "doubled"))])
def test_a_job_survives_disturbed_connections(cluster, tmp_path, security, how):
    c = cluster(2, start=False, peer_settings=f"security: {security} grace_period_ms: 600000 "
                "reconnect_delay_max_ms: 200 heartbeat_interval_ms: 100 heartbeat_timeout_ms: 500")
    relay = DisturbingRelay(c.ports[0])
    c.dials = lambda node, dialed: relay.own_port
    c.start()
    stop = tmp_path / "stop"
    ranks = ranks_on(c, (0, 1), f"loop:8:{MIB}:{stop}")
    until_looping(ranks)
    relay.how = how
    wait_until(lambda: relay.left <= 0, "it has disturbed them")
    c.wait_linked()
    stop.touch()
    for rank in ranks:
        assert rank.finish() == 0 or (how in ENDS and "RANK_LOST" in rank.lines[-1]), rank.lines
    all_fine(ranks_on(c, (0, 1), "sum:100000", job="next"))
