"""plan_program prints plans: what its steps send is what its links carry."""

import collections
import re
import subprocess

import pytest

from conftest import PATIENCE, find_test_program


def run(*words):
    return subprocess.run([find_test_program("verify", "plan_program"), *words], capture_output=True,
                          text=True, timeout=PATIENCE)


@pytest.mark.parametrize("words, head", [
    (("all_reduce", "2,1", "64K", "ring"), "all_reduce sum float32[16384] of 3 ranks on 2 nodes by ring"),
    (("all_reduce", "2,1", "64K"), "all_reduce sum float32[16384] of 3 ranks on 2 nodes by exchange"),
    (("broadcast", "1,1,1", "1M", "tree"),
     "broadcast float32[262144] from root 0 of 3 ranks on 3 nodes by tree"),
    (("barrier", "1,1", "0"), "barrier of 2 ranks on 2 nodes by exchange"),
])
def test_steps_and_links_agree(words, head):
    done = run(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == head
    sent, node, steps = collections.Counter(), None, 0
    for line in lines:
        if line.startswith("node "):
            node = int(line[5:])
        steps += bool(re.match(r"  \d+ (send|receive|reduce|combine) ", line))
        if step := re.match(r"  \d+ send (\d+) to node (\d+) ", line):
            sent[node, int(step[2])] += int(step[1])
    carried = {(int(a), int(b)): int(size) for a, b, size in
               re.findall(r"^link (\d+) to (\d+) carries (\d+)$", done.stdout, re.MULTILINE)}
    assert carried == {link: size for link, size in sent.items() if size} and (carried or "barrier" in words)
    assert re.fullmatch(rf"{steps} steps, \d+ messages, proved", lines[-1]) and steps > 1


@pytest.mark.parametrize("words", [(), ("all_together", "1,1", "1K"), ("all_reduce", "0,1", "1K"),
                                   ("all_reduce", "1,1", "3"), ("send", "1,1", "1K")])
def test_says_how_it_is_used(words):
    done = run(*words)
    assert done.returncode == 2 and "usage: plan_program" in done.stderr and not done.stdout
