"""The lab itself: a cut cable carries nothing, and nothing is left of it afterwards."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import Process, completed, wait_until
from ground.wiring import pair

LAB = pathlib.Path(__file__).parent


def interfaces():
    return set(os.listdir("/sys/class/net"))


def state_of(pid):
    """"S (sleeping)", "T (stopped)", ..."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("State:"):
            return line


def test_cut_cable_carries_nothing_and_the_carrier_is_gone(lab):
    """Why: a test that cuts an unused cable shows nothing."""
    c = lab(pair(cables=2))

    def carrier(node, interface):
        return c.namespaces.call(["cat", f"/sys/class/net/{interface}/operstate"],
                                 host=f"node-{node}").strip()

    c.cut("0-1a")
    wait_until(lambda: "up" not in (carrier(0, "to-1a"), carrier(1, "to-0a")), "both ends see it")
    assert (carrier(0, "to-1b"), carrier(1, "to-0b")) == ("up", "up")
    c.restore("0-1a")
    wait_until(lambda: (carrier(0, "to-1a"), carrier(1, "to-0a")) == ("up", "up"), "it is back")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_process_that_made_a_lab_is_killed(lab, tmp_path, number):
    """Why: a killed run cannot clean up itself; the kernel must do it."""
    lab(pair()).end()  # Prints whether it is skipped, and where.
    before = interfaces()
    (tmp_path / "other").mkdir()
    maker = Process([sys.executable, "-c", f"""if True:
        import sys
        sys.path.insert(0, {str(LAB.parent)!r})
        from ground.cluster import LabCluster
        from ground.wiring import ring
        c = LabCluster({str(tmp_path / "other")!r}, ring(3)).start()
        print("pids", c.namespaces.keeper, *[d.pid for d in c.daemons], flush=True)
        input()"""], stdin=subprocess.PIPE)
    try:
        pids = maker.wait_for("pids").split()[1:]
        assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    finally:
        maker.signal(number)
        maker.end()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "all has ended")
    assert interfaces() == before


def test_a_stopped_process_does_not_block_the_teardown(lab):
    """Why: a failed test may leave stopped processes."""
    c = lab(pair())
    stopped = c.run(0, ["sleep", "1000"])
    stopped.signal(signal.SIGSTOP)
    wait_until(lambda: "stopped" in state_of(stopped.child.pid), "the nsenter beside it stops too")
    c.end()
    assert stopped.child.returncode == -signal.SIGKILL


def test_tests_are_skipped_with_a_reason_if_namespaces_are_not_allowed(lab, tmp_path):
    """How: a test of this file runs with a limit of zero network namespaces."""
    lab(pair()).end()  # Prints whether it is skipped, and where.
    limits = "/proc/sys/user/max_net_namespaces /proc/sys/user/max_user_namespaces"
    forbid = f"for limit in {limits}; do echo 0 > $limit; done"
    done = completed(["unshare", "--user", "--map-root-user", "sh", "-c", f'{forbid}; exec "$@"', "sh",
                      sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
                      f"--basetemp={tmp_path}/there", LAB / "test_lab.py", "-k", "carrier"], cwd=LAB.parent)
    assert "1 skipped" in done.stdout and "not allowed here: unshare" in done.stdout, done
