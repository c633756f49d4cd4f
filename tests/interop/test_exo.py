"""MLX called as exo does, over 2, 4 and 8 ranks: strict backend names, child processes, variables that differ
between nodes, files that are gone after init, and groups used in a thread."""

import json
import pathlib
import sys
from collections import Counter

import pytest

from conftest import Process

WORKER = pathlib.Path(__file__).parent / "exo_worker.py"
PORTS = ["52415", "52416"]  # exo chooses a different one for each instance; nothing listens there.


@pytest.mark.parametrize("kind, ranks, nodes", [
    ("ring", 2, 2), ("ring", 4, 2), ("ring", 8, 2), ("jaccl", 2, 2), ("jaccl", 4, 1), ("jaccl", 8, 1)])
def test_runners_meet_and_all_they_call_goes_through_the_daemons(counted, kind, ranks, nodes):
    c = counted(nodes)
    workers = []
    for rank in range(ranks):
        workers.append(Process([sys.executable, str(WORKER), kind, str(rank), str(ranks), *PORTS],
                               {"MLXCOMM_INSTALL": "all", "MLXCOMM_SOCKET": c.socket(rank % nodes)}))
        c.ranks.append(workers[-1])
    reported = []
    for worker in workers:
        assert worker.finish() == 0, "\n".join(worker.lines)
        reported.append([json.loads(line) for line in worker.lines])
        assert len(reported[-1]) == len(PORTS)
        assert all(one["sockets"] == [] for one in reported[-1]), "a rank has a socket of its own"

    def called(*names):
        return Counter({rank: sum(one["called"].get(name, 0) for one in instances for name in names)
                        for rank, instances in enumerate(reported)})

    sums, gathers = called("all_sum")[0], called("all_gather")[0]
    assert set(called("all_sum").values()) == {sums} and sums > 0
    messages = called("send").total()
    assert messages == called("recv_like").total() == len(PORTS) * (ranks - 1) * 8
    # A node counts a group's operation once; for a message it counts its own end, or both as one.
    counts = c.all_done()
    assert [(one["all_reduce"], one["all_gather"]) for one in counts] == [(sums, gathers)] * nodes
    ends = 1 if nodes == 1 else 2
    assert sum(one["send"] + one["recv"] for one in counts) == ends * messages
    assert {kind for one in counts for kind in one} == {"all_reduce", "all_gather", "send", "recv"}
