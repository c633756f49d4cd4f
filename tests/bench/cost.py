"""What a system uses of the machine: CPU seconds of ranks and daemons, and their memory."""

import os
import pathlib
import time

from bench.places import end_of
from bench.rounds import Failed
from bench.systems import ranks_results

GIB = 1 << 30
PATIENCE = 60
WINDOWS = 3  # While idle.


def cpu_seconds(pid):
    """Of all threads that still exist, to the nanosecond; /proc/PID/stat counts in 10 ms."""
    total = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended since.
    return total * 1e-9


def resident_bytes(pid):
    """{"own", "shared"}: arenas are shared with ranks and count at both."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines
             if line.startswith("Rss")}
    return {"own": found["RssAnon"] + found["RssFile"], "shared": found["RssShmem"]}


def cost_of(system, place, seconds, size):
    """Ranks count their use while they reduced; for daemons it is the use during that time."""
    has_daemons = "mlxcomm" in system.name
    before = sum(map(cpu_seconds, place.daemon_pids()))
    ranks = system.run(place, seconds, [size])
    of_daemons = sum(map(cpu_seconds, place.daemon_pids())) - before if has_daemons else 0.0
    used = sum(rank["cpu_seconds"] for rank in ranks) + of_daemons
    return {"cpu_seconds_per_gib": used / (ranks[0]["reduced_bytes"] / GIB),
            "rank_bytes_max": max(rank["resident_bytes_max"] for rank in ranks)}


def idle_cost(system, place, seconds, size):
    """Ranks that have reduced once and then do nothing, with the daemons below them."""
    folder = system.new_folder(place)
    processes = system.start(place, folder, [0.01, size, "hold"])
    try:
        deadline = time.monotonic() + PATIENCE
        while len(list(folder.glob("rank-*.json"))) < len(processes):
            if time.monotonic() > deadline or any(p.poll() is not None for p in processes):
                raise Failed("ranks ended before they were idle")
            time.sleep(0.02)
        time.sleep(0.5)  # Spinning after the last work may end first.
        pids = {"ranks": [process.pid for process in processes], "daemons": place.daemon_pids()}
        used = {who: [] for who in pids}
        for _ in range(WINDOWS):
            before = {who: sum(map(cpu_seconds, of)) for who, of in pids.items()}
            time.sleep(seconds)
            for who, of in pids.items():
                used[who].append(sum(map(cpu_seconds, of)) - before[who])
        memory = [resident_bytes(pid) for pid in place.daemon_pids()]
    finally:
        end_of(processes)  # Ends their standard input.
    ranks_results(folder)
    return {"seconds": seconds, "cpu_seconds": used, "daemon_bytes": memory,
            "cores": os.cpu_count()}
