"""Runs doctor on every host of a lab, and follows its remedies to the letter."""

import json
import re
import subprocess

from conftest import PATIENCE, find_program, find_test_program, wait_until

SEVERITIES = {"error": 1, "warning": 4, "note": 0, "ok": 0}
WELL = frozenset()


def report(c, node, *words):
    """Returns the output of mlxcommctl on the host."""
    process = c.run(node, [find_program("mlxcommctl"), *words])
    process.finish()
    return "\n".join(process.said())


class Doctor:

    def __init__(self, c):
        self.c = c
        # The machine's clock may not be synchronised.
        self.environment = {"LD_PRELOAD": find_test_program("faults", "libfaults_moved_clock.so")}

    def ctl(self, node, *words, text=None, codes=(0,)):
        """Returns mlxcommctl's exit code and output on the host."""
        command = ["env", f"MLXCOMM_SOCKET={self.c.socket(node)}",
                   *(f"{name}={value}" for name, value in self.environment.items()),
                   find_program("mlxcommctl"), *words]
        done = subprocess.run(self.c.namespaces.enter(f"node-{node}") + command, input=text,
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in codes, (command, done.returncode, done.stdout, done.stderr)
        return done.returncode, done.stdout

    def examine(self, node, *words):
        """Returns doctor's exit code and its findings, without healthy ones and jobs that failed recently."""
        code, out = self.ctl(node, "doctor", "--json", *words, codes=SEVERITIES.values())
        return code, [one for one in json.loads(out)["findings"]
                      if one["severity"] != "ok" and one["code"] != "MC519"]

    def says(self, node, expected, *words):
        """Waits until doctor reports exactly these codes as JSON and as text, with the worst one's exit code,
        and returns its findings. expected may list alternatives."""
        last, sets = [], [set(one) for one in (expected if isinstance(expected, list) else [expected])]

        def is_said():
            code, found = self.examine(node, *words)
            last[:] = [code, *found]
            seen = {one["code"] for one in found}
            if seen not in sets:
                return False
            codes = {SEVERITIES[one["severity"]] for one in found} - {0}
            assert code == (min(codes) if codes else 0), last
            _, text = self.ctl(node, "doctor", *words, codes=SEVERITIES.values())
            reported = re.findall(r"^(?:error|warning|note) +(MC\d+) ", text, re.MULTILINE)
            return set(reported) - {"MC519"} == seen and ("nothing is wrong" in text) == (not reported)

        try:
            wait_until(is_said, "doctor says so")
        except AssertionError as error:
            raise AssertionError(f"node-{node}: expected {sets}, found {last}") from error
        return last[1:]

    def everywhere(self, expected, *words):
        """Returns each node's findings; expected has each node's codes, none unless given."""
        return {node: self.says(node, expected.get(node, WELL), *words)
                for node in range(self.c.wiring.nodes)}

    # --- remedies -------------------------------------------------------------------

    def run_command(self, node, finding):
        assert finding["command"], finding
        self.c.namespaces.call(finding["command"].split(), host=f"node-{node}")

    def run_remedy(self, finding):
        """Runs the remedy's command for Linux on the node that it names; returns that node."""
        said = re.match(r"(?:.*: )?on node-(\d+), (?:as root: )?(ip link set dev [^(]+?) \(",
                        finding["remedy"])
        assert said, finding
        self.c.namespaces.call(said[2].split(), host=f"node-{said[1]}")
        return int(said[1])

    def take_key(self, taker, giver):
        files = [str(self.c.key(self.c.keys[node])) for node in (taker, giver)]
        _, code = self.ctl(giver, "cluster", "key", "show", "--key-file", files[1])
        self.ctl(taker, "cluster", "key", "rotate", "--take", "--key-file", files[0], text=code)


def only(findings, code):
    [found] = [one for one in findings if one["code"] == code]
    return found


def any_of(findings, code):
    return next(one for one in findings if one["code"] == code)
