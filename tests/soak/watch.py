"""A rank's process, read as it goes: its lines fill in the Rank that the rules judge."""

import re

from soak.ground import end_process, pid_of
from soak.rules import Raised, Rank

RAISED = re.compile(r"raised (\S+) (\S+) stage (\S+) culprit (\S+) (\d+) group (\S+) size (\d+) \| (.*)")
# A rank that waits for its job to form has no group yet, and knows the culprit by the message alone.
NAMED = re.compile(r"rank \d+ \(node-(\d+), pid (\d+)\)")
COUNTED = re.compile(r"(?:at|fine) (\S+) phases \d+ operations (\d+) bytes (\d+) longest (\S+)")


class WatchedRank:
    def __init__(self, process, job, rank, node, now):
        self.process = process
        self.facts = Rank(job, rank, node, heard=now)
        self.wrong = ""  # What it says of a wrong byte.
        self.other = []  # Lines that are not of this form: the library's own.
        self.lines = []
        self.longest = 0.0
        self._read = 0

    @property
    def is_running(self):
        return self.facts.ended is None

    def look(self, now):
        """Takes in what is new; returns whether the process has ended just now."""
        code = self.process.child.poll()
        if code is not None and self.is_running:
            self.process.finish()
        lines = said(self.process)
        for line in lines[self._read :]:
            self._take(line, now)
        self._read = len(lines)
        if code is None or not self.is_running:
            return False
        self.facts.ended, self.facts.code = now, code
        return True

    def _take(self, line, now):
        self.lines.append(line)
        facts, words = self.facts, line.split()
        facts.heard = now
        if words[:1] == ["pid"]:
            facts.pid = int(words[2])
        elif words[:1] == ["joined"]:
            facts.joined = float(words[1])
        elif words[:1] == ["shrunk"]:
            facts.shrunk.append(float(words[1]))
        elif words[:1] == ["wrong"]:
            self.wrong = " ".join(words[2:])
        elif found := COUNTED.fullmatch(line):
            facts.operations, facts.bytes = int(found[2]), int(found[3])
            self.longest = max(self.longest, float(found[4]))
        elif found := RAISED.fullmatch(line):
            node = int(found[4].removeprefix("node-")) if found[4] != "-" else -1
            pid = int(found[5])
            if node < 0 and (named := NAMED.search(found[8])):
                node, pid = int(named[1]), int(named[2])
            facts.raised.append(Raised(float(found[1]), found[2], found[3], node, pid, found[8]))
        else:
            self.other.append(line)

    def signal(self, number):
        if self.process.child.poll() is None:
            self.process.signal(number)

    def end(self):
        end_process(self.process)


def said(process):
    """All lines so far, without waiting."""
    if hasattr(process, "said"):
        return process.said()
    queue = process._queue  # A Process of conftest.py has no such call.
    while not queue.empty():
        line = queue.get()
        if line is None:
            queue.put(None)
            break
        process.lines.append(line)
    return process.lines


__all__ = ["WatchedRank", "pid_of", "said"]
