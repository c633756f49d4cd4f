"""What is measured ends, whatever a system's programs do."""
import pytest

from bench.places import Machine, end_of
from bench.rounds import Failed


def test_a_system_that_is_stuck_ends_with_all_it_has_started():
    """Why: mpirun inside nsenter outlived it, held its output open, and the bench waited for ever.
    How: a shell that waits for a child; only the whole of it closes the pipe."""
    stuck = Machine("here", ranks=1, daemons=1).start(0, ["sh", "-c", "sleep 1000 & wait"], {})
    with pytest.raises(Failed, match="no end in 0.1 s"):
        end_of([stuck], patience=0.1)
    assert stuck.stdout.closed
