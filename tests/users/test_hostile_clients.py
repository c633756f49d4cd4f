"""Hostile clients of one user beside another user's job: the daemon survives, every byte of the job is
correct, and nothing leaks."""

import contextlib
import os
import resource
import select
import socket
import struct

import pytest
from test_users import ANN, BOB, as_user, users  # noqa: F401

from conftest import wait_until
from ground.daemon_resources import given_back

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start others' processes")

HELLO = struct.Struct("<QIIQQ")
MAGIC, VERSION, CLIENT = 0x6D6C78636F6D6D63, 2, 1  # proto/queue/hello.h
ANSWER_BYTES = 256
FAILURE_CODE_AT = 12
GOOD_HELLO = HELLO.pack(MAGIC, VERSION, CLIENT, 1 << 20, 0)


@pytest.fixture
def beside(users, tmp_path):  # noqa: F811
    """While the block beside(**margins) runs, the daemon works for BOB."""
    c = users(1)

    @contextlib.contextmanager
    def block(**margins):
        stop = c.public / "stop"
        ranks = [c.rank_as(BOB, rank, 2, f"loop:8:100000:{stop}") for rank in (0, 1)]
        for rank in ranks:
            rank.wait_for("looping")
        daemon = c.daemons[0]
        with given_back(daemon.child.pid, **margins):
            yield c
        stop.touch()
        assert [rank.finish() for rank in ranks] == [0, 0], [rank.lines for rank in ranks]
        assert daemon.child.poll() is None

    return block


def connect(c):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(c.socket(0))  # With a timeout it would not wait for its place.
    connection.settimeout(60)
    return connection


def connect_as_ann(c):
    with as_user(ANN):
        return connect(c)


def counter(c, name):
    return int(c.status()["nodes"][0].get(name, 0))


def many_files(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 256
    if soft < wanted <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return min(count, soft - 256)


# Why: two thousand exceed the backlog, the simultaneous hellos and the client limit.
@pytest.mark.parametrize("said", ["nothing", "garbage"])
def test_two_thousand_connects_cost_the_others_nothing(beside, said):
    with beside() as c:
        before = counter(c, "clients_refused")
        held = []
        count = many_files(2000)
        with as_user(ANN):
            for _ in range(count):
                held.append(connect(c))
                if said == "garbage":
                    with contextlib.suppress(OSError):  # It may have been refused by now.
                        held[-1].sendall(os.urandom(96))
        for connection in held:
            connection.close()
        wait_until(lambda: counter(c, "clients_refused") == before + len(held), "each was refused")


def test_half_hellos_are_refused_however_much_of_them_came(beside):
    with beside() as c:
        before = counter(c, "clients_refused")
        for length in range(HELLO.size):
            with connect_as_ann(c) as connection:
                connection.sendall(GOOD_HELLO[:length])
        wait_until(lambda: counter(c, "clients_refused") == before + HELLO.size, "each was refused")


def wrong_descriptors(kind, folder, kept):
    def opened(number):
        kept.callback(os.close, number)
        return number

    if kind == "file":
        return [opened(os.open(folder / "file", os.O_RDWR | os.O_CREAT))]
    if kind == "directory":
        return [opened(os.open(folder, os.O_RDONLY))]
    if kind == "zeros":
        return [opened(os.open("/dev/zero", os.O_RDWR))]
    if kind == "pipe":
        return [opened(end) for end in os.pipe()]
    if kind == "sockets":
        return [opened(end.detach()) for end in socket.socketpair()]
    if kind == "epoll":
        return [kept.enter_context(select.epoll()).fileno()]
    if kind == "nested sockets":  # Each arrives with data that the other side has not read.
        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [one.fileno()])
        socket.send_fds(other, [b"x"], [other.fileno()])
        return [opened(one.detach()), opened(other.detach())]
    if kind == "memory without seals":
        make = getattr(os, "memfd_create", lambda name: os.open(folder, os.O_TMPFILE | os.O_RDWR))
        return [opened(make("arena"))]
    assert kind == "too many"
    return [opened(os.open("/dev/null", os.O_RDONLY)) for _ in range(200)]


KINDS = ["file", "directory", "zeros", "pipe", "sockets", "nested sockets", "memory without seals",
         "too many", *(["epoll"] if hasattr(select, "epoll") else [])]


def pass_descriptors(to, data, descriptors):
    try:
        socket.send_fds(to, [data], descriptors)
    except PermissionError:  # The daemon refuses them, from Linux 6.16 on.
        to.sendall(data)


# Why: the receiver of a descriptor owns it.
@pytest.mark.parametrize("when", ["with the hello", "with each byte of it", "later", "on the doorbell"])
def test_unexpected_descriptors_are_closed(beside, tmp_path, when):
    with beside() as c, contextlib.ExitStack() as kept:
        for kind in KINDS:
            sent = wrong_descriptors(kind, tmp_path, kept)
            with connect_as_ann(c) as connection, contextlib.ExitStack() as kept_until_sent:
                if when == "with the hello":
                    pass_descriptors(connection, GOOD_HELLO, sent)
                elif when == "with each byte of it":
                    for byte in GOOD_HELLO:
                        pass_descriptors(connection, bytes([byte]), sent)
                else:
                    connection.sendall(GOOD_HELLO)
                answer, own, _, _ = socket.recv_fds(connection, ANSWER_BYTES, 4)
                for descriptor in own:  # Without them the session ends.
                    kept_until_sent.callback(os.close, descriptor)
                assert len(answer) == ANSWER_BYTES and len(own) == 3, (kind, answer)
                assert answer[FAILURE_CODE_AT] == 0, (kind, answer)
                if when == "later":  # At the position where gRPC reads by now.
                    pass_descriptors(connection, b"PRI * HTTP/2.0\r\n", sent)
                if when == "on the doorbell":
                    with socket.socket(fileno=os.dup(own[2])) as doorbell:
                        pass_descriptors(doorbell, b"x", sent)


def vandal(c, *words):
    done = c.run_as(ANN, "users_vandal", c.socket(0), *words)
    assert done.finish() == 0, done.lines
    return done.lines


# Why: a shorter mapping would end the other side with SIGBUS.
def test_clients_cannot_resize_shared_memory(beside):
    with beside() as c:
        lines = vandal(c, "sizes")
        assert len(lines) >= 6 and all(line.endswith("refused") for line in lines), lines


# Why: a client can give pages of its arena back to the system; the daemon then reads zeros.
def test_arenas_lose_their_pages_while_the_daemon_works_in_them(beside):
    with beside() as c:
        lines = vandal(c, "holes")
        assert lines == ["rank 0: OK", "rank 1: OK"] * 20


def test_a_queue_and_an_arena_are_scribbled_over_at_any_moment(beside):
    with beside() as c:
        for seed in range(20):
            assert vandal(c, "scribbles", str(seed)) == ["rank 0: its session ended"]


@pytest.mark.parametrize("phase, others", [("hello", []), ("joining", []),
                                           ("running", ["rank 1: RANK_LOST"]),
                                           ("leaving", ["rank 1: RANK_LOST"])])
def test_a_closed_doorbell_ends_only_its_session(beside, phase, others):
    """The process stays alive, so only the doorbell shows that its session is over."""
    with beside() as c:
        assert vandal(c, "doorbell", phase) == ["rank 0: its session ended", *others]


# Why: failing calls and useless rings cost the loop more than the user.
@pytest.mark.parametrize("what", ["calls", "rings"])
def test_floods_of_useless_requests_are_slowed_and_end_no_session(beside, what):
    with beside() as c:
        assert vandal(c, "flood", what, "6") == ["begins", "answered"]


@pytest.mark.parametrize("which", ["ahead", "back", "minus", "completions", "header"])
def test_impossible_positions_end_only_their_session(beside, which):
    with beside() as c:
        before = counter(c, "sessions_ended_for_garbage")
        lines = vandal(c, "positions", which)
        reported = "rank 1: OK" if which == "completions" else "rank 1: RANK_LOST"
        assert sorted(lines) == ["rank 0: its session ended", reported], lines
        assert counter(c, "sessions_ended_for_garbage") == before + 1
