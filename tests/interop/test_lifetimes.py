"""Processes, operations, arenas and daemons that end under stock MLX: no rank waits forever, and the others
still work."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conftest import RANK, Process, lines_of, mlxcommctl, wait_until


# Why: a Ctrl-C that the program has handled must not cancel a later operation.
def test_ctrl_c_of_before_does_not_cancel_a_barrier(solo):
    text = (
        "import os, signal, time, mlxcomm\n"
        "w = mlxcomm.init()\n"
        "try:\n"
        " os.kill(os.getpid(), signal.SIGINT)\n"
        " time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        " print('taken')\n"
        "mlxcomm.barrier(w)\n"
        "print('together')\n")
    first = solo.python(0, 2, text)
    second = solo.python(1, 2, "import sys, mlxcomm\nw = mlxcomm.init()\n"
                              "import os\nwhile not os.path.exists(sys.argv[1]): pass\n"
                              "mlxcomm.barrier(w)\n", solo.folder / "go")
    first.wait_for("taken")
    solo.wait_for_an_operation()
    (solo.folder / "go").touch()
    first.wait_for("together")
    assert [first.finish(), second.finish()] == [0, 0]


# Why: a thread that began an operation right after Ctrl-C consumed the signal of the main thread's barrier.
def test_ctrl_c_reaches_a_barrier_though_another_thread_begins_an_operation(solo):
    text = (
        "import os, signal, sys, threading, mlx.core as mx, mlxcomm\n"
        "w = mlxcomm.init()\n"
        "part = mlxcomm.split(0)\n"
        "def other():\n"
        " sys.stdin.readline()\n"
        " os.kill(os.getpid(), signal.SIGINT)\n"
        " try: mx.eval(mlxcomm.all_reduce(mx.ones(2), group=part))\n"
        " except mlxcomm.Error as error: print(error.code)\n"
        "thread = threading.Thread(target=other)\n"
        "thread.start()\n"
        "try: mlxcomm.barrier(w)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "thread.join()\n")
    waiting = solo.python(0, 2, text, stdin=subprocess.PIPE)
    absent = solo.python(1, 2, "import mlxcomm, sys\nw = mlxcomm.init()\np = mlxcomm.split(0)\n"
                              "print('here')\nsys.stdin.read()\n", stdin=subprocess.PIPE)
    absent.wait_for("here")
    wait_until(lambda: "barrier" in str(solo.status()["jobs"]), "rank 0 waits in its barrier")
    waiting.say()
    waiting.wait_for("interrupted")
    # The other operation is cancelled as well if it had begun by then; otherwise it waits for this one.
    absent.end()
    assert waiting.finish() == 0, waiting.lines
    assert any(code in "".join(waiting.lines) for code in ("CANCELLED", "RANK_LOST")), waiting.lines


# Why: a process that ends waits for its operations, but only for a limited time.
def test_process_leaves_while_an_operation_is_in_flight(solo):
    solo.rank(1, 2, RANK, arguments=["sum:float32:1000", "wait"])
    leaving = solo.python(
        0, 2,
        "import os; os.environ['MLXCOMM_END_TIMEOUT'] = '1'\n"
        "import mlxcomm, mlx.core as mx\n"
        "w = mlxcomm.init()\n"
        "held = mx.distributed.all_sum(mx.ones(1000), group=w)\n"
        "mx.eval(held)\n"
        "mx.async_eval(mx.distributed.all_sum(mx.ones(4), group=w))\n"
        "print('leaves')\n")
    leaving.wait_for("leaves")
    assert leaving.finish() == 0, leaving.lines
    wait_until(lambda: not solo.status()["jobs"] or
               any(job["state"] == "failed" for job in solo.status()["jobs"]) or
               all(len(job["ranks"]) < 2 for job in solo.status()["jobs"]), "the daemon has seen it")


# Why: a forked child has none of the library's threads.
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_is_refused_and_its_parent_goes_on(solo):
    text = (
        "import os, mlxcomm, mlx.core as mx\n"
        "w = mlxcomm.init()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        " try:\n"
        "  mlxcomm.init()\n"
        " except mlxcomm.InvalidArgumentError as error:\n"
        "  print('refused', 'spawn' in str(error))\n"
        " raise SystemExit(5)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5\n"
        "print(mx.distributed.all_sum(mx.ones(2), group=w).tolist())\n")
    assert lines_of([solo.python(rank, 2, text) for rank in (0, 1)]) == [["refused True", "[2.0, 2.0]"]] * 2


def test_full_arena_raises_with_the_figures_and_the_group_works_on(solo):
    text = (
        "import mlxcomm, mlx.core as mx\n"
        "w = mlxcomm.init(arena_bytes=64 << 20)\n"
        "for _ in range(3):\n"
        " many = [mx.distributed.all_sum(mx.ones((1 << 20,)) * i, group=w) for i in range(40)]\n"
        " try:\n"
        "  mx.eval(many)\n"
        "  print('fits')\n"
        " except RuntimeError as error:\n"
        "  print('full', 'RESOURCE_EXHAUSTED' in str(error), '67108864' in str(error))\n"
        " del many\n"
        "mlxcomm.check(w)\n"
        "print(mx.distributed.all_sum(mx.ones((4 << 20,)), group=w)[0].item())\n")
    assert lines_of([solo.python(rank, 2, text) for rank in (0, 1)]) == [["full True True"] * 3 + ["2.0"]] * 2


def test_what_may_be_in_place_takes_its_memory_once(solo):
    """40 of 64 MiB: the copy of the input has no room beside the result."""
    text = (
        "import mlxcomm, mlx.core as mx\n"
        "w = mlxcomm.init(arena_bytes=64 << 20)\n"
        "count = 10 << 20\n"
        "own = mx.full((count,), w.rank() + 1.0)\n"
        "for name, call in (('all_reduce', mlxcomm.all_reduce),\n"
        "                   ('reduce', lambda x: mlxcomm.reduce(x, root=0)),\n"
        "                   ('broadcast', lambda x: mlxcomm.broadcast(x, root=1))):\n"
        " got = call(own)\n"
        " print(name, mx.min(got).item(), mx.max(got).item())\n"
        " print(mx.array_equal(own, mx.full((count,), w.rank() + 1.0)).item())\n"
        " del got\n")
    assert lines_of([solo.python(rank, 2, text) for rank in (0, 1)]) == [
        ["all_reduce 3.0 3.0", "True", f"reduce {reduced}", "True", "broadcast 2.0 2.0", "True"]
        for reduced in ("3.0 3.0", "0.0 0.0")]


def test_two_nodes_take_memory_twice_only_where_there_is_room(duo):
    """Small results between two nodes have their own memory; in a full arena they work in place instead."""
    text = (
        "import mlxcomm, mlx.core as mx\n"
        "w = mlxcomm.init(arena_bytes=4 << 20)\n"
        "def total(count):\n"
        " got = mlxcomm.all_reduce(mx.full((count,), w.rank() + 1.0))\n"
        " mx.eval(got)\n"
        " return got\n"
        "held = []\n"
        "for kib in (1000, 1000, 1000, 900):\n"
        " held.append(total(kib << 8))\n"
        " print(kib, mx.min(held[-1]).item(), mx.max(held[-1]).item())\n"
        "mlxcomm.check(w)\n")
    ranks = [duo.python(rank, 2, text, node=rank) for rank in (0, 1)]
    assert lines_of(ranks) == [[f"{kib} 3.0 3.0" for kib in (1000, 1000, 1000, 900)]] * 2


# Why: init() kept returning the failed group.
def test_init_joins_again_after_the_daemon_has_stopped(cluster):
    c = cluster(1, top_settings="drain_timeout_ms: 1")
    text = (
        "import mlxcomm, mlx.core as mx\n"
        "w = mlxcomm.init()\n"
        "print('joined')\n"
        "try:\n"
        " while True: mx.eval(mx.distributed.all_sum(mx.ones(10), group=w))\n"
        "except RuntimeError as error:\n"
        " print('ended', error)\n"
        "input()\n"
        "print(mx.distributed.all_sum(mx.ones(2), group=mlxcomm.init()).tolist())\n")
    ranks = [c.python(rank, 2, text, stdin=subprocess.PIPE) for rank in (0, 1)]
    for process in ranks:
        process.wait_for("joined")
    c.daemons[0].signal(signal.SIGTERM)
    for process in ranks:
        process.wait_for("ended")
    c.daemons[0].child.wait()
    c.start_daemon(0)
    c.wait_linked()
    for process in ranks:
        process.child.stdin.write("\n")
        process.child.stdin.close()
    for process in ranks:
        process.wait_for("[2.0, 2.0]")
        assert process.finish() == 0


def without_service(folder):
    """The environment of processes that start private daemons there."""
    cleared = dict.fromkeys((name for name in os.environ if name.startswith("MLXCOMM")), "")
    return {**cleared, "XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}


# Why: a private daemon that was ending accepted the next client, for example the second run of a notebook's
# cell, which got DAEMON_LOST. How: each init that gives up is the last client of a daemon.
def test_init_again_does_not_meet_the_private_daemon_of_before(tmp_path):
    text = ("import mlxcomm\n"
            "for _ in range(60):\n"
            " try: mlxcomm.init('job', 0, 2, timeout=0.001)\n"
            " except mlxcomm.DeadlineExceededError: pass\n")
    process = Process([sys.executable, "-c", text], without_service(tmp_path))
    assert process.finish() == 0, process.lines


def test_init_joins_by_the_next_private_daemon_when_its_own_is_killed(tmp_path):
    text = ("import mlx.core as mx, mlxcomm, sys\n"
            "world = mlxcomm.init('job', int(sys.argv[1]), 2)\n"
            "print(mlxcomm.all_reduce(mx.ones(2), group=world).tolist())\n")
    socket = tmp_path / f"mlxcommd-{os.getuid()}" / "mlxcommd.sock"

    def forming():
        done = mlxcommctl("status", "--json", "--socket", socket)
        status = json.loads(done.stdout) if done.returncode == 0 else {"jobs": []}
        return status["jobs"] and int(status["nodes"][0]["pid"])

    ranks = [Process([sys.executable, "-c", text, "0"], without_service(tmp_path))]
    try:
        daemon = wait_until(forming, "rank 0 waits for the other")
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: forming() not in (daemon, [], False), "rank 0 waits at another daemon")
        ranks.append(Process([sys.executable, "-c", text, "1"], without_service(tmp_path)))
        assert lines_of(ranks) == [["[2.0, 2.0]"]] * 2
    finally:
        for rank in ranks:
            rank.end()


def test_ranks_of_mlx_launch_meet(tmp_path):
    script = tmp_path / "stock.py"
    # The launcher of some releases runs the file; that of others passes it to Python.
    script.write_text(f"#!{sys.executable}\nimport mlx.core as mx\nw = mx.distributed.init()\n"
                      "print('sum', w.size(), mx.distributed.all_sum(mx.ones(2)).tolist())\n")
    script.chmod(0o755)
    with Process(
        [sys.executable, "-c",
         "import sys; from mlx._distributed_utils.launch import main; sys.exit(main())",
         "-n", "2", str(script)], {**without_service(tmp_path), "MLXCOMM_INSTALL": "all"}) as process:
        assert process.finish() == 0, process.lines
        assert sum("sum 2 [2.0, 2.0]" in line for line in process.lines) == 2, process.lines


# Why: each rank had a group of one.
def test_no_group_means_the_one_job_that_was_joined_and_is_an_error_with_two(solo):
    code = """
import sys, mlx.core as mx, mlxcomm
rank = int(sys.argv[1])
mlxcomm.init(job="a", rank=rank, size=2)
print(mlxcomm.all_reduce(mx.ones(1)).item(), mlxcomm.size())
mlxcomm.init(job="b", rank=1 - rank, size=2)
try:
    mlxcomm.size()
except ValueError as error:
    print(error)
"""
    ranks = [Process([sys.executable, "-c", code, str(rank)], {"MLXCOMM_SOCKET": solo.socket(0)})
             for rank in (0, 1)]
    solo.ranks += ranks
    assert lines_of(ranks) == [["2.0 2", f"group: this process has joined a (rank {rank} of 2) and b "
                                         f"(rank {1 - rank} of 2): pass the group of one of them"]
                               for rank in (0, 1)]


# Why: a thread that took Python's lock at the end aborted the process.
@pytest.mark.parametrize("again", [False, True])
def test_a_daemon_thread_in_an_operation_does_not_change_how_the_program_ends(cluster, again):
    c = cluster(1)
    code = """
import sys, threading, mlx.core as mx, mlxcomm
world = mlxcomm.init(job="job", rank=int(sys.argv[1]), size=2)
again = sys.argv[2] == "True"
def operate(times):
    try:
        for _ in range(times): mx.eval(mlxcomm.all_reduce(mx.ones(4), group=world))
    except mlxcomm.RankLostError: print("lost")
operate(1)
print("begun", flush=True)
if world.rank() == 1: sys.stdin.readline()
threading.Thread(target=operate, args=(10**9 if again else 1,), daemon=world.rank() == 0).start()
if world.rank() == 0: sys.exit(7)
"""
    for _ in range(5):
        ranks = [Process([sys.executable, "-c", code, str(rank), str(again)], {"MLXCOMM_SOCKET": c.socket(0)},
                         stdin=subprocess.PIPE) for rank in (0, 1)]
        c.ranks += ranks
        for process in ranks:
            process.wait_for("begun")
        ranks[1].say()
        assert ranks[0].finish() == 7, ranks[0].lines
        assert ranks[1].finish() == 0, ranks[1].lines
