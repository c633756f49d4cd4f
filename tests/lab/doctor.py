"""doctor on every host of a lab: what it finds there, and its remedies, followed to the letter."""

import json
import re
import subprocess

from conftest import PATIENCE, find_program, find_test_program, wait_until

SEVERITIES = {"error": 1, "warning": 4, "note": 0, "ok": 0}
WELL = frozenset()


class Doctor:
    """Of a running ground.cluster.LabCluster."""

    def __init__(self, c):
        self.c = c
        # Whether the machine's clock is synchronised is not the tests' subject.
        self.environment = {"LD_PRELOAD": find_test_program("faults", "libfaults_moved_clock.so")}

    def ctl(self, node, *words, text=None, codes=(0,)):
        """(exit code, standard output) of mlxcommctl on the host."""
        command = ["env", f"MLXCOMM_SOCKET={self.c.socket(node)}",
                   *(f"{name}={value}" for name, value in self.environment.items()),
                   find_program("mlxcommctl"), *words]
        done = subprocess.run(self.c.namespaces.enter(f"node-{node}") + command, input=text,
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in codes, (command, done.returncode, done.stdout, done.stderr)
        return done.returncode, done.stdout

    def examine(self, node, *words):
        """(exit code, its findings other than of what is well, and than jobs that failed lately: no remedy
        takes these away)."""
        code, out = self.ctl(node, "doctor", "--json", *words, codes=SEVERITIES.values())
        return code, [one for one in json.loads(out)["findings"]
                      if one["severity"] != "ok" and one["code"] != "MC519"]

    def says(self, node, expected, *words):
        """Waits until doctor there says just these codes, to programs and to people; then returns its
        findings. Its exit code tells of the worst. A list: any of these sets of codes."""
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
            raise AssertionError(f"node-{node} is to say {sets}, and says {last}") from error
        return last[1:]

    def everywhere(self, expected, *words):
        """Of each node its findings: expected has the codes of each."""
        return {node: self.says(node, expected.get(node, WELL), *words)
                for node in range(self.c.wiring.nodes)}

    # --- remedies -------------------------------------------------------------------

    def run_command(self, node, finding):
        """The command that doctor shows to who is on that host."""
        assert finding["command"], finding
        self.c.namespaces.call(finding["command"].split(), host=f"node-{node}")

    def run_remedy(self, finding):
        """The command for Linux that the remedy names, on the node that it names."""
        said = re.match(r"(?:.*: )?on node-(\d+), (?:as root: )?(ip link set dev [^(]+?) \(",
                        finding["remedy"])
        assert said, finding
        self.c.namespaces.call(said[2].split(), host=f"node-{said[1]}")
        return int(said[1])

    def take_key(self, taker, giver):
        """What remedies about keys name."""
        files = [str(self.c.key(self.c.keys[node])) for node in (taker, giver)]
        _, code = self.ctl(giver, "cluster", "key", "show", "--key-file", files[1])
        self.ctl(taker, "cluster", "key", "rotate", "--take", "--key-file", files[0], text=code)


def only(findings, code):
    """The one finding with it."""
    [found] = [one for one in findings if one["code"] == code]
    return found


def any_of(findings, code):
    """Of several that say the same, the first."""
    return next(one for one in findings if one["code"] == code)
