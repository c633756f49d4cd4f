"""What tests of the lab expect from ranks: right values, or an error and its time."""

import re

from ground.cluster import now


def until_looping(ranks):
    for rank in ranks:
        rank.wait_for("looping")


def all_fine(ranks):
    """All ended without an error and without a wrong value; returns rank 0's count."""
    codes = [rank.finish() for rank in ranks]
    assert codes == [0] * len(ranks), [rank.lines[-4:] for rank in ranks]
    line = next(line for line in ranks[0].lines if line.startswith("operations"))
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
