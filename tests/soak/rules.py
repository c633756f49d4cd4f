"""What may follow a fault, and what must. Pure: facts in, complaints out.

The ledger holds what was done to whom and when. Every error of a rank must be explained by a fault that can
have such an effect on it (`unexplained`), and a fault whose effect is certain must have had it in time
(`owed`). Everything that a rank says is compared with the ledger when its round has ended.
"""

import dataclasses

OPERATION_TIMEOUT_S = 30.0  # As in soak_rank.cc.
CLIENT_PATIENCE_S = 12.0  # mlxcomm_wait: so much longer than the deadline.
GRACE_S = 5.0  # As in ground.py.
DRAIN_S = 5.0
DRAINED = (0, 3)  # Its code: all had ended, or jobs had to be stopped.
AT_ONCE_S = 3.0  # What is promised "at once", on a machine that has other work.
HEALING_S = 3.0  # After a cable or a daemon is back, until routes are.
LINKED_S = 30.0  # Until all daemons are linked, once everything is healed.
GONE_S = 10.0  # Until nothing of jobs is left, once all have gone.
ANSWER_S = 20.0  # Of mlxcommctl; its own deadlines are shorter.
STEP_S = 0.1  # Ways between nodes are looked for so often.
SILENCE_S = OPERATION_TIMEOUT_S + CLIENT_PATIENCE_S + AT_ONCE_S

RULES = {
    "wrong byte": "every byte of every result is right, and none behind it is written",
    "hang": f"a rank that is not stopped says something every {SILENCE_S:.0f} s, and ends when it is told to",
    "rank ended": "a rank ends by itself, with a code that it has given a reason for",
    "daemon ended": "a daemon ends only when it is told to, and one that drains in time",
    "culprit": "RANK_LOST names a rank that was killed, or whose node or daemon was, or was not reached",
    "own daemon": "DAEMON_LOST and UNAVAILABLE come where the rank's own daemon was ended, DAEMON_STOPPING "
    "where one of its job's was told to end",
    "deadline": "DEADLINE_EXCEEDED comes where a rank that was waited for was ended, or never came",
    "other error": "no fault of a soak is answered by MISMATCH, INVALID_ARGUMENT, INTERNAL or the like",
    "rank killed": "the other ranks are told within 3 s that one was killed, if nothing else is wrong",
    "daemon killed": "its ranks are told within 3 s, the others within the grace period and 3 s",
    "no way": "ranks are told of those that no cable leads to within the grace period and 3 s",
    "survivors": f"those that are left of a group shrink it, or are told why not, within {SILENCE_S:.0f} s",
    "healed": "all daemons are linked within 30 s when nothing is wrong any more, and a job over all works",
    "tools": "status, record, events, trace and doctor answer in 20 s wherever a daemon runs",
    "reload": "a daemon whose configuration has changed says so after SIGHUP, and nothing else follows",
    "strangers": "strangers, trespassers and garbage come to their end, and nothing else follows",
    "nothing left": f"within {GONE_S:.0f} s of the last job's end no daemon has a job, client or group",
    "memory": "resident memory of a daemon does not grow from one quiet moment to the next",
    "descriptors": "descriptors are closed when all jobs have gone",
    "threads": "threads have ended when all jobs have gone",
    "mappings": "mappings are gone when all jobs have gone",
}


@dataclasses.dataclass(frozen=True)
class Complaint:
    rule: str
    at: float
    text: str


@dataclasses.dataclass
class Trouble:
    """Something that was done. `end` None: it goes on."""

    kind: str  # "cut", "stop-daemon", "kill-daemon", "drain", "kill-rank", "stop-rank", "late"
    begin: float
    end: float | None = None
    node: int = -1
    cable: str = ""
    pid: int = 0

    def overlaps(self, begin, end):
        return self.begin <= end and (self.end is None or self.end >= begin)


@dataclasses.dataclass
class Raised:
    at: float
    code: str
    stage: str
    node: int  # Of the rank that it names; -1: none.
    pid: int
    text: str = ""


@dataclasses.dataclass
class Rank:
    """One process of a job, as far as it has come."""

    job: str
    rank: int
    node: int
    pid: int = 0  # As the daemon sees it.
    joined: float | None = None
    heard: float = 0.0  # Its last line.
    raised: list = dataclasses.field(default_factory=list)
    shrunk: list = dataclasses.field(default_factory=list)
    killed: float | None = None
    ended: float | None = None
    code: int | None = None
    told_to_end: float | None = None
    operations: int = 0
    bytes: int = 0


class Ledger:
    def __init__(self, nodes, cables):
        self.nodes = nodes
        # Names such as "0-1"; on loopback there is always a way from each to each.
        self.cables = cables or [f"{a}-{b}" for a in range(nodes) for b in range(a + 1, nodes)]
        self.troubles = []

    def add(self, kind, begin, end=None, **what):
        self.troubles.append(Trouble(kind, begin, end, **what))
        return self.troubles[-1]

    def forget(self, before):
        """What ended so long ago explains nothing any more."""
        self.troubles = [one for one in self.troubles if one.end is None or one.end >= before]

    def of(self, *kinds):
        return [one for one in self.troubles if one.kind in kinds]

    def lateness(self, begin, end):
        """How long the machine let this program wait in that time, at the worst."""
        return max((one.end - one.begin for one in self.of("late") if one.overlaps(begin, end)), default=0.0)

    def slack(self, begin, end):
        return 1.0 + 3 * self.lateness(begin, end)

    def ended_daemon(self, node, begin, end):
        """Whether the node's daemon was killed, or told to end, in that time, or was away."""
        return any(one.node == node and one.overlaps(begin, end) for one in self.of("kill-daemon", "drain"))

    def is_calm(self, begin, end, besides=None, pid=0):
        """No other trouble in that time, or just before it, that could delay what the process is told.
        More cuts do not delay what follows from a cut."""
        kinds = {"cut", "stop-daemon", "kill-daemon", "drain"}
        delaying = self.of(*(kinds - {"cut"} if besides and besides.kind == "cut" else kinds))
        delaying += [one for one in self.of("stop-rank") if one.pid == pid]
        return not any(one is not besides and one.overlaps(begin - HEALING_S, end) for one in delaying)

    def _reaches(self, a, b, at, healing):
        """Whether some way led from a to b then; `healing`: what has just ended still counts."""

        def is_on(one):
            return one.overlaps(at - healing, at)

        off = {one.node for one in self.of("stop-daemon", "kill-daemon", "drain") if is_on(one)}
        if a in off or b in off:
            return False
        cut = {one.cable for one in self.of("cut") if is_on(one)}
        seen, todo = {a}, [a]
        while todo:
            here = todo.pop()
            for cable in self.cables:
                if cable in cut:
                    continue
                ends = [int(end) for end in cable.split("-")]
                if here in ends:
                    there = ends[1 - ends.index(here)]
                    if there not in seen and there not in off:
                        seen.add(there)
                        todo.append(there)
        return b in seen

    def away(self, a, b, begin, end, healing=HEALING_S):
        """The longest time without a way between the two nodes in that time, and when it began."""
        longest, since, at, first = 0.0, None, begin, begin
        while at <= end and a != b:
            if self._reaches(a, b, at, healing):
                since = None
            else:
                since = at if since is None else since
                if at - since > longest:
                    longest, first = at - since, since
            at += STEP_S
        return longest, first


def unexplained(rank, error, ranks, ledger):
    """Why the error that the rank was told is wrong; None: a fault explains it. `ranks`: of its job."""
    begin = max(rank.joined or 0.0, 0.0)
    own_ended = ledger.ended_daemon(rank.node, begin if rank.joined else error.at - 40, error.at)
    if error.code == "DAEMON_STOPPING":  # It is told on all nodes of a job, and names the one that stops.
        stopping = {one.node for one in ledger.of("drain") if one.overlaps(error.at - 30, error.at)}
        named = {node for node in stopping if f"on node-{node} is stopping" in error.text}
        if named & {one.node for one in ranks} or rank.node in stopping:
            return None
        return Complaint("own daemon", error.at, "no daemon of its job was told to end, or another")
    if error.code in ("DAEMON_LOST", "UNAVAILABLE"):
        if own_ended:
            return None
        return Complaint("own daemon", error.at, "its daemon was neither killed nor told to end")
    if error.code == "RANK_LOST":
        return _unexplained_loss(rank, error, ranks, ledger)
    if error.code == "DEADLINE_EXCEEDED":
        since = error.at - OPERATION_TIMEOUT_S - 15
        if own_ended or any(_had_trouble(one, since, error.at, ledger) for one in ranks):
            return None
        return Complaint("deadline", error.at, "no rank of its job was ended, stopped or out of reach")
    return Complaint("other error", error.at, "no fault is answered so")


def _had_trouble(rank, begin, end, ledger):
    """Whether it may be missed by others."""
    return (
        rank.killed is not None
        or rank.joined is None
        or ledger.ended_daemon(rank.node, begin, end)
        or any(error.at < end for error in rank.raised)
        or any(one.pid == rank.pid and one.overlaps(begin, end) for one in ledger.of("stop-rank"))
    )


def _unexplained_loss(rank, error, ranks, ledger):
    if error.node < 0:
        return Complaint("culprit", error.at, "it names no rank")
    lost = next((one for one in ranks if one.pid == error.pid and one.node == error.node), None)
    if lost is None:
        return Complaint(
            "culprit", error.at, f"no rank of the job was process {error.pid} on node-{error.node}"
        )
    late = ledger.lateness(error.at - 30, error.at)
    if lost.killed is not None and lost.killed <= error.at:
        return None
    # Who has met an error itself leaves the group; a line may come later than what it tells of.
    if any(one.at <= error.at + 1 for one in lost.raised):
        return None
    if lost.ended is not None and lost.ended <= error.at + 1 and lost.code != 0:
        return None
    if ledger.ended_daemon(lost.node, rank.joined or 0.0, error.at):
        return None
    nodes = {one.node for one in ranks}
    enough = GRACE_S - 1 - 3 * late
    if any(ledger.away(node, lost.node, error.at - 30, error.at)[0] >= enough for node in nodes):
        return None
    return Complaint(
        "culprit",
        error.at,
        f"rank {lost.rank} on node-{lost.node}, process {lost.pid}, had no fault: it was not "
        "killed, its daemon ran, and a way led to it",
    )


@dataclasses.dataclass(frozen=True)
class Loss:
    """Something of which these ranks of a job have to be told."""

    rule: str
    at: float
    what: str
    told: tuple  # (rank, bound)
    cause: object = None


def owed(ranks, ledger):
    """(rule, delay, complaint or None) for each rank that had to be told of a loss, where nothing else
    that was wrong at that time could delay it."""
    for loss in [*_killed_ranks(ranks, ledger), *_killed_daemons(ranks, ledger), *_isolations(ranks, ledger)]:
        for rank, promised in loss.told:
            if not ledger.is_calm(loss.at, loss.at + promised, loss.cause, rank.pid):
                continue
            bound = promised + ledger.slack(loss.at, loss.at + promised)
            answers = [one.at for one in rank.raised if one.at >= loss.at - 0.2]
            answers += [rank.ended] if rank.ended is not None and rank.ended >= loss.at - 0.2 else []
            delay = min(answers, default=float("inf")) - loss.at
            told = "nothing" if delay == float("inf") else f"after {delay:.1f} s"
            yield (
                loss.rule,
                delay,
                None
                if delay <= bound
                else Complaint(
                    loss.rule,
                    loss.at,
                    f"{rank.job} rank {rank.rank} on node-{rank.node} was told {told}; expected "
                    f"within {bound:.1f} s {loss.what}",
                ),
            )


def _members(ranks, at):
    """Those that are in the job's first group then: joined, and not told of any failure yet."""
    return [
        rank for rank in ranks if rank.joined is not None and rank.joined < at and not _has_left(rank, at)
    ]


def _killed_ranks(ranks, ledger):
    for lost in ranks:
        if lost.killed is None or lost not in _members(ranks, lost.killed):
            continue
        others = tuple((rank, AT_ONCE_S) for rank in _members(ranks, lost.killed) if rank is not lost)
        yield Loss(
            "rank killed", lost.killed, f"of the end of process {lost.pid} on node-{lost.node}", others
        )


def _killed_daemons(ranks, ledger):
    for cause in ledger.of("kill-daemon"):
        members = _members(ranks, cause.begin)
        if any(rank.node == cause.node for rank in members):
            told = tuple(
                (rank, AT_ONCE_S if rank.node == cause.node else GRACE_S + AT_ONCE_S) for rank in members
            )
            yield Loss("daemon killed", cause.begin, f"of the end of node-{cause.node}'s daemon", told, cause)


def _isolations(ranks, ledger):
    """Two nodes without a way between them for so long that they must have given each other up."""
    for cause in ledger.of("cut"):
        end = cause.begin + GRACE_S + AT_ONCE_S
        members = _members(ranks, cause.begin)
        nodes = {rank.node for rank in members}
        away = set()
        for a in nodes:
            for b in nodes:
                longest, since = ledger.away(a, b, cause.begin, end, healing=0.0)
                if longest >= GRACE_S + 2 and since <= cause.begin + STEP_S:
                    away |= {a, b}
        told = tuple((rank, GRACE_S + AT_ONCE_S) for rank in members if rank.node in away)
        if told:
            yield Loss("no way", cause.begin, f"after cable {cause.cable} was cut", told, cause)


def _has_left(rank, at):
    """Ended, or in another group than its job's first: who is in that with it is not looked into."""
    return (
        any(one.at < at for one in rank.raised)
        or (rank.ended is not None and rank.ended < at)
        or (rank.killed is not None and rank.killed < at)
    )


def survivors(rank, ledger):
    """After each loss in a whole group a rank must have shrunk it, or heard why not."""
    for number, error in enumerate(rank.raised):
        if error.code not in ("RANK_LOST", "DAEMON_STOPPING") or error.stage != "operation":
            continue
        after = [at for at in rank.shrunk if at >= error.at]
        after += [one.at for one in rank.raised[number + 1 :]]
        after += [rank.ended] if rank.ended is not None else []
        bound = SILENCE_S + ledger.slack(error.at, error.at + SILENCE_S) + stopped_s(rank, ledger, error.at)
        if min(after, default=float("inf")) - error.at > bound:
            yield Complaint(
                "survivors",
                error.at,
                f"{rank.job} rank {rank.rank} on node-{rank.node} neither shrank its group nor "
                f"heard why not; expected within {bound:.0f} s",
            )


def stopped_s(rank, ledger, since):
    return sum(
        (one.end or one.begin) - one.begin
        for one in ledger.of("stop-rank", "stop-daemon")
        if (one.pid == rank.pid or one.node == rank.node) and one.begin >= since - 10
    )
