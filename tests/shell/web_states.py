"""Made-up states of a cluster as the feed of mlxcommctl web reports them, with the same figures each time."""

import itertools
import math

SEEN = 1_772_648_872_000_000_000  # 18:27:52 UTC on a day in March 2026.
STEP = 2_000_000_000
GIGABYTE = 1e9
LONG_NAME = "llama-3.3-70b-instruct-lora-r64-" + "sweep-learning-rate-3e-5-warmup-0.03-" * 4 + "seed-1234567"
FAILURE = ("RANK_LOST: rank 2 (mac-3, pid 4202, python) has ended: killed by signal 9. Its last operation "
           "was all_reduce sum float32[1048576], operation 1203")


def identity(number):
    return f"{number + 1:032x}"


def ring_of(count):
    return [(one, (one + 1) % count) for one in range(count if count > 2 else count - 1)]


class State:
    """Nodes 0, 1, ... and cables between pairs of them; methods add faults, and each
    returns the state."""

    def __init__(self, count, pairs=None, names=None, rate=0.0):
        self.count, self.rate, self.busy, self.cluster = count, rate, rate > 0, "studio"
        self.pairs = ring_of(count) if pairs is None else pairs
        self.names = names or [f"mac-{one + 1}" for one in range(count)]
        self.lost, self.cut, self.forgotten, self.error = set(), set(), set(), None
        self.jobs, self.ended, self.findings, self.others = [], [], [], 0
        self.health = {"good": True, "text": "all is well"}
        self.happened = [("note", f"node {name}", "it is up") for name in self.names[1:]]

    # --- faults ----------------------------------------------------------------

    def with_job(self, name="digits", ranks=None, **changes):
        ranks = ranks or max(2, self.count)
        job = {"name": name, "size": ranks, "state": "running", "detail": "", "waits": [], "groups": [],
               "shrinks": 0, "size_at_start": ranks, "groups_left_out": 0, "user": "kim", "ranks": [
                   {"rank": rank, "node": self.names[rank % self.count], "pid": str(4200 + rank),
                    "program": "python", "operation": "", "operation_age_ms": "0", "operations_done": "1203",
                    "copied_results": "0", "copied_result_bytes": "0", "copied_result_ns": "0",
                    "operations_met": "0"} for rank in range(ranks)]}
        self.jobs.append({**job, **changes})
        return self

    def waiting(self, awaited, seconds):
        """All ranks of the last job except one are in an operation."""
        job = self.jobs[-1]
        operation = "all_reduce sum float32[1048576], operation 1204"
        waiting = [rank["rank"] for rank in job["ranks"] if rank["rank"] != awaited]
        for rank in waiting:
            job["ranks"][rank].update(operation=operation, operation_age_ms=str(int(seconds * 1000)))
        job["waits"].append({"waiting": waiting, "awaited": [awaited], "operation": operation,
                             "age_ms": str(int(seconds * 1000))})
        if seconds >= 10:
            one = job["ranks"][awaited]
            self.health = {"good": False, "text": f"job {job['name']} has waited for rank {awaited} for "
                           f"{seconds:.1f} s: check pid {one['pid']} on {one['node']}"}
        return self

    def killed(self):
        job = self.jobs[-1]
        job.update(state="failed", detail=FAILURE)
        job["ranks"] = [rank for rank in job["ranks"] if rank["rank"] != 2]
        self.health = {"good": False, "text": f"job {job['name']} has failed: {FAILURE}"}
        self.happened.append(("error", f"job {job['name']}", FAILURE))
        return self

    def pulled(self, pair):
        self.cut.add(pair)
        a, b = (self.names[one] for one in pair)
        self.health = {"good": False, "text": f"link {a} to {b} goes through other nodes: "
                       f"{self.port(*pair)} is down: check its cable at both ends"}
        self.found("warning", "MC305", f"cable {a} {self.port(*pair)} - {self.port(*pair[::-1])} {b}",
                   "a cable of a link is down", found="down", expected="up",
                   remedy="check that it is plugged in at both ends. The nodes reach each other "
                   "through others")
        self.happened.append(("warning", f"link to {b}", f"rail {self.port(*pair)} is down: no carrier"))
        return self

    def node_lost(self, number):
        self.lost.add(number)
        name = self.names[number]
        self.health = {"good": False, "text": f"link {self.names[0]} to {name} is lost: check the cable, and "
                       "that mlxcommd runs there"}
        self.happened.append(("error", f"node {name}", "it is lost: nothing was heard for 5 s"))
        return self

    def gone(self):
        self.error = {"code": "UNAVAILABLE", "exit_code": 3, "message":
                      "no mlxcommd at /var/run/mlxcommd/mlxcommd.sock: Connection refused. Start it "
                      "(mlxcommd --config FILE), or name its socket (--socket, MLXCOMM_SOCKET)"}
        return self

    def found(self, severity, code, about, title, **more):
        self.findings.append({"code": code, "severity": severity, "title": title, "object": about,
                              "found": "", "expected": "", "remedy": "", "command": "", **more})
        return self

    def unsynchronised(self):
        return self.found("warning", "MC403", self.names[0], "the clock is not synchronised",
                          found="no NTP peer", remedy="turn time synchronisation on: then logs of several "
                          "nodes can be compared", command="sudo timedatectl set-ntp true")

    # --- as the feed sends it -----------------------------------------------------------

    def port(self, node, other):
        ports = sorted({pair[1 - pair.index(node)] for pair in self.pairs if node in pair})
        return f"en{ports.index(other) + 2}"

    def is_up(self, a, b):
        return (a, b) not in self.cut and (b, a) not in self.cut and not {a, b} & self.lost

    def rail(self, a, b):
        up = self.is_up(a, b)
        rate = self.rate * (0.96 if b > a else 1.0) if up else 0.0
        return {"transport": "tcp", "local_address": f"[fe80::{a + 1}]:7470",
                "remote_address": f"[fe80::{b + 1}]:7470", "state": "up" if up else "down", "reason": "none",
                "sent_bytes_per_second": rate, "received_bytes_per_second": rate, "round_trip_ns": "48200",
                "local_interface": self.port(a, b), "remote_interface": self.port(b, a),
                "delivery_bytes_per_second": 2.1e9, "delivery_bytes_per_second_best": 2.4e9,
                "detail": "" if up else "the interface is down, for 12.4 s"}

    def link(self, a, b):
        others = [pair for pair in self.pairs if set(pair) != {a, b} and self.is_up(*pair)]
        routed = not self.is_up(a, b) and b not in self.lost and len(others) > 1
        up = self.is_up(a, b) or routed
        rails = [self.rail(a, b)]
        if routed:
            rails.append({**rails[0], "transport": "route", "state": "up", "local_interface": "",
                          "remote_interface": "", "sent_bytes_per_second": self.rate / 4,
                          "received_bytes_per_second": self.rate / 4,
                          "delivery_bytes_per_second_best": 1.1e9})
        return {"peer": self.names[b], "peer_id": identity(b), "state": "up" if up else "lost",
                "reason": "none", "detail": "" if up else "nothing was heard for 5 s",
                "last_local_interface": "" if up else self.port(a, b),
                "last_remote_interface": "" if up else self.port(b, a), "changed_frames": "0",
                "changed_on": "", "large_lost": False, "large_lost_on": "", "rails": rails}

    def node(self, a):
        near = sorted({pair[1 - pair.index(a)] for pair in self.pairs if a in pair})
        return {"name": self.names[a], "id": identity(a), "version": "0.1.0", "pid": str(900 + a),
                "uptime_ms": "7384000", "answered": True, "state": "up",
                "links": [self.link(a, b) for b in near], "clients": "1",
                "memory_bytes": "5033164"}

    def status(self):
        there = [self.node(a) for a in range(self.count) if a not in self.lost]
        reported = {"node": self.names[0], "cluster": self.cluster, "jobs": self.jobs,
                "jobs_of_others": self.others, "nodes": there}
        return {**reported, "ended_jobs": self.ended} if self.ended else reported

    def topology(self):
        shape = {1: "alone", 2: "pair"}.get(self.count - len(self.lost), "line" if self.cut else "ring")
        up = [a for a in range(self.count) if a not in self.lost]
        return {"node": self.names[0], "cluster": self.cluster, "shape": shape,
                "ring": [identity(a) for a in up], "ring_closed": shape == "ring",
                "nodes": [{"id": identity(a), "name": self.names[a], "version": "0.1.0", "answered": a in up,
                           "state": "up" if a in up else "lost"} for a in range(self.count)],
                "cables": [{"from_node": identity(a), "from_interface": self.port(a, b),
                            "to_node": identity(b), "to_interface": self.port(b, a),
                            "state": "up" if self.is_up(a, b) else "down", "origin": "discovered",
                            "bytes_per_second": 2.1e9, "bytes_per_second_best": 2.4e9,
                            "round_trip_ns": "48200", "switch_number": 0, "rails": [],
                            "detail": "" if self.is_up(a, b) else "the interface is down, for 12.4 s"}
                           for a, b in map(sorted, self.pairs) if not {a, b} & self.lost]}

    def record(self):
        called = SEEN - 400_000_000
        return {"node": self.names[0], "taken_ns": str(SEEN), "operations_left_out": "0", "operations": [
            {"group": "1", "group_name": job["name"], "job": job["name"], "number": str(number),
             "point_to_point": False, "operation": "all_reduce sum float32[1048576]", "bytes": "4194304",
             "state": "done", "failure": "", "last": "rank 1", "matched_ns": str(called + number),
             "called": [{"rank": 0, "node": "", "at_ns": str(called + number)}],
             "ended_ns": str(called + number + 3_200_000)}
            for job in self.jobs for number in range(1184, 1204)]}

    def events(self):
        first = SEEN - len(self.happened) * 20_000_000_000
        return [{"node": self.names[0], "number": str(i + 1), "unix_ns": str(first + i * 20_000_000_000),
                 "kind": "", "severity": severity, "object": about, "text": text, "lost": "0"}
                for i, (severity, about, text) in enumerate(self.happened)]

    def history(self, samples=150):
        links = [" ".join(sorted((identity(a), identity(b)))) for a, b in self.pairs]
        reported = []
        for i in range(samples):
            part = (0.75 + 0.2 * math.sin(i / 7) + 0.05 * math.sin(i * 2.3)) if self.busy and i > 30 else 0.0
            reported.append({"unix_ns": str(SEEN - (samples - 1 - i) * STEP),
                         "bytes_per_second": 2 * self.rate * part * max(1, len(links)),
                         "operations_per_second": 420 * part,
                         "link_bytes_per_second": [2 * self.rate * part] * len(links)})
        return {"links": links, "samples": reported}

    def doctor(self):
        counts = {severity: sum(one["severity"] == severity for one in self.findings)
                  for severity in ("error", "warning", "note")}
        return {"findings": self.findings, **{f"{severity}s": count for severity, count in counts.items()}}

    def daemon(self):
        return {**({"error": self.error} if self.error else {}), "seen_unix_ns": str(SEEN)}

    def never(self):
        """There has been no daemon yet."""
        self.gone().cluster = ""
        self.messages = lambda: [("events", []), ("daemon", {**self.daemon(), "seen_unix_ns": "0"})]
        return self

    def messages(self):
        """The status comes last: once the page shows its cluster, it shows all of this."""
        parts = {"history": self.history, "daemon": self.daemon, "following": dict,
                 "health": lambda: self.health, "topology": self.topology, "record": self.record,
                 "events": self.events, "doctor": self.doctor, "status": self.status}
        return [(name, reported()) for name, reported in parts.items()]


def mesh(count):
    return list(itertools.combinations(range(count), 2))


# Each makes its own state, because tests change them.
STATES = {
    "no-daemon": lambda: State(1).never(),
    "alone-idle": lambda: State(1).unsynchronised(),
    "alone-busy": lambda: State(1, rate=1.0).with_job(),
    "pair-idle": lambda: State(2),
    "pair-busy": lambda: State(2, rate=0.62 * GIGABYTE).with_job(),
    "pair-waiting": lambda: State(2, rate=0.62 * GIGABYTE).with_job().waiting(1, 12.4),
    "pair-node-lost": lambda: State(2, rate=0.62 * GIGABYTE).with_job().node_lost(1),
    "four-busy": lambda: State(4, mesh(4), rate=0.31 * GIGABYTE).with_job(),
    "four-killed": lambda: State(4, rate=0.31 * GIGABYTE).with_job().killed(),
    "four-pulled": lambda: State(4, rate=0.31 * GIGABYTE).with_job().pulled((0, 1)).unsynchronised(),
    "four-gone": lambda: State(4, rate=0.31 * GIGABYTE).with_job().waiting(1, 3.2).gone(),
    "eight-busy": lambda: State(8, rate=0.84 * GIGABYTE).with_job(),
    "sixteen-busy": lambda: State(16, rate=0.84 * GIGABYTE).with_job(ranks=64).with_job("eval", ranks=2),
    "long-names": lambda: State(4, rate=0.31 * GIGABYTE, names=[
        f"render-farm-building-7-rack-{number}-studio-ultra-{number}" for number in range(4)]).with_job(
            LONG_NAME).waiting(3, 61).with_job("small").found(
                "error", "MC210", "interface " + "x" * 90, "an interface has no address", remedy="y" * 200),
}
