"""Carries out what a seed has made, round by round, and looks at everything meanwhile."""

import collections
import heapq
import itertools
import json
import pathlib
import signal
import subprocess
import time

from soak import resources, rules
from soak.asking import Asking
from soak.ground import end_process
from soak.hands import Hands
from soak.rules import Complaint
from soak.schedule import Job, make_round
from soak.times import TICK_S, Lateness, now
from soak.watch import WatchedRank, said

RANKS_SHARE = 0.20  # Of a core, for all ranks together.
SAMPLE_EVERY_S = 2.0
ASK_EVERY_S = 1.5
EVENTS_SHOWN = 12
NOTED_MAX = 1000  # Of the log, to be shown with a failure.


def name_of(rank):
    return f"{rank.job} rank {rank.rank} on node-{rank.node}, pid {rank.pid},"


class Soak(Hands):
    def __init__(self, seed, world, ground, planted="", silence_s=rules.SILENCE_S, tell=print, show=print):
        self.seed, self.world, self.ground, self.tell, self.show = seed, world, ground, tell, show
        self.planted, self.silence_s = planted, silence_s
        self.folder = pathlib.Path(ground.folder)
        self.ledger = rules.Ledger(world.nodes, world.cables)
        self.lateness = Lateness(self.ledger)
        self.asking = Asking(ground, self.ledger, seed, ASK_EVERY_S)
        self.began = now()
        self.complaints, self.samples = [], []
        self.faults_done = {}  # Kind: how often.
        self.fault_times = []  # (time, kind), for the picture.
        self.delays = {}  # Rule: the delays that were seen.
        self.checked = dict.fromkeys(rules.RULES, 0)  # How often each rule was applied.
        self.errors = {}  # Code: how often it was told.
        self.ranks = []  # Of this round.
        self.hostile = []  # (process, what, node, since)
        self.lives = [0] * world.nodes
        self.expected_off = set()  # Nodes whose daemon has been ended.
        self.draining = {}  # Node: (trouble, pause after it)
        self.jobs = self.operations = self.bytes = 0
        self.left_behind = []
        self._actions, self._numbers = [], itertools.count()
        self._next_sample = 0.0
        self.noted = collections.deque(maxlen=NOTED_MAX)
        self.log = open(self.folder / "soak.log", "w", encoding="utf-8", buffering=1)

    # --- what is said ---------------------------------------------------------------

    def note(self, text):
        line = f"{now() - self.began:9.3f} {now():.3f}  {text}"
        self.noted.append((now(), line))
        self.log.write(line + "\n")

    def complain(self, complaint):
        self.complaints.append(complaint)
        last = [line for at, line in self.noted if at <= complaint.at + 1][-EVENTS_SHOWN:]
        self.note(f"FAILED {complaint.rule}: {complaint.text}")
        self.tell(
            f"FAILED seed {self.seed}, {complaint.at - self.began:.1f} s, {complaint.rule}: "
            f"{complaint.text}\n"
            f"  expected: {rules.RULES[complaint.rule]}\n  what happened before, in {self.folder}:\n    "
            + "\n    ".join(last)
        )

    # --- time -----------------------------------------------------------------------

    def at(self, when, action):
        heapq.heappush(self._actions, (when, next(self._numbers), action))

    def turn(self):
        """Everything that is due, and what everybody has said since."""
        while self._actions and self._actions[0][0] <= now():
            heapq.heappop(self._actions)[2]()
        for rank in self.ranks:
            if rank.is_running and rank.look(now()):
                self._rank_ended(rank)
        self._look_at_daemons()
        self._look_at_hostile()
        for complaint in self.asking.look(now()):
            self.complain(complaint)
        if now() >= self._next_sample:
            self._next_sample = now() + SAMPLE_EVERY_S
            self._sample(quiet=False)
            self.show(self._progress())
        time.sleep(TICK_S)

    def _progress(self):
        elapsed = int(now() - self.began)
        running = sum(rank.is_running for rank in self.ranks)
        return (
            f"{elapsed // 60:3d}:{elapsed % 60:02d}  {sum(self.faults_done.values())} faults, "
            f"{self.jobs} jobs, "
            f"{running} ranks run, {self.operations} operations checked, {len(self.complaints)} failures"
        )

    def until(self, condition, seconds):
        """Turns until it holds; False: it did not in that time."""
        end = now() + seconds
        while not condition():
            if now() > end:
                return False
            self.turn()
        return True

    # --- a round ----------------------------------------------------------------------

    def start(self):
        self.lateness.start()
        for node in range(self.world.nodes):
            self.ground.start_daemon(node)
        self._heal_and_check(first=True)

    def round(self, number, seconds):
        planned = make_round(self.seed, number, self.world, seconds)
        begin = now()
        self.note(f"round {number}: {len(planned.jobs)} jobs, {len(planned.faults)} faults")
        self.ranks = []
        for job in planned.jobs:
            self.at(begin + job.at, lambda job=job: self._start_job(job))
            self.at(begin + job.at + job.seconds, lambda job=job: self._end_job(job.name))
        for fault in planned.faults:
            self.at(begin + fault.at, lambda fault=fault: self._do(fault))
        while now() < begin + seconds:
            self.turn()
        self._finish_round()

    def _finish_round(self):
        self._heal()
        for name in {rank.facts.job for rank in self.ranks}:
            self._end_job(name)
        self.until(
            lambda: not any(rank.is_running for rank in self.ranks) and not self._actions, 3 * self.silence_s
        )
        for rank in self.ranks:
            if rank.is_running:
                rank.end()
        self._judge_round()
        self._heal_and_check()
        self.ledger.forget(now() - 120)

    def _heal(self):
        """What is wrong for longer than the round ends with it."""
        for trouble in self.ledger.of("cut", "stop-daemon", "stop-rank", "rate"):
            if trouble.end is None:
                self._undo(trouble)
        for process, *_ in self.hostile:
            end_process(process)
        self.hostile = []

    def _heal_and_check(self, first=False):
        """All linked, a job over all of them, and then a quiet moment."""
        self.until(lambda: not self.draining and not self.expected_off, 60)
        if not self.until(self._is_linked, rules.LINKED_S + self.ledger.slack(now() - 60, now())):
            self.complain(Complaint("healed", now(), f"daemons are not linked: {self._links()}"))
        self.checked["healed"] += 1
        if not first:
            self._proving_job()
        if self.planted == "leak":
            name = f"left-behind-{len(self.left_behind)}"
            self.left_behind.append(self._run_rank(name, 0, 1, self.world.steady, 1))
            self.until(lambda: self.left_behind[-1].look(now()) or self.left_behind[-1].facts.pid, 10)
        self.checked["nothing left"] += 1
        if not self.until(lambda: not self._left(), rules.GONE_S + self.ledger.slack(now() - 10, now())):
            self.complain(Complaint("nothing left", now(), f"with no process there any more: {self._left()}"))
        self._quiet_moment()

    def _left(self):
        """What daemons have or show of jobs, by node."""
        found = {}
        for node in range(self.world.nodes):
            status = self._status(node)
            if status is None:
                found[node] = "no answer"
                continue
            own = status["nodes"][0]
            left = {
                what: own["use"][what]
                for what in ("clients", "groups", "operations")
                if int(own["use"][what])
            }
            left.update({"jobs": [job["name"] for job in status["jobs"]]} if status["jobs"] else {})
            if left:
                found[node] = left
        return found

    def _proving_job(self):
        """Survivors can go on: a job over all nodes does its work."""
        name = f"proof-{self.jobs}"
        nodes = [node for node in range(self.world.nodes) for _ in range(2)]
        self._start_job(Job(name, 0.0, 0.0, nodes, self.seed))
        mine = [rank for rank in self.ranks if rank.facts.job == name]
        done = self.until(lambda: all(rank.facts.operations >= 8 or not rank.is_running for rank in mine), 40)
        self._end_job(name)
        done = self.until(lambda: not any(rank.is_running for rank in mine), self.silence_s) and done
        if not done or any(rank.facts.code != 0 for rank in mine):
            self.complain(
                Complaint(
                    "healed",
                    now(),
                    (
                        f"the job over all nodes after the round did not do its work: "
                        f"{[(rank.facts.node, rank.facts.code, rank.lines[-2:]) for rank in mine]}"
                    ),
                )
            )
        for rank in mine:
            rank.end()
        self.ranks = [rank for rank in self.ranks if rank not in mine]
        self._stop_file(name).unlink()

    def _quiet_moment(self):
        """Descriptors and threads have time to come back, and memory to come to rest: a second after the last
        job daemons give back what they had kept for the next."""
        before = {one.node: one for one in self.samples if one.quiet and one.life == self.lives[one.node]}
        self.asking.is_wanted = False
        self.until(lambda: self.asking.open is None, 3 * rules.ANSWER_S)
        rest = resources.Rest(now())

        def is_back():
            current = [self._read(node, True) for node in range(self.world.nodes)]
            has_come = all(
                one is None
                or one.node not in before
                or (
                    one.descriptors <= before[one.node].descriptors
                    and one.threads <= before[one.node].threads
                )
                for one in current
            )
            return rest.has_come(now(), [one and one.rss_mb for one in current]) and has_come

        end = now() + 8
        while not is_back() and now() < end:
            time.sleep(TICK_S)
        self._sample(quiet=True)
        self.asking.is_wanted = True

    # --- jobs -------------------------------------------------------------------------

    def _start_job(self, job):
        self.jobs += 1
        self.note(f"job {job.name}: ranks on {list(job.nodes)}")
        for number, node in enumerate(job.nodes):
            planted = ""
            if self.planted in ("wrong-byte", "hang") and number == 0:
                planted = self.planted
            self.ranks.append(self._run_rank(job.name, number, len(job.nodes), node, job.seed, planted))

    def _run_rank(self, name, number, size, node, seed, planted=""):
        share = max(0.01, RANKS_SHARE / 10)
        process = self.ground.start_rank(
            node, number, size, name, seed, share, self._stop_file(name), planted
        )
        return WatchedRank(process, name, number, node, now())

    def _stop_file(self, name):
        return self.folder / f"stop-{name}"

    def _end_job(self, name):
        self._stop_file(name).touch()
        for rank in self.ranks:
            if rank.facts.job == name and rank.facts.told_to_end is None:
                rank.facts.told_to_end = now()

    def _rank_ended(self, rank):
        facts = rank.facts
        self.note(
            f"rank {facts.rank} of {facts.job} on node-{facts.node}, pid {facts.pid}, ended with "
            f"{facts.code}; {rank.lines[-1] if rank.lines else ''}"
        )
        self.operations += facts.operations
        self.bytes += facts.bytes
        if rank.wrong:
            self.complain(Complaint("wrong byte", now(), f"{facts.job}: {rank.wrong}"))
        elif facts.killed is None and not (facts.code == 0 or (facts.code == 3 and facts.raised)):
            self.complain(
                Complaint(
                    "rank ended",
                    now(),
                    (f"{name_of(facts)} ended with {facts.code} without a reason; it said {rank.lines[-4:]}"),
                )
            )

    def _judge_round(self):
        jobs = {}
        for rank in self.ranks:
            jobs.setdefault(rank.facts.job, []).append(rank)
        for ranks in jobs.values():
            facts = [rank.facts for rank in ranks]
            for rank in ranks:
                self._judge_rank(rank, facts)
            for rule, delay, complaint in rules.owed(facts, self.ledger):
                self.checked[rule] += 1
                self.delays.setdefault(rule, []).append(delay)
                if complaint:
                    self.complain(complaint)
        for rank in self.ranks:
            (self.folder / "ranks").mkdir(exist_ok=True)
            name = f"{rank.facts.job}-{rank.facts.rank}.log"
            (self.folder / "ranks" / name).write_text("\n".join(rank.lines) + "\n", encoding="utf-8")
            self._stop_file(rank.facts.job).unlink(missing_ok=True)

    def _judge_rank(self, rank, facts):
        self.checked["wrong byte"] += 1
        self.checked["rank ended"] += 1
        for error in rank.facts.raised:
            self.errors[error.code] = self.errors.get(error.code, 0) + 1
            rule = {"RANK_LOST": "culprit", "DEADLINE_EXCEEDED": "deadline"}.get(
                error.code,
                "own daemon"
                if error.code in ("DAEMON_LOST", "DAEMON_STOPPING", "UNAVAILABLE")
                else "other error",
            )
            self.checked[rule] += 1
            complaint = rules.unexplained(rank.facts, error, facts, self.ledger)
            if complaint:
                one = rank.facts
                self.complain(
                    Complaint(
                        complaint.rule,
                        error.at,
                        (f"{name_of(one)} was told in {error.stage}: {error.text}; but {complaint.text}"),
                    )
                )
        self.checked["survivors"] += len(rank.facts.raised)
        for complaint in rules.survivors(rank.facts, self.ledger):
            self.complain(complaint)

    # --- looking ----------------------------------------------------------------------

    def _look_at_daemons(self):
        for node, daemon in enumerate(self.ground.daemons):
            code = daemon.child.poll()
            if node in self.draining:
                trouble, pause = self.draining[node]
                limit = rules.DRAIN_S + rules.AT_ONCE_S + self.ledger.slack(trouble.begin, now())
                if code is not None:
                    self.note(f"fault: node-{node}'s daemon has drained, code {code}")
                    self.checked["daemon ended"] += 1
                    if code not in rules.DRAINED:
                        self.complain(
                            Complaint("daemon ended", now(), f"node-{node}'s daemon ended with {code}")
                        )
                    del self.draining[node]
                    self._start_again(trouble, pause)
                elif now() - trouble.begin > limit:
                    self.complain(
                        Complaint(
                            "daemon ended", now(), f"node-{node}'s daemon drains for more than {limit:.0f} s"
                        )
                    )
                    self.ground.signal_daemon(node, signal.SIGKILL)
            elif code is not None and node not in self.expected_off:
                tail = self.ground.log_path(node).read_text(errors="replace").splitlines()[-8:]
                self.complain(
                    Complaint(
                        "daemon ended",
                        now(),
                        (
                            f"node-{node}'s daemon ended by itself with {code}; it said:\n    "
                            + "\n    ".join(tail)
                        ),
                    )
                )
                self._start_again(self.ledger.add("kill-daemon", now(), node=node), 0)
        for rank in self.ranks:
            facts = rank.facts
            if not rank.is_running:
                continue
            quiet = now() - facts.heard
            allowed = (
                self.silence_s
                + self.ledger.slack(facts.heard, now())
                + rules.stopped_s(facts, self.ledger, facts.heard)
            )
            if facts.joined is None:
                allowed += 15
            if quiet > allowed:
                self.complain(
                    Complaint(
                        "hang",
                        facts.heard,
                        (
                            f"{name_of(facts)} has said nothing for "
                            f"{quiet:.0f} s; its last lines: {rank.lines[-3:]}; "
                            f"status: {self._status_text(facts.node)}"
                        ),
                    )
                )
                rank.end()
                rank.look(now())
                facts.killed = facts.ended = now()

    def _look_at_hostile(self):
        for entry in list(self.hostile):
            process, what, node, since = entry
            code = process.child.poll()
            if code is not None:
                self.hostile.remove(entry)
                process.finish()
                self.checked["strangers"] += 1
                self.note(f"{what} at node-{node} ended with {code}: {said(process)[-1:]}")
            elif now() - since > 60:
                self.hostile.remove(entry)
                end_process(process)
                if self.ledger.is_calm(since - 5, now()) and not what.startswith("discovery"):
                    self.complain(
                        Complaint("strangers", since, f"{what} at node-{node} has not come to its end")
                    )

    def _read(self, node, quiet):
        pid = self.ground.daemon_pid(node)
        return resources.read(pid, now() - self.began, node, self.lives[node], quiet) if pid else None

    def _sample(self, quiet):
        for node, daemon in enumerate(self.ground.daemons):
            if daemon.child.poll() is None:
                one = self._read(node, quiet)
                if one:
                    self.samples.append(one)
                if one and quiet:
                    self.note(
                        f"quiet: node-{node}, run {one.life + 1}: {one.rss_mb:.1f} MB and {one.files_mb:.1f} "
                        f"of files, {one.descriptors} descriptors, {one.threads} threads, "
                        f"{one.mappings} mappings"
                    )

    def _status(self, node):
        command = ["mlxcommctl", "status", "--json", "--socket", self.ground.socket(node)]
        if hasattr(self.ground, "namespaces"):
            command = self.ground.namespaces.enter(f"node-{node}") + command
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except subprocess.TimeoutExpired:
            return None
        return json.loads(done.stdout) if done.returncode == 0 else None

    def _status_text(self, node):
        status = self._status(node)
        return json.dumps({"jobs": status["jobs"]})[:3000] if status else "none"

    def _is_linked(self):
        for node in range(self.world.nodes):
            status = self._status(node)
            others = {f"node-{n}" for n in range(self.world.nodes) if n != node}
            if not status or not others <= {
                link["peer"] for link in status["nodes"][0]["links"] if link["state"] == "up"
            }:
                return False
        return True

    def _links(self):
        return {
            node: [(link["peer"], link["state"]) for link in status["nodes"][0]["links"]] if status else None
            for node in range(self.world.nodes)
            for status in [self._status(node)]
        }

    # --- the end ------------------------------------------------------------------------

    def end(self):
        self.lateness.over.set()
        self.asking.end()
        for process, *_ in self.hostile:
            end_process(process)
        for rank in [*self.ranks, *self.left_behind]:
            rank.end()
        for complaint in resources.complaints(self.samples):
            self.complain(Complaint(complaint[0], complaint[1] + self.began, complaint[2]))
        trends = list(resources.trends(self.samples))
        for rule in ("descriptors", "threads", "mappings"):
            self.checked[rule] = len(trends)
        self.checked["memory"] = sum(trend.bound_mb > 0 for trend in trends)
        self.checked["hang"], self.checked["tools"] = self.jobs, self.asking.answered
        self.ground.end()
        self.log.close()
