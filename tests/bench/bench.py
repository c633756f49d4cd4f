"""Interleaves the systems round by round, so that a noisy moment hits all of them alike."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from conftest import Cluster, free_port  # noqa: E402

SIZES = [8, 65536, 1 << 20, 1 << 24, 1 << 27]


def run_pair(commands, environments):
    """Two ranks; the last line of rank 0 is its result."""
    children = [
        subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                         text=True)
        for command, environment in zip(commands, environments)]
    outputs = [child.communicate(timeout=600)[0] for child in children]
    assert all(child.returncode == 0 for child in children), outputs
    return json.loads(outputs[0].strip().splitlines()[-1])


def places(sockets, job):
    return [{"MLX_RANK": str(r), "MLX_WORLD_SIZE": "2", "MLXCOMM_JOB": job,
             "MLXCOMM_SOCKET": sockets[r]} for r in (0, 1)]


def mlx(system, environments, inner):
    command = [sys.executable, str(FOLDER / "mlx_rank.py"), system, str(inner), *map(str, SIZES)]
    result = run_pair([command] * 2, environments)
    return {int(k): v for k, v in result["times"].items()}, result["init_ms"]


def ring(folder, inner):
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{free_port()}"], [f"127.0.0.1:{free_port()}"]]))
    return mlx("ring", [{"MLX_RANK": str(r), "MLX_HOSTFILE": str(hosts)} for r in (0, 1)], inner)


def cpp(build, sockets, job, inner):
    program = str(build / "release" / "client" / "examples" / "all_reduce")
    times, attach = {}, []
    for size in SIZES:
        result = run_pair([[program, str(size), str(inner)]] * 2, places(sockets, f"{job}{size}"))
        times[size] = [result["median_us"]]
        attach.append(result["connect_ms"])
    return times, statistics.median(attach)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def human(size):
    for unit, bytes_ in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_:
            return f"{size // bytes_} {unit}"
    return f"{size} B"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inner", type=int, default=7, help="operations of a size in a round")
    arguments = parser.parse_args()
    results, starts = {}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cluster = Cluster(folder, 2).start()
        try:
            one, two = [cluster.socket(0)] * 2, [cluster.socket(0), cluster.socket(1)]
            systems = {
                "mlxcomm, MLX, one daemon": lambda n: mlx("mlxcomm", places(one, n), arguments.inner),
                "mlxcomm, MLX, two daemons": lambda n: mlx("mlxcomm", places(two, n), arguments.inner),
                "MLX ring": lambda n: ring(folder, arguments.inner),
                "mlxcomm, C++, one daemon": lambda n: cpp(arguments.build, one, n, arguments.inner),
                "mlxcomm, C++, two daemons": lambda n: cpp(arguments.build, two, n, arguments.inner),
            }
            for number in range(arguments.rounds):
                for system, run in systems.items():
                    times, start_ms = run(f"{system}{number}")
                    starts.setdefault(system, []).append(start_ms)
                    for size, taken in times.items():
                        results.setdefault(system, {}).setdefault(size, []).append(
                            statistics.median(taken))
                    print(f"round {number + 1} of {arguments.rounds}: {system}", file=sys.stderr)
            pid = cluster.daemons[0].child.pid
            before = cpu_seconds(pid)
            subprocess.run([sys.executable, "-c", "import time; time.sleep(10)"], check=True)
            idle = cpu_seconds(pid) - before
            memory = int(cluster.status(0)["nodes"][0]["memory_bytes"])
        finally:
            cluster.end()
    report(results, starts, idle, memory)
    (arguments.build / "bench.json").write_text(json.dumps(
        {"median_us": results, "start_ms": starts, "idle_cpu_seconds_in_10": idle,
         "daemon_memory_bytes": memory}, indent=1))


def report(results, starts, idle, memory):
    print(f"all_reduce float32, 2 ranks, {os.cpu_count()} cores: median of rounds, in us "
          "(beside it: times the ring's speed, lowest and highest round)\n")
    print("| bytes | " + " | ".join(results) + " |")
    print("|---" * (len(results) + 1) + "|")
    for size in SIZES:
        cells = []
        for taken in results.values():
            rounds = taken[size]
            ratios = [r / t for r, t in zip(results["MLX ring"][size], rounds)]
            cells.append(f"{statistics.median(rounds):.0f} ({statistics.median(ratios):.1f}x, "
                         f"{min(ratios):.1f}-{max(ratios):.1f})")
        print(f"| {human(size)} | " + " | ".join(cells) + " |")
    print()
    for system, taken in starts.items():
        what = "connect to a running daemon" if "C++" in system else "init()"
        print(f"{system}: {what} {statistics.median(taken):.1f} ms")
    print(f"daemon at rest: {idle:.2f} CPU seconds in 10 s, {memory / 2**20:.1f} MiB of its own")


if __name__ == "__main__":
    main()
