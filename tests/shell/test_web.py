"""mlxcommctl web: access to the page, its feed, and daemons that come and go."""

import contextlib
import ctypes
import errno
import http.client
import json
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import jsonschema
import pytest

from conftest import PATIENCE, Process, find_program, wait_until
from shell.command_table import mlxcommctl

PAGE = pathlib.Path(__file__).parents[2] / "client/ctl/web/page"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """Keeps bookmarks out of the user's own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    return tmp_path / "a state"


class Web:
    """A running mlxcommctl web, and requests to it."""

    def __init__(self, socket_path, *arguments, interval="50ms"):
        self.process = Process([find_program("mlxcommctl"), "web", "--json", "--interval", interval,
                                "--socket", socket_path, *arguments])
        self.report = json.loads(self.process.wait_for("url"))
        self.url = self.report["url"]
        self.port = self.report["port"]
        parts = urllib.parse.urlsplit(self.url)
        self.token = urllib.parse.parse_qs(parts.query)["t"][0]
        self.path = parts.path
        self.own = {"Host": f"127.0.0.1:{self.port}"}
        self.cookie = {**self.own, "Cookie": f"mlxcomm_{self.port}={self.token}"}
        self.feeds = []

    def ask(self, path, headers, method="GET", body=None, address="127.0.0.1"):
        """`path` is relative to the page, or with a slash to the root."""
        connection = http.client.HTTPConnection(address, self.port, timeout=PATIENCE)
        path = path if path.startswith("/") else self.path + path
        connection.request(method, path, body, {"Connection": "close", **headers})
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def feed(self):
        self.feeds.append(Feed(self))
        return self.feeds[-1]

    def end(self):
        for feed in self.feeds:
            feed.connection.close()
        self.process.end()


class Feed:
    def __init__(self, web):
        self.connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE)
        self.connection.request("GET", web.path + "feed", headers=web.cookie)
        self.answer = self.connection.getresponse()

    def next(self):
        """Returns the next event's name and data."""
        name, data = None, []
        while line := self.answer.readline().decode():
            key, _, value = line.rstrip("\n").partition(": ")
            if key == "event":
                name = value
            elif key == "data":
                data.append(value)
            elif not key and name is not None:
                return name, json.loads("\n".join(data))
        raise AssertionError("the feed has ended")

    def until(self, wanted, condition=lambda data: True):
        while True:
            name, data = self.next()
            if name == wanted and condition(data):
                return data


@pytest.fixture
def web():
    made = []

    def make(*arguments, **options):
        made.append(Web(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def served(cluster, web):
    """The page of one daemon."""
    return web(cluster(1).socket(0))


def test_the_token_opens_the_page_and_becomes_a_cookie(served):
    assert served.report["bind"] == "127.0.0.1"
    assert served.url == f"http://127.0.0.1:{served.port}{served.path}?t={served.token}"
    assert len(served.url) <= 62 and len(served.token) == 22
    page = served.ask(f"?t={served.token}", served.own)
    assert page.status == 200 and "<title>mlxcomm</title>" in page.text
    cookie = page.headers["Set-Cookie"]
    assert cookie == f"mlxcomm_{served.port}={served.token}; Path={served.path}; HttpOnly; SameSite=Strict"
    for path in ("", *(file.name for file in PAGE.iterdir() if file.suffix != ".html")):
        answer = served.ask(path, served.cookie)
        assert answer.status == 200 and answer.text, path
        kind = {"css": "text/css", "js": "text/javascript"}.get(path.partition(".")[2], "text/html")
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8", path
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in answer.text


def test_requests_without_the_token_are_refused(served):
    wrong = "0" * len(served.token)
    for path in ("", "feed", "page.js", "nothing", "/", "/feed"):
        for headers in (served.own, {**served.own, "Cookie": f"mlxcomm_{served.port}={wrong}"}):
            answer = served.ask(path, headers)
            assert answer.status == 403 and "token" in answer.text
        assert served.ask(f"{path}?t={wrong}", served.own).status == 403


# Why: cookies ignore ports, and other users' servers on 127.0.0.1 must not get this cookie.
def test_the_cookie_goes_to_no_path_that_others_know(cluster, web):
    w = web(cluster(1).socket(0))
    other = web(cluster(1).socket(0))
    assert len(w.path) == 13 and w.path != other.path and w.path.strip("/") != w.token
    for path in ("/", "/feed", "/page.js", f"{w.path}feed/", w.path.rstrip("/"), other.path):
        answer = w.ask(path, w.cookie)
        assert answer.status == 404 and "Set-Cookie" not in answer.headers, path


def test_a_foreign_host_and_other_sites_are_refused(served):
    for host in ("evil.example", f"evil.example:{served.port}", "127.0.0.1:1"):
        assert served.ask("feed", {**served.cookie, "Host": host}).status == 421
        assert served.ask(f"?t={served.token}", {"Host": host}).status == 421
    for site in ("cross-site", "same-site"):
        assert served.ask("page.js", {**served.cookie, "Sec-Fetch-Site": site}).status == 403


def test_nothing_can_be_changed(served):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert served.ask(f"?t={served.token}", served.cookie, method, "x" * 100).status == 405
    assert served.ask("", served.cookie).status == 200


def test_the_feed_has_the_json_of_the_verbs(cluster, web):
    feed = web(cluster(2).socket(0)).feed()
    assert feed.answer.headers["Content-Type"] == "text/event-stream"
    missing = {"status", "topology", "record", "doctor", "events"}
    while missing:
        name, data = feed.next()
        if name not in missing or data == []:
            continue
        missing.remove(name)
        schema = json.loads(mlxcommctl("schema", name).stdout)
        for one in data if name == "events" else [data]:
            jsonschema.validate(one, schema, cls=jsonschema.Draft202012Validator)


def test_a_change_reaches_the_feed(duo, web):
    feed = web(duo.socket(0)).feed()
    feed.until("health", lambda health: health["good"])
    duo.daemons[1].end()
    # In any order.
    wanted = {"health": lambda health: "node-1" in health["text"],
              "events": lambda events: any(one["kind"] == "rail_down" for one in events)}
    while wanted:
        name, data = feed.next()
        if name in wanted and wanted[name](data):
            del wanted[name]


def test_a_daemon_that_ends_is_reported_and_waited_for(solo, web):
    feed = web(solo.socket(0)).feed()
    first = feed.until("status")["nodes"][0]["pid"]
    solo.daemons[0].end()
    error = feed.until("daemon", lambda report: "error" in report)["error"]
    assert error["code"] == "UNAVAILABLE" and "mlxcommd" in error["message"]
    solo.start_daemon(0)
    feed.until("daemon", lambda report: "error" not in report)
    feed.until("status", lambda status: status["nodes"][0]["pid"] != first)


# Why: a page of a daemon that ended earlier must show how old its data is.
def test_stale_data_has_the_time_of_the_last_poll(solo, web):
    w = web(solo.socket(0))
    began = time.time_ns()
    feed = w.feed()
    first = int(feed.until("daemon")["seen_unix_ns"])
    assert began - 1e9 < first <= time.time_ns()
    assert int(feed.until("daemon")["seen_unix_ns"]) > first
    solo.daemons[0].end()
    gone = time.time_ns()
    seen = feed.until("daemon", lambda report: "error" in report)["seen_unix_ns"]
    assert first < int(seen) < gone
    feed.connection.close()
    later = w.feed()
    report = later.next()
    assert report[0] == "daemon" and "error" in report[1] and report[1]["seen_unix_ns"] == seen
    assert later.until("status")["nodes"]


# Why: a curve that starts when the page is loaded does not show the minute before.
def test_the_history_is_older_than_the_browser_that_gets_it(cluster, web):
    w = web(cluster(2).socket(0))
    began = time.time()
    wait_until(lambda: time.time() > began + 5, "there are some samples, of two seconds each")
    opened = time.time_ns()
    feed = w.feed()
    history = feed.until("history")
    times = [int(sample["unix_ns"]) for sample in history["samples"]]
    assert len(times) >= 2 and times == sorted(times) and times[1] < opened
    assert len(history["links"]) == 1 and len(history["samples"][-1]["link_bytes_per_second"]) == 1
    later = feed.until("history")["samples"]  # Only new samples.
    assert len(later) == 1 and int(later[0]["unix_ns"]) > times[-1]


def test_a_daemon_that_was_never_there_has_no_time(web, tmp_path):
    report = web(str(tmp_path / "none")).feed().until("daemon")
    assert report["error"]["code"] == "UNAVAILABLE" and report["seen_unix_ns"] == "0"


# Why: it was silent, and polled everything three times a second.
def test_refused_events_are_reported_and_cause_no_polls(duo, web):
    wait_until(lambda: mlxcommctl("events", "--socket", duo.socket(0)).stdout.strip(), "there is an event")
    command = [find_program("mlxcommctl"), "events", "--follow", "--last", "1", "--socket", duo.socket(0)]
    others = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(32)]
    try:
        for one in others:  # It reads, or was refused: users other than root have fewer places.
            assert one.stdout.readline()
        feed = web(duo.socket(0), interval="600s").feed()
        feed.until("following", lambda report: report.get("error", {}).get("code") == "RESOURCE_EXHAUSTED")
        for one in others:
            one.kill()
        looks = 0
        while True:
            name, data = feed.next()
            looks += name == "daemon"
            if name == "following" and "error" not in data:
                break
        assert looks <= 2  # For the new viewer, and for the first event.
    finally:
        for one in others:
            one.kill()
            one.communicate()


# Why: browsers that stay open must not take all threads.
def test_there_are_not_more_feeds_than_there_may_be(served):
    for _ in range(12):
        assert served.feed().answer.status == 200
    assert served.feed().answer.status == 503
    assert served.ask("", served.cookie).status == 200


def ask_by_hand(web, request, address="127.0.0.1"):
    """Returns the answer, up to the end of the connection."""
    with socket.create_connection((address, web.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def head_of(web, *lines, path="/"):
    first = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{web.port}")
    return "".join(f"{line}\r\n" for line in (*first, *lines)).encode()


# Why: each line of a head extended its time, so connections held their places forever.
def test_slow_connections_take_all_places_but_have_to_end(served):
    with contextlib.ExitStack() as ended:
        def connect():
            one = ended.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            one.sendall(head_of(served))
            return one

        slow = [connect() for _ in range(24)]
        assert select.select(slow, [], [], 0)[0] == []
        late = connect()
        late.sendall(b"\r\n")

        def is_late_answered():
            for one in slow:
                with contextlib.suppress(OSError):  # The server has ended some.
                    one.sendall(b"Slow: x\r\n")
            return select.select([late], [], [], 0)[0] != []
        assert not is_late_answered()
        wait_until(is_late_answered, "some of the slow ones have been ended")
        assert b" 403 " in late.recv(1000)


def memory_of(process):
    status = pathlib.Path(f"/proc/{process.child.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


# Why: its lines were stored without a limit before the token was checked.
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0"])
def test_a_head_without_end_takes_no_memory(cluster, web, bind):
    w = web(cluster(1).socket(0), "--bind", bind)
    w.ask("", w.own)
    before = memory_of(w.process)
    lines = b"".join(b"a%d: %s\r\n" % (i, b"x" * 1000) for i in range(1000))
    for _ in range(4):
        flood = socket.create_connection(("127.0.0.1", w.port), timeout=PATIENCE)
        with flood, contextlib.suppress(ConnectionError):
            flood.sendall(head_of(w))
            for _ in range(32):
                flood.sendall(lines)
    assert w.ask("", w.own).status == 403
    assert memory_of(w.process) - before < 8 << 20


def test_a_head_is_taken_up_to_its_limit(served):
    start = head_of(served, "x: ")[:-2]
    for size, status in ((16 * 1024, b" 403 "), (16 * 1024 + 1, b" 400 ")):
        answer = ask_by_hand(served, start + b"x" * (size - len(start) - 4) + b"\r\n\r\n")
        assert status in answer.split(b"\r\n")[0] and answer.count(b"HTTP/1.1") == 1


def test_malformed_requests_are_refused(served):
    for garbage in (b"\x16\x03\x01\r\n\r\n", b"GET\r\n\r\n", head_of(served, "no colon") + b"\r\n",
                    head_of(served, "Host: evil.example") + b"\r\n"):
        assert b" 400 " in ask_by_hand(served, garbage).split(b"\r\n")[0], garbage


def test_what_others_servers_have_answered_is_refused(served):
    cookie = f"Cookie: mlxcomm_{served.port}={served.token}"
    paths = "../../etc/passwd", "..%2f..%2fetc/passwd", "%2e%2e/page.js", "page.js%00", "page.js/../..", "//"
    for path in (*(served.path + path for path in paths), f"http://evil.example{served.path}", "*"):
        answer = ask_by_hand(served, head_of(served, cookie, path=path) + b"\r\n").split(b"\r\n")[0]
        assert b" 404 " in answer or b" 400 " in answer, (path, answer)
    body = b"ffffffffffffffff\r\n"
    chunked = head_of(served, cookie, "Transfer-Encoding: chunked", path=served.path) + b"\r\n" + body
    assert ask_by_hand(served, chunked).count(b"HTTP/1.1") == 1


def test_head_has_no_body(served):
    for path in ("page.js", "feed"):
        answer = served.ask(path, served.cookie, "HEAD")
        assert answer.status == 200 and answer.text == ""


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit")
def test_connections_wait_for_free_descriptors(served):
    served.ask("", served.cookie)
    limits = resource.prlimit(served.process.child.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(served.process.child.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    with contextlib.ExitStack() as ended:
        waiting = []
        for _ in range(4):  # Linux already has a descriptor for the first one.
            waiting.append(ended.enter_context(socket.create_connection(("127.0.0.1", served.port))))
            waiting[-1].settimeout(PATIENCE)
            waiting[-1].sendall(head_of(served) + b"\r\n")
        resource.prlimit(served.process.child.pid, resource.RLIMIT_NOFILE, limits)
        for one in waiting:
            assert b" 403 " in one.recv(1000)


def descriptor_of_listener(pid, port):
    lines = pathlib.Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    inode = next(line.split()[9] for line in lines
                 if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A")
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{number}") == f"socket:[{inode}]":
                return int(number)
    raise AssertionError(f"nothing listens at {port}")


def break_listener(web):
    """Makes accept() fail in that process, as on macOS when a connection is aborted."""
    PIDFD_GETFD = 438
    pid = web.process.child.pid
    process = os.pidfd_open(pid)
    taken = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process,
                                                      descriptor_of_listener(pid, web.port), 0)
    os.close(process)
    if taken < 0:
        pytest.skip(f"cannot get a descriptor of a child: {os.strerror(ctypes.get_errno())}")
    with socket.socket(fileno=taken) as listener:
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_getfd")
def test_a_listener_that_fails_is_replaced_and_feeds_go_on(served):
    feed = served.feed()
    feed.until("status")
    for _ in range(2):
        break_listener(served)

        def answers():
            with contextlib.suppress(OSError):
                return served.ask("", served.cookie).status == 200
        wait_until(answers, "the page is served again")
        feed.until("status")


@pytest.mark.skipif(sys.platform != "linux", reason="pidfd_getfd")
def test_it_ends_with_a_reason_when_its_port_is_taken_meanwhile(served):
    served.feed().until("status")
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        break_listener(served)

        def is_taken():
            with contextlib.suppress(OSError):
                thief.bind(("127.0.0.1", served.port))
                thief.listen()
                return True
        wait_until(is_taken, "the port is free for a moment")
        assert served.process.finish() == 1
    said = f"cannot listen on 127.0.0.1, port {served.port}: Address already in use"
    assert said in "\n".join(served.process.lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_a_page_is_open(served, number):
    served.feed().until("status")
    served.process.signal(number)
    assert served.process.finish() == 0


def test_a_port_that_is_taken_is_named(solo, web):
    w = web(solo.socket(0))
    done = mlxcommctl("web", "--port", str(w.port), "--socket", solo.socket(0), "--for", "1ms")
    assert done.returncode == 1, done
    assert f"cannot listen on 127.0.0.1, port {w.port}: Address already in use" in done.stderr


def test_an_unavailable_address_is_named_with_the_reason(tmp_path):
    for address, why in (("192.0.2.1", os.strerror(errno.EADDRNOTAVAIL)), ("no.such.invalid", "")):
        done = mlxcommctl("web", "--bind", address, "--socket", str(tmp_path / "none"), "--for", "1ms")
        assert done.returncode == 1 and f"cannot listen on {address}, any port: {why}" in done.stderr, done
        assert "no reason" not in done.stderr and "Success" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not an address of the machine")
def test_it_listens_at_the_address_that_is_asked_for_and_no_other(solo, web):
    host = socket.gethostname()
    other = "127.0.0.2"
    w = web(solo.socket(0))
    with pytest.raises(ConnectionRefusedError):
        w.ask("", w.cookie, address=other)
    w = web(solo.socket(0), "--bind", other)
    assert w.url.startswith(f"http://{other}:")
    assert w.ask("", {**w.cookie, "Host": f"{other}:{w.port}"}, address=other).status == 200
    with pytest.raises(ConnectionRefusedError):
        w.ask("", w.cookie)
    w = web(solo.socket(0), "--bind", "0.0.0.0")
    assert w.url.startswith(f"http://{host}:")
    for name in (host, host.partition(".")[0], other):
        assert w.ask("", {**w.cookie, "Host": f"{name}:{w.port}"}, address=other).status == 200, name
    assert w.ask("", {**w.cookie, "Host": f"evil.example:{w.port}"}, address=other).status == 421


# Why: ssh -L without a terminal leaves the program running when its connection ends.
def test_it_ends_when_both_its_pipes_are_closed(cluster):
    child = subprocess.Popen([find_program("mlxcommctl"), "web", "--json", "--socket", cluster(1).socket(0)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        try:
            port = json.loads(child.stdout.readline())["port"]
            child.stdin.close()  # As ssh -n does.
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(timeout=3)
            socket.create_connection(("127.0.0.1", port)).close()
            child.stdout.close()
            assert child.wait(timeout=PATIENCE) == 0
        finally:
            child.kill()


def test_others_are_let_in_only_if_it_is_asked_for(cluster):
    done = mlxcommctl("web", "--bind", "0.0.0.0", "--for", "1ms", "--socket", cluster(1).socket(0))
    assert done.returncode == 0 and "other machines can reach" in done.stderr


def test_without_a_daemon_the_exit_code_is_3(tmp_path):
    done = mlxcommctl("web", "--json", "--for", "1ms", "--socket", str(tmp_path / "none"))
    assert done.returncode == 3 and "the page waits for it" in done.stderr
    assert done.stderr.count("no mlxcommd at") == 1
    assert json.loads(done.stdout.splitlines()[-1])["error"]["exit_code"] == 3


def test_a_daemon_that_comes_and_goes_is_reported_on_the_terminal(cluster, web):
    c = cluster(1, start=False)
    w = web(c.socket(0))
    w.process.wait_for("the page waits for it")
    c.start_daemon(0)
    w.process.wait_for("mlxcommd answers")
    c.daemons[0].end()
    w.process.wait_for("the page waits for it")
    w.process.signal(signal.SIGINT)
    assert w.process.finish() == 0


def test_the_bookmark_leads_to_the_page_as_long_as_it_is_served(cluster, web, state):
    w = web(cluster(1).socket(0))
    file = state / "mlxcommctl" / "web.html"
    assert w.report["bookmark"] == f"file://{urllib.parse.quote(str(file))}"
    assert f'content="0; url={w.url}"' in file.read_text(encoding="ascii")
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    other = web(cluster(1).socket(0))
    w.process.signal(signal.SIGTERM)
    assert w.process.finish() == 0
    assert other.url in file.read_text(encoding="ascii")  # The last one started.
    other.process.signal(signal.SIGTERM)
    other.process.finish()
    text = file.read_text(encoding="ascii")
    assert "mlxcommctl web is not running" in text and "http:" not in text


# Why: another user could make the bookmark lead elsewhere.
def test_a_folder_that_others_can_change_gets_no_bookmark(cluster, web, state):
    (state / "mlxcommctl").mkdir(parents=True)
    (state / "mlxcommctl").chmod(0o777)
    w = web(cluster(1).socket(0))
    assert w.report["bookmark"] == "" and list((state / "mlxcommctl").iterdir()) == []
    assert any("cannot write the bookmark" in line for line in w.process.lines)


@pytest.fixture
def opener(tmp_path, monkeypatch):
    """Stands in for the system's program: writes its arguments, and exits with the number in `code`."""
    folder = tmp_path / "opener"
    folder.mkdir()
    (folder / "code").write_text("0")
    program = folder / ("open" if sys.platform == "darwin" else "xdg-open")
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/new && mv {folder}/new {folder}/arguments\n'
                       f'exit "$(cat {folder}/code)"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":0")
    return folder


def arguments_of(opener):
    file = opener / "arguments"
    return wait_until(lambda: file.exists() and file.read_text().strip(), "the browser is opened")


# Why: all users see the arguments of processes.
def test_open_passes_no_secret_to_the_browser(cluster, web, opener, state):
    w = web(cluster(1).socket(0), "--open")
    assert arguments_of(opener) == str(state / "mlxcommctl" / "web.html")
    assert w.ask(f"?t={w.token}", w.own).status == 200


def test_open_reports_why_it_found_no_browser(solo, web, opener, monkeypatch):
    (opener / "code").write_text("3")
    web(solo.socket(0), "--open").process.wait_for(
        "cannot open a browser: it ended with exit code 3; open the URL above")
    monkeypatch.setenv("PATH", "/nowhere")
    web(solo.socket(0), "--open").process.wait_for("open: no such program; open the URL above")
    if sys.platform != "darwin":
        monkeypatch.delenv("DISPLAY")
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        web(solo.socket(0), "--open").process.wait_for("neither DISPLAY nor WAYLAND_DISPLAY is set")


# Why: in another user's folder, a link could redirect what root writes.
@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked with sudo")
def test_with_sudo_there_is_no_bookmark(solo, web, state, monkeypatch):
    monkeypatch.setenv("SUDO_UID", "4242")
    w = web(solo.socket(0), "--open")
    w.process.wait_for("cannot open a browser: the bookmark was not written; open the URL above")
    assert w.report["bookmark"] == "" and not state.exists()
