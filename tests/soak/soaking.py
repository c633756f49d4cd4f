"""Rounds of jobs and faults on daemons of the lab, and the checks in between."""

import dataclasses
import json
import pathlib
import random
import signal
import sys
import threading

from conftest import find_program, find_test_program
from ground import stranger
from ground.cluster import PORT, LabCluster, now
from ground.daemon_resources import MIB, Resources
from ground.wiring import mesh, pair, ring
from soak import rules
from soak.rules import Fault, Moment, Raised

STEADY = 0  # This node's daemon is never ended, so that its life is the run.
SETTINGS = "grace_period_ms: 5000 reconnect_delay_max_ms: 500"
TOP = "drain_timeout_ms: 5000"
TURN_S = 0.05
DRAIN_S = 15.0  # The drain timeout, and time for a busy machine.
DRAINED = (0, 3)  # Its exit code: all jobs had ended, or had to be stopped.
LINKED_S = 30.0
GONE_S = 10.0
JOBS = 5  # In a round.
FAULTS_MAX = 50
BYSTANDER_S = 90.0
STRANGERS = ("garbage", "half", "version", "foreign", "nokey", "connects")
MAD = ("frames", "cutoff", "toolong", "beyond")  # Neighbours that have the key.
QUESTIONS = ("status", "record --json", "events --json", "trace", "doctor --json", "topology --json")
FAULTS = ("kill-rank", "stop-rank", "kill-daemon", "drain", "stop-daemon", "cut", "cut", "rate")


@dataclasses.dataclass(eq=False)
class Rank:
    process: object
    job: str
    number: int
    node: int
    heard: float
    read: int = 0
    operations: int = 0
    is_killed: bool = False
    has_joined: bool = False
    has_raised: bool = False

    def __str__(self):
        return f"rank {self.number} of {self.job} on node-{self.node}"


class Soak:
    def __init__(self, seed, folder, say):
        """Raises NotAllowed if namespaces are not possible."""
        self.seed, self.folder, self.say = seed, pathlib.Path(folder), say
        dice = random.Random(seed)
        wiring = dice.choice((pair(), ring(3), ring(3), ring(4), mesh(4)))
        self.cluster = LabCluster(folder, wiring, peer_settings=SETTINGS, top_settings=TOP,
                                  discovery=dice.random() < 0.5)
        self.nodes = self.cluster.wiring.nodes
        self.failures = []  # (rule, text)
        self.ranks, self.bystanders = [], []
        self.faults, self.errors = [], []
        self.lives = {node: [] for node in range(self.nodes)}  # Quiet moments since the daemon started.
        self.off = set()  # Nodes whose daemon has been ended.
        self.done = dict.fromkeys(("faults", "jobs", "operations"), 0)
        self.began = now()
        self.log = open(self.folder / "soak.log", "w", encoding="utf-8", buffering=1)

    def counts(self):
        return ", ".join(f"{count} {what}" for what, count in self.done.items())

    def note(self, text):
        self.log.write(f"{now() - self.began:9.3f}  {text}\n")

    def fail(self, rule, text):
        self.failures.append((rule, text))
        self.note(f"FAILED {rule}: {text}")
        self.say(f"FAILED seed {self.seed}, {now() - self.began:.1f} s, {rule}: {text}\n"
                 f"  expected: {rules.RULES[rule]}; {self.folder}/soak.log has what happened before")

    # --- looking ----------------------------------------------------------------------

    def watch(self, seconds, until=lambda: False):
        """Checks everything until the condition holds or the time is up; returns whether it holds."""
        end = now() + seconds
        while not (holds := until()) and now() < end:
            for rank in list(self.ranks):
                self.look_at_rank(rank)
            for entry in list(self.bystanders):
                self.look_at_bystander(*entry)
            for node in set(range(self.nodes)) - self.off:
                if self.cluster.daemons[node].child.poll() is not None:
                    self.fail("daemon ended", f"node-{node}'s ended by itself: {self.cluster.log(node)[-8:]}")
                    self.start_daemon(node)
            threading.Event().wait(TURN_S)
        return holds

    def look_at_rank(self, rank):
        code = rank.process.child.poll()
        if code is not None:
            rank.process.finish()
        lines = rank.process.said()
        for line in lines[rank.read:]:
            self.take(rank, line)
        rank.read = len(lines)
        silent = now() - rank.heard
        broken = rules.broken_by_end(code, silent, rank.is_killed, rank.has_raised)
        if broken:
            status = json.dumps(self.cluster.status(rank.node))[:3000]
            self.fail(broken, f"{rank}: code {code} after {lines[-4:]}, silent for {silent:.0f} s; {status}")
        if broken or code is not None:
            self.note(f"{rank} ended with {code}; {lines[-1:]}")
            self.done["operations"] += rank.operations
            self.ranks.remove(rank)
            self.cluster.processes.remove(rank.process)
            rank.process.end()

    def take(self, rank, line):
        rank.heard = now()
        rank.has_joined |= line == "joined"
        if line.startswith("operations"):
            rank.operations = int(line.split()[1])
        elif line.startswith("raised at"):
            rank.has_raised = True
            self.errors.append(Raised(float(line.split()[2]), rank.job, rank.node, line.split(" ", 3)[3]))
            self.note(f"{rank}: {line}")

    def look_at_bystander(self, process, what, began):
        if process.child.poll() is None and now() - began < BYSTANDER_S:
            return
        self.bystanders.remove((process, what, began))
        self.cluster.processes.remove(process)
        if process.child.poll() is None:
            self.fail("bystander", f"{what} has not come to its end")
        process.end()

    def judge_errors(self):
        """Once everything that could explain them is known."""
        for error in rules.unexplained(self.errors, self.faults):
            at = error.at - self.began
            self.fail("unexplained error", f"{error.job} on node-{error.node} at {at:.1f} s: {error.text}")
        self.errors = []
        self.faults = [fault for fault in self.faults if fault.end > now() - rules.EFFECT_S]

    # --- faults -------------------------------------------------------------------------

    def fault(self, dice):
        """Does one fault, waits, and undoes it."""
        kind, node, seconds = dice.choice(FAULTS), dice.randrange(self.nodes), dice.uniform(0.2, 2)
        if kind in ("stop-daemon", "cut") and dice.random() < 0.4:
            seconds = dice.uniform(7, 9)
        if kind in ("kill-daemon", "drain") and node == STEADY:
            node = dice.choice([n for n in range(self.nodes) if n != STEADY])
        fault = Fault(kind, now(), frozenset() if kind == "kill-rank" else frozenset({node}))
        self.note(f"{kind} node-{node} for {seconds:.1f} s")
        self.faults.append(fault)
        self.done["faults"] += 1
        getattr(self, kind.replace("-", "_"))(fault, node, seconds, dice)
        fault.end = now()
        self.note(f"{kind} of {sorted(fault.nodes)} is over")

    def victim(self, dice):
        pick = dice.random()  # Drawn even if unused, so that the seed's next draws are the same each time.
        running = [rank for rank in self.ranks if rank.has_joined and rank.process.child.poll() is None]
        return running[int(pick * len(running))] if running else None

    def kill_rank(self, fault, node, seconds, dice):
        if rank := self.victim(dice):
            rank.is_killed, fault.job, fault.nodes = True, rank.job, frozenset(range(self.nodes))
            rank.process.signal(signal.SIGKILL)

    def stop_rank(self, fault, node, seconds, dice):
        if rank := self.victim(dice):
            rank.process.signal(signal.SIGSTOP)
            self.watch(seconds)
            rank.process.signal(signal.SIGCONT)

    def kill_daemon(self, fault, node, seconds, dice):
        self.off.add(node)
        self.cluster.kill(node)
        self.watch(seconds)
        self.start_daemon(node)

    def drain(self, fault, node, seconds, dice):
        self.off.add(node)
        daemon = self.cluster.daemons[node]
        daemon.signal(signal.SIGTERM)
        if not self.watch(DRAIN_S, until=lambda: daemon.child.poll() is not None):
            self.fail("daemon ended", f"node-{node}'s drains for more than {DRAIN_S:.0f} s")
            self.cluster.kill(node)
        elif daemon.child.poll() not in DRAINED:
            self.fail("daemon ended", f"node-{node}'s drained and ended with {daemon.child.poll()}")
        self.watch(seconds)
        self.start_daemon(node)

    def start_daemon(self, node):
        self.off.add(node)
        self.keep_log(node)
        self.end_life(node)
        self.cluster.start_daemon(node)
        self.off.discard(node)
        self.watch(LINKED_S, until=lambda: self.cluster.own_part(node) is not None)

    def stop_daemon(self, fault, node, seconds, dice):
        self.cluster.stop(node)
        self.watch(seconds)
        self.cluster.resume(node)

    def cut(self, fault, node, seconds, dice):
        """One cable of the node, or all."""
        cables = self.cluster.wiring.cables_of(node)
        cables = cables if dice.random() < 0.4 else [dice.choice(cables)]
        fault.nodes = frozenset(int(end.place.split("-")[1]) for _, cable in cables for end in cable.ends)
        names = [cable.name for _, cable in cables]
        self.cluster.cut(*names, at=node)
        self.watch(seconds)
        self.cluster.restore(*names)

    def rate(self, fault, node, seconds, dice):
        _, cable = dice.choice(self.cluster.wiring.cables_of(node))
        self.cluster.set_rate(cable.name, dice.choice(("200mbit", "500mbit", "1gbit")))
        self.watch(seconds)
        self.cluster.set_rate(cable.name, "")

    def bystander(self, dice):
        """A stranger at one of the daemon's sockets, or a tool that asks: it must have no effect."""
        node, count = dice.randrange(self.nodes), dice.randint(1, 30)
        own, _ = self.cluster.wiring.cables_of(node)[0]
        port = f"{own.ipv6}%{own.interface}:{PORT}" if self.cluster.discovery else f"127.0.0.1:{PORT}"
        socket, at_listen_socket = self.cluster.socket(node), [sys.executable, stranger.__file__]
        command = dice.choice((
            [*at_listen_socket, port, dice.choice(STRANGERS), count],
            [*at_listen_socket, port, dice.choice(MAD), 1 + count // 10],
            [*at_listen_socket, socket, dice.choice(("garbage", "connects")), count],
            [find_test_program("users", "users_trespasser"), socket, count],
            [find_program("mlxcommctl"), *dice.choice(QUESTIONS).split()]))
        process = self.cluster.run(node, command, {"LAB_KEY": str(self.folder / "key")})
        self.bystanders.append((process, f"{' '.join(map(str, command))} on node-{node}", now()))

    # --- rounds ---------------------------------------------------------------------------

    def job(self, dice, name, nodes, stop):
        self.done["jobs"] += 1
        self.note(f"{name} on {nodes}")
        words = ("join:30", f"mixed:{dice.getrandbits(48)}:{stop}")
        for number, node in enumerate(nodes):
            process = self.cluster.rank(number, len(nodes), node, *words, job=name)
            self.ranks.append(Rank(process, name, number, node, now()))

    def round(self, number, seconds):
        dice = random.Random(f"round {number} of {self.seed}")
        stop, end = self.folder / f"stop-{number}", now() + seconds
        everywhere = [node for node in range(self.nodes) for _ in range(dice.choice((1, 2)))]
        self.job(dice, f"round-{number}-job-0", everywhere, stop)
        for job in range(1, FAULTS_MAX):
            nodes = [dice.randrange(self.nodes) for _ in range(dice.randint(2, 4))]
            early = dice.random() < 0.5  # Otherwise its ranks join while the fault happens.
            if early and job < JOBS:
                self.job(dice, f"round-{number}-job-{job}", nodes, stop)
            self.bystander(dice)
            self.watch(dice.uniform(2, 4))  # The previous fault has healed.
            if not early and job < JOBS:
                self.job(dice, f"round-{number}-job-{job}", nodes, stop)
            self.fault(dice)
            if now() > end:
                break
        self.watch(2)
        stop.touch()
        if not self.watch(2 * rules.SILENCE_S, until=lambda: not self.ranks and not self.bystanders):
            self.fail("hang", f"{[str(rank) for rank in self.ranks]} still run")
            for rank in self.ranks:
                rank.process.end()
        self.judge_errors()
        self.quiet_moment()

    def quiet_moment(self):
        everybody = set(range(self.nodes))
        if not self.watch(LINKED_S, until=lambda: all(
                self.cluster.is_linked(node, everybody - {node}) for node in everybody)):
            self.fail("healed", f"{[self.cluster.own_part(node) for node in everybody]}")
        if not self.watch(GONE_S, until=lambda: not any(map(self.left, everybody))):
            self.fail("nothing left", f"{[self.left(node) for node in everybody]}")
        self.watch(3)  # A second after its last job a daemon releases what it had kept for the next.
        for node in everybody:
            used = Resources.of(self.cluster.daemons[node].pid)
            self.lives[node].append(Moment(now(), used.memory / MIB, used.threads,
                                           used.descriptors, used.mappings))
            self.note(f"quiet: node-{node}: {self.lives[node][-1]}")
            self.keep_log(node)

    def left(self, node):
        """The daemon's report about jobs."""
        status = self.cluster.status(node)
        if status is None:
            return "no answer"
        use = status["nodes"][0]["use"]
        return [what for what in ("clients", "groups", "operations") if int(use[what])] + status["jobs"]

    def end_life(self, node):
        for rule, text in rules.growth(self.lives[node]):
            self.fail(rule, f"mlxcommd of node-{node}: {text}")
        self.lives[node] = []

    def keep_log(self, node):
        lines = self.cluster.log(node)
        with open(self.folder / f"node-{node}.log", "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        lines.clear()

    def end(self):
        for node in self.lives:
            self.end_life(node)
        for node, daemon in enumerate(self.cluster.daemons):
            if daemon is not None:
                self.keep_log(node)
        self.cluster.end()
        self.log.close()
