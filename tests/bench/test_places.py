"""Every measurement ends, whatever a system's programs do, and has its cores."""
import os
import sys

import pytest

from bench.places import Machine, cores_of, end_of, started_on
from bench.rounds import Failed


@pytest.mark.parametrize("then", ["wait", "exit"])
def test_a_system_that_is_stuck_ends_with_all_it_has_started(then):
    """Why: mpirun inside nsenter outlived it, held its output open, and the benchmark waited for
    ever.
    How: a shell that waits for a child, or leaves it; only the end of both closes the pipe."""
    stuck = Machine("here", ranks=1, daemons=1).start(0, ["sh", "-c", f"sleep 1000 & {then}"], {})
    with pytest.raises(Failed, match=r"no end in 0\.1 s"):
        end_of([stuck], patience=0.1)
    assert stuck.stdout.closed


def test_whoever_fails_is_heard_though_others_wait_for_it():
    """Why: ranks were waited for in their order, and the report only said that rank 0 did not
    end."""
    place = Machine("here", ranks=2, daemons=1)
    waits = place.start(0, ["sleep", "1000"], {})
    fails = place.start(1, ["sh", "-c", "echo no such device; exit 3"], {})
    with pytest.raises(Failed, match="ended with 3: no such device"):
        end_of([waits, fails])
    assert waits.returncode is not None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds nobody to cores")
def test_ranks_have_cores_of_their_own_where_there_are_enough():
    """Why: it depended on which daemon met which rank on a core how long small operations took."""
    cores = os.sched_getaffinity(0)
    shares = [set(cores_of(rank, len(cores))) for rank in range(len(cores))]
    assert set.union(*shares) == cores and sum(map(len, shares)) == len(cores)
    assert cores_of(0, len(cores) + 1) == []
    place = Machine("here", ranks=len(cores), daemons=1, own_cores=True)
    tell = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
    said = end_of([place.start(0, tell, {}, place.cores(0)), place.start(0, tell, {})])
    assert [set(map(int, words.split())) for words in said] == [shares[0], cores]
    with started_on([]):
        assert os.sched_getaffinity(0) == cores
