"""mlxcomm's functions with real daemons: values, gradients, transformations, mistakes, groups and errors."""

import pathlib
import signal
import sys

import pytest

from conftest import Process, lines_of

FOLDER = pathlib.Path(__file__).parent


def run(c, ranks, text, nodes=1, **kwargs):
    """Runs the text as ranks; each must succeed. Returns their lines."""
    return lines_of([python(c, rank, ranks, text, node=rank % nodes, **kwargs) for rank in range(ranks)])


def python(c, rank, ranks, text, node=0, **kwargs):
    prelude = ("import mlx.core as mx, mlxcomm\n"
               "world = mlxcomm.init(); rank, size = world.rank(), world.size()\n")
    return c.python(rank, ranks, prelude + text, node=node, **kwargs)


@pytest.mark.parametrize("what", ["values", "gradients", "transforms", "mistakes"])
@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 3)])
def test_functions_agree_with_numpy(cluster, nodes, ranks, what):
    c = cluster(nodes)
    processes = [c.rank(r, ranks, FOLDER / "functions.py", node=r % nodes, arguments=[what])
                 for r in range(ranks)]
    assert [lines[-1] for lines in lines_of(processes)] == ["all agree"] * ranks


def test_examples_of_docstrings_do_what_they_show(solo):
    ranks = [solo.rank(rank, 2, FOLDER / "documented_examples.py", job="train") for rank in range(2)]
    assert lines_of(ranks) == [["done"]] * 2


# Why: people try programs for many ranks with one.
def test_a_single_rank_needs_no_daemon():
    process = Process([sys.executable, "-c", (
        "import mlx.core as mx, mlxcomm\n"
        "x = mx.arange(4.0)\n"
        "for y in (mlxcomm.all_reduce(x, 'mean'), mlxcomm.reduce(x, 0, 'max'),\n"
        "          mlxcomm.reduce_scatter(x), mlxcomm.broadcast(x, 0), mlxcomm.all_gather(x),\n"
        "          mlxcomm.all_gather_v(x), mlxcomm.gather(x, 0), mlxcomm.scatter(x, 0),\n"
        "          mlxcomm.all_to_all(x), mlxcomm.all_to_all_v(x, [4])):\n"
        " assert y.tolist() == x.tolist()\n"
        "mlxcomm.barrier(); mlxcomm.check(); mlxcomm.set_timeout(None, 3)\n"
        "mlxcomm.barrier(timeout=1e300)  # More than nanoseconds can say: for ever.\n"
        "assert mlxcomm.split(0).size() == 1 and mlxcomm.split(None) is None\n"
        "try: mlxcomm.send(x, 0)\n"
        "except ValueError as error: print(error)\n")], {"MLXCOMM_SOCKET": "/nowhere/at/all.sock"})
    assert process.finish() == 0, process.lines
    assert "destination: expected another rank" in process.lines[-1]


def test_groups_split_by_color_and_key_and_nest(cluster):
    lines = run(cluster(2), 4, (
        "rows = mlxcomm.split(rank // 2, name='rows')\n"
        "backwards = mlxcomm.split(0, key=-rank)\n"
        "assert backwards.rank() == size - 1 - rank and backwards.size() == size\n"
        "assert mlxcomm.all_gather(mx.array(rank), group=backwards).tolist() == [3, 2, 1, 0]\n"
        "assert mlxcomm.all_reduce(mx.array(rank), group=rows).item() == (1 if rank < 2 else 5)\n"
        "alone = mlxcomm.split(rows.rank(), group=rows)\n"
        "assert alone.size() == 1 and mx.distributed.all_sum(mx.array(7), group=alone).item() == 7\n"
        "some = mlxcomm.split(None if rank == 1 else 3, name='some')\n"
        "assert (some is None) == (rank == 1)\n"
        "if some is not None:\n"
        " inner = mlxcomm.split(0, name='inner', group=some)\n"
        " assert mlxcomm.all_gather(mx.array(rank), group=inner).tolist() == [0, 2, 3]\n"
        " assert mlxcomm.name(inner) == 'job/some/inner', mlxcomm.name(inner)\n"
        "stock = world.split(rank % 2)\n"
        "assert mlxcomm.is_ours(stock)\n"
        "assert mx.distributed.all_sum(mx.array(rank), group=stock).item() == (2 if rank % 2 == 0 else 4)\n"
        "nobody = world.split(-1 if rank == 3 else 0, rank)\n"
        "assert nobody.size() == (1 if rank == 3 else 3)\n"
        "assert stock.split(0, stock.size() - stock.rank()).rank() == 1 - stock.rank()\n"
        "print(mlxcomm.name(rows))\n"), nodes=2)
    assert [line[-1] for line in lines] == ["job/rows"] * 4


def test_a_job_continues_with_its_survivors(duo):
    text = (
        "if rank == 1:\n"
        " print('ready'); import time; time.sleep(3600)\n"
        "try: mx.eval(mlxcomm.all_reduce(mx.ones(3)))\n"
        "except mlxcomm.RankLostError as error: print('lost', error.rank)\n"
        "rest = mlxcomm.shrink(world)\n"
        "assert mlxcomm.init() is rest and rest.size() == 2, rest.size()\n"
        "print('left', rest.rank(), mlxcomm.all_gather(mx.array(rank)).tolist())\n")
    processes = [python(duo, rank, 3, text, node=rank % 2) for rank in range(3)]
    processes[1].wait_for("ready")
    processes[1].signal(signal.SIGKILL)
    assert lines_of([processes[0], processes[2]]) == [["lost 1", f"left {rank} [0, 2]"] for rank in (0, 1)]


def test_a_part_ends_with_the_last_user_of_it(solo):
    run(solo, 2, ("for _ in range(300):\n"
               " part = mlxcomm.split(0, name='part')\n"
               " assert mlxcomm.all_reduce(mx.ones(2), group=part).tolist() == [2, 2]\n"
               "del part\n"
               "mlxcomm.barrier()\n"))


# Why: before MLX 0.32.1 a failure does not reach the evaluating thread without help.
def test_every_form_of_evaluation_raises_on_the_thread_that_evaluates(solo):
    text = (
        "import os, threading, numpy as np\n"
        "if rank == 1: os.kill(os.getpid(), 9)\n"
        "ways = [mx.eval, str, bool, float, np.array, mx.array.item, mx.array.tolist, mx.async_eval]\n"
        "def evaluate():\n"
        " for way in ways:\n"
        "  try:\n"
        "   way(mlxcomm.all_reduce(mx.array(1.0)))\n"
        "   mx.eval(mlxcomm.all_reduce(mx.array(1.0)))\n"
        "   print('nothing was raised by', way)\n"
        "  except mlxcomm.RankLostError as error: assert error.rank == 1\n"
        " print('done')\n"
        "thread = threading.Thread(target=evaluate)\n"
        "thread.start(); thread.join()\n"
        "evaluate()\n")
    processes = [python(solo, rank, 2, text) for rank in range(2)]
    assert lines_of(processes[:1]) == [["done", "done"]]


# Why: MLX passes on only the text of an evaluation's exception.
@pytest.mark.parametrize("call", [
    "mx.eval(mlxcomm.all_reduce(mx.ones(rank + 1)))",
    "mx.eval(mx.distributed.all_sum(mx.ones(rank + 1), group=world))",
    "mlxcomm.all_reduce(mx.ones(rank + 1)).tolist()",
    "mlxcomm.barrier() if rank else mx.eval(mlxcomm.all_reduce(mx.ones(1)))",
])
def test_evaluation_raises_the_failure_as_its_class(cluster, call):
    lines = run(cluster(1), 2, (
        f"try: {call}\n"
        "except mlxcomm.MismatchError as error:\n"
        " assert error.code == 'MISMATCH' and error.rank in (0, 1) and error.pid, vars(error)\n"
        " print(error.node, error.group)\n"
        "try: mx.eval(mlxcomm.all_reduce(mx.ones(1)))\n"
        "except mlxcomm.MismatchError as error: print('latched', error.node)\n"
        "try: mlxcomm.check()\n"
        "except mlxcomm.MismatchError as error: print('checked', error.node)\n"))
    assert lines == [["node-0 job", "latched node-0", "checked node-0"]] * 2


@pytest.mark.parametrize("deadline", [
    "mx.eval(mlxcomm.all_reduce(mx.ones(3), timeout=0.2))",
    "mlxcomm.set_timeout(world, 0.2); mx.eval(mx.distributed.all_sum(mx.ones(3), group=world))",
    "mlxcomm.set_timeout(None, 0.2); mlxcomm.barrier()",
    "mlxcomm.barrier(timeout=0.2)",
    "mlxcomm.split(0, timeout=0.2)",
])
def test_a_deadline_names_the_missing_rank(solo, deadline):
    text = ("if rank == 0:\n"
            f" try: {deadline}\n"
            " except mlxcomm.DeadlineExceededError as error: print('late', error.rank)\n"
            "else:\n"
            " input()\n")
    processes = [python(solo, rank, 2, text.replace(" try: ", " try:\n  ").replace("; ", "\n  "),
                        stdin=-1) for rank in (0, 1)]
    assert lines_of(processes[:1]) == [["late 1"]]
    processes[1].say()
    assert processes[1].finish() == 0, processes[1].lines


# Why: the program's own handler replaces ours; a Ctrl-C must still be noticed.
@pytest.mark.parametrize("handler", ["", "import signal\nsignal.signal(signal.SIGINT, "
                                         "signal.default_int_handler)\n"])
@pytest.mark.parametrize("call", [
    "mx.eval(mlxcomm.all_reduce(mx.ones(3)))",
    "mx.eval(mx.distributed.all_sum(mx.ones(3), group=world))",
    "mlxcomm.barrier()",
    "mlxcomm.split(0)",
    "world.split(0)",
])
def test_ctrl_c_is_a_keyboard_interrupt(solo, call, handler):
    text = (f"{handler}print('begins')\n"
            f"try: {call}\n"
            "except KeyboardInterrupt: print('interrupted')\n"
            "try: mlxcomm.check()\n"
            "except mlxcomm.CancelledError as error: print('cancelled', error.code)\n")
    waiting = python(solo, 0, 2, text)
    python(solo, 1, 2, "import time; time.sleep(3600)\n")
    waiting.wait_for("begins")
    solo.wait_for_an_operation()
    waiting.signal(signal.SIGINT)
    waiting.wait_for("interrupted")
    waiting.wait_for("cancelled CANCELLED")
    assert waiting.finish() == 0, waiting.lines


# Why: all threads but one got the error that their rank is taken.
def test_threads_that_begin_at_once_join_once(solo):
    text = (
        "import threading, mlx.core as mx, mlxcomm\n"
        "worlds, errors, gate = [], [], threading.Barrier(4)\n"
        "def begin():\n"
        " gate.wait()\n"
        " try: worlds.append(mlxcomm.init())\n"
        " except mlxcomm.Error as error: errors.append(str(error))\n"
        "threads = [threading.Thread(target=begin) for _ in range(4)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "assert not errors, errors\n"
        "assert len(worlds) == 4 and all(w is worlds[0] for w in worlds)\n"
        "print(mlxcomm.all_reduce(mx.ones(2)).tolist())\n")
    assert lines_of([solo.python(rank, 2, text) for rank in range(2)]) == [["[2.0, 2.0]"]] * 2
