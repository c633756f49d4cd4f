"""The steps of firstlight; users see their docstrings. A step records its results, and raises LeftOut if it
cannot run. Most work is done by other programs (mlxcommctl, mlxcommd's trials, the system's tools), each with
a deadline."""

import contextlib
import errno
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

from .assumptions import ASSUMPTIONS, REFUSED, RENAMED
from .notes import CONFIRMED, shown

MACOS = sys.platform == "darwin"
SYSTEM = {"mlxcommctl": "mlxcommctl --version", "mlxcommd": "mlxcommd --version", **({
    "release": "sw_vers -productVersion", "build": "sw_vers -buildVersion", "model": "sysctl -n hw.model",
    "processor": "sysctl -n machdep.cpu.brand_string", "memory_bytes": "sysctl -n hw.memsize",
} if MACOS else {"release": "uname -r", "machine": "uname -m"})}
BENCH_MAX, OUTPUT_MAX = 128 << 20, 4 << 20
PERSON_SECONDS = 90  # Gives a person time to act and to come back.
SETTLE_SECONDS = 0.7  # Consequences of an event follow within this.
# The interface's event may follow those of its rails: Linux reports a returning carrier once a second.
INTERFACE_SECONDS = 5
# The clock of deadlines, one that counts time asleep, and one that does not.
CLOCKS = [getattr(time, f"CLOCK_{name}", None) for name in (
    ("MONOTONIC_RAW", "MONOTONIC_RAW", "UPTIME_RAW") if MACOS else ("MONOTONIC", "BOOTTIME", "MONOTONIC"))]


class LeftOut(Exception):
    """Why a step, or the rest of it, was skipped."""


@contextlib.contextmanager
def started(words, errors=subprocess.DEVNULL):
    """Starts a program; yields it and a function that returns its output so far. At the end it is killed with
    its children, and waited for only briefly, because a driver may block it."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                 start_new_session=True, env={**os.environ, "LC_ALL": "C"})
        try:
            yield child, lambda: os.pread(output.fileno(), OUTPUT_MAX, 0).decode(errors="replace")
        finally:
            if child.poll() is None:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait(1)


def run_program(words, seconds, errors=subprocess.DEVNULL):
    with started(words, errors) as (child, output):
        return subprocess.CompletedProcess(words[:3], child.wait(max(0.001, seconds)), output())


def output_of(line):
    """Returns a system program's output; "" if it fails."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = run_program(line.split(), 10)
        done.check_returncode()
        return done.stdout
    return ""


class Run:
    """What the steps use: the notes, the deadline, the daemon, and the person at the Mac."""

    def __init__(self, options, notes):
        self.notes, self.large_bytes, self.command = notes, options.large, options.prompt_command
        self.socket = ["--socket", options.socket] if options.socket else []
        self.config = ["--config", options.config] if options.config else []
        self.person = not self.command and not options.yes and sys.stdin is not None and sys.stdin.isatty()
        self.began_ns, self.deadline = time.time_ns(), time.monotonic() + 60

    def left(self):
        return self.deadline - time.monotonic()

    def us(self, unix_ns=None):
        return max(0, (unix_ns or time.time_ns()) - self.began_ns) // 1000

    def ask(self, verb, *words, grace=0):
        """Runs mlxcommctl and returns the JSON objects that it prints."""
        done = run_program(["mlxcommctl", verb, *words, "--json", *self.socket], self.left() + grace)
        try:
            answers = json.loads("[" + done.stdout.replace("}\n{", "},{") + "]")
            if not all(isinstance(one, dict) for one in answers) or (done.returncode and not answers):
                raise ValueError
        except ValueError:
            raise LeftOut(f"mlxcommctl {verb} printed no JSON and exited with {done.returncode}") from None
        if answers and "error" in answers[-1]:
            raise LeftOut(answers[-1]["error"]["message"])
        return answers

    def need_person(self, what):
        if not self.person and not self.command:
            raise LeftOut(f"no one can {what}: run it in a terminal, without --yes")

    def ask_person(self, name, interface, text):
        """Prints the text, or runs --prompt-command and waits for it."""
        if self.person:
            text = f"\n>>> {text}\n    This is detected automatically. To skip it, press s and Enter."
            return print(text, file=sys.stderr)
        words = ["sh", "-c", self.command + ' "$@"', "sh", name, interface]
        with contextlib.suppress(subprocess.SubprocessError):
            return run_program(words, min(self.left(), PERSON_SECONDS)).check_returncode()
        raise LeftOut(f'the prompt command for "{name}" failed')

    def wait_for_person(self, seconds):
        if not self.person:
            time.sleep(seconds)
        elif select.select([0], [], [], seconds)[0] and os.read(0, 256)[:1] in (b"", b"s", b"S"):
            raise LeftOut("skipped by the user")


def system(run):
    """identify this machine, and run doctor"""
    notes = run.notes
    notes.file["system"] = {name: output_of(line).strip() for name, line in SYSTEM.items()}
    notes.file["system"]["kind"] = "macOS" if MACOS else "Linux"
    interfaces = notes.file["interfaces"] = run.ask("__trials")[0]["interfaces"]
    services = output_of("/usr/sbin/networksetup -listnetworkserviceorder") if MACOS else ""
    ports = [one for one in interfaces if one["thunderbolt"] and not one["name"].startswith("bridge")]
    for one in ports:
        for name, known, has in (("port-link-local", one["running"], one["has_link_local"]),
                                 ("port-service", services, f"Device: {one['name']})" in services)):
            if known:
                notes.judge(has, name, f"{one['name']} has {'one' if has else 'none'}")
        notes.judge(any(port["bridge"] for port in ports), "port-bridge",
                    f"{one['name']} is in {one['bridge'] or 'no bridge'}")
    for name in () if ports else ("port-link-local", "port-service", "port-bridge"):
        notes.leave_out(name, "this machine has no Thunderbolt port")
    for one in run.ask("doctor", *run.config)[0]["findings"]:
        notes.file["findings"].append(f"{one['code']} {one['object']}: {one['found']}")


def judge_full_backlog(notes):
    """A listener that accepts nothing, and clients until one is refused."""
    expected = errno.ECONNREFUSED if MACOS else errno.EAGAIN
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(f"{folder}/s")
        listener.listen(1)
        error = count = 0
        while not error and (count := count + 1) <= 200:
            client = sockets.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            error = client.connect_ex(f"{folder}/s")
    notes.judge(error == expected, "full-backlog", f"at connection {count}: {os.strerror(error)}")


def platform(run):
    """check the operating system"""
    judge_full_backlog(run.notes)
    for name in [name for name, one in ASSUMPTIONS.items()
                 if one.step == "platform" and name != "full-backlog"]:
        if run.left() < 1:  # A trial cut short would look like a hang.
            run.notes.leave_out(name, "the step ran out of time")
            continue
        try:
            done = run_program(["mlxcommd", "--try-platform", name], min(run.left(), 15))
            if done.returncode == 2:
                raise LeftOut("this mlxcommd has no trials: install the same release of both")
            done.check_returncode()
        except subprocess.SubprocessError as error:  # It hung or crashed.
            run.notes.judge(False, name, str(error))
            continue
        verdict, seen, *_ = [*done.stdout.split("\n"), ""]
        if verdict == "untried":
            run.notes.leave_out(name, seen)
        else:
            run.notes.judge(verdict == "holds", name, seen)


def gpu(run):
    """run operations on MLX's default device"""
    words = ["mlxcommctl", "launch", "-n", "2", *run.socket, "--", sys.executable, "-m", f"{__package__}.gpu"]
    done = run_program([*words, str(run.large_bytes)], run.left(), errors=subprocess.STDOUT)
    lines = done.stdout.splitlines()
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):  # Not a verdict.
            one = json.loads(line[line.index("{"):])
            if ASSUMPTIONS[one["assumption"]].step == "gpu":
                run.notes.put(one["assumption"], one["verdict"], str(one["seen"]))
    how = f"its processes exited with {done.returncode}: {' '.join(lines[-1:])}"
    if "No module named" in done.stdout:
        raise LeftOut(how)
    for name in ("gpu-small", "gpu-large") if done.returncode else ():
        if run.notes.of(name)[0] != CONFIRMED:
            run.notes.judge(False, name, how)


def bench(run, *ranks):
    size = str(min(run.large_bytes, BENCH_MAX))
    return run.ask("bench", *ranks, "-f", "16", "-i", "5", "-w", "2", "-e", size)


def read_bench(run, results, what, step):
    for one in results:
        size, rate = one["bytes"], one["bus_bytes_per_second"]
        run.notes.measure(f"{what}, all_reduce of {size} B", one["time_us"], "us")
        if rate > 0:
            run.notes.measure(f"{what}, bus bandwidth at {size} B", rate, "B/s")
        if size >= BENCH_MAX and step == "loopback":
            run.notes.judge(rate >= 4e9, "loopback-rate", f"{rate / 1e9:.3g} GB/s")
    wrong = sum(one["wrong"] or 0 for one in results)
    run.notes.judge(results and not wrong, f"{step}-values", f"{len(results)} sizes, {wrong} wrong elements")


def loopback(run):
    """run two ranks on this machine"""
    read_bench(run, bench(run, "-n", "2")[-1]["results"], "two ranks here", "loopback")


def judge_device(device, interfaces, notes):
    name, gids = device["name"], device["gids"]
    own = [one["name"] for one in interfaces if "rdma_" + one["name"] == name]
    notes.judge(own, "rdma-names", f"{name} belongs to {own[0] if own else 'no interface'}")
    if not device["active"]:
        return
    has_ipv4 = any(":" not in gid for gid in gids)
    notes.judge(has_ipv4, "rdma-gid-ipv4", f"{name}: {', '.join(gids) or 'no GIDs'}")
    for gid in gids[:1]:
        notes.judge(gid.startswith("fe80:"), "rdma-gid-first", f"{name}: {gid}")
    for trial in device["trials"]:
        tried, verdict, text = trial["name"], trial["verdict"], trial["text"].split("\n")[0]
        holds = verdict == ("refused" if tried in REFUSED else "worked")
        if tried in ("pairs", "regions"):
            count = re.match(r"\d{1,9}", text)
            holds = holds and count and 0 < int(count[0]) <= (10 if tried == "pairs" else 100)
        assumption = RENAMED.get(tried, "rdma-" + tried)
        if assumption in ASSUMPTIONS:
            notes.judge(holds, assumption, f"{name}: {verdict}, {text}")


def rdma(run):
    """try each RDMA device, with one process for each trial"""
    interfaces = run.notes.file["interfaces"] = run.ask("__trials")[0]["interfaces"]
    # The last trial may begin just before the end of this time.
    tried = run.ask("__trials", "--rdma", "--for", f"{run.left():.3f}s", *run.config, grace=20)[0]
    run.notes.file["rdma"] = tried
    for device in tried["devices"]:
        judge_device(device, interfaces, run.notes)
    if not tried["devices"]:
        raise LeftOut(tried["trouble"].split("\n")[0] or "no RDMA device found")
    if not any(device["active"] for device in tried["devices"]):
        raise LeftOut("no RDMA device has an active port: no cable, or RDMA is not enabled")


def power(run):
    """keep the Mac awake"""
    if not MACOS:
        raise LeftOut("only on macOS")
    text = output_of("/usr/bin/caffeinate -ims /usr/bin/pmset -g assertions")
    held = re.search(r"^\s*PreventUserIdleSystemSleep\s+1\s*$", text, re.MULTILINE)
    run.notes.judge(held, "power-assertion", f"pmset shows {'the' if held else 'no such'} assertion")


def rails_of(link):
    """Returns a link's rails that are up on a cable, named as in events."""
    rails = [one for one in link["rails"] if one["transport"] != "route" and one["state"] == "up"]
    return [{"rail": ("" if one["transport"] == "tcp" else f"{one['transport']} ") +
                     f"{one['local_interface']} - {one['remote_interface']}",
             "transport": one["transport"], "interface": one["local_interface"]} for one in rails]


def find_cable(run):
    """Returns this node's status and its first link that is up over a cable."""
    node = run.ask("status")[0]["nodes"][0]
    for link in node["links"]:
        if link["state"] == "up" and rails_of(link):
            return node, link
    raise LeftOut("no neighbour: this node has no link over a cable (see mlxcommctl doctor)")


def neighbour(run):
    """find the neighbours on this machine's cables"""
    notes, (_, link) = run.notes, find_cable(run)
    rails = notes.file["rails"] = rails_of(link)
    if any(rail["origin"] == "discovered" for rail in link["rails"]):
        notes.judge(True, "neighbour", f"found by its hellos on {rails[0]['interface']}")
    else:
        notes.leave_out("neighbour", "the configuration names its address")
    up = [one["interface"] for one in rails if one["transport"] == "rdma"]
    down = [one["detail"] for one in link["rails"] if one["transport"] == "rdma"]
    notes.judge(up, "neighbour-rdma", f"up on {up[0]}" if up else [*down, "there is none"][0])
    try:
        best = run.ask("ping", "-c", "20", "-i", "10ms", link["peer"])[0]["round_trip_ns_min"] / 1000
        if not best:
            raise LeftOut("no answer")
        notes.measure("round trip to the neighbour", best, "us")
        notes.judge(best <= 10_000, "neighbour-answers", f"{best:.0f} us, the best of 20")
    except LeftOut as why:
        notes.judge(False, "neighbour-answers", str(why))


def cable(run):
    """run ranks on both machines"""
    node, link = find_cable(run)
    both = sorted((node["name"], link["peer"]))
    rank = both.index(node["name"])
    if run.person:
        print(f"    Start it on {shown(link['peer'])} as well, within two minutes.", file=sys.stderr)
    try:
        answers = bench(run, "--rank", str(rank), "--size", "2", "--job", "-".join(["firstlight", *both]))
    except subprocess.TimeoutExpired:
        raise LeftOut(f"firstlight is not running on {link['peer']} at the same time") from None
    if rank == 0:
        read_bench(run, answers[-1]["results"], "over the cable", "cable")
    else:
        run.notes.judge(True, "cable-values", "reported by rank 0, whose file has the figures")


def event(at_us, source, kind, rail="", text=""):
    return {"at_us": max(0, at_us), "source": source, "kind": kind, "rail": rail, "text": text}


def first(events, kind):
    """Returns when that first happened, by rail."""
    return {one["rail"]: one["at_us"] for one in reversed(events) if one["kind"] == kind}


def addresses_of(interface):
    text = output_of(f"ifconfig {interface}" if MACOS else f"ip -o address show dev {interface}")
    return ", ".join(sorted(re.findall(r"\binet6? (\S+)", text)))


class Cable:
    def __init__(self, run, link, watch):
        self.run, self.peer, self.watch, self.began_us, self.reported = run, link["peer"], watch, run.us(), []
        rails = run.notes.file["rails"] = rails_of(link)
        self.interface = rails[0]["interface"]
        self.rails = [one["rail"] for one in rails if one["interface"] == self.interface]

    def listen(self):
        """Collects the events of the system and the daemon since the watch began, sorted by time."""
        run, reported = self.run, []
        for line in self.watch().split("\n")[:-1]:
            unix_ns, what, name = line.split("\t")
            if what != "ready":
                reported.append(event(run.us(int(unix_ns)), "interface", f"interface_{what}", name))
        for one in run.ask("events", "-n", "1024"):
            rail = re.match(r"rail (.*?) is ", one["text"])  # None for a route, which has no cable here.
            if one["object"] in (f"link to {self.peer}", f"node {self.peer}") and one["kind"] in (
                    ("rail_up", "rail_down") if rail else ("link_waits", "node_up", "node_lost")):
                rail = rail[1] if rail else ""
                reported.append(event(run.us(int(one["unix_ns"])), "daemon", one["kind"], rail, one["text"]))
        reported.sort(key=lambda one: one["at_us"])
        self.reported = [one for one in reported if one["at_us"] >= self.began_us]

    def await_last(self, kind, rails, seconds, since_us=None):
        """Waits until `kind` is the last event of each rail, and returns whether it happened in time. An
        event at or after since_us counts even if others follow: a rail between two ports of one machine comes
        back at once, although the cable is out."""
        until = time.monotonic() + seconds
        while True:
            self.listen()
            last = {one["rail"]: one["kind"] for one in self.reported}
            since = {one["rail"] for one in self.reported if one["kind"] == kind and
                     since_us is not None and one["at_us"] >= since_us}
            if all(last.get(rail) == kind or rail in since for rail in rails):
                return True
            if time.monotonic() > until:
                return False
            self.run.wait_for_person(0.1)

    def do(self, name, text, of_rails, of_interface):
        """Asks for an action; returns the events that followed, and the time of the action."""
        run, at_us = self.run, self.run.us()
        run.ask_person(name, self.interface, text)
        since_us = at_us if name == "pull" else None
        if not self.await_last(of_rails, self.rails, min(run.left(), PERSON_SECONDS), since_us):
            raise LeftOut(f"not all rails of the cable reported {of_rails} in time")
        self.await_last(of_interface, [self.interface], INTERFACE_SECONDS, since_us)  # If it is watched.
        time.sleep(SETTLE_SECONDS)
        self.listen()
        events = [one for one in self.reported if one["at_us"] >= at_us]
        how = "as detected" if run.person else ""
        at_us = events[0]["at_us"] - 1 if run.person and events else at_us  # People take their time.
        run.notes.file["events"].append(event(at_us, "person", name, self.interface, how))
        return events, at_us

    def judge_pull(self, events, pid):
        judge, seen = self.run.notes.judge, first(events, "interface_down").get(self.interface)
        down = max(first(events, "rail_down").get(rail, 0) for rail in self.rails)
        if seen is None:
            judge(False, "pull-seen", f"the interface watch reported nothing about {self.interface}")
        else:
            after = max(0, down - seen) / 1000
            self.run.notes.measure("rails down after the interface", after, "ms")
            judge(after <= 1000, "pull-rails", f"{after:.0f} ms")
            judge(seen <= down + 1_000_000, "pull-seen",
                  f"{self.interface} was reported {after:.0f} ms before the last of its rails was down")
        self.judge_daemon(pid)

    def judge_daemon(self, pid):
        try:
            same = self.run.ask("status")[0]["nodes"][0]["pid"] == pid
            self.run.notes.judge(same, "pull-daemon", f"{'the same' if same else 'another'} process answers")
        except LeftOut as why:
            self.run.notes.judge(False, "pull-daemon", str(why))

    def judge_plug(self, events, at_us, before):
        notes, now = self.run.notes, addresses_of(self.interface)
        begin = first(events, "interface_up").get(self.interface, at_us)
        after = max(0, *(first(events, "rail_up").get(rail, 0) - begin for rail in self.rails)) / 1000
        notes.measure("rails back after the interface", after, "ms")
        notes.judge(after <= 5000, "plug-rails", f"{after:.0f} ms")
        notes.judge(now == before, "plug-addresses", f"before: {before}; now: {now}")


def pull(run):
    """pull a cable, and plug it in again"""
    node, link = find_cable(run)
    run.need_person("pull a cable")
    with started(["mlxcommd", "--try-platform", "watch"]) as (watching, watch):
        while "ready" not in watch():
            if watching.poll() is not None or run.left() < 0:
                raise LeftOut("the system does not report changes of interfaces")
            time.sleep(0.05)
        one = Cable(run, link, watch)
        before = addresses_of(one.interface)
        try:
            ask = f"Pull the cable on {one.interface}, which goes to {shown(one.peer)}."
            try:
                events, _ = one.do("pull", f"{ask} (If both Macs ask, pull it once.)", "rail_down",
                                   "interface_down")
            except LeftOut:
                one.judge_daemon(node["pid"])  # The daemon may have crashed when the cable was pulled.
                with contextlib.suppress(LeftOut):  # The cable may be out anyway.
                    run.ask_person("plug", one.interface, "Plug it in again.")
                raise
            one.judge_pull(events, node["pid"])
            try:
                one.judge_plug(*one.do("plug", "Plug it in again.", "rail_up", "interface_up"), before)
            except LeftOut as why:
                run.notes.judge(False, "plug-rails", str(why))
        finally:
            run.notes.file["events"] += one.reported


def why_no_rails(run, seconds):
    """Returns "" as soon as rails are up, or why none are up in time."""
    until = time.monotonic() + min(seconds, run.left())
    while True:
        try:
            return find_cable(run) and ""
        except LeftOut as why:
            if time.monotonic() >= until:
                return str(why)
        time.sleep(0.2)


def sleep(run):
    """let the machine sleep, and wake it"""
    def passed():
        """Returns the seconds that the first two of CLOCKS have counted, and the seconds asleep."""
        steady, counting, other = (time.clock_gettime(clock) - then for clock, then in zip(CLOCKS, since))
        return steady, counting, counting - other

    run.need_person("put it to sleep")
    since = [time.clock_gettime(clock) for clock in CLOCKS]
    had_none = why_no_rails(run, 0)
    run.ask_person("sleep", "", "Put this Mac to sleep (Apple menu), and wake it half a minute later.")
    while run.person and passed()[2] < 2 and run.left() > 1:
        run.wait_for_person(0.2)
    steady, counting, slept = passed()
    if slept < 2:
        raise LeftOut("the machine did not sleep")
    now_us = run.us()
    run.notes.file["events"] += [event(now_us - int(slept * 1e6), "person", "sleep"),
                                 event(now_us, "person", "wake")]
    run.notes.judge(abs(counting - steady) < 1, "sleep-clock",
                    f"asleep for {slept:.0f} s of {counting:.1f} s, of which the clock counted {steady:.1f}")
    if had_none:
        return run.notes.leave_out("sleep-rails", "no neighbour")
    why = why_no_rails(run, 30)
    return run.notes.judge(not why, "sleep-rails", why or "the rails are up")
