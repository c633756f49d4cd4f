"""Ranks of launchers on several machines whose variables differ do not find each other; both sides name the
variable. Equal ones: tests/unit/client/lib/find_place_test.cc."""

import json
import sys

from conftest import Process, mlxcommctl

SUM = """
import mlx.core as mx
world = mx.distributed.init(strict=True, backend="{backend}")
print(mx.distributed.all_sum(mx.array(float(world.rank() + 1))).item(), flush=True)
"""


def rank(c, number, backend, **variables):
    process = Process([sys.executable, "-u", "-c", SUM.format(backend=backend)],
                      {"MLXCOMM_INSTALL": "all", "MLXCOMM_SOCKET": c.socket(number % 2),
                       "MLX_RANK": str(number), **variables})
    c.ranks.append(process)
    return process


def write(path, content):
    path.write_text(json.dumps(content))
    return str(path)


def devices(path, name):
    return write(path, [[None, name], [name, None]])


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
