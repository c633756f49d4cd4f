"""mlxcommctl launch: ranks of one job as one program; and what the library shows."""

import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import Process, find_program


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


def test_program_that_is_not_there_is_said():
    process = launch(1, "no-such-program-anywhere")
    assert process.finish() == 127
    assert any("cannot start no-such-program-anywhere" in line for line in process.lines)


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
