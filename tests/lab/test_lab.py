"""The lab itself: a cut cable carries nothing, and nothing is left of it afterwards."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from conftest import Process, wait_until
from ground.wiring import pair

LAB = pathlib.Path(__file__).parent


def interfaces():
    return set(os.listdir("/sys/class/net"))


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
