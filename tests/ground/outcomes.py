"""Ranks of rank.cc, and what tests expect from them: right values, or an error and its time."""

import re

from conftest import Process, find_test_program
from ground.cluster import now


def ranks_on(cluster, nodes, *words, job="job"):
    """Over loopback, one on each of these nodes of a conftest.Cluster."""
    program = find_test_program("ground", "ground_rank")
    made = [Process([program, str(rank), str(len(nodes)), job, *map(str, words)],
                    {"MLXCOMM_SOCKET": cluster.socket(node)}) for rank, node in enumerate(nodes)]
    cluster.ranks += made
    return made


def until_looping(ranks):
    for rank in ranks:
        rank.wait_for("looping")


def all_fine(ranks):
    """All ended without an error and without a wrong value; returns what rank 0 has counted."""
    codes = [rank.finish() for rank in ranks]
    assert codes == [0] * len(ranks), [rank.lines[-4:] for rank in ranks]
    line = next((line for line in ranks[0].lines if line.startswith("operations")), "")
    words = line.split()
    return {word: float(value) for word, value in zip(words[::2], words[1::2])}


def heard(rank):
    """(when, what): the error that ended the rank."""
    line = rank.wait_for("raised at")
    assert rank.finish() == 3
    when, what = re.fullmatch(r"raised at (\S+) (.*)", line).groups()
    return float(when), what


def stopwatch():
    """Returns a function that gives the seconds since, on the ranks' clock."""
    begin = now()
    return lambda when=None: (now() if when is None else when) - begin
