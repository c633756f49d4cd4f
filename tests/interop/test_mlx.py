"""Stock MLX through real daemons: values against numpy, and the package's promises."""

import json
import os
import pathlib
import subprocess
import sys

import mlx.nn as nn
import pytest

from conftest import Process, completed, lines_of, mlxcommctl, wait_until

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.parametrize("nodes, ranks", [(1, 4), (2, 2), (2, 4), (3, 3)])
def test_operations_agree_with_numpy(cluster, nodes, ranks):
    c = cluster(nodes)
    processes = [c.rank(r, ranks, FOLDER / "named_operations.py", node=r % nodes, arguments=["any", "large"],
                        environment={"MLXCOMM_INSTALL": "all"}) for r in range(ranks)]
    for lines in lines_of(processes):
        assert json.loads(lines[-1])["agree"] > 500


@pytest.mark.skipif(not hasattr(nn.layers.distributed, "fully_shard"), reason="this MLX has no fully_shard")
@pytest.mark.parametrize("nodes, ranks", [(1, 2), (2, 4)])
def test_fully_sharded_training_is_that_of_one_process(cluster, nodes, ranks):
    c = cluster(nodes)
    processes = [c.rank(r, ranks, FOLDER / "fully_sharded.py", node=r % nodes) for r in range(ranks)]
    for lines in lines_of(processes):
        assert lines[-1].startswith("the same")


def test_private_daemon_starts_and_ends_with_its_last_client(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MLXCOMM")}
    environment.update(XDG_RUNTIME_DIR=str(tmp_path), TMPDIR=str(tmp_path), MLXCOMM_INSTALL="all")
    done = mlxcommctl("launch", "-n", "2", "--", sys.executable, "-u", FOLDER / "named_operations.py", "any",
                      env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '[0] {"agree": ' in done.stdout and '[1] {"agree": ' in done.stdout
    log = next(tmp_path.glob("mlxcommd-*/mlxcommd.log"))
    wait_until(lambda: "stopped" in log.read_text(), "the private daemon has ended")


# Why: a notebook starts many private daemons and does not wait for them.
def test_a_private_daemon_that_has_ended_leaves_no_zombie(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    program = Process(
        [sys.executable, "-u", "-c", (
            "import ctypes, mlxcomm, pathlib\n"
            "library = next((pathlib.Path(mlxcomm.__file__).parent / 'lib').glob('libmlxcomm.*'))\n"
            "library = ctypes.CDLL(str(library))\n"
            "options, error = ctypes.create_string_buffer(256), ctypes.create_string_buffer(2048)\n"
            "connection = ctypes.c_void_p()\n"
            "library.mlxcomm_connect_options_init(options)\n"
            "code = library.mlxcomm_connect(options, ctypes.byref(connection), error)\n"
            "assert code == 0, error.raw\n"
            "library.mlxcomm_disconnect(connection)\n"
            "print('left')\n"
            "input()\n")],
        {"XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}, stdin=subprocess.PIPE)
    program.wait_for("left")

    def children():
        listed = completed(["ps", "-A", "-o", "ppid=,stat=,comm="])
        return [line for line in listed.stdout.splitlines() if line.split()[0] == str(program.child.pid)]

    wait_until(lambda: not children(), "the daemon has ended, and nothing is left of it")
    assert "stopped" in next(folder.glob("mlxcommd-*/mlxcommd.log")).read_text()
    program.end()


def run_python(text, **environment):
    return completed([sys.executable, "-c", text], env={**os.environ, **environment})


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what is mapped")
def test_import_does_not_load_protobuf():
    done = run_python("import mlxcomm\nprint('protobuf' in open('/proc/self/maps').read())")
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("first, second", [("grpc", "mlxcomm"), ("mlxcomm", "grpc")])
def test_lives_beside_the_grpc_package(solo, first, second):
    text = (f"import {first}, {second}\n"
            "import mlxcomm, mlx.core as mx, grpc\n"
            "channel = grpc.insecure_channel('127.0.0.1:1')\n"
            "w = mlxcomm.init()\n"
            "print(mx.distributed.all_sum(mx.ones(2), group=w).tolist())\n"
            "channel.close()\n")
    for lines in lines_of([solo.python(r, 2, text) for r in (0, 1)]):
        assert lines[-1] == "[2.0, 2.0]"


def test_uninstall_restores_the_same_objects():
    done = run_python(
        "import mlx.core as mx\nbefore = dict(vars(mx.distributed))\nimport mlxcomm\n"
        "mlxcomm.install(); mlxcomm.install()\n"
        "assert mx.distributed.all_sum is not before['all_sum']\n"
        "mlxcomm.uninstall()\n"
        "assert all(getattr(mx.distributed, k) is v for k, v in before.items())\nprint('same')\n")
    assert done.stdout.strip() == "same", done.stderr


def test_no_daemon_is_an_error_that_names_the_remedy():
    done = run_python("import mlxcomm\nmlxcomm.init(rank=0, size=2)",
                      MLXCOMM_SOCKET="/nowhere/at/all.sock")
    assert done.returncode != 0
    assert "UNAVAILABLE" in done.stderr and "mlxcommd --config" in done.stderr
