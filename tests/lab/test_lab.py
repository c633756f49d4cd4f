"""The lab itself: its cables are as described, and nothing of it is left afterwards."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import Process, wait_until
from lab.wiring import chain, pair, parse, ring, switch

LAB = pathlib.Path(__file__).parent
SHAPES = [pair(), chain(3), ring(4), ring(3, cables_per_pair=2), switch(3), switch(3, switches=2)]


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("wiring", SHAPES, ids=lambda wiring: wiring.description)
def test_daemons_find_each_other_over_every_wiring(lab, wiring, family):
    c = lab(wiring, family=family)
    for rank in c.ranks(range(wiring.nodes), "sum:8", "sum:1000000"):
        assert rank.finish() == 0, rank.lines
