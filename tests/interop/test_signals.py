"""A program's own signal handlers while its rank waits, for example to save a checkpoint after the step."""

import json
import signal
import sys

import pytest

from conftest import Process, completed, free_port, wait_until

BEGIN = """
import os, signal, sys, time
import mlx.core as mx
import mlxcomm
times = []
def handle(number, frame):
    times.append(number)
    print('handler', number, frame is not None, len(times), flush=True)
{set_handler}
world = mlxcomm.init()
total = mx.distributed.all_sum(mx.array(1.0))
print('waits', flush=True)
"""
LATE = """
import sys, mlx.core as mx, mlxcomm
mlxcomm.init()
print('here', flush=True)
sys.stdin.readline()
mx.eval(mx.distributed.all_sum(mx.array(1.0)))
"""


def rank(c, number, text, **variables):
    return c.python(number, 2, text, environment={"MLXCOMM_INSTALL": "all", **variables}, stdin=-1)


def waits(cluster, text, set_handler="signal.signal(signal.SIG{name}, handle)", name="INT", late=LATE):
    """Starts a rank that waits in an operation, and the one that it waits for."""
    c = cluster(1)
    waiting = rank(c, 0, BEGIN.format(set_handler=set_handler.format(name=name)) + text)
    late = rank(c, 1, late)
    late.wait_for("here")
    waiting.wait_for("waits")
    c.wait_for_an_operation()
    return waiting, late


def expect_sum(waiting, late, more=""):
    """Lets the late rank continue; then both succeed."""
    late.say()
    waiting.wait_for(f"sum 2.0{more}")
    assert [waiting.finish(), late.finish()] == [0, 0]


def state_of(process):
    return completed(["ps", "-o", "stat=", "-p", str(process.child.pid)], check=True).stdout[:1]


# Why: the group was cancelled, and the checkpoint lost; stock MLX continues.
@pytest.mark.parametrize("name", ["INT", "TERM", "USR1", "ALRM"])
def test_a_handler_that_returns_runs_once_while_its_rank_waits_and_the_wait_goes_on(cluster, name):
    waiting, late = waits(cluster, "print('sum', total.item(), times)\n", name=name)
    number = getattr(signal, f"SIG{name}")
    waiting.signal(number)
    waiting.wait_for(f"handler {number:d} True 1")
    expect_sum(waiting, late, f" [{number:d}]")


@pytest.fixture(params=["mlxcomm", "stock"])
def pair(request, cluster, tmp_path):
    """pair(text) is a rank that waits and the one it waits for, with mlxcomm or over stock MLX's ring."""
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{free_port()}"] for _ in range(2)]))
    more = {"MLXCOMM_INSTALL": "", "MLX_HOSTFILE": str(hosts)} if request.param == "stock" else {}

    def make(set_handler, text):
        c = cluster(1)
        begin = BEGIN.format(set_handler=set_handler)
        ranks = [rank(c, number, words.replace("mlxcomm.init()", "mx.distributed.init()"), **more)
                 for number, words in enumerate([begin + text, LATE])]
        ranks[1].wait_for("here")
        ranks[0].wait_for("waits")
        return ranks

    return make


# Stock MLX's handler runs when the wait has ended; the final state of the program is the same.
@pytest.mark.parametrize("name", ["INT", "TERM", "USR1", "ALRM"])
def test_a_handler_that_returns_changes_no_sum_as_with_stock_mlx(pair, name):
    waiting, late = pair(f"signal.signal(signal.SIG{name}, handle)", "print('sum', total.item(), times)\n")
    number = getattr(signal, f"SIG{name}")
    waiting.signal(number)
    expect_sum(waiting, late, f" [{number:d}]")


# Why: a laptop's lid is closed, and opened again.
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_that_was_stopped_goes_on_as_with_stock_mlx(pair, stopped):
    ranks = pair("", "print('sum', total.item())\n")
    ranks[stopped].signal(signal.SIGSTOP)
    wait_until(lambda: state_of(ranks[stopped]) == "T", "it is stopped")
    ranks[1].say()
    ranks[stopped].signal(signal.SIGCONT)
    ranks[0].wait_for("sum 2.0")
    assert [one.finish() for one in ranks] == [0, 0]


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_what_a_handler_raises_ends_the_wait(cluster, name):
    waiting, late = waits(
        cluster,
        "try: print(total.item())\n"
        "except KeyError as error: print('raised', error, error.__context__)\n"
        "try: mlxcomm.check()\n"
        "except mlxcomm.CancelledError as error: print(error.code)\n",
        "def end(*_): raise KeyError('asked')\nsignal.signal(signal.SIG{name}, end)", name)
    waiting.signal(getattr(signal, f"SIG{name}"))
    waiting.wait_for("raised 'asked' None")
    waiting.wait_for("CANCELLED")
    late.say()
    assert waiting.finish() == 0, waiting.lines


# Why: a window that is resized, or a child that ends, cancelled the job on all ranks.
def test_a_handler_of_another_signal_runs_after_the_wait_and_cancels_nothing(cluster):
    waiting, late = waits(cluster, "print('sum', total.item(), times)\n", name="CHLD")
    waiting.signal(signal.SIGCHLD)
    expect_sum(waiting, late, f" [{signal.SIGCHLD:d}]")


# Why: programs use alarms as timeouts of work that does not involve other ranks.
def test_what_a_handler_raises_outside_of_waits_cancels_nothing(cluster):
    text = ("mx.async_eval(total)\ntry: signal.raise_signal(signal.SIGALRM)\n"
            "except TimeoutError: print('in time', flush=True)\n"
            "print('sum', total.item())\n")
    waiting, late = waits(cluster, text,
                          "def end(*_): raise TimeoutError\nsignal.signal(signal.SIGALRM, end)")
    waiting.wait_for("in time")
    expect_sum(waiting, late)


# Why: Python has one flag for several signals of a kind, so the next one was ignored.
def test_a_signal_that_came_twice_while_its_rank_waited_is_handled_again(cluster):
    waiting, late = waits(cluster, "print('sum', total.item(), flush=True)\n"
                                   "before = len(times)\nsignal.raise_signal(signal.SIGUSR1)\n"
                                   "print('more', len(times) - before)\n", name="USR1")
    for count in range(1, 11):
        waiting.signal(signal.SIGUSR1)
        waiting.wait_for(f"handler {signal.SIGUSR1:d} True {count}")
    late.say()
    waiting.wait_for("more 1")
    assert [waiting.finish(), late.finish()] == [0, 0]


def test_a_handler_may_call_an_operation_of_its_own(cluster):
    waiting, late = waits(
        cluster, "print('sum', total.item())\n",
        "def more(*_): print('more', mx.distributed.all_sum(mx.array(2.0)).item(), flush=True)\n"
        "signal.signal(signal.SIGUSR1, more)", late=LATE + "mx.eval(mx.distributed.all_sum(mx.array(2.0)))\n")
    waiting.signal(signal.SIGUSR1)
    late.say()
    for reported in ("more 4.0", "sum 2.0"):
        assert reported in "".join(waiting.lines) or waiting.wait_for(reported)
    assert [waiting.finish(), late.finish()] == [0, 0]


# Why: libraries try to set handlers wherever they are imported.
def test_a_handler_that_another_thread_may_not_set_is_not_set(cluster):
    c = cluster(1)
    done = rank(c, 0, BEGIN.split("world =")[0].format(set_handler="signal.signal(signal.SIGTERM, handle)") +
                "import threading\ndef library():\n"
                "    try: signal.signal(signal.SIGTERM, print)\n    except ValueError: print('refused')\n"
                "thread = threading.Thread(target=library)\nthread.start()\nthread.join()\n"
                "print(signal.getsignal(signal.SIGTERM) is handle)\n")
    assert done.finish() == 0 and done.lines == ["refused", "True"], done.lines


def test_a_handler_may_give_the_signal_back(cluster):
    waiting, _ = waits(
        cluster, "total.item()\n",
        "def once(*_):\n signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        " print('once', signal.getsignal(signal.SIGINT))\n"
        "signal.signal(signal.SIGINT, once)")
    waiting.signal(signal.SIGINT)
    waiting.wait_for("once 0")
    waiting.signal(signal.SIGINT)
    assert waiting.finish() in (130, -signal.SIGINT)


# Why: only the main thread can change Python's setting, after its wait.
def test_what_a_handler_sets_holds_when_the_wait_has_ended(cluster):
    waiting, late = waits(
        cluster, "total.item()\nprint('then', signal.getsignal(signal.SIGUSR1) is handle)\n"
                 "signal.raise_signal(signal.SIGUSR1)\n",
        "def first(*_):\n signal.signal(signal.SIGUSR1, handle)\n print('first')\n"
        "signal.signal(signal.SIGUSR1, first)")
    waiting.signal(signal.SIGUSR1)
    waiting.wait_for("first")
    late.say()
    waiting.wait_for("then True")
    waiting.wait_for(f"handler {signal.SIGUSR1:d} True 1")
    assert waiting.finish() == 0, waiting.lines


def test_handlers_outside_of_waits_are_pythons(solo):
    done = Process([sys.executable, "-c", BEGIN.format(set_handler="signal.signal(signal.SIGUSR1, handle)") +
                    "signal.raise_signal(signal.SIGUSR1)\nsignal.raise_signal(signal.SIGUSR1)\n"
                    "print(times, signal.getsignal(signal.SIGUSR1) is handle)\n"
                    "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
                    "print(signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN)\n"],
                   {"MLXCOMM_SOCKET": solo.socket(0), "MLX_WORLD_SIZE": "1", "MLX_RANK": "0"})
    assert done.finish() == 0, done.lines
    assert done.lines[-2:] == [f"[{signal.SIGUSR1:d}, {signal.SIGUSR1:d}] True", "True"]
