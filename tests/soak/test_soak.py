"""Real daemons, jobs and faults for minutes or hours, drawn from one seed (README.md). The first broken rule
ends the run."""

import dataclasses
import os
import random
import signal
import sys
import threading

import pytest

from conftest import find_program, find_test_program
from ground import stranger
from ground.cluster import PORT, now
from ground.daemon_resources import MIB, Resources
from ground.wiring import mesh, pair, ring
from soak.rules import EFFECT_S, Fault, Moment, Raised, growth, unexplained

MINUTES = float(os.environ.get("MLXCOMM_SOAK_MINUTES", "10"))
STEADY = 0  # This node's daemon is never ended, so that its life is the run.
SETTINGS = "grace_period_ms: 5000 reconnect_delay_max_ms: 500"
TOP = "drain_timeout_ms: 5000"
SILENCE_S = 60.0  # An operation's deadline (30 s), the client's patience (12 s), a stopped rank, and reserve.
DRAIN_S = 15.0  # The drain timeout, and time for a busy machine.
DRAINED = (0, 3)  # Its exit code: all jobs had ended, or had to be stopped.
LINKED_S = 30.0
GONE_S = 10.0
ROUND_S = 20.0
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
    is_killed: bool = False
    has_joined: bool = False
    has_raised: bool = False

    def __str__(self):
        return f"rank {self.number} of {self.job} on node-{self.node}"


class Soak:
    def __init__(self, cluster, seed, folder):
        self.cluster, self.seed, self.folder = cluster, seed, folder
        self.nodes = cluster.wiring.nodes
        self.ranks, self.bystanders = [], []
        self.faults, self.errors = [], []
        self.lives = {node: [] for node in range(self.nodes)}  # Quiet moments since the daemon started.
        self.off = set()  # Nodes whose daemon has been ended.
        self.began = now()

    def note(self, text):
        with open(self.folder / "soak.log", "a", encoding="utf-8") as log:
            log.write(f"{now() - self.began:9.3f}  {text}\n")

    # --- checks -----------------------------------------------------------------------

    def watch(self, seconds, until=lambda: False):
        """Checks everything until the condition holds or the time is up; returns whether it holds."""
        end = now() + seconds
        while not (holds := until()) and now() < end:
            for rank in list(self.ranks):
                self.check_rank(rank)
            for entry in list(self.bystanders):
                self.check_bystander(*entry)
            for node in set(range(self.nodes)) - self.off:
                daemon = self.cluster.daemons[node].child
                assert daemon.poll() is None, f"node-{node}'s daemon ended: {self.cluster.log(node)[-8:]}"
            threading.Event().wait(0.05)
        return holds

    def check_rank(self, rank):
        code = rank.process.child.poll()
        if code is not None:
            rank.process.finish()
        lines = rank.process.said()
        for line in lines[rank.read:]:
            self.take(rank, line)
        rank.read = len(lines)
        if code is None:
            assert now() - rank.heard < SILENCE_S, f"{rank} hangs after {lines[-4:]}"
            return
        fine = code == 0 or (code == 3 and rank.has_raised) or (code != 1 and rank.is_killed)
        assert fine, f"{rank} ended with {code} after {lines[-4:]}"
        self.note(f"{rank} ended with {code}; {lines[-1:]}")
        self.ranks.remove(rank)
        self.cluster.processes.remove(rank.process)

    def take(self, rank, line):
        rank.heard = now()
        rank.has_joined |= line == "joined"
        if line.startswith("raised at"):
            rank.has_raised = True
            self.errors.append(Raised(float(line.split()[2]), rank.job, rank.node, line.split(" ", 3)[3]))
            self.note(f"{rank}: {line}")

    def check_bystander(self, process, what, began):
        if process.child.poll() is None:
            assert now() - began < BYSTANDER_S, f"{what} has not ended"
            return
        self.bystanders.remove((process, what, began))
        self.cluster.processes.remove(process)

    def quiet_moment(self):
        """Nothing is wrong any more and no job runs: everything heals, nothing is left and nothing grows."""
        everywhere = set(range(self.nodes))
        assert self.watch(LINKED_S, until=lambda: all(
            self.cluster.is_linked(node, everywhere - {node}) for node in everywhere)), "not linked again"
        assert self.watch(GONE_S, until=lambda: not any(map(self.left, everywhere))), \
            f"left of the jobs: {[self.left(node) for node in everywhere]}"
        self.watch(3)  # A second after its last job a daemon releases what it had kept for the next.
        for node in everywhere:
            used = Resources.of(self.cluster.daemons[node].pid)
            self.lives[node].append(Moment(now(), used.memory / MIB, used.threads, used.descriptors,
                                           used.mappings))
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
        assert not growth(self.lives[node]), (node, growth(self.lives[node]), self.lives[node])
        self.lives[node] = []

    def keep_log(self, node):
        lines = self.cluster.log(node)
        with open(self.folder / f"node-{node}.log", "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        lines.clear()

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
        self.start_again(node, seconds)

    def drain(self, fault, node, seconds, dice):
        self.off.add(node)
        daemon = self.cluster.daemons[node]
        daemon.signal(signal.SIGTERM)
        assert self.watch(DRAIN_S, until=lambda: daemon.child.poll() is not None), f"node-{node} still drains"
        assert daemon.child.poll() in DRAINED, f"node-{node} drained and ended with {daemon.child.poll()}"
        self.start_again(node, seconds)

    def start_again(self, node, seconds):
        self.watch(seconds)
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
        process = self.cluster.run(node, command, {"LAB_KEY": str(self.cluster.key(0))})
        self.bystanders.append((process, f"{' '.join(map(str, command))} on node-{node}", now()))

    # --- rounds ---------------------------------------------------------------------------

    def job(self, dice, name, nodes, stop):
        self.note(f"{name} on {nodes}")
        words = ("join:30", f"mixed:{dice.getrandbits(48)}:{stop}")
        for number, process in enumerate(self.cluster.ranks(nodes, *words, job=name)):
            self.ranks.append(Rank(process, name, number, nodes[number], now()))

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
        assert self.watch(2 * SILENCE_S, until=lambda: not self.ranks and not self.bystanders), \
            f"{[str(rank) for rank in self.ranks]} still run"
        # Everything that could explain an error is known now.
        wrong = unexplained(self.errors, self.faults)
        assert not wrong, "\n".join(f"{error.at - self.began:.1f} s: {error}" for error in wrong)
        self.errors = []
        self.faults = [fault for fault in self.faults if fault.end > now() - EFFECT_S]
        self.quiet_moment()


@pytest.mark.timeout(0)
def test_soak(lab, tmp_path):
    seed = int(os.environ.get("MLXCOMM_SOAK_SEED") or random.SystemRandom().randrange(1 << 32))
    dice = random.Random(seed)
    wiring = dice.choice((pair(), ring(3), ring(3), ring(4), mesh(4)))
    print(f"again: MLXCOMM_SOAK_SEED={seed} ({wiring.description}); logs in {tmp_path}")
    soak = Soak(lab(wiring, peer_settings=SETTINGS, top_settings=TOP, discovery=dice.random() < 0.5), seed,
                tmp_path)
    number = 0
    try:
        while now() < soak.began + MINUTES * 60:
            soak.round(number, min(ROUND_S, MINUTES * 60))
            number += 1
        for node in range(soak.nodes):
            soak.end_life(node)
    finally:
        for node in set(range(soak.nodes)) - soak.off:
            soak.keep_log(node)
