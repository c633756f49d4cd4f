"""Every operation over RDMA rails of the fake verbs (tests/fake_verbs), on real daemons: with
devices like Apple's, like Linux's, with loss, and while queue pairs fail and recover."""

import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from conftest import cpu_seconds, find_test_program, wait_until
from operations.test_operations import SENDS, SUMS, run
from operations.test_operations import start as start_ranks

DEVICE = "device rdma_en1 127.0.0.1\n"


class FakeVerbs:
    """Controls the devices' behaviour, and collects the violations that they report."""

    def __init__(self, folder, library):
        self.folder = folder
        self.library = library
        self.want("")

    def want(self, lines):
        """Sets the lines of the default device."""
        self.write(DEVICE + lines)

    def write(self, lines):
        (self.folder / "next").write_text(lines, encoding="ascii")
        os.replace(self.folder / "next", self.folder / "control")

    def queue_pairs(self):
        return sum(1 for entry in self.folder.iterdir() if entry.name.startswith("qp."))

    def faults(self):
        file = self.folder / "faults"
        return file.read_text(encoding="utf-8") if file.exists() else ""


@pytest.fixture
def fake_verbs(tmp_path_factory, monkeypatch):
    """A test that uses this checks the faults itself."""
    library = pathlib.Path(find_test_program("fake_verbs", "libfake_verbs.so"))
    if not library.exists():
        pytest.skip("built without infiniband/verbs.h")
    folder = tmp_path_factory.mktemp("verbs")
    monkeypatch.setenv("FAKE_VERBS_DIR", str(folder))
    return FakeVerbs(folder, library)


@pytest.fixture
def verbs(fake_verbs):
    yield fake_verbs
    assert fake_verbs.faults() == ""


def rdma_rails(cluster, node):
    links = cluster.status(node)["nodes"][0]["links"]
    return [rail for link in links for rail in link["rails"] if rail["transport"] == "rdma"]


def wait_for_rails(cluster, nodes):
    def all_up():
        rails = [rail for node in range(nodes) for rail in rdma_rails(cluster, node)]
        return len(rails) == nodes * (nodes - 1) and all(rail["state"] == "up" for rail in rails)

    wait_until(all_up, "all RDMA rails are up")


def start(cluster, verbs, nodes, limits):
    c = cluster(nodes, top_settings=f'rdma {{ enabled: true library: "{verbs.library}" limits: {limits} }}')
    wait_for_rails(c, nodes)
    return c


@pytest.mark.parametrize("limits, wanted", [("APPLE", ""), ("LINUX", "unreliable_only 0\n"),
                                            ("APPLE", "loss 0.005\n")])
def test_every_operation_agrees_with_an_oracle(cluster, verbs, limits, wanted):
    verbs.want(wanted)
    c = start(cluster, verbs, 2, limits)
    run(c, "every", 2, 4)
    assert int(rdma_rails(c, 0)[0]["sent_bytes"]) > 1 << 20


def test_three_daemons_share_a_device(cluster, verbs):
    c = start(cluster, verbs, 3, "APPLE")
    run(c, "messages", 3, 3)


@pytest.mark.slow
def test_ten_jobs_at_once_share_one_queue_pair(cluster, verbs):
    """Why: a device has ten queue pairs; with one for each job they would run out."""
    c = start(cluster, verbs, 2, "APPLE")
    ranks = [rank for job in range(10) for rank in start_ranks(c, "every", 2, 2, job=f"job-{job}")]
    wait_until(lambda: len(c.status(0)["jobs"]) == 10, "all jobs are there at once")
    assert verbs.queue_pairs() == 2
    for rank in ranks:
        assert rank.finish() == 0, rank.lines
        assert rank.lines[-1] == "fine"
    assert verbs.queue_pairs() == 2
    assert int(rdma_rails(c, 0)[0]["sent_bytes"]) > 10 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the CPU time of another process")
def test_an_idle_rail_uses_no_cpu_and_lives(cluster, verbs):
    """How: three seconds without an operation are measured. Each thread of the fake wakes about 50 times a
    second."""
    c = start(cluster, verbs, 2, "APPLE")
    run(c, "messages", 2, 2)
    received = [int(rdma_rails(c, node)[0]["received_bytes"]) for node in range(2)]
    drivers = [c.status(node)["nodes"][0]["transports"][0]["devices"][0]["driver_pid"] for node in range(2)]
    pids = [daemon.child.pid for daemon in c.daemons] + drivers
    before = [cpu_seconds(pid) for pid in pids]
    began = time.monotonic()
    threading.Event().wait(3)
    took = time.monotonic() - began
    used = [cpu_seconds(pid) - was for pid, was in zip(pids, before)]
    assert max(used) < 0.05 * took, f"{used} s of CPU in {took} s"
    for node in range(2):
        rail = rdma_rails(c, node)[0]
        assert rail["state"] == "up"
        assert int(rail["received_bytes"]) > received[node], "signs of life go over it"


def test_queue_pairs_that_fail_under_operations_are_not_noticed(cluster, verbs):
    """How: all queue pairs of the device fail repeatedly while every operation runs."""
    c = start(cluster, verbs, 2, "APPLE")
    done = threading.Event()

    def break_and_fix():
        while not done.wait(0.7):
            verbs.want("break rdma_en1\n")
            done.wait(0.05)
            verbs.want("")

    breaker = threading.Thread(target=break_and_fix)
    breaker.start()
    try:
        run(c, "every", 2, 4)
    finally:
        done.set()
        breaker.join()
    verbs.want("")
    wait_for_rails(c, 2)


def figure(cluster, name):
    return int(rdma_rails(cluster, 0)[0].get(name, 0))


@pytest.mark.parametrize("limits, wanted, task", [
    ("APPLE", "", SUMS),
    pytest.param("APPLE", "", SENDS, marks=pytest.mark.slow),
    pytest.param("LINUX", "unreliable_only 0\n", SUMS, marks=pytest.mark.slow),
    ("LINUX", "unreliable_only 0\n", SENDS)])
def test_large_payload_goes_from_the_arena_without_a_copy(cluster, verbs, limits, wanted, task):
    """How: counts 4 MiB, after the first data, for which regions are registered."""
    verbs.want(wanted)
    c = start(cluster, verbs, 2, limits)
    processes = start_ranks(c, task, 2, 2)
    processes[0].wait_for("looping")
    wait_until(lambda: figure(c, "direct_bytes") > 0, "some is sent without a copy")
    direct, copied = figure(c, "direct_bytes"), figure(c, "copied_bytes")
    enough = direct + (4 << 20)
    wait_until(lambda: figure(c, "direct_bytes") > enough, "4 MiB are sent without a copy")
    copied, direct = figure(c, "copied_bytes") - copied, figure(c, "direct_bytes") - direct
    regions, most = figure(c, "arena_regions"), figure(c, "arena_regions_max")
    print(f"{limits}, {task}: {direct} bytes sent without a copy, {copied} copied; "
          f"{regions} of {most} regions")
    assert 0 < regions <= most
    # Headers, and the ends of frames: less than a message of each.
    assert copied < direct / 10, (copied, direct)


def test_a_rank_killed_in_the_middle_of_large_sends_leaves_nothing(cluster, verbs):
    """Why: its arena disappears while queue pairs send from it."""
    c = start(cluster, verbs, 2, "APPLE")
    for _ in range(3):
        processes = start_ranks(c, SUMS, 2, 2)
        processes[0].wait_for("looping")
        wait_until(lambda: figure(c, "arena_regions") > 0, "its arena has a region")
        processes[0].signal(signal.SIGKILL)
        assert processes[1].finish() != 0
        wait_until(lambda: figure(c, "arena_regions") == 0, "the region is given back")
    run(c, f"sum:{16 << 20}", 2, 2)
    wait_for_rails(c, 2)
