"""A proxy between two daemons swallows data for a moment. Heartbeats pass again, so no node is lost; every
result is correct, and no operation waits for a long time."""

import time

import pytest
from listening_relay import Relay

from conftest import wait_until
from ground.outcomes import all_fine, ranks_on, until_looping

MIB = 1 << 20
HEADER_BYTES = 80
SIGNS_OF_LIFE = (1, 2)  # Heartbeats and echoes, by the type in a header (proto/wire/frame.h).
SWALLOWS_S = 0.05       # Once, from the first part that passes.
HEALS_S = 8


class Frames:
    """Cuts one direction of a connection into frames, and drops those for which `swallows` returns true."""

    def __init__(self, swallows):
        self.swallows, self.begun = swallows, False
        self.header, self.left, self.passes = bytearray(), 0, True

    def __call__(self, data):
        passed, at = bytearray(), 0
        if not self.begun:
            at = data.find(b"MLCF")
            self.begun = at >= 0
            if not self.begun:
                return  # The hello.
            passed += data[:at]
        while at < len(data):
            if self.left > 0:
                take = min(self.left, len(data) - at)
                passed += data[at:at + take] if self.passes else b""
                self.left -= take
            else:
                take = min(HEADER_BYTES - len(self.header), len(data) - at)
                self.header += data[at:at + take]
                if len(self.header) == HEADER_BYTES:
                    self.left = int.from_bytes(self.header[8:12], "little")
                    self.passes = not self.swallows(self.header[4])
                    passed += self.header if self.passes else b""
                    self.header.clear()
            at += take
        data[:] = passed


class Swallower(Relay):
    """what: "bytes", wherever a part of them ends; whole "frames"; or those that are not signs of life."""

    def __init__(self, port, towards, what):
        self.towards, self.what = towards, what
        self.armed, self.until, self.swallowed = False, 0, 0
        super().__init__(port)

    def swallows(self, kind=0):
        if self.what == "numbered" and kind in SIGNS_OF_LIFE:
            return False
        if self.armed:
            self.armed, self.until = False, time.monotonic() + SWALLOWS_S
        if time.monotonic() >= self.until:
            return False
        self.swallowed += 1
        return True

    def passing(self, towards):
        if towards != self.towards:
            return lambda data: None
        if self.what == "bytes":
            return lambda data: data.clear() if self.swallows() else None
        return Frames(self.swallows)


def changes(c, node):
    status = c.status(node)
    return sum(int(link.get("changed_frames", 0)) for link in status["nodes"][0]["links"]) if status else 0


# Why: only heartbeats still passed, and ranks hung.
@pytest.mark.parametrize("what", ["bytes", "frames", "numbered"])
@pytest.mark.parametrize("towards", [True, False], ids=["towards", "back"])
def test_what_was_swallowed_is_sent_again(cluster, tmp_path, towards, what):
    c = cluster(2, start=False, peer_settings="security: PLAIN")
    relay = Swallower(c.ports[0], towards, what)
    c.dials = lambda node, dialed: relay.own_port
    c.start()
    ranks = ranks_on(c, (0, 1), f"loop:8:{MIB}:{tmp_path}/stop")
    until_looping(ranks)
    relay.armed = True
    wait_until(lambda: relay.swallowed and changes(c, 0 if towards else 1), "the receiver reports it")
    (tmp_path / "stop").touch()
    all_fine(ranks)
    longest = next(line for line in ranks[0].lines if line.startswith("longest"))
    assert float(longest.split()[1]) < HEALS_S
