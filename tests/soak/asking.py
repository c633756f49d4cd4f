"""Asks the daemons for everything that they can tell, one question at a time, all the while."""

import json
import random
import subprocess

from soak.rules import ANSWER_S, Complaint

QUESTIONS = (
    ("status", "--json"),
    ("status",),
    ("record", "-n", "50", "--json"),
    ("events", "-n", "50", "--json"),
    ("trace", "-n", "200"),
    ("doctor", "--json"),
    ("topology", "--json"),
)
GOOD = {0}
OF_DOCTOR = {0, 1, 4}  # It has found errors, or warnings: there are some.


class Asking:
    """One question is open at a time; `look` asks the next when that has been answered and it is due."""

    def __init__(self, ground, ledger, seed, every_s):
        self.ground, self.ledger, self.every_s = ground, ledger, every_s
        self.dice = random.Random(f"questions {seed}")
        self.is_wanted = False  # Whether a next question may be asked.
        self.open = None  # (process, node, words, since)
        self.due = 0.0
        self.answered = 0
        self.refused = 0
        self.longest = 0.0

    def look(self, now):
        """Yields complaints."""
        if self.open is None:
            if self.is_wanted and now >= self.due:
                node = self.dice.randrange(len(self.ground.daemons))
                words = self.dice.choice(QUESTIONS)
                self.open = (self._start(node, words), node, words, now)
            return
        process, node, words, since = self.open
        limit = ANSWER_S + self._stopped_s(node, since, now) + self.ledger.slack(since, now)
        if process.poll() is None and now - since < limit:
            return
        self.open, self.due = None, now + self.every_s
        yield from self._judge(process, node, words, since, now, limit)

    def _start(self, node, words):
        command = ["mlxcommctl", *words, "--socket", self.ground.socket(node)]
        if hasattr(self.ground, "namespaces"):
            command = self.ground.namespaces.enter(f"node-{node}") + command
        for name in ("answer", "refusal"):  # Who was given up may still write into its own.
            (self.ground.folder / name).unlink(missing_ok=True)
        with (
            open(self.ground.folder / "answer", "wb") as answer,
            open(self.ground.folder / "refusal", "wb") as refusal,
        ):
            return subprocess.Popen(command, stdout=answer, stderr=refusal)

    def _judge(self, process, node, words, since, now, limit):
        said = f"mlxcommctl {' '.join(words)} on node-{node}"
        if process.poll() is None:
            process.kill()
            process.wait()
            yield Complaint("tools", since, f"{said} has not answered in {limit:.0f} s")
            return
        self.longest = max(self.longest, now - since)
        if process.returncode not in (OF_DOCTOR if words[0] == "doctor" else GOOD):
            self.refused += 1
            if not self.ledger.ended_daemon(node, since - 2, now) and not self._stopped_s(node, since, now):
                refusal = (self.ground.folder / "refusal").read_text(errors="replace").strip()[-300:]
                yield Complaint("tools", since, f"{said} ended with {process.returncode}: {refusal}")
            return
        self.answered += 1
        if "--json" in words or words[0] == "trace":
            text = (self.ground.folder / "answer").read_text(encoding="utf-8", errors="replace")
            try:
                for line in text.splitlines() if words[0] == "events" else [text]:
                    json.loads(line)
            except ValueError as error:
                yield Complaint("tools", since, f"{said} printed what is no JSON: {error}")

    def _stopped_s(self, node, since, now):
        return sum(
            (one.end or now) - one.begin
            for one in self.ledger.of("stop-daemon")
            if one.node == node and one.overlaps(since, now)
        )

    def end(self):
        if self.open is not None:
            self.open[0].kill()
            self.open[0].wait()
            self.open = None
