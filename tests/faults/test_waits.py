"""Operations without a deadline wait as long as an awaited rank may still call, report which rank it is,
and end when none will."""

import signal

import pytest

from conftest import lines_of

PRELUDE = "import sys, time, mlx.core as mx, mlxcomm\nw = mlxcomm.init(timeout=60); r = w.rank()\n"
SUM = "print(mx.distributed.all_sum(mx.array(1), group=w).item(), flush=True)\n"


def ranks_of(c, codes, **variables):
    return [c.python(rank, len(codes), PRELUDE + code, node=rank % c.count, job="waits",
                     environment=variables) for rank, code in enumerate(codes)]


@pytest.fixture(params=[1, 2])
def stalls(cluster, request):
    return cluster(request.param, client_settings="stalled_timeout_ms: 500")


# Why: a node that downloads for ten minutes longer than another is alive.
def test_a_busy_rank_is_waited_for(stalls):
    ranks = ranks_of(stalls, [SUM, "time.sleep(4)\n" + SUM])
    assert lines_of(ranks) == [["2"]] * 2


def test_a_wait_names_its_missing_rank_after_ten_seconds(stalls):
    waiting, _ = ranks_of(stalls, [SUM, "time.sleep(12)\n" + SUM])
    line = waiting.wait_for("mlxcomm: waiting for")
    node = f"node-{1 % stalls.count}"
    assert line.startswith(f"mlxcomm: waiting for rank 1 ({node}, pid "), line
    assert "in all_reduce sum int32[1], operation 0 of group waits, for 10 s now" in line, line
    assert waiting.finish() == 0 and waiting.lines[-1] == "2"


def test_a_wait_for_a_stopped_rank_ends_and_names_it(stalls):
    waiting, other = ranks_of(stalls, [SUM + SUM, SUM + "print('here', flush=True)\ntime.sleep(60)\n"])
    other.wait_for("here")
    other.signal(signal.SIGSTOP)
    try:
        line = waiting.wait_for("DEADLINE_EXCEEDED")
        assert "rank 1 is stopped (SIGSTOP, Ctrl-Z), and all_reduce sum int32[1] waits for" in line, line
    finally:
        other.signal(signal.SIGCONT)


# Why: neither sees a call that differs from its own, and both are alive.
def test_ranks_in_a_circle_of_waits_end(stalls):
    ranks = ranks_of(stalls, ["mx.eval(mx.distributed.send(mx.ones(300000), 1, group=w))\n", SUM],
                     MLXCOMM_SEND_BYTES="0")
    for process in ranks:
        line = process.wait_for("DEADLINE_EXCEEDED")
        assert "as do all ranks that it waits for" in line
        assert process.finish() != 0
