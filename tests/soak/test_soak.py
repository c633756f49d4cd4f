"""The soak's own judgement: what a fault explains and what it does not, what was owed, what grows; and that
whole runs with something planted fail by the rule that it breaks."""

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from conftest import PATIENCE, only_in_all
from soak import report, resources, rules
from soak.resources import Sample
from soak.rules import Ledger, Raised, Rank
from soak.schedule import CABLES, WEIGHTS, make_round, make_world


def rank(number, node, joined=100.0, **more):
    return Rank("job", number, node, pid=1000 + number, joined=joined, **more)


def loss_of(lost, at):
    return Raised(at, "RANK_LOST", "operation", lost.node, lost.pid)


def is_explained(who, error, ranks, ledger):
    return rules.unexplained(who, error, ranks, ledger) is None


# --- the schedule ---------------------------------------------------------------------


def test_a_seed_makes_the_same_jobs_and_faults_each_time():
    for seed in range(20):
        world = make_world(seed)
        assert make_round(seed, 3, world) == make_round(seed, 3, make_world(seed))
        assert make_round(seed, 3, world) != make_round(seed + 1, 3, world)


def test_seeds_have_every_kind_of_fault_and_never_end_the_steady_daemon():
    kinds = set()
    for seed in range(20):
        world = make_world(seed)
        for number in range(5):
            for fault in make_round(seed, number, world).faults:
                kinds.add(fault.kind)
                assert fault.kind not in ("kill-daemon", "drain") or fault.node != world.steady
    assert kinds == set(WEIGHTS)


def test_without_cables_nothing_is_done_to_them():
    for seed in range(20):
        world = make_world(seed, has_cables=False)
        assert not CABLES & {fault.kind for fault in make_round(seed, 0, world).faults}


# --- what explains an error -------------------------------------------------------------


def test_a_loss_is_explained_by_a_killed_rank_and_by_no_other():
    ledger = Ledger(2, ("0-1",))
    a, b, c = rank(0, 0), rank(1, 1, killed=110.0), rank(2, 1)
    ledger.add("kill-rank", 110.0, 110.0, pid=b.pid, node=1)
    assert is_explained(a, loss_of(b, 110.5), [a, b, c], ledger)
    assert not is_explained(a, loss_of(b, 109.0), [a, b, c], ledger), "before it was killed"
    assert rules.unexplained(a, loss_of(c, 110.5), [a, b, c], ledger).rule == "culprit"


def test_a_loss_that_names_nobody_or_a_stranger_is_a_wrong_culprit():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    assert not is_explained(a, Raised(110.0, "RANK_LOST", "operation", -1, 0), [a, b], ledger)
    assert not is_explained(a, Raised(110.0, "RANK_LOST", "operation", 1, 4), [a, b], ledger)


@pytest.mark.parametrize("seconds, explains", [(2.0, False), (6.0, True)])
def test_a_cut_explains_a_loss_from_the_grace_period_on(seconds, explains):
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    ledger.add("cut", 110.0, 110.0 + seconds, cable="0-1")
    assert is_explained(a, loss_of(b, 110.0 + seconds), [a, b], ledger) is explains


def test_a_cut_with_another_way_round_explains_nothing():
    ledger = Ledger(3, ("0-1", "1-2", "0-2"))
    a, b = rank(0, 0), rank(1, 1)
    ledger.add("cut", 110.0, 120.0, cable="0-1")
    assert not is_explained(a, loss_of(b, 116.0), [a, b], ledger)
    ledger.add("stop-daemon", 110.0, 120.0, node=2)
    assert is_explained(a, loss_of(b, 116.0), [a, b], ledger), "nobody passes it on"


def test_a_loaded_machine_may_lose_a_stopped_daemon_sooner():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    ledger.add("stop-daemon", 110.0, 112.5, node=1)
    late = Ledger(2, ("0-1",))
    late.troubles = [*ledger.troubles]
    late.add("late", 110.0, 111.0)
    assert not is_explained(a, loss_of(b, 112.5), [a, b], ledger)
    assert is_explained(a, loss_of(b, 112.5), [a, b], late)


@pytest.mark.parametrize("code", ["DAEMON_LOST", "UNAVAILABLE"])
def test_only_the_own_daemons_end_is_told_as_such(code):
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    ledger.add("kill-daemon", 110.0, 111.0, node=1)
    error = Raised(110.1, code, "operation", -1, 0)
    assert is_explained(b, error, [a, b], ledger)
    assert rules.unexplained(a, error, [a, b], ledger).rule == "own daemon"


def test_a_daemon_that_stops_is_told_to_all_ranks_of_its_jobs_by_its_name():
    ledger = Ledger(3, ("0-1", "1-2"))
    a, b, c = rank(0, 0), rank(1, 1), rank(0, 2)
    ledger.add("drain", 110.0, 116.0, node=1)
    right = Raised(115.0, "DAEMON_STOPPING", "operation", -1, 0, "mlxcommd on node-1 is stopping")
    wrong = Raised(115.0, "DAEMON_STOPPING", "operation", -1, 0, "mlxcommd on node-0 is stopping")
    assert is_explained(a, right, [a, b], ledger) and is_explained(b, right, [a, b], ledger)
    assert not is_explained(a, wrong, [a, b], ledger)
    assert not is_explained(c, right, [c], ledger), "its job has nothing to do with that node"


def test_a_deadline_is_explained_only_by_somebody_who_was_missed():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    error = Raised(140.0, "DEADLINE_EXCEEDED", "operation", -1, 0)
    assert rules.unexplained(a, error, [a, b], ledger).rule == "deadline"
    b.joined = None
    assert is_explained(a, error, [a, b], ledger)


@pytest.mark.parametrize(
    "code", ["MISMATCH", "INTERNAL", "INVALID_ARGUMENT", "CANCELLED", "RESOURCE_EXHAUSTED"]
)
def test_other_errors_are_never_explained(code):
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1, killed=105.0)
    ledger.add("kill-daemon", 104.0, 111.0, node=0)
    assert rules.unexplained(a, Raised(110.0, code, "operation", -1, 0), [a, b], ledger).rule == "other error"


# --- what is owed -----------------------------------------------------------------------


def verdicts(ranks, ledger):
    return [(rule, complaint is None) for rule, _, complaint in rules.owed(ranks, ledger)]


@pytest.mark.parametrize("told_at, in_time", [(110.2, True), (120.0, False), (None, False)])
def test_a_killed_rank_is_told_at_once(told_at, in_time):
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1, killed=110.0, ended=110.0)
    ledger.add("kill-rank", 110.0, 110.0, pid=b.pid, node=1)
    if told_at:
        a.raised.append(loss_of(b, told_at))
    assert verdicts([a, b], ledger) == [("rank killed", in_time)]


def test_nothing_is_owed_while_something_else_delays_it():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1, killed=110.0, ended=110.0)
    ledger.add("kill-rank", 110.0, 110.0, pid=b.pid, node=1)
    ledger.add("cut", 109.0, 112.0, cable="0-1")
    assert verdicts([a, b], ledger) == []


def test_a_killed_daemon_is_told_to_its_ranks_at_once_and_to_others_after_the_grace_period():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    ledger.add("kill-daemon", 110.0, 111.0, node=1)
    a.raised.append(loss_of(b, 117.0))
    b.raised.append(Raised(117.0, "DAEMON_LOST", "operation", -1, 0))
    assert verdicts([a, b], ledger) == [("daemon killed", True), ("daemon killed", False)]


def test_nodes_that_no_cable_joins_any_more_are_told_so():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    ledger.add("cut", 110.0, 125.0, cable="0-1")
    a.raised.append(loss_of(b, 115.2))
    assert verdicts([a, b], ledger) == [("no way", True), ("no way", False)]


def test_a_node_whose_cables_are_all_cut_has_no_way_though_others_have():
    ledger = Ledger(3, ("0-1", "0-2", "1-2"))
    a, b, c = rank(0, 0), rank(1, 1), rank(2, 2)
    for cable in ("0-2", "1-2"):
        ledger.add("cut", 110.0, 119.0, cable=cable)
    for one in (a, b):
        one.raised.append(loss_of(c, 115.3))
    assert set(verdicts([a, b, c], ledger)) == {("no way", True), ("no way", False)}


def test_a_survivor_that_neither_shrinks_nor_ends_is_found():
    ledger = Ledger(2, ("0-1",))
    a, b = rank(0, 0), rank(1, 1)
    a.raised.append(loss_of(b, 110.0))
    assert [one.rule for one in rules.survivors(a, ledger)] == ["survivors"]
    a.shrunk.append(112.0)
    assert not list(rules.survivors(a, ledger))


# --- what grows ---------------------------------------------------------------------------


def quiet(minutes, rss_mb=30.0, descriptors=20, threads=10, mappings=400):
    return Sample(minutes * 60, 0, 0, True, rss_mb, descriptors, threads, mappings)


def broken(samples):
    return [rule for rule, _, _ in resources.complaints(samples)]


def test_memory_that_stays_is_fine_and_memory_that_grows_is_not():
    noise = (0.0, 1.2, -0.8, 0.5, -1.0, 0.9)
    assert broken([quiet(m, 40 + noise[m % 6]) for m in range(40)]) == []
    assert broken([quiet(m, 40 + noise[m % 6] + 3 * m) for m in range(40)]) == ["memory"]
    assert broken([quiet(m, min(40 + m, 50) + noise[m % 6]) for m in range(40)]) == [], "what fills stays"


def test_a_step_is_growth_wherever_it_is():
    for step in range(25, 110, 5):
        assert broken([quiet(m, 40 + 8 * (m > step)) for m in range(120)]) == ["memory"], step


def test_in_ten_minutes_what_has_a_bound_may_fill_and_no_more():
    assert broken([quiet(m, 40 + m) for m in range(12)]) == []
    assert broken([quiet(m, 40 + 2 * m) for m in range(12)]) == ["memory"]


def test_two_hours_show_a_megabyte_an_hour_and_half_an_hour_does_not():
    assert resources.slope_bound(2) == 1.0
    assert resources.slope_bound(0.5) == pytest.approx(4)
    assert broken([quiet(10 * m, 40 + m / 6 * 1.5) for m in range(144)]) == ["memory"]


def test_memory_has_come_to_rest_when_it_has_stayed_for_a_while():
    rest = resources.Rest(10.0)
    assert not rest.has_come(10.0, [40.0, None])
    assert not rest.has_come(11.9, [40.05, None])
    assert rest.has_come(12.0, [40.05, None])
    assert not rest.has_come(12.1, [30.0, None]), "it has just been given back"
    assert not rest.has_come(13.0, [30.0, 20.0]), "a daemon has come"
    assert rest.has_come(15.0, [30.0, 20.0])


def test_what_comes_with_the_first_jobs_is_no_growth():
    assert (
        broken([quiet(0, 20, 10, 5, 300), quiet(1, 35, 15, 9, 380), *[quiet(m, 40) for m in range(2, 12)]])
        == []
    )


@pytest.mark.parametrize("what, more", [("descriptors", 1), ("threads", 5), ("mappings", 41)])
def test_what_does_not_come_back_is_found(what, more):
    before = {"descriptors": 20, "threads": 10, "mappings": 400}
    samples = [quiet(m) for m in range(8)] + [quiet(8, **{**before, what: before[what] + more})]
    assert broken(samples) == [what]


def test_each_life_of_a_daemon_is_judged_by_itself():
    first = [quiet(m, 60) for m in range(6)]
    second = [Sample(m * 60.0, 0, 1, True, 30.0, 25, 10, 400) for m in range(6, 12)]
    assert broken(first + second) == []


# --- whole runs -----------------------------------------------------------------------------


def soak(tmp_path, *words):
    """(exit code, what it found, what it said)"""
    junit = tmp_path / "junit.xml"
    done = subprocess.run(
        [
            sys.executable,
            os.path.dirname(__file__),
            "--json",
            "--junit",
            junit,
            "--folder",
            tmp_path / "soak",
            *words,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout, done.stderr[-3000:]
    cases = {
        case.get("name"): case.find("failure") is not None
        for case in ElementTree.parse(junit).iter("testcase")
    }
    assert set(cases) == set(rules.RULES)
    return done.returncode, json.loads(done.stdout), cases, done.stderr


def short(seed):
    return ("--seed", str(seed), "--minutes", "0.1", "--round-seconds", "8")


@only_in_all
@pytest.mark.parametrize("where", [(), ("--loopback",)], ids=["hosts", "loopback"])
def test_a_short_run_checks_results_and_finds_nothing(tmp_path, where):
    code, found, cases, said = soak(tmp_path, *short(900001), *where)
    assert code == 0 and not any(cases.values()), said[-3000:]
    assert found["operations"] > 0 and found["bytes"] > 0
    assert "\n".join(report.table(found)) in said


@only_in_all
@pytest.mark.parametrize(
    "planted, rule, more",
    [
        ("wrong-byte", "wrong byte", ()),
        ("hang", "hang", ("--silence-seconds", "6")),
        ("leak", "nothing left", ()),
    ],
)
def test_what_is_planted_is_found(tmp_path, planted, rule, more):
    words = [*short(900002), *more]
    code, found, cases, said = soak(tmp_path, "--planted", planted, *words)
    assert code == 1 and cases[rule], said[-3000:]
    assert "tests/soak/run --seed 900002" in said
    assert found["rules"][rule]["failures"][0]["text"]
