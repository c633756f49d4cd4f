"""A relay between two daemons flips bits that TCP does not notice: every result is right, no rank is lost,
and status names the cable. Processes that write into their buffers during an operation look the same."""

import random

import pytest
from listening_relay import Relay

from conftest import RANK, wait_until
from ground.outcomes import ranks_on
from operations.test_rdma import fake_verbs, start, verbs  # noqa: F401

HELLO_BYTES = 4096  # More than the daemons exchange before the first frame.


class FlippingRelay(Relay):
    """Flips one bit in each `every` bytes of one direction, `towards` the daemon that listens or from it."""

    def __init__(self, port, towards, every):
        self.towards, self.every, self.flipped = towards, every, 0
        self.random = random.Random(port)
        super().__init__(port)

    def passing(self, towards):
        passed, flip_at = 0, self.random.randrange(HELLO_BYTES, self.every)

        def flips(data):
            nonlocal passed, flip_at
            if passed <= flip_at < passed + len(data):
                data[flip_at - passed] ^= 1 << self.random.randrange(8)
                self.flipped += 1
                flip_at += self.random.randrange(1, 2 * self.every)
            passed += len(data)

        return flips if towards == self.towards else lambda data: None


SUMS = [f"sum:float32:{count}" for count in (1_000_000, 10_000, 300_000, 2_000_000)] * 4


def links_with_changes(c, node):
    status = c.status(node)
    links = status["nodes"][0]["links"] if status else []
    return [link for link in links if int(link.get("changed_frames", 0)) > 0]


@pytest.mark.parametrize("security, towards", [("PLAIN", True), ("PLAIN", False), ("TLS", True)],
                         ids=["towards", "back", "encrypted"])
def test_flipped_bits_change_no_result_and_lose_no_rank(cluster, security, towards):
    c = cluster(2, start=False, peer_settings=f"security: {security}")
    relay = FlippingRelay(c.ports[0], towards, every=6_000_000 if security == "PLAIN" else 20_000_000)
    c.dials = lambda node, dialed: relay.own_port
    c.start()
    ranks = [c.rank(rank, 2, RANK, node=rank, arguments=SUMS) for rank in (0, 1)]
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
    assert relay.flipped > 0
    if security == "TLS":  # TLS only detects a broken record.
        return

    finder = 0 if towards else 1
    [link] = wait_until(lambda: links_with_changes(c, finder), "status tells of it")
    assert link["changed_on"] == "127.0.0.1 - 127.0.0.1"
    assert "bytes were changed or lost on the way" in c.ctl("status", node=finder)
    assert c.findings()["MC514"]["remedy"].startswith("replace the cable")


# Why: a queue pair's checksum ends at the device, and memory may flip bits as well.
@pytest.mark.parametrize("limits, kind", [("APPLE", ""), ("LINUX", "unreliable_only 0\n")],
                         ids=["apple", "linux"])
def test_bits_that_an_rdma_device_flips_change_no_result(cluster, verbs, limits, kind):  # noqa: F811
    verbs.want(kind)
    c = start(cluster, verbs, 2, limits)
    verbs.want(f"{kind}flips 0.005\n")

    def is_found_in_a_job():
        ranks = [c.rank(rank, 2, RANK, node=rank, arguments=SUMS) for rank in (0, 1)]
        assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
        return any(links_with_changes(c, node) for node in (0, 1))

    wait_until(is_found_in_a_job, "a message was changed, and status tells of it")


# Why: a process may write to its data at any time. A checksum that never matches may only corrupt the
# process's own values; it must not take down the link or other jobs.
def test_a_process_that_writes_into_its_buffers_spoils_only_its_own_operations(cluster):
    c = cluster(2, peer_settings="security: PLAIN")
    jobs = [*ranks_on(c, (0, 1), "scribble:16777216:8", job="scribbles"),
            *ranks_on(c, (0, 1), *["sum:4000000", "sum:800"] * 20, job="sums")]
    assert [rank.finish() for rank in jobs] == [0] * 4, [rank.lines for rank in jobs]
    found = [link for node in (0, 1) for link in links_with_changes(c, node)]
    assert found, "no sum was wrong: nobody wrote at the right time"
