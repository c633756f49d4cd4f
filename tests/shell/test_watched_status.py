"""status --watch on a terminal uses the alternate screen, so that the terminal keeps its scrollback."""

import os
import pty
import re
import signal
import subprocess

import pytest

from conftest import PATIENCE, Process, find_program, wait_until

OTHER_SCREEN, FIRST_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


WATCH = ("--watch", "--interval", "50ms")
# All call all_sum until they are ended.
RANK = """
import mlx.core as mx, mlxcomm
world = mlxcomm.init(timeout=300)
while True:
    mx.eval(mx.distributed.all_sum(mx.ones(100_000), group=world))
"""


class Watched:
    """mlxcommctl status --watch on a terminal."""

    def __init__(self, socket, rows=24, columns=80, options=WATCH):
        self.ours, theirs = pty.openpty()
        subprocess.run(["stty", "rows", str(rows), "columns", str(columns)], stdin=theirs, check=True)
        self.child = subprocess.Popen(
            [find_program("mlxcommctl"), "status", *options, "--socket", socket],
            stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color"})
        os.close(theirs)
        self.said = ""

    def until(self, wanted):
        while wanted not in self.said:
            self.said += os.read(self.ours, 65536).decode()

    def stop(self):
        self.child.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self):
        """Returns its output and its exit code."""
        try:
            while piece := os.read(self.ours, 65536):
                self.said += piece.decode()
        except OSError:  # Linux's result when the other end is closed.
            pass
        os.close(self.ours)
        return self.said, self.child.wait(timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_screen_is_back_when_it_ends(cluster, number):
    watched = Watched(cluster(1).socket(0))
    watched.until("health: ")
    watched.child.send_signal(number)
    said, code = watched.finish()
    assert code == 0
    assert said.startswith(OTHER_SCREEN) and said.endswith(FIRST_SCREEN), said
    assert "\x1b[3J" not in said, "what has scrolled past stays"


def test_a_daemon_that_has_gone_is_waited_for_in_place(solo):
    watched = Watched(solo.socket(0))
    watched.until("health: ")
    solo.daemons[0].end()
    watched.until("waiting for it")
    solo.start_daemon(0)
    watched.said = ""
    watched.until("health: ")
    assert watched.stop()[1] == 0


def test_a_small_terminal_gets_the_first_lines_and_the_last(cluster):
    watched = Watched(cluster(2).socket(0), rows=3)
    watched.until("health: ")
    said, _ = watched.stop()
    frame = said.split("\x1b[H")[1].split("\x1b[J")[0]
    lines = [line.replace("\x1b[2K", "") for line in frame.split("\r\n")]
    assert len(lines) == 3 and re.fullmatch(r"\.\.\. \d+ more lines", lines[1]), lines
    assert "health: " in lines[2], lines


# Why: a terminal that scrolls loses the first lines, and status --watch the last ones.
def test_of_a_mesh_of_eight_with_a_job_fits_80_columns_and_40_rows(cluster, tmp_path):
    c = cluster(8)
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    for node in range(8):
        c.rank(node, 8, script, node=node)
    wait_until(lambda: any(job["state"] == "running" for job in c.status()["jobs"]), "the job runs")
    said, code = Watched(c.socket(0), rows=40, options=()).finish()
    lines = [re.sub("\x1b\\[[0-9]*m", "", line) for line in said.splitlines()]
    print(*lines, sep="\n")
    assert code == 0 and len(lines) <= 39 and max(map(len, lines)) <= 80, said
    assert "more that are up" in said and lines[-2].startswith("job job  running  8 ranks"), said

    watched = Watched(c.socket(0), rows=40)
    watched.until("health: ")
    assert "more lines" not in watched.stop()[0]


def test_in_a_pipe_nothing_is_for_terminals(solo):
    watch = Process([find_program("mlxcommctl"), "status", "--watch", "--interval", "50ms", "--socket",
                     solo.socket(0)])
    watch.wait_for("health: ")
    solo.daemons[0].end()
    watch.wait_for("waiting for it")
    solo.start_daemon(0)
    watch.wait_for("health: ")
    watch.signal(signal.SIGINT)
    assert watch.finish() == 0
    assert not any("\x1b" in line for line in watch.lines)
