"""Ranks of rank.cc, and what tests expect from them: correct values, or an error and its time."""

import contextlib
import itertools
import re

from conftest import Process, find_test_program
from ground.cluster import LabCluster, now

NUMBERS = itertools.count()


def ranks_on(cluster, nodes, *words, job="job"):
    """Starts one rank on each of these nodes of a cluster, over loopback or in the lab."""
    if isinstance(cluster, LabCluster):
        return cluster.ranks(nodes, *words, job=job)
    program = find_test_program("ground", "ground_rank")
    made = [Process([program, str(rank), str(len(nodes)), job, *map(str, words)],
                    {"MLXCOMM_SOCKET": cluster.socket(node)}) for rank, node in enumerate(nodes)]
    cluster.ranks += made
    return made


def until_looping(ranks):
    for rank in ranks:
        rank.wait_for("looping")


@contextlib.contextmanager
def at_work(cluster, nodes, most, least=8, job="job"):
    """While the block runs, ranks on these nodes sum arrays of `least` to `most` bytes. They end without an
    error and without a wrong value."""
    stop = cluster.folder / f"stop-{next(NUMBERS)}"
    ranks = ranks_on(cluster, nodes, f"loop:{least}:{most}:{stop}", job=job)
    until_looping(ranks)
    yield ranks
    stop.touch()
    all_fine(ranks)


def all_fine(ranks):
    """Expects that all ended without an error or a wrong value."""
    codes = [rank.finish() for rank in ranks]
    assert codes == [0] * len(ranks), [rank.lines[-4:] for rank in ranks]


def steps_of(rank):
    """Returns how many sums of the ended rank succeeded, and how many of them had its largest size."""
    found = (re.match(r"longest .* of (\d+) steps, (\d+) of the largest", line) for line in rank.lines)
    return next((int(match[1]), int(match[2])) for match in found if match)


def heard(rank):
    """Returns (when, what) of the error that ended the rank."""
    line = rank.wait_for("raised at")
    assert rank.finish() == 3
    when, what = re.fullmatch(r"raised at (\S+) (.*)", line).groups()
    return float(when), what


def stopwatch():
    """Returns a function that gives the seconds since, on the ranks' clock."""
    begin = now()
    return lambda when=None: (now() if when is None else when) - begin
