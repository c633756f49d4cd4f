"""mlxcommctl launch: ranks of one job as one program; and what the library shows."""

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

from conftest import PATIENCE, Process, find_program, wait_until


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


def test_first_failure_ends_all_and_is_the_exit_code():
    process = launch(2, "sh", "-c", 'if [ "$MLX_RANK" = 1 ]; then exit 7; fi; sleep 3600')
    assert process.finish() == 7
    assert any("rank 1 ended with exit code 7" in line for line in process.lines)


def test_killed_rank_is_128_plus_its_signal():
    process = launch(2, "sh", "-c", 'if [ "$MLX_RANK" = 0 ]; then kill -9 $$; fi; sleep 3600')
    assert process.finish() == 128 + 9


def test_signals_reach_the_ranks():
    process = launch(2, "sh", "-c", 'trap "echo told; exit 0" TERM; echo up; while :; do sleep 0.05; done')
    process.wait_for("up")
    process.wait_for("up")
    process.signal(signal.SIGTERM)
    assert process.finish() == 128 + 15
    assert sum("told" in line for line in process.lines) == 2


# Why: Ctrl-\\ would end launch alone, and leave the ranks to themselves.
def test_quit_reaches_the_ranks_too():
    process = launch(2, "sh", "-c", 'trap "echo told; exit 0" QUIT; echo up; while :; do sleep 0.05; done')
    process.wait_for("up")
    process.wait_for("up")
    process.signal(signal.SIGQUIT)
    assert process.finish() == 128 + signal.SIGQUIT
    assert sum("told" in line for line in process.lines) == 2


# Why: who starts a training with nohup and logs out finds it running the next day.
def test_hangup_that_nohup_has_ignored_ends_nobody(tmp_path):
    process = launch(1, "sh", "-c", f'echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo "done"',
                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.wait_for("up")
    process.signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    assert process.finish() == 0
    assert process.lines[-1] == "[0] done"


def has_ended(pid):
    """Also where nobody waits for an orphan: then it is a zombie for ever."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return shown.strip()[:1] in ("", "Z")


# Why: ranks of a launch that was killed would train on, hold memory and their place in the job.
def test_ranks_end_with_all_they_started_when_launch_is_killed():
    process = launch(2, "sh", "-c", 'sleep 3600 & echo "pid $$ $!"; wait')
    pids = [int(word) for _ in range(2) for word in process.wait_for("pid").split()[2:]]
    process.signal(signal.SIGKILL)
    process.finish()
    for pid in pids:
        wait_until(lambda pid=pid: has_ended(pid), f"process {pid} has ended")


# Why: `launch ... | less`, and less is left alone: launch itself must not wait in a write then, or
# Ctrl-C is answered by nobody, and ranks that ignore it are never ended.
def test_reader_that_pauses_keeps_no_rank_from_ending():
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


# Why: the reason of a failure is in what was printed last.
def test_reader_that_comes_late_gets_all():
    child = subprocess.Popen(
        [find_program("mlxcommctl"), "launch", "-n", "1", "--", "sh", "-c", "seq 100000; echo why; exit 3"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: waiting_bytes(child.stdout) >= 8192, "the pipe is filled")
    lines = child.stdout.read().splitlines()
    assert lines[:-1] == [f"[0] {i}" for i in range(1, 100001)] + ["[0] why"]
    assert lines[-1] == "mlxcommctl: rank 0 ended with exit code 3; ending the others"
    assert child.wait(timeout=PATIENCE) == 3


def waiting_bytes(stream):
    count = array.array("i", [0])
    fcntl.ioctl(stream.fileno(), termios.FIONREAD, count)
    return count[0]


def test_program_that_is_not_there_is_said():
    process = launch(1, "no-such-program-anywhere")
    assert process.finish() == 127
    assert any("cannot start no-such-program-anywhere" in line for line in process.lines)


# Why: in the background of a terminal, reading stops a process, and nothing says so.
def test_ranks_have_no_terminal_to_wait_for(tmp_path):
    master, slave = pty.openpty()

    def take_terminal():
        os.setsid()
        os.close(os.open(os.ttyname(slave), os.O_RDWR))

    process = launch(2, "sh", "-c", 'read line || echo "nothing to read"', stdin=slave,
                     preexec_fn=take_terminal)
    os.close(slave)
    try:
        assert process.finish() == 0
        assert sorted(process.lines) == ["[0] nothing to read", "[1] nothing to read"]
    finally:
        process.end()
        os.close(master)


def test_rank_0_reads_what_is_piped_in():
    done = subprocess.run(
        [find_program("mlxcommctl"), "launch", "-n", "2", "--", "sh", "-c", "wc -c"],
        input="12345", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert sorted(line.split() for line in done.stdout.splitlines()) == [["[0]", "5"], ["[1]", "0"]]


# Why: `launch ... | head` must not leave ranks that train on with nobody to stop them.
def test_ranks_end_when_nobody_reads_their_output():
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


# Why: a shell around a program dies of a signal at once; what it started must end too,
# but gets its time to save what it has.
def test_what_a_rank_leaves_behind_ends_with_the_job(tmp_path):
    inner = 'trap "sleep 0.3; touch saved; exit" TERM; echo child; while :; do sleep 0.05; done'
    script = (f"if [ \"$MLX_RANK\" = 0 ]; then (cd {tmp_path}; {inner}) & wait; fi;"
              f" until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 7")
    process = launch(2, "sh", "-c", script)
    try:
        process.wait_for("child")
        (tmp_path / "go").touch()
        assert process.finish() == 7
        assert (tmp_path / "saved").exists()
    finally:
        process.end()


# Why: whatever a rank has started in the background holds its output open.
def test_background_of_a_rank_is_not_waited_for():
    process = launch(1, "sh", "-c", "sleep 3600 & echo $!")
    assert process.finish() == 0
    background = int(process.lines[0].split()[1])
    os.kill(background, signal.SIGKILL)  # It lived on: no failure, so nobody ended it.


def test_lines_end_once_and_long_ones_are_shown():
    process = launch(1, "sh", "-c", r"""printf 'a\r'; sleep 0.2; printf '\nb\n\n'; printf '1%%\r2%%\r';
                                       head -c 200000 /dev/zero | tr '\0' z""")
    assert process.finish() == 0
    assert process.lines[:5] == ["[0] a", "[0] b", "[0] ", "[0] 1%", "[0] 2%"]
    assert "".join(line[4:] for line in process.lines[5:]) == "z" * 200000


def test_no_daemon_is_exit_code_3_with_advice():
    done = subprocess.run([find_program("mlxcommctl"), "status", "--socket", "/nowhere/x.sock"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 3 and "Start it" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="nm of ELF files")
def test_library_shows_its_c_interface_and_nothing_else():
    import mlxcomm
    library = next((pathlib.Path(mlxcomm.__file__).parent / "lib").glob("libmlxcomm.so"))
    shown = subprocess.run([shutil.which("nm"), "-D", "--defined-only", str(library)],
                           capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in shown.splitlines()}
    header = (pathlib.Path(__file__).parents[2] / "client/lib/mlxcomm.h").read_text()
    assert names == set(re.findall(r"MLXCOMM_API [^;(]*?(mlxcomm_\w+)\(", header))
