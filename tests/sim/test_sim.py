"""The daemons' state machines in virtual time: seeds, exact replay, planted bugs.

Why: faults between daemons depend on the order of many small events. Each seed is a different order, and a
bad one can be repeated.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PROCESSES = 2
SEEDS = 50
PLANTED_SEEDS = 20
# Seeds that found something that has been fixed since.
SEEDS_THAT_FOUND = (287226695, 993945665, 71317414, 261736241, 2000113, 373688680, 828839296,
                    4002436)


def simulate(*arguments):
    return subprocess.run([HERE / "run", *arguments], capture_output=True, text=True)


def first_seed_of_commit():
    commit = os.environ.get("MLXCOMM_COMMIT")
    if not commit:
        git = ["git", "-C", HERE, "rev-parse", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or "0"
    return 1_000_000 + int(commit[:8], 16) % 1_000_000_000


def run_seeds(first, count, *arguments):
    """The runs of `count` seeds from `first` on, a range for each process."""
    each = -(-count // PROCESSES)
    ranges = [f"{begin}..{min(begin + each, first + count) - 1}"
              for begin in range(first, first + count, each)]
    with concurrent.futures.ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda seeds: simulate("--seeds", seeds, *arguments), ranges))


def show(capsys, text):
    with capsys.disabled():
        print(f"\nsimulator, {text}")


# The fixed seeds compare two trees; those of the commit are new each time and find most faults.
@pytest.mark.parametrize("first", [first_seed_of_commit,
                                   pytest.param(lambda: 1, id="fixed", marks=pytest.mark.slow)])
def test_every_job_gets_right_results_or_a_true_error(capsys, first):
    runs = run_seeds(first(), SEEDS)
    for run in runs:
        show(capsys, run.stdout.splitlines()[-1] if run.stdout else run.stderr)
    for run in runs:
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


@pytest.mark.parametrize("seed", SEEDS_THAT_FOUND)
def test_what_was_found_once_stays_fixed(seed):
    run = simulate("--seed", str(seed))
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


# Seeds of every kind.
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (7, 16, 22, 45))])
def test_a_seed_replays_exactly_in_another_process(seed):
    """Why: hash maps have a different order in every process, and no result may depend on it."""
    digests = [re.findall(r"digest (\w+)", simulate("--seed", str(seed)).stdout) for _ in range(2)]
    assert len(digests[0]) == 1 and digests[0] == digests[1]


def test_a_cable_with_a_small_mtu_blocks_no_route_through_a_third_host(tmp_path):
    """Why: such a cable can be dialed repeatedly, and each connection counted as a neighbour."""
    script = tmp_path / "script"
    script.write_text("cable tcp reported\ncable tcp reported 0 2\ncable tcp reported 1 2\n"
                      "small 0 0 15000000\npull 0 1000 100000\n")
    run = simulate("--script", str(script))
    events = [line.split()[2:] for line in run.stdout.splitlines() if line.startswith("event ")]
    # Up again once large packets pass, and not before.
    assert events == [["rail_down", "0"], ["link_waits"], ["rail_up", "0"]], run.stdout
    assert run.returncode == 0, run.stdout


def test_a_proxy_that_swallows_frames_costs_a_connection(tmp_path):
    """Why: signs of life pass, so no node falls silent, but nothing else passes any more."""
    script = tmp_path / "script"
    script.write_text("cable tcp silent\nswallow 0 0 600000\n")
    run = simulate("--script", str(script))
    events = [line.split()[2:] for line in run.stdout.splitlines() if line.startswith("event ")]
    assert events == [["rail_down", "0"], ["link_waits"], ["rail_up", "0"]], run.stdout
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("pulled_us", [300_000, 700_000, 1_300_000, 2_500_000])
def test_a_cable_that_is_plugged_in_carries_again_at_once(tmp_path, pulled_us):
    """Why: a connect that gets no answer takes seconds, and must not outlast the cable."""
    script = tmp_path / "script"
    script.write_text(f"grace_us {2 * pulled_us + 1_000_000}\ncable tcp reported\npull 0 0 {pulled_us}\n")
    run = simulate("--script", str(script))
    events = [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("event ")]
    assert [kind for _, kind, *_ in events] == ["rail_down", "link_waits", "rail_up"], run.stdout
    assert int(events[-1][0]) - int(events[0][0]) < pulled_us + 100_000, run.stdout


@pytest.mark.parametrize("bug", [
    "keep-duplicates",
    *(pytest.param(bug, marks=pytest.mark.slow) for bug in ("drop-acknowledgement", "forget-credit"))])
def test_a_planted_bug_is_found(bug, capsys):
    """Why: checks that find nothing may check nothing."""
    runs = run_seeds(1, PLANTED_SEEDS, "--planted", bug)
    found = [seed for run in runs for seed in re.findall(r"FAILED seed (\d+)", run.stdout)]
    show(capsys, f"planted bug {bug}: found in {len(found)} of {PLANTED_SEEDS} seeds")
    assert found
