"""mlxcommctl launch: ranks of one job as one program; and what the library reports."""

import array
import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios

import pytest

from conftest import PATIENCE, Process, completed, find_program, mlxcommctl, wait_until


def launch(count, *command, **kwargs):
    return Process([find_program("mlxcommctl"), "launch", "-n", str(count), "--", *command],
                   **kwargs)


def test_ranks_get_their_place_and_their_output_its_prefix():
    process = launch(3, "sh", "-c", 'echo "$MLX_RANK of $MLX_WORLD_SIZE in $MLXCOMM_JOB"')
    assert process.finish() == 0
    jobs = {line.split(" in ")[1] for line in process.lines}
    assert len(jobs) == 1
    assert sorted(line.split(" in ")[0] for line in process.lines) == [
        "[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"]


# Why: Ctrl-\\ would end launch alone, and leave the ranks behind.
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_signals_reach_the_ranks(number):
    name = number.name.removeprefix("SIG")
    process = launch(2, "sh", "-c", f'trap "echo told; exit 0" {name}; echo up; while :; do sleep 0.05; done')
    process.wait_for("up")
    process.wait_for("up")
    process.signal(number)
    assert process.finish() == 128 + number
    assert sum("told" in line for line in process.lines) == 2


# Why: after nohup and a logout, a training still runs the next day.
def test_a_hangup_that_nohup_ignores_ends_no_rank(tmp_path):
    process = launch(1, "sh", "-c", f'echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo "done"',
                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.wait_for("up")
    process.signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    assert process.finish() == 0
    assert process.lines[-1] == "[0] done"


def has_ended(pid):
    """A zombie counts: some systems do not reap orphans."""
    shown = completed(["ps", "-o", "stat=", "-p", str(pid)]).stdout
    return shown.strip()[:1] in ("", "Z")


# Why: ranks of a killed launch would train on and keep their place in the job.
def test_ranks_end_with_all_they_started_when_launch_is_killed():
    process = launch(2, "sh", "-c", 'sleep 3600 & echo "pid $$ $!"; wait')
    pids = [int(word) for _ in range(2) for word in process.wait_for("pid").split()[2:]]
    process.signal(signal.SIGKILL)
    process.finish()
    for pid in pids:
        wait_until(lambda pid=pid: has_ended(pid), f"process {pid} has ended")


# Why: `launch ... | less` may stop reading; a launch that waits in a write would ignore Ctrl-C.
def test_a_reader_that_pauses_blocks_no_rank_from_ending():
    child = subprocess.Popen(
        [find_program("mlxcommctl"), "launch", "-n", "1", "--", "sh", "-c",
         'trap "" TERM; echo $$ >&2; echo first; while :; do echo more; done'],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        pid = int(child.stderr.readline().split()[1])
        wait_until(lambda: waiting_bytes(child.stdout) >= 8192, "the pipe is filled")
        child.send_signal(signal.SIGTERM)
        wait_until(lambda: has_ended(pid), "the rank has ended")
        lines = child.stdout.read().splitlines()
        assert child.wait(timeout=PATIENCE) == 128 + signal.SIGTERM
        assert lines[0] == "[0] first" and set(lines[1:]) == {"[0] more"}
        assert len(lines) > 100_000, "what was taken from the rank is not lost"
    finally:
        child.kill()


# Why: the last output has the reason of a failure.
def test_a_late_reader_gets_all_output():
    child = subprocess.Popen(
        [find_program("mlxcommctl"), "launch", "-n", "1", "--", "sh", "-c", "seq 100000; echo why; exit 3"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: waiting_bytes(child.stdout) >= 8192, "the pipe is filled")
    lines = child.stdout.read().splitlines()
    assert lines[:-1] == [f"[0] {i}" for i in range(1, 100001)] + ["[0] why"]
    said = r"mlxcommctl: job sh(-\d+)? failed: rank 0 \(pid \d+\) ended with exit code 3"
    assert re.fullmatch(said, lines[-1])
    assert child.wait(timeout=PATIENCE) == 3


def waiting_bytes(stream):
    count = array.array("i", [0])
    fcntl.ioctl(stream.fileno(), termios.FIONREAD, count)
    return count[0]


def in_terminal(slave):
    """Returns a preexec_fn that makes the terminal the child's own."""
    def take():
        os.setsid()
        os.close(os.open(os.ttyname(slave), os.O_RDWR))
    return take


# Why: a chat reads on every rank, and a background process of a terminal is stopped when it reads.
def test_typed_lines_go_to_every_rank():
    master, slave = pty.openpty()
    process = launch(2, "sh", "-c", 'echo here; read line; echo "got $line"', stdin=slave,
                     preexec_fn=in_terminal(slave))
    os.close(slave)
    try:
        process.wait_for("here")
        process.wait_for("here")
        os.write(master, b"hello\n")
        assert process.finish() == 0
        assert sorted(process.lines[2:]) == ["[0] got hello", "[1] got hello"]
    finally:
        process.end()
        os.close(master)


# Why: a prompt does not end its line.
def test_prompt_of_rank_0_is_shown_in_a_terminal():
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [find_program("mlxcommctl"), "launch", "-n", "2", "--", "sh", "-c",
         'printf "name? "; read line; echo "hello $line"'],
        stdin=slave, stdout=slave, stderr=slave, preexec_fn=in_terminal(slave))
    os.close(slave)
    shown = b""
    try:
        while b"[0] name? " not in shown:
            shown += os.read(master, 4096)
        os.write(master, b"ann\n")
        while shown.count(b"hello ann") < 2:
            shown += os.read(master, 4096)
        assert child.wait(timeout=60) == 0
    finally:
        child.kill()
        child.wait()
        os.close(master)
    lines = shown.decode().replace("\r", "").splitlines()
    assert lines[0] == "[0] name? ann", lines
    assert sorted(lines[1:]) == ["[0] hello ann", "[1] name? hello ann"], lines


@pytest.mark.parametrize("stdin, counts", [("all", "55"), ("0", "50"), ("none", "00")])
def test_stdin_selects_the_ranks_that_read(stdin, counts):
    done = mlxcommctl("launch", "-n", "2", "--stdin", stdin, "--", "sh", "-c", "wc -c", input="12345")
    assert done.returncode == 0
    shown = sorted(line.split() for line in done.stdout.splitlines())
    assert shown == [["[0]", counts[0]], ["[1]", counts[1]]]


def test_much_input_reaches_every_rank_though_one_is_slow():
    text = "x" * 3_000_000
    done = mlxcommctl("launch", "-n", "2", "--", "sh", "-c", '[ "$MLX_RANK" = 0 ] || sleep 1; wc -c',
                      input=text)
    shown = sorted(line.split() for line in done.stdout.splitlines())
    assert shown == [["[0]", "3000000"], ["[1]", "3000000"]]


# Why: Python buffers its output to a pipe.
def test_what_python_prints_is_shown_as_it_comes():
    with launch(1, sys.executable, "-c", "print('first'); import time; time.sleep(3600)") as process:
        assert process.wait_for("first") == "[0] first"


# Why: a program that sums gradients in the order of a set pairs wrong ones silently.
def test_a_set_has_the_same_order_on_all_ranks():
    orders = launch(3, sys.executable, "-c", "print(list(map(str, {chr(97 + i) * 9 for i in range(20)})))")
    assert orders.finish() == 0
    assert len({line.split(" ", 1)[1] for line in orders.lines}) == 1


def test_a_variable_is_handed_on_as_it_is_here():
    command = [find_program("mlxcommctl"), "launch", "--env", "HANDED", "--", "sh", "-c", 'echo "<$HANDED>"']
    done = completed(command, env={**os.environ, "HANDED": "a b"})
    assert done.stdout == "[0] <a b>\n"
    without = {name: value for name, value in os.environ.items() if name != "HANDED"}
    done = completed(command, env=without)
    assert done.returncode == 2 and "--env: HANDED is not set here: give it a value" in done.stderr


# Why: each host would start a private daemon and wait for ranks that never join.
def test_ranks_of_several_hosts_do_not_start_private_daemons(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLXCOMM")}
    environment.update(XDG_RUNTIME_DIR=str(tmp_path), TMPDIR=str(tmp_path), MLXCOMM_HOSTS="2", MLX_RANK="0",
                       MLX_WORLD_SIZE="2", MLXCOMM_JOB="job")
    done = completed([sys.executable, "-c", "import mlxcomm; mlxcomm.init()"], env=environment)
    assert done.returncode != 0
    assert "UNAVAILABLE" in done.stderr and "this job's ranks are on 2 hosts" in done.stderr
    assert not list(tmp_path.glob("mlxcommd-*/*.sock"))


# Why: `launch ... | head` must not leave ranks behind.
def test_ranks_end_when_their_output_is_closed():
    script = 'echo $$; if [ "$MLX_RANK" = 1 ]; then exec sleep 3600; fi; while :; do echo x; done'
    child = subprocess.Popen([find_program("mlxcommctl"), "launch", "-n", "2", "--", "sh", "-c",
                              script], stdout=subprocess.PIPE, text=True)
    pids = {}
    for line in child.stdout:
        rank, word = line.split()
        if word.isdigit():
            pids[rank] = int(word)
        if len(pids) == 2:
            break
    child.stdout.close()
    assert child.wait(timeout=60) == 128 + signal.SIGPIPE
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# Why: a shell dies of a signal at once; its children must get time to save their state.
def test_what_a_rank_leaves_behind_ends_with_the_job(tmp_path):
    inner = 'trap "sleep 0.3; touch saved; exit" TERM; echo child; while :; do sleep 0.05; done'
    script = (f"if [ \"$MLX_RANK\" = 0 ]; then (cd {tmp_path}; {inner}) & wait; fi;"
              f" until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 7")
    with launch(2, "sh", "-c", script) as process:
        process.wait_for("child")
        (tmp_path / "go").touch()
        assert process.finish() == 7
        assert (tmp_path / "saved").exists()


# Why: background processes hold the rank's output open.
def test_background_of_a_rank_is_not_waited_for():
    process = launch(1, "sh", "-c", "sleep 3600 & echo $!")
    assert process.finish() == 0
    background = int(process.lines[0].split()[1])
    os.kill(background, signal.SIGKILL)  # It was still alive, so that was not a failure, and it was not
                                         # ended.


def test_lines_end_once_and_long_ones_are_shown():
    process = launch(1, "sh", "-c", r"""printf 'a\r'; sleep 0.2; printf '\nb\n\n'; printf '1%%\r2%%\r';
                                       head -c 200000 /dev/zero | tr '\0' z""")
    assert process.finish() == 0
    assert process.lines[:5] == ["[0] a", "[0] b", "[0] ", "[0] 1%", "[0] 2%"]
    assert "".join(line[4:] for line in process.lines[5:]) == "z" * 200000


def test_no_daemon_is_exit_code_3_with_advice():
    done = mlxcommctl("status", "--socket", "/nowhere/x.sock")
    assert done.returncode == 3 and "mlxcommctl service install one that stays" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="nm of ELF files")
def test_the_library_exports_only_its_c_interface():
    import mlxcomm
    library = next((pathlib.Path(mlxcomm.__file__).parent / "lib").glob("libmlxcomm.so"))
    shown = completed([shutil.which("nm"), "-D", "--defined-only", str(library)], check=True).stdout
    names = {line.split()[-1] for line in shown.splitlines()}
    header = (pathlib.Path(__file__).parents[2] / "client/lib/mlxcomm.h").read_text()
    assert names == set(re.findall(r"MLXCOMM_API [^;(]*?(mlxcomm_\w+)\(", header))
