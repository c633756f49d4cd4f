"""mlxcommctl web: who gets the page, what the feed tells, and what happens when the daemon goes."""

import http.client
import json
import signal
import socket
import urllib.parse

import jsonschema
import pytest

from conftest import PATIENCE, Process, find_program
from shell.command_table import mlxcommctl


class Web:
    """A mlxcommctl web that runs, and requests to it as a browser makes them."""

    def __init__(self, socket_path, *arguments, interval="50ms"):
        self.process = Process([find_program("mlxcommctl"), "web", "--json", "--interval", interval,
                                "--socket", socket_path, *arguments])
        self.told = json.loads(self.process.wait_for("url"))
        self.url = self.told["url"]
        self.port = self.told["port"]
        self.token = urllib.parse.parse_qs(urllib.parse.urlsplit(self.url).query)["token"][0]
        self.own = {"Host": f"127.0.0.1:{self.port}"}
        self.cookie = {**self.own, "Cookie": f"mlxcomm_{self.port}={self.token}"}
        self.feeds = []

    def ask(self, path, headers, method="GET", body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
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
        self.connection.request("GET", "/feed", headers=web.cookie)
        self.answer = self.connection.getresponse()

    def next(self):
        """(name, what its data is)"""
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
    """web(socket, *arguments) gives a running Web."""
    made = []

    def make(*arguments):
        made.append(Web(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_the_token_opens_the_page_and_becomes_a_cookie(cluster, web):
    w = web(cluster(1).socket(0))
    assert w.told["bind"] == "127.0.0.1" and w.url.startswith(f"http://127.0.0.1:{w.port}/?token=")
    page = w.ask(f"/?token={w.token}", w.own)
    assert page.status == 200 and "<title>mlxcomm</title>" in page.text
    cookie = page.headers["Set-Cookie"]
    assert cookie == f"mlxcomm_{w.port}={w.token}; Path=/; HttpOnly; SameSite=Strict"
    for path in ("/", "/page.css", "/page.js", "/tables.js", "/topology.js", "/words.js"):
        answer = w.ask(path, w.cookie)
        assert answer.status == 200 and answer.text, path
        kind = {"css": "text/css", "js": "text/javascript"}.get(path.partition(".")[2], "text/html")
        assert answer.headers["Content-Type"] == f"{kind}; charset=utf-8", path
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "innerHTML" not in answer.text


def test_without_the_token_nothing_is_told(cluster, web):
    w = web(cluster(1).socket(0))
    wrong = "0" * len(w.token)
    for path in ("/", "/feed", "/page.js", "/nothing"):
        for headers in (w.own, {**w.own, "Cookie": f"mlxcomm_{w.port}={wrong}"}):
            answer = w.ask(path, headers)
            assert answer.status == 403 and "token" in answer.text
        assert w.ask(f"{path}?token={wrong}", w.own).status == 403


def test_a_foreign_host_and_other_sites_are_refused(cluster, web):
    w = web(cluster(1).socket(0))
    for host in ("evil.example", f"evil.example:{w.port}", "127.0.0.1:1"):
        assert w.ask("/feed", {**w.cookie, "Host": host}).status == 421
        assert w.ask(f"/?token={w.token}", {"Host": host}).status == 421
    for site in ("cross-site", "same-site"):
        assert w.ask("/page.js", {**w.cookie, "Sec-Fetch-Site": site}).status == 403


def test_nothing_can_be_changed(cluster, web):
    w = web(cluster(1).socket(0))
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert w.ask(f"/?token={w.token}", w.cookie, method, "x" * 100).status == 405
    assert w.ask("/", w.cookie).status == 200


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


def test_a_change_reaches_the_feed(cluster, web):
    c = cluster(2)
    feed = web(c.socket(0)).feed()
    feed.until("health", lambda health: health["good"])
    c.daemons[1].end()
    # In whichever order they come.
    wanted = {"health": lambda health: "node-1" in health["text"],
              "events": lambda events: any(one["kind"] == "rail_down" for one in events)}
    while wanted:
        name, data = feed.next()
        if name in wanted and wanted[name](data):
            del wanted[name]


def test_a_daemon_that_goes_is_told_and_waited_for(cluster, web):
    c = cluster(1)
    feed = web(c.socket(0)).feed()
    first = feed.until("status")["nodes"][0]["pid"]
    c.daemons[0].end()
    error = feed.until("daemon", lambda told: told)["error"]
    # It has ended, or ends while it is asked.
    assert error["code"] == "UNAVAILABLE" and "mlxcommd" in error["message"]
    c.start_daemon(0)
    feed.until("daemon", lambda told: told == {})
    feed.until("status", lambda status: status["nodes"][0]["pid"] != first)


# Why: a browser that is left open everywhere must not take the threads that others need.
def test_there_are_not_more_feeds_than_there_may_be(cluster, web):
    w = web(cluster(1).socket(0))
    for _ in range(12):
        assert w.feed().answer.status == 200
    assert w.feed().answer.status == 503
    assert w.ask("/", w.cookie).status == 200


def test_more_connections_than_there_may_be_wait(cluster, web):
    w = web(cluster(1).socket(0))
    silent = [socket.create_connection(("127.0.0.1", w.port)) for _ in range(60)]
    for one in silent:
        one.close()
    assert w.ask("/", w.cookie).status == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_stopped_though_somebody_looks(cluster, web, number):
    w = web(cluster(1).socket(0))
    w.feed().until("status")
    w.process.signal(number)
    assert w.process.finish() == 0


def test_a_port_that_is_taken_is_named(cluster, web):
    c = cluster(1)
    w = web(c.socket(0))
    done = mlxcommctl("web", "--port", str(w.port), "--socket", c.socket(0), "--for", "1ms")
    assert done.returncode == 1 and str(w.port) in done.stderr, done


def test_others_are_let_in_only_if_it_is_asked_for(cluster):
    done = mlxcommctl("web", "--bind", "0.0.0.0", "--for", "1ms", "--socket", cluster(1).socket(0))
    assert done.returncode == 0 and "not of this machine alone" in done.stderr
