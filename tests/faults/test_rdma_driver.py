"""Each call of an RDMA driver ends its process, hangs or lies while operations run. The process is not the
daemon: jobs continue over TCP with every byte correct, and the rail comes back."""
# ruff: noqa: F811 (a fixture's name is its argument's)

import contextlib
import os
import signal

import pytest

from conftest import lines_of, wait_until
from operations.test_operations import SUMS, run
from operations.test_operations import start as start_ranks
from operations.test_rdma import (
    fake_verbs,  # noqa: F401
    figure,
    start,
    wait_for_rails,
)

SET_UP = ["get_device_list", "free_device_list", "get_device_name", "open_device", "query_device",
          "query_port", "query_gid", "alloc_pd", "create_comp_channel", "create_cq", "create_qp",
          "query_qp", "modify_qp"]
AT_WORK = ["reg_mr", "post_recv", "post_send", "poll_cq", "req_notify_cq", "get_cq_event",
           "ack_cq_events"]
AT_THE_END = ["destroy_qp", "dereg_mr", "destroy_cq", "destroy_comp_channel"]
CALLS = SET_UP + AT_WORK + AT_THE_END
LIES = ["query_device", "query_port", "query_gid", "query_qp", "modify_qp", "reg_mr", "post_recv",
        "post_send", "poll_cq", "req_notify_cq", "get_cq_event", "destroy_qp", "dereg_mr"]
NOT_SLOW = {"post_recv", "post_send", "poll_cq", "create_qp", "dereg_mr"}


def calls(names):
    return [pytest.param(name, marks=[] if name in NOT_SLOW else pytest.mark.slow) for name in names]


def devices(cluster, node):
    return cluster.status(node)["nodes"][0]["transports"][0]["devices"]


def driver_pids(cluster):
    return [device["driver_pid"] for node in range(2) for device in devices(cluster, node)
            if device.get("driver_pid")]


def has_lines(verbs, name, line):
    file = verbs.folder / name
    return file.exists() and line in file.read_text(encoding="ascii").split()


def end_drivers(cluster):
    """Forces the calls that set up and take down. A reported pid may be gone already."""
    for pid in driver_pids(cluster):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def break_pairs_until(verbs, lines, happened, what):
    """Queue pairs that fail are destroyed and made again by the same process."""
    verbs.want(lines + "break rdma_en1\n")
    wait_until(happened, what)


@pytest.mark.parametrize("call", calls(CALLS))
def test_a_driver_that_crashes_ends_nothing_but_its_process(cluster, fake_verbs, call):
    verbs, name = fake_verbs, f"ibv_{call}"
    c = start(cluster, verbs, 2, "APPLE")
    ranks = start_ranks(c, "every", 2, 2)
    verbs.want(f"crash {name}\n")
    crashed = lambda: has_lines(verbs, "crashed", name)  # noqa: E731
    if call in SET_UP:
        end_drivers(c)
    if call in AT_THE_END:
        break_pairs_until(verbs, f"crash {name}\n", crashed, f"{name} is called")
    wait_until(crashed, f"{name} has ended its process")
    verbs.want("")
    # The daemon has noticed; before the ranks' end, which must not be measured.
    wait_until(lambda: any(int(device.get("drivers_ended", 0)) > 0
                           for node in range(2) for device in devices(c, node)), "its end is told")
    wait_for_rails(c, 2)
    assert [lines[-1] for lines in lines_of(ranks)] == ["fine"] * len(ranks)
    wait_for_rails(c, 2)
    reported = [device for node in range(2) for device in devices(c, node)]
    assert any(int(device.get("drivers_ended", 0)) > 0 for device in reported), reported
    assert any("ended by signal" in device.get("last_end", "") for device in reported), reported
    assert all(daemon.child.poll() is None for daemon in c.daemons)
    run(c, "messages", 2, 2)


@pytest.mark.parametrize("call", calls(LIES))
def test_a_driver_that_lies_makes_no_byte_wrong(cluster, fake_verbs, call):
    """How: it lies in the middle of operations, whose bytes are compared with an oracle."""
    verbs = fake_verbs
    c = start(cluster, verbs, 2, "APPLE")
    ranks = start_ranks(c, "every", 2, 2)
    verbs.want(f"lie ibv_{call}\n")
    if call in SET_UP + AT_THE_END + ["reg_mr"]:
        end_drivers(c)
    assert [lines[-1] for lines in lines_of(ranks)] == ["fine"] * len(ranks)
    run(c, "messages", 2, 2)
    verbs.want("")
    end_drivers(c)  # Its wrong data may take effect as long as it runs.
    wait_for_rails(c, 2)


@pytest.mark.parametrize("limits, wanted", [("APPLE", ""), ("LINUX", "unreliable_only 0\n")])
def test_a_killed_driver_in_the_middle_of_large_sends_loses_nothing(cluster, fake_verbs, limits,
                                                                    wanted):
    verbs = fake_verbs
    verbs.want(wanted)
    c = start(cluster, verbs, 2, limits)
    ranks = start_ranks(c, SUMS, 2, 2)
    ranks[0].wait_for("looping")
    wait_until(lambda: figure(c, "direct_bytes") > 0, "some is sent without a copy")
    for _ in range(2):
        end_drivers(c)
        wait_for_rails(c, 2)
        before = figure(c, "direct_bytes")
        wait_until(lambda was=before: figure(c, "direct_bytes") > was, "it is sent from anew")
    assert all(rank.child.poll() is None for rank in ranks), [rank.lines for rank in ranks]


def test_a_driver_that_hangs_is_ended_and_started_again(cluster, fake_verbs):
    verbs = fake_verbs
    c = start(cluster, verbs, 2, "APPLE")
    before = set(driver_pids(c))
    ranks = start_ranks(c, "every", 2, 2)
    verbs.want("hang ibv_post_send\n")
    lines_of(ranks)
    wait_until(lambda: not before & set(driver_pids(c)), "both were ended")
    verbs.want("")
    wait_for_rails(c, 2)
    assert "did not return within" in "".join(
        device.get("last_end", "") for node in range(2) for device in devices(c, node))


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("wanted", ["", "hang ibv_poll_cq\n"])
def test_a_driver_process_ends_with_its_daemon(cluster, fake_verbs, wanted):
    c = start(cluster, fake_verbs, 2, "APPLE")
    pids = driver_pids(c)
    assert len(pids) == 2
    fake_verbs.want(wanted)
    if wanted:
        wait_until(lambda: has_lines(fake_verbs, "hung", "ibv_poll_cq"), "it hangs")
    c.daemons[0].signal(signal.SIGKILL)
    c.daemons[1].signal(signal.SIGTERM)
    wait_until(lambda: not any(map(is_there, pids)), "no process that calls a driver is left")
