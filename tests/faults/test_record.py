"""The flight recorder of real daemons: its record of operations and failures, and the trace made from it."""

import json
import os
import pty
import subprocess

import pytest

from conftest import PATIENCE, RANK, SIGKILL, find_program, wait_until

LAYOUTS = pytest.mark.parametrize("nodes", [1, 2])


def run_job(cluster, nodes, calls, job="job"):
    ranks = [cluster.rank(r, 2, RANK, node=r * (nodes - 1), job=job, arguments=calls)
             for r in (0, 1)]
    assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]


@LAYOUTS
def test_each_operation_is_recorded_with_its_moments_in_order(cluster, nodes):
    c = cluster(nodes)
    run_job(c, nodes, ["sum:float32:2", "sum:float32:2", "sum:float32:300000", "gather:8"])
    record = json.loads(c.ctl("record", "--json", "-n", "0"))
    assert record["node"] == "node-0"
    calls = [o["operation"] for o in record["operations"]]
    assert calls[-4:] == ["all_reduce sum float32[2]"] * 2 + [
        "all_reduce sum float32[300000]", "all_gather float32[8]"], calls
    for operation in record["operations"]:
        assert operation["state"] == "done" and operation["job"] == "job", operation
        called = [int(rank["at_ns"]) for rank in operation["called"]]
        moments = [max(called), int(operation["matched_ns"])]
        if nodes == 2:
            moments += [int(operation["first_byte_ns"]), int(operation["last_byte_ns"])]
            assert [heard["node"] for heard in operation["heard"]] == ["node-1"]
        moments += [int(operation["ended_ns"]), int(record["taken_ns"])]
        assert moments == sorted(moments), operation
        assert len(called) == (2 if nodes == 1 else 1)
        assert operation["last"] in ("rank 0", "rank 1", "node node-1")
    large = record["operations"][-2]
    assert int(large["bytes"]) == 1_200_000
    if nodes == 2:
        carried = [(int(rail["sent_bytes"]), int(rail["received_bytes"]))
                   for rail in large["rails"]]
        assert carried == [(int(large["sent_bytes"]), int(large["received_bytes"]))]
        assert carried[0][0] >= 1_200_000 / 2


def test_a_job_or_a_group_is_selected_and_the_newest_is_last(solo):
    run_job(solo, 1, ["sum:float32:1"], job="first")
    run_job(solo, 1, ["sum:float32:2", "sum:float32:3"], job="second")
    assert "float32[1]" in solo.ctl("record", "--job", "first")
    second = solo.ctl("record", "--group", "second", "-n", "2")
    assert "float32[1]" not in second
    assert second.index("float32[2]") < second.index("float32[3]")
    assert solo.ctl("record", "--job", "third") == "node node-0: no operation is recorded\n"


# Why: small data is sent before any other node has called; that must not look like a moving operation whose
# last rank has called.
@pytest.mark.parametrize("count", [2, 100_000])
def test_a_waiting_operation_is_shown_with_the_missing_rank(duo, count):
    survivor = duo.rank(0, 2, RANK, node=0, arguments=[f"sum:float32:{count}"])
    missing = duo.rank(1, 2, RANK, node=1, arguments=["wait"])
    missing.wait_for("waiting")

    def shown():
        text = duo.ctl("record", "-n", "1")
        return text if f"float32[{count}] " in text and "matched" in text else None

    text = wait_until(shown, "the operation is recorded")
    assert "called here by rank 0; heard from no other node" in text, text
    missing.signal(SIGKILL)
    survivor.wait_for("raised")
    operation, = json.loads(duo.ctl("record", "--json"))["operations"]
    assert (operation["failure"], operation["last"]) == ("RANK_LOST", ""), operation


@LAYOUTS
def test_a_trace_has_a_track_for_each_rank_rail_and_worker(cluster, nodes):
    c = cluster(nodes)
    run_job(c, nodes, ["sum:float32:300000"] * 3)
    trace = json.loads(c.ctl("trace"))
    assert trace["displayTimeUnit"] == "ns"
    events = trace["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes == ["node node-0 (mlxcommd)"]
    assert "rank 0 of job" in names.values() and "worker 0" in names.values(), names
    rails = [name for name in names.values() if " tcp " in name]
    if nodes == 1:
        assert "rank 1 of job" in names.values() and not rails
    else:
        assert [name.rsplit(", ")[1] for name in rails] == ["sent", "received"], rails
        assert all(name.startswith("to node-1 tcp 127.0.0.1:") for name in rails), rails
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} == {"X", "M"}
    for event in slices:
        assert event["ts"] >= 0 and event["dur"] >= 0 and event["pid"] == 1
        assert event["tid"] in names


def test_a_trace_on_a_terminal_is_refused_with_what_to_do(solo):
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run([find_program("mlxcommctl"), "trace", "--socket", solo.socket(0)],
                              stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert "mlxcommctl trace > trace.json" in done.stderr and "perfetto" in done.stderr
