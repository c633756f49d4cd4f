"""The soak's verdicts, with a fault planted for each rule: what explains an error, what is a hang, what
grows."""

import pytest

from soak import rules
from soak.rules import RISE_MAX, Fault, Moment, Raised

LOSS = "RANK_LOST: rank 1 (node-1, pid 7) was lost rank 1"


def raised(at=110.0, text=LOSS, job="job", node=0):
    return Raised(at, job, node, text)


def fault(kind="kill-daemon", begin=109.0, end=110.0, nodes=(1,), job=""):
    return Fault(kind, begin, frozenset(nodes), end, job)


def is_explained(error, *faults):
    return not rules.unexplained([error], faults)


KILLED_RANK = fault("kill-rank", nodes=(0, 1), job="job")


@pytest.mark.parametrize("error, faults, expected", [
    (raised(), [], False),
    *((raised(at), [fault()], expected)
      for at, expected in ((108.9, False), (109.1, True), (119.9, True), (120.1, False))),
    # The rank's own node, or one that the error names.
    *((raised(node=node), [fault(nodes=(at,))], expected)
      for at, node, expected in ((1, 0, True), (0, 0, True), (2, 0, False))),
    (raised(), [KILLED_RANK], True),
    (raised(job="other"), [KILLED_RANK], False),
    # Shorter than the grace period, and longer.
    *((raised(110), [fault(kind, 110 - seconds, 110)], seconds > 5)
      for kind in ("cut", "stop-daemon") for seconds in (2.0, 8.0)),
    *((raised(), [fault(kind)], False) for kind in ("rate", "stop-rank")),
    *((raised(text=f"{code}: node-1"), [fault(kind, 100, nodes=(0, 1))], False)
      for code in ("MISMATCH", "INTERNAL", "INVALID_ARGUMENT", "CANCELLED", "ALREADY_EXISTS")
      for kind in sorted(rules.EXPLAINS))])
def test_a_fault_explains_an_error_of_its_time_and_place(error, faults, expected):
    assert is_explained(error, *faults) is expected


def test_a_daemon_logs_its_end_only_to_its_log():
    stopping = raised(text="DAEMON_STOPPING: mlxcommd on node-1 is stopping")
    assert is_explained(stopping, fault("drain")) and not is_explained(stopping, fault("kill-daemon"))


def test_an_explained_error_explains_later_losses_of_its_job_and_of_no_other():
    first = raised(110, "UNAVAILABLE: no daemon", node=1)
    late = raised(150, "DEADLINE_EXCEEDED: ranks 1 of 2 had not joined")
    assert rules.unexplained([first, late], [fault()]) == []
    assert rules.unexplained([late], [fault()]) == [late]
    other = raised(150, late.text, job="other")
    assert rules.unexplained([first, other], [fault()]) == [other]


@pytest.mark.parametrize("code, silent_s, is_killed, has_raised, expected", [
    (0, 0, False, False, None),
    (3, 0, False, True, None),
    (-9, 0, True, False, None),
    (1, 0, False, False, "wrong value"),
    (1, 0, True, True, "wrong value"),
    (3, 0, False, False, "rank ended"),
    (-11, 0, False, False, "rank ended"),
    (None, rules.SILENCE_S - 1, False, False, None),
    (None, rules.SILENCE_S + 1, False, False, "hang")])
def test_a_rank_is_judged_by_its_end_and_its_silence(code, silent_s, is_killed, has_raised, expected):
    assert rules.broken_by_end(code, silent_s, is_killed, has_raised) == expected


def moments(count, **each):
    """In each of them a value is higher by this much than in the one before."""
    start = {"memory": 30.0, "threads": 10, "descriptors": 20, "mappings": 400}
    return [Moment(40.0 * n, **{what: value + n * each.get(what, 0) for what, value in start.items()})
            for n in range(count)]


def grown(life):
    return [what for what, _ in rules.growth(life)]


def test_what_stays_and_what_comes_with_the_first_jobs_is_fine():
    assert grown(moments(15)) == []
    assert grown([Moment(-40, 10.0, 4, 9, 250), *moments(15)]) == []


@pytest.mark.parametrize("what", sorted(RISE_MAX))
def test_a_leak_in_each_round_of_ten_minutes_is_found(what):
    enough = {"memory": 1.5, "threads": 1, "descriptors": 1, "mappings": 4}[what]
    assert grown(moments(15, **{what: enough})) == [what]


def test_a_small_leak_of_memory_is_found_in_a_night():
    assert grown(moments(720, memory=0.05)) == ["memory"]
    assert grown(moments(720, memory=0.01)) == []
