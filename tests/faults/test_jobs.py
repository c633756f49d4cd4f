"""mlxcommctl jobs and kill: what runs, what has ended, and a job that is ended on all nodes."""

import json
import re
import signal

from conftest import SIGKILL, Process, find_program, mlxcommctl, wait_until

LOOP = """
import signal, sys
import mlx.core as mx
import mlxcomm
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True) or sys.exit(9))
mlxcomm.init()
print("up", flush=True)
try:
    while True: mx.eval(mlxcomm.all_reduce(mx.ones(4)))
except mlxcomm.Error as error:
    print("raised", error, flush=True)
if "stubborn" in sys.argv:
    while True: signal.pause()
"""


def ctl(cluster, *words, node=0):
    return mlxcommctl(*words, "--socket", cluster.socket(node))


def looping(c, tmp_path, job, arguments=(), nodes=(0, 1)):
    program = tmp_path / "loop.py"
    program.write_text(LOOP)
    ranks = [c.rank(rank, len(nodes), program, node=node, job=job, arguments=arguments)
             for rank, node in enumerate(nodes)]
    for rank in ranks:
        rank.wait_for("up")
    return ranks


def test_a_killed_job_ends_on_all_nodes(duo, tmp_path):
    ranks = looping(duo, tmp_path, "train")
    table = ctl(duo, "jobs").stdout.splitlines()
    assert table[0].split() == ["job", "state", "ranks", "nodes"]
    assert table[1].split() == ["train", "running", "2", "node-0,", "node-1"]
    done = ctl(duo, "kill", "train")
    assert (done.returncode, done.stdout, done.stderr) == (0, "job train ended: 2 ranks\n", "")
    for rank in ranks:
        assert rank.finish() == 0
        assert any(line.startswith("raised CANCELLED: job train was ended by mlxcommctl kill (pid ")
                   for line in rank.lines), rank.lines
    ended = json.loads(ctl(duo, "jobs", "--json").stdout)
    assert ended["jobs"] == [] and ended["ended_jobs"][0]["code"] == "CANCELLED"
    row = ctl(duo, "jobs").stdout.splitlines()[1]
    assert re.match(r"train +ended +2 .* ago: CANCELLED: job train was ended", row)
    assert "health: all is well" in ctl(duo, "status").stdout, "that was not a failure"


def test_a_rank_that_does_not_end_gets_sigterm(solo, tmp_path):
    ranks = looping(solo, tmp_path, "train", ["stubborn"], nodes=(0, 0))
    done = ctl(solo, "kill", "--grace", "200ms", "--json", "train")
    assert done.returncode == 0 and json.loads(done.stdout) == {"job": "train", "ranks": 2, "left": []}
    for rank in ranks:
        assert rank.finish() == 9 and "told" in rank.lines


def test_a_job_that_forms_is_ended_too(solo, tmp_path):
    program = tmp_path / "loop.py"
    program.write_text("import mlxcomm\nmlxcomm.init()\n")
    waiting = solo.rank(0, 2, program, job="train")
    wait_until(lambda: "forming" in ctl(solo, "jobs").stdout, "it waits")
    assert ctl(solo, "kill", "train").returncode == 0
    assert waiting.finish() == 1
    assert any("CANCELLED" in line or "was ended by mlxcommctl kill" in line for line in waiting.lines)


# Why: a job with a failed rank could not be ended: nothing of it "ran".
def test_a_job_that_has_failed_is_ended_too(solo, tmp_path):
    ranks = looping(solo, tmp_path, "train", ["stubborn"], nodes=(0, 0))
    ranks[1].signal(SIGKILL)
    ranks[0].wait_for("raised RANK_LOST")
    assert ctl(solo, "kill", "--grace", "100ms", "train").returncode == 0
    assert ranks[0].finish() == 9


# Why: Ranks that were all alive were reported as "ended", because the daemon did not answer in time.
def test_a_job_is_not_reported_ended_if_the_daemon_does_not_answer(solo, tmp_path):
    ranks = looping(solo, tmp_path, "train", ["stubborn"], nodes=(0, 0))
    kill = Process([find_program("mlxcommctl"), "kill", "--grace", "1s", "train", "--socket", solo.socket(0)])
    for rank in ranks:
        rank.wait_for("raised CANCELLED")
    solo.daemons[0].signal(signal.SIGSTOP)
    assert kill.finish() == 3, kill.lines
    assert "ended" not in kill.lines[0]
    solo.daemons[0].signal(signal.SIGCONT)


def test_an_unknown_job_is_reported_with_a_suggestion(duo, tmp_path):
    done = ctl(duo, "kill", "train")
    assert done.returncode == 1 and 'no job "train"; none runs' in done.stderr
    ranks = looping(duo, tmp_path, "train", nodes=(1, 1))
    assert 'no job "tarin"; did you mean "train"?' in ctl(duo, "kill", "tarin").stderr
    done = ctl(duo, "kill", "train")
    assert done.returncode == 1
    assert re.search(r"job train has no rank on node-0, but rank 0 on node-1 \(pid \d+\) is running: "
                     "run mlxcommctl kill on that node", done.stderr), done.stderr
    assert ctl(duo, "kill", "train", node=1).returncode == 0
    for rank in ranks:
        rank.finish()


def test_jobs_remembers_how_a_job_failed(solo, tmp_path):
    ranks = looping(solo, tmp_path, "train", nodes=(0, 0))
    ranks[1].signal(SIGKILL)
    assert ranks[0].finish() == 0
    row = r"^train +failed +2 +node-0 .* ago: RANK_LOST: rank 1"
    wait_until(lambda: re.search(row, ctl(solo, "jobs").stdout, re.M), "it is shown as failed")
