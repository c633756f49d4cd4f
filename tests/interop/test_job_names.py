"""Ranks of launchers on several machines find each other by equal variables; if one differs, both sides name
it."""

import json
import socket
import sys

import pytest

from conftest import Process, mlxcommctl

SUM = """
import mlx.core as mx
world = mx.distributed.init(strict=True, backend="{backend}")
print(mx.distributed.all_sum(mx.array(float(world.rank() + 1))).item(), flush=True)
"""


def rank(c, number, backend, **variables):
    process = Process([sys.executable, "-u", "-c", SUM.format(backend=backend)],
                      {"MLXCOMM_INSTALL": "all", "MLXCOMM_SOCKET": c.socket(number % 2),
                       "RANK" if "MASTER_ADDR" in variables else "MLX_RANK": str(number), **variables})
    c.ranks.append(process)
    return process


def write(path, content):
    path.write_text(json.dumps(content))
    return str(path)


def devices(path, name):
    return write(path, [[None, name], [name, None]])


# JACCL reads its own row alone, so a program that writes the file on each machine need not know the others'.
@pytest.mark.parametrize("of_0", ["10.0.0.1", "0.0.0.0", "127.0.0.1", "localhost"])
def test_two_launches_with_files_of_their_own_machine_are_two_jobs(duo, tmp_path, of_0):
    files = [devices(tmp_path / f"of-{r}.json", f"rdma_en{3 + r}") for r in range(2)]
    ranks = [rank(duo, r, "jaccl", MLX_IBV_DEVICES=files[r],
                  MLX_JACCL_COORDINATOR=f"{[of_0, '10.0.0.1'][r]}:{port}")
             for port in (39500, 39600) for r in range(2)]
    assert [(process.finish(), process.lines[-1:]) for process in ranks] == [(0, ["3.0"])] * 4


@pytest.mark.parametrize("own", ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"])
@pytest.mark.parametrize("nested", [True, False])
def test_a_host_file_may_call_its_own_machine_by_another_name(duo, tmp_path, own, nested):
    ranks = []
    for r in range(2):
        hosts = [f"10.0.0.{1 + host}:5000" if host != r else f"{own}:5000" for host in range(2)]
        content = [[host] for host in hosts] if nested else hosts
        ranks.append(rank(duo, r, "ring", MLX_HOSTFILE=write(tmp_path / f"of-{r}.json", content)))
    assert [(process.finish(), process.lines[-1:]) for process in ranks] == [(0, ["3.0"])] * 2


def test_halves_of_one_job_are_named_on_both_sides(duo, tmp_path):
    file = devices(tmp_path / "devices.json", "rdma_en3")
    ranks = [rank(duo, r, "jaccl", MLX_IBV_DEVICES=file, MLX_JACCL_COORDINATOR=f"10.0.0.1:3950{r}")
             for r in range(2)]
    differs = ("look like parts of one job of 2 ranks: MLX_JACCL_COORDINATOR must be the same on all, and is "
               "not; MLXCOMM_JOB=NAME on all ranks settles it")
    for process in ranks:
        assert process.wait_for("mlxcomm: job").endswith(differs)
    for node in range(2):
        for verb in ("status", "doctor"):
            done = mlxcommctl(verb, "--socket", duo.socket(node))
            assert differs.split(";")[0] in " ".join(done.stdout.split()), done.stdout


@pytest.mark.parametrize("variable", ["MASTER_ADDR", "NCCL_HOST_IP"])
def test_a_coordinator_may_be_called_localhost_on_its_own_machine(duo, variable):
    more = {"MASTER_ADDR": {"WORLD_SIZE": "2", "MASTER_PORT": "29500"},
            "NCCL_HOST_IP": {"MLX_WORLD_SIZE": "2", "NCCL_PORT": "29500"}}[variable]
    names = ["localhost", socket.gethostname()]
    ranks = [rank(duo, r, "any", **more, **{variable: names[r]}) for r in range(2)]
    assert [(process.finish(), process.lines[-1:]) for process in ranks] == [(0, ["3.0"])] * 2
