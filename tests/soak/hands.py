"""The hands of a soak: does each fault of the schedule to hosts, cables, daemons and ranks, notes it in the
ledger, and undoes it when its time is over."""

import signal

from soak.ground import end_process
from soak.rules import Complaint
from soak.times import now

READY = "is ready: node"  # In a daemon's log.
READY_EVERY_S = 0.1


class Hands:
    """Part of a Soak, which has the ground, the ledger, the ranks and the time."""

    def _do(self, fault):
        if getattr(self, "_" + fault.kind.replace("-", "_"))(fault) is False:
            return
        self.faults_done[fault.kind] = self.faults_done.get(fault.kind, 0) + 1
        self.fault_times.append((now() - self.began, fault.kind))
        self.note(f"fault {fault.kind} node-{fault.node} {fault.seconds or ''} {fault.detail}")

    def _victim(self, fault):
        running = [
            rank
            for rank in self.ranks
            if rank.is_running and rank.facts.joined is not None and rank.facts.killed is None
        ]
        return running[int(fault.pick * len(running))] if running else None

    def _is_troubled(self, **what):
        return any(
            one.end is None and all(getattr(one, name) == value for name, value in what.items())
            for one in self.ledger.troubles
        )

    def _kill_rank(self, fault):
        rank = self._victim(fault)
        if rank is None:
            return False
        rank.facts.killed = now()
        self.ledger.add(
            "kill-rank", rank.facts.killed, rank.facts.killed, pid=rank.facts.pid, node=rank.facts.node
        )
        rank.signal(signal.SIGKILL)
        self.note(f"fault: rank {rank.facts.rank} of {rank.facts.job}, pid {rank.facts.pid}, is killed")

    def _stop_rank(self, fault):
        rank = self._victim(fault)
        if rank is None or self._is_troubled(kind="stop-rank", pid=rank.facts.pid):
            return False
        trouble = self.ledger.add("stop-rank", now(), pid=rank.facts.pid, node=rank.facts.node)
        rank.signal(signal.SIGSTOP)
        self.note(f"fault: rank {rank.facts.rank} of {rank.facts.job}, pid {rank.facts.pid}, is stopped")
        self.at(now() + fault.seconds, lambda: self._undo(trouble))

    def _is_off(self, node):
        return node in self.expected_off or node in self.draining

    def _is_ready(self, node):
        """A signal that comes before the daemon has blocked it would simply end it."""
        return not self._is_off(node) and not any(
            one.node == node and one.end is None for one in self.ledger.of("kill-daemon", "drain")
        )

    def _kill_daemon(self, fault):
        if self._is_off(fault.node):
            return False
        self._let_go(fault.node)
        trouble = self.ledger.add("kill-daemon", now(), node=fault.node)
        self.expected_off.add(fault.node)
        self.ground.signal_daemon(fault.node, signal.SIGKILL)
        self._start_again(trouble, fault.seconds)

    def _let_go(self, node):
        for trouble in self.ledger.of("stop-daemon"):
            if trouble.end is None and trouble.node == node:
                self._undo(trouble)

    def _start_again(self, trouble, pause):
        self.expected_off.add(trouble.node)

        def start():
            end_process(self.ground.daemons[trouble.node])
            ready_before = self._log_count(trouble.node, READY)
            self.ground.start_daemon(trouble.node)
            self.lives[trouble.node] += 1
            self.expected_off.discard(trouble.node)
            self.note(f"fault: node-{trouble.node}'s daemon is started again")
            self._until_ready(trouble, self.lives[trouble.node], ready_before)

        self.at(now() + pause, start)

    def _until_ready(self, trouble, life, ready_before):
        node = trouble.node
        is_ready = self._log_count(node, READY) > ready_before
        if is_ready or self.lives[node] > life or self._is_off(node):
            trouble.end = now()
        else:
            self.at(now() + READY_EVERY_S, lambda: self._until_ready(trouble, life, ready_before))

    def _drain(self, fault):
        if not self._is_ready(fault.node):
            return False
        self._let_go(fault.node)
        self.draining[fault.node] = (self.ledger.add("drain", now(), node=fault.node), fault.seconds)
        self.ground.signal_daemon(fault.node, signal.SIGTERM)

    def _stop_daemon(self, fault):
        if not self._is_ready(fault.node) or self._is_troubled(kind="stop-daemon", node=fault.node):
            return False
        trouble = self.ledger.add("stop-daemon", now(), node=fault.node)
        self.ground.signal_daemon(fault.node, signal.SIGSTOP)
        self.at(now() + fault.seconds, lambda: self._undo(trouble))

    def _cut(self, fault):
        if self._is_troubled(kind="cut", cable=fault.detail):
            return False
        trouble = self.ledger.add("cut", now(), cable=fault.detail)
        self.ground.cut(fault.detail, at=int(fault.detail[0 if fault.pick < 0.5 else 2]))
        self.at(now() + fault.seconds, lambda: self._undo(trouble))

    def _isolate(self, fault):
        """All cables of the node."""
        cables = [cable for cable in self.world.cables if str(fault.node) in cable.split("-")]
        if any(self._is_troubled(kind="cut", cable=cable) for cable in cables):
            return False
        begin = now()
        self.ground.cut(*cables, at=fault.node)
        for cable in cables:
            trouble = self.ledger.add("cut", begin, cable=cable)
            self.at(now() + fault.seconds, lambda trouble=trouble: self._undo(trouble))
        return True

    def _rate(self, fault):
        cable, rate = fault.detail.split()
        if self._is_troubled(kind="rate", cable=cable):
            return False
        trouble = self.ledger.add("rate", now(), cable=cable)
        self.ground.set_rate(cable, rate)
        self.at(now() + fault.seconds, lambda: self._undo(trouble))

    def _undo(self, trouble):
        if trouble.end is not None:
            return
        if trouble.kind == "cut":
            self.ground.restore(trouble.cable)
        elif trouble.kind == "rate":
            self.ground.set_rate(trouble.cable, "")
        elif trouble.kind == "stop-daemon":
            self.ground.signal_daemon(trouble.node, signal.SIGCONT)
        elif trouble.kind == "stop-rank":
            for rank in self.ranks:
                if rank.facts.pid == trouble.pid:
                    rank.signal(signal.SIGCONT)
        trouble.end = now()
        self.note(f"fault: {trouble.kind} of {trouble.cable or trouble.pid or trouble.node} is over")

    def _reload(self, fault):
        if not self._is_ready(fault.node) or self._is_troubled(kind="stop-daemon", node=fault.node):
            return False
        said_before = self._log_count(fault.node, "SIGHUP")
        self.ground.change_config(fault.node, True)
        self.ground.signal_daemon(fault.node, signal.SIGHUP)
        began, life = now(), self.lives[fault.node]

        def look():
            self.ground.change_config(fault.node, False)
            calm = (
                life == self.lives[fault.node]
                and not self._is_off(fault.node)
                and not any(
                    one.node == fault.node and one.overlaps(began, now())
                    for one in self.ledger.of("stop-daemon")
                )
            )
            if calm:
                self.checked["reload"] += 1
                if self._log_count(fault.node, "SIGHUP") <= said_before:
                    self.complain(
                        Complaint(
                            "reload",
                            began,
                            (f"node-{fault.node}'s log does not say that the configuration has changed"),
                        )
                    )

        self.at(began + 4 + self.ledger.lateness(began - 10, began), look)

    def _log_count(self, node, text):
        path = self.ground.log_path(node)
        return path.read_text(errors="replace").count(text) if path.exists() else 0

    def _hostile(self, process, what, node):
        self.hostile.append((process, what, node, now()))

    def _stranger(self, fault):
        if not self._is_ready(fault.node):
            return False
        self._hostile(
            self.ground.start_stranger(fault.node, fault.detail.split()),
            f"stranger {fault.detail}",
            fault.node,
        )

    _mad_neighbour = _stranger

    def _trespass(self, fault):
        if not self._is_ready(fault.node):
            return False
        self._hostile(self.ground.start_trespasser(fault.node, fault.detail), "trespasser", fault.node)

    def _hello_garbage(self, fault):
        if not self._is_ready(fault.node):
            return False
        words = ["garbage", str(1 + int(fault.pick * 8)), str(self.seed)]
        self._hostile(self.ground.start_hello_garbage(fault.node, words), "garbage as hello", fault.node)

    def _hello_flood(self, fault):
        if not self._is_ready(fault.node):
            return False
        words = ["flood", str(1 + int(fault.pick * 200)), str(self.seed)]
        self._hostile(self.ground.start_hello_garbage(fault.node, words), "flood of hellos", fault.node)

    def _discovery(self, fault):
        self._hostile(
            self.ground.start_heller(fault.node, fault.detail.split()),
            f"discovery {fault.detail}",
            fault.node,
        )
