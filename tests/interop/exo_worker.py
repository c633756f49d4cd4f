"""One node of exo, as far as it calls MLX: a worker that starts a runner for each instance of a model, as a
child by multiprocessing's "spawn". After exo's utils_mlx.py, auto_parallel.py, placement_utils.py and
bootstrap.py. Nothing here knows mlxcomm.

Arguments: "ring" or "jaccl", this node's rank, how many there are, and a port for each instance; instances
run one after the other. Prints for each the runner's calls by MLX's names, and its sockets.
"""

import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import threading
from collections import Counter


def hosts_for(rank, size, port):
    """exo's get_mlx_ring_hosts_by_node: neighbours by their addresses on the cable, the node itself by the
    wildcard, others by an unused address (RFC 5737)."""
    def host(other):
        if other == rank:
            return f"0.0.0.0:{port}"
        if (other - rank) % size not in (1, size - 1):
            return "198.51.100.1:0"
        first, last = sorted((rank, other))
        return f"10.{first}.{last}.{1 if other == first else 2}:{port}"

    return [host(other) for other in range(size)]


def mlx_distributed_init(kind, rank, size, port):
    """MLX was imported before any of these is set, and the file is removed afterwards."""
    import mlx.core as mx

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / f"hosts_instance_{rank}.json"
        os.environ["MLX_RANK"] = str(rank)
        if kind == "ring":
            file.write_text(json.dumps(hosts_for(rank, size, port)), encoding="ascii")
            os.environ["MLX_HOSTFILE"] = str(file)
        else:
            devices = [[None if a == b else f"rdma_en{2 + (a + b) % 4}" for b in range(size)]
                       for a in range(size)]
            file.write_text(json.dumps(devices), encoding="ascii")
            os.environ["MLX_IBV_DEVICES"] = str(file)
            os.environ["MLX_JACCL_COORDINATOR"] = f"{'0.0.0.0' if rank == 0 else f'10.0.{rank}.1'}:{port}"
        return mx.distributed.init(backend=kind, strict=True)


class Runner:
    """What exo's engine does with a group; each operation is counted by its name."""

    def __init__(self, group):
        import mlx.core as mx

        self.mx, self.group, self.rank, self.size = mx, group, group.rank(), group.size()
        self.called = Counter()

    def call(self, name, *arguments, **more):
        self.called[name] += 1
        return getattr(self.mx.distributed, name)(*arguments, group=self.group, **more)

    def on_cpu(self):
        return self.mx.default_stream(self.mx.Device(self.mx.cpu))

    def barrier(self):
        self.mx.eval(self.call("all_sum", self.mx.array(1.0), stream=self.on_cpu()))

    def any(self, flag):
        true = self.call("all_sum", self.mx.array(flag), stream=self.on_cpu())
        self.mx.eval(true)
        return true.item() > 0

    def pipeline_stage(self, x, queued=None):
        """PipelineFirstLayer, a layer, PipelineLastLayer. With `queued` it is a chunk of a
        prompt: its output is sent on later, and not passed to all."""
        mx = self.mx
        if self.rank != 0:
            mx.eval(x)
            x = self.call("recv_like", x, self.rank - 1)
            mx.eval(x)
        y = x * (self.rank + 2)
        mx.eval(y)
        if self.rank != self.size - 1:
            if queued is not None:
                queued.append(y)
            else:
                y = self.call("send", y, self.rank + 1)
                mx.eval(y)
        if queued is None:
            y = self.call("all_gather", y)[-y.shape[0]:]
            mx.eval(y)
        return y

    def flush(self, queued):
        for y in queued:
            self.mx.async_eval(self.call("send", y, self.rank + 1))
        queued.clear()

    def work(self):
        mx = self.mx
        self.barrier()
        assert self.any(self.rank == self.size - 1) and not self.any(False)
        pressure = self.call("all_gather", mx.array([0.25 * (self.rank + 1)], dtype=mx.float32))
        assert float(mx.max(pressure).item()) == 0.25 * self.size

        product = 1
        for rank in range(self.size):
            product *= rank + 2
        # exo generates on a stream of the GPU; its operations on a group there go to the CPU's
        # default stream, and so in order. Here that stream is the only one.
        queued = []
        for chunk in range(3):
            y = self.pipeline_stage(mx.ones((1, 16, 64)) * (chunk + 1), queued)
            if self.rank == self.size - 1:
                assert mx.all(y == product * (chunk + 1)).item()
            self.flush(queued)
        for token in range(5):
            y = self.pipeline_stage(mx.ones((1, 1, 64)) * (token + 1))
            assert mx.all(y == product * (token + 1)).item()
        part = mx.full((4, 32), self.rank + 1.0).astype(mx.bfloat16)
        assert mx.all(self.call("all_sum", part) == self.size * (self.size + 1) / 2).item()
        self.barrier()
        again = mx.distributed.init()  # As mlx-lm does, which does not know the group.
        assert (again.rank(), again.size()) == (self.rank, self.size)
        mx.async_eval(self.call("all_sum", part))  # In progress when the runner ends.


def entrypoint(kind, rank, size, port, reported):
    import mlx.core as mx

    mx.random.seed(42)
    runner = Runner(mlx_distributed_init(kind, rank, size, port))
    assert (runner.rank, runner.size) == (rank, size)
    failures = []

    def generate():
        try:
            runner.work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=generate)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    from internet_sockets import internet_sockets

    reported.send({"called": runner.called, "sockets": internet_sockets()})


def main():
    kind, rank, size, *ports = sys.argv[1], *map(int, sys.argv[2:])
    context = multiprocessing.get_context("spawn")
    for port in ports:
        heard, reported = context.Pipe(duplex=False)
        child = context.Process(target=entrypoint, args=(kind, rank, size, port, reported))
        child.start()
        reported.close()
        try:
            print(json.dumps(heard.recv()), flush=True)
        except EOFError:
            sys.exit("the runner ended without a word")
        child.join()
        assert child.exitcode == 0, child.exitcode


if __name__ == "__main__":
    main()
