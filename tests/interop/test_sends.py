"""Sends return once their payload is in shared memory, so "all send right, then receive left" completes as
with MLX's ring. A circle of larger sends is reported."""

import json

import mlxcomm
import pytest

from conftest import free_port, mlxcommctl, wait_until

PRELUDE = """
import os, sys, mlx.core as mx, mlxcomm
world = mx.distributed.init()
rank, size = world.rank(), world.size()
right, left = (rank + 1) % size, (rank - 1) % size
"""
RIGHT = """
x = mx.full(({count},), float(rank))
mx.eval(x)
for i in range(3):
    if {one_by_one}:
        mx.eval(mx.distributed.send(x, right))
        x = mx.distributed.recv_like(x, left)
        mx.eval(x)
    else:  # Of which MLX evaluates the last one first.
        received = mx.distributed.recv_like(x, left)
        mx.eval(received, mx.distributed.send(x, right))
        x = received
    assert x[0].item() == x[-1].item() == float((rank - 1 - i) % size)
print("finished", flush=True)
"""


def rank(c, number, size, text, node=0, **variables):
    return c.python(number, size, PRELUDE + text, node=node,
                    environment={"MLXCOMM_INSTALL": "all", **variables}, stdin=-1)


# MLX's own ring finishes it as well.
@pytest.mark.parametrize("way", ["mlxcomm", "mpi", "stock"])
@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("nodes, size, count", [(1, 2, 1024), (1, 3, 262144), (2, 2, 262144), (2, 3, 4096)])
def test_all_send_right_and_then_receive(cluster, tmp_path, nodes, size, count, one_by_one, way):
    c = cluster(nodes)
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{free_port()}"] for _ in range(size)]))
    more = {"mlxcomm": {}, "mpi": {"MLXCOMM_INSTALL": "", "MLX_MPI_LIBNAME": mlxcomm.mpi_library()},
            "stock": {"MLXCOMM_INSTALL": "", "MLX_HOSTFILE": str(hosts)}}[way]
    text = RIGHT.format(count=count, one_by_one=one_by_one)
    ranks = [rank(c, r, size, text, r % nodes, **more) for r in range(size)]
    assert [(process.finish(), process.lines[-1:]) for process in ranks] == [(0, ["finished"])] * size


# Why: MLX writes a sum into the memory of an input that nothing else reads.
def test_a_send_takes_the_values_of_its_call(solo):
    sender = rank(solo, 0, 2, "x = mx.distributed.all_sum(mx.ones(4096))\n"
                           "for i in range(20):\n"
                           "    mx.eval(mlxcomm.send(x, 1))\n"
                           "    x = x + 1\n"
                           "    mx.eval(x)\n"
                           "print('sent', flush=True)\n")
    receiver = rank(solo, 1, 2, "mx.eval(mx.distributed.all_sum(mx.ones(4096)))\nsys.stdin.readline()\n"
                             "for i in range(20):\n"
                             "    x = mx.distributed.recv((4096,), mx.float32, 0)\n"
                             "    assert x[0].item() == x[-1].item() == 2 + i, (i, x)\n"
                             "print('right', flush=True)\n")
    sender.wait_for("sent")
    receiver.say()
    receiver.wait_for("right")
    assert [sender.finish(), receiver.finish()] == [0, 0]


def test_a_rank_waits_beyond_the_bound_and_its_last_sends_arrive_after_its_end(cluster):
    c = cluster(1)
    sender = rank(c, 0, 2, "for i in range(8):\n"
                           "    mx.eval(mlxcomm.send(mx.full((1024,), float(i)), 1))\n"
                           "    print('sent', i, flush=True)\n", MLXCOMM_SEND_BYTES="8192")
    receiver = rank(c, 1, 2, "mlxcomm.init()\nprint('here', flush=True)\nsys.stdin.readline()\n"
                             "print([mx.distributed.recv((1024,), mx.float32, 0)[-1].item()\n"
                             "       for i in range(8)], flush=True)\n")
    receiver.wait_for("here")
    sender.wait_for("sent 1")
    # Sends that have continued are not waits after three seconds.
    wait_until(lambda: any(wait["operation"].startswith("send") and int(wait["age_ms"]) > 4000
                           for job in c.status()["jobs"] for wait in job["waits"]), "rank 0 waits for rank 1")
    assert "sent 2" not in sender.lines
    receiver.say()
    receiver.wait_for(str([float(i) for i in range(8)]))
    assert [sender.finish(), receiver.finish()] == [0, 0]


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_circle_names_all_waiting_ranks(cluster, nodes):
    c = cluster(nodes)
    text = "mx.eval(mx.distributed.send(mx.ones(262144), right))\n"   # Other nodes store small messages.
    ranks = [rank(c, r, 3, text, r % nodes, MLXCOMM_SEND_BYTES="0") for r in range(3)]
    said = "mlxcomm: ranks 0, 1, 2 of group job wait for each other (0 for 1, 1 for 2, 2 for 0), for 1 s now"
    for process in ranks:
        assert process.wait_for("mlxcomm: ranks").startswith(said)
    named = "ranks 0, 1, 2 of group job wait for each other (0 for 1, 1 for 2, 2 for 0)"
    for verb in ("status", "doctor"):
        done = mlxcommctl(verb, "--socket", c.socket(0))
        assert named in " ".join(done.stdout.split()), done.stdout
