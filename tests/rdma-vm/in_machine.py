"""Tests of this folder run in a virtual machine with soft-RoCE, all in one boot.

pytest starts the machine (`run`), in which a second pytest runs the same tests and writes reports into a
shared folder; this one passes them on as its own, with their output. Without a machine the tests are skipped.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
BUILD = FOLDER.parents[1] / "build"
INSIDE = "MLXCOMM_RDMA_VM_REPORTS"  # In the machine: the file for reports.
# Of a test that hangs: below the timeout that tests/run gives one outside, so that the machine reports where
# it hangs.
TEST_SECONDS_MAX = 840
SECONDS_MAX = 3600  # For a machine that hangs. On a busy machine all tests together have taken 840.
CANNOT_BE_HAD = 3
PASSED_ON = ("MLXCOMM_BUILD", "MLXCOMM_RDMA_VM_ALL", "PATH")


class Reporter:
    """In the machine: writes pytest's reports, one line of JSON each."""

    def __init__(self, config, path):
        self.config = config
        self.file = open(path, "w", encoding="utf-8")

    def _write(self, what):
        self.file.write(json.dumps(what) + "\n")
        self.file.flush()

    def pytest_runtest_logreport(self, report):
        hook = self.config.hook
        self._write({"report": hook.pytest_report_to_serializable(config=self.config, report=report)})

    def pytest_runtest_logfinish(self, nodeid):
        self._write({"finished": nodeid})


class Machine:
    """One boot, for all tests of the session that need it; `cannot` and `broken` have the reason if there is
    none."""

    def __init__(self, config, nodeids, folder):
        self.folder = folder
        self.cannot = self.broken = ""
        self.child = None
        cache = os.environ.get("MLXCOMM_RDMA_VM", str(BUILD / "rdma-vm"))
        image = subprocess.run([FOLDER / "image", cache], capture_output=True, text=True)
        if image.returncode == CANNOT_BE_HAD:
            self.cannot = image.stderr.strip()
            return
        if image.returncode != 0:
            self.broken = f"its kernel could not be made ready: {image.stderr}"
            return
        self.reports = folder / "reports"
        self.reports.touch()
        self.offset = 0
        self.reported = {}  # By test.
        self.finished = set()
        self.output = open(folder / "output", "w+", encoding="utf-8", errors="replace")
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", config.rootpath, "--basetemp", "/run/tests"]
        if config.pluginmanager.hasplugin("timeout"):
            options += ["--timeout", str(TEST_SECONDS_MAX)]
        passed_on = [f"{name}={os.environ[name]}" for name in PASSED_ON if name in os.environ]
        # It ends with this process, however that ends.
        command = ["setpriv", "--pdeathsig", "TERM", FOLDER / "run", "-t", SECONDS_MAX, "-o", folder,
                   "env", *passed_on, f"{INSIDE}={self.reports}", sys.executable, "-m", "pytest",
                   *options, *(config.rootpath / nodeid for nodeid in nodeids)]
        self.child = subprocess.Popen([str(word) for word in command], stdout=self.output,
                                      stderr=subprocess.STDOUT, cwd=config.rootpath)

    def read_reports(self):
        """True: there were some. An incomplete line is left for later."""
        with open(self.reports, encoding="ascii") as file:
            file.seek(self.offset)
            text = file.read()
        text = text[:text.rfind("\n") + 1]
        self.offset += len(text)
        for line in map(json.loads, text.splitlines()):
            if "report" in line:
                self.reported.setdefault(line["report"]["nodeid"], []).append(line["report"])
            else:
                self.finished.add(line["finished"])
        return text != ""

    def said(self):
        self.output.flush()
        return pathlib.Path(self.output.name).read_text(encoding="utf-8", errors="replace")

    def results(self, nodeid):
        """The reports of a test, once it has finished; None: the machine ended without it."""
        while nodeid not in self.finished:
            has_ended = self.child.poll() is not None
            if not self.read_reports() and has_ended:
                return None
            threading.Event().wait(0.05)
        return self.reported[nodeid]

    def end(self):
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            self.child.wait()


def is_here(item):
    return FOLDER in item.path.resolve().parents


def machine_of(item):
    """Boots it for the first test that needs it."""
    config = item.config
    if not hasattr(config, "rdma_machine"):
        nodeids = [one.nodeid for one in item.session.items if is_here(one)]
        folder = config._tmp_path_factory.mktemp("rdma-vm")
        config.rdma_machine = Machine(config, nodeids, folder)
        config.add_cleanup(config.rdma_machine.end)
    return config.rdma_machine


def reported_by_machine(item):
    machine = machine_of(item)
    now = time.time()

    def report(outcome, why):
        return pytest.TestReport(item.nodeid, item.location, {}, outcome, why, "call", start=now, stop=now)

    if machine.cannot:
        return [report("skipped", (str(item.path), item.location[1], f"Skipped: {machine.cannot}"))]
    if machine.broken:
        return [report("failed", machine.broken)]
    results = machine.results(item.nodeid)
    if results is None:
        return [report("failed", f"the machine ended without a result of it; it said:\n{machine.said()}")]
    hook = item.config.hook
    return [hook.pytest_report_from_serializable(config=item.config, data=data) for data in results]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    if INSIDE in os.environ or not is_here(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reported_by_machine(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_configure(config):
    if INSIDE in os.environ:
        config.pluginmanager.register(Reporter(config, os.environ[INSIDE]), "rdma-vm-reporter")
