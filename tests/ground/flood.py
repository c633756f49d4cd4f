"""A process that floods its control connections: flood.py USER SOCKET KIND COUNT.

It switches to that user, after loading files that others may not read. It waits only for the daemon:
it sends until it is cut off, or has sent everything, and reports for each connection which of the two.
"""

import array
import base64
import fcntl
import os
import pathlib
import random
import re
import select
import socket
import struct
import sys
import termios

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto/mlxcomm/v1"
HELLO = struct.pack("<QIIQQ", 0x6D6C78636F6D6D63, 2, 2, 0, 0)  # A tool's role; see proto/queue/hello.h.
CLIENT_HELLO = struct.pack("<QIIQQ", 0x6D6C78636F6D6D63, 2, 1, 1 << 20, 0)
DAEMON_HELLO_BYTES = 256
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE,
 CONTINUATION) = range(10)
END_STREAM, END_HEADERS = 1, 4


def frame(kind, payload=b"", flags=0, stream=0):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """A literal that is not indexed (RFC 7541, 6.2.2); below 127 bytes each."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def call(method, token, stream, more=b"", request=b"", prefix=b""):
    """A whole request; without fields unless they are given, and with a valid prefix."""
    block = (b"\x83\x86" + header(b":path", method) + header(b":authority", b"x") +
             header(b"content-type", b"application/grpc") + header(b"te", b"trailers") +
             header(b"mlxcomm-session-bin", token) + more)
    data = (prefix or struct.pack(">BI", 0, len(request))) + request
    return frame(HEADERS, block, END_HEADERS, stream) + frame(DATA, data, END_STREAM, stream)


BEGINNING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS)
STATUS = b"/mlxcomm.v1.Diagnostics/Status"
RECORD = b"/mlxcomm.v1.Diagnostics/FlightRecord"
ASKED = {"status": STATUS, "topology": b"/mlxcomm.v1.Diagnostics/Topology",
         "doctor": b"/mlxcomm.v1.Diagnostics/Doctor", "record": RECORD}
REFUSED = b"grpc-status\x018"  # RESOURCE_EXHAUSTED.
ANSWER_BYTES = 150  # A status has more.
SERVICES = [(PROTO / f"{name}.proto").read_text(encoding="utf-8") for name in ("control", "diagnostics")]
METHODS = [f"/mlxcomm.v1.{re.search('service ([A-Z][a-z]+)', text).group(1)}/{method}".encode()
           for text in SERVICES for method in [*re.findall(r"rpc (\w+)", text), "Nothing", ""]]
CALLS_AT_ONCE = 16  # As many as gRPC accepts on a connection (daemon/services/control_server.cc).


class Refused(Exception):
    """The text is the daemon's reason."""


class Connection:
    def __init__(self, path, beginning=BEGINNING, hello=HELLO):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.sendall(hello)
        answer, descriptors, _, _ = socket.recv_fds(self.socket, DAEMON_HELLO_BYTES, 4)
        while len(answer) < DAEMON_HELLO_BYTES:
            answer += self.socket.recv(DAEMON_HELLO_BYTES - len(answer))
        self.doorbell = descriptors
        if answer[12] != 0:
            self.socket.close()
            raise Refused(answer[40:248].split(b"\0")[0].decode())
        self.token = base64.b64encode(answer[24:40]).rstrip(b"=")
        self.socket.setblocking(False)
        self.send(beginning)

    def send(self, data, reads=True):
        """False if the daemon has ended the connection."""
        while data:
            readable, writable, _ = select.select([self.socket] if reads else [], [self.socket], [])
            try:
                if readable and not self.read():
                    return False
                if writable:
                    data = data[self.socket.send(data):]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True

    def read(self):
        try:
            got = self.socket.recv(1 << 20)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(got)

    def close(self):
        self.socket.close()
        for descriptor in self.doorbell:
            os.close(descriptor)


def repeated(piece):
    """Frames of one kind, 64 KiB of them, repeatedly."""
    pieces = piece * max(1, 65536 // len(piece))

    def batches(connection):
        while True:
            yield pieces

    return batches


def resets(connection):
    for first in range(1, 1 << 30, 200):
        yield b"".join(call(STATUS, connection.token, stream) + frame(RST_STREAM, b"\0\0\0\x08", 0, stream)
                       for stream in range(first, first + 200, 2))


def continuations(connection):
    yield frame(HEADERS, b"\x83", 0, 1)
    while True:
        yield frame(CONTINUATION, header(b"x" * 60, b"y" * 60) * 100, 0, 1)


def empty_continuations(connection):
    yield frame(HEADERS, b"\x83", 0, 1)
    while True:
        yield frame(CONTINUATION, b"", 0, 1) * 1000


def calls(connection):
    """Each on its own stream, at once."""
    for first in range(1, 40_000, 200):
        yield b"".join(call(STATUS, connection.token, stream) for stream in range(first, first + 200, 2))


# These are cut off, each for its own reason.
CUT = {
    "ping": repeated(frame(PING, b"\0" * 8)),
    "ping_ack": repeated(frame(PING, b"\0" * 8, 1)),
    "settings": repeated(frame(SETTINGS)),
    "settings_of_windows": repeated(frame(SETTINGS, struct.pack(">HI", 4, 1 << 20))),
    "priority": repeated(frame(PRIORITY, b"\0" * 5, 0, 1)),
    "unknown": repeated(frame(200, b"\0" * 8)),
    "resets": resets,
    "continuations": continuations,
    "empty_continuations": empty_continuations,
    "long_headers": repeated(frame(HEADERS, header(b"x" * 60, b"y" * 60) * 120, END_HEADERS, 1)),
    "calls": calls,
    "garbage": lambda connection: iter([os.urandom(65536)] * 100),
    "long_frame": repeated(frame(DATA, b"\0" * 0x40000, 0, 1)),
}


# These are accepted, or refused by gRPC, for that many bytes.
TAKEN = {
    "window_update": repeated(frame(WINDOW_UPDATE, b"\0\0\0\0", 0, 1)),
    "data_of_no_stream": repeated(frame(DATA, b"\0" * 16000, 0, 1)),
    "empty_data": repeated(frame(DATA, b"", 0, 1)),
}
TAKEN_BYTES = 1 << 19


def connect_again(path, hello=HELLO):
    """The daemon may not have noticed yet that the last ones have ended."""
    while True:
        try:
            return Connection(path, hello=hello)
        except Refused as refused:
            if "end some" not in str(refused):
                raise


def flood(path, kind, most=None):
    connection = connect_again(path)
    sent = 0
    cut = False
    for batch in (CUT.get(kind) or TAKEN[kind])(connection):
        if not connection.send(batch):
            cut = True
            break
        sent += len(batch)
        if most is not None and sent >= most:
            break
    connection.close()
    return cut, sent


def never_read(path, count):
    """Each asks again as soon as an answer has arrived, without reading it, until no more arrive."""
    connections = [Connection(path) for _ in range(count)]
    streams = dict.fromkeys(connections, 1)
    unread = dict.fromkeys(connections, -ANSWER_BYTES)
    poll = select.poll()
    by_number = {connection.socket.fileno(): connection for connection in connections}
    for connection in connections:
        # Windows that never close, so that only the socket holds back answers.
        connection.send(frame(SETTINGS, struct.pack(">HI", 4, 0x7FFFFFFF)) +
                        frame(WINDOW_UPDATE, struct.pack(">I", 0x7FFF0000)), reads=False)
        poll.register(connection.socket, 0)
    while by_number:
        for number, _ in poll.poll(2):  # The end is the only one that is reported.
            poll.unregister(number)
            del by_number[number]
        for number, connection in by_number.items():
            now = array.array("i", [0])
            fcntl.ioctl(number, termios.FIONREAD, now)
            if now[0] < unread[connection] + ANSWER_BYTES:
                continue
            unread[connection] = now[0]
            try:
                connection.socket.send(call(STATUS, connection.token, streams[connection]))
                streams[connection] += 2
            except OSError:
                pass
    for connection in connections:
        connection.close()


def closed_windows(path):
    """Has an answer that gRPC may not send, and requests others until one is refused."""
    connection = Connection(path)
    connection.send(frame(SETTINGS, struct.pack(">HI", 4, 0)), reads=False)
    got = b""
    for stream in range(1, 31, 2):
        connection.send(call(RECORD, connection.token, stream), reads=False)
        headers = struct.pack(">BBI", HEADERS, END_HEADERS, stream)
        while headers not in got and REFUSED not in got:
            select.select([connection.socket], [], [])
            got += connection.socket.recv(1 << 16)
    assert REFUSED in got, "gRPC keeps as many answers as there are streams"
    connection.close()


def not_utf8(path, count):
    """Requests the record of a job with an invalid name that many times, and reads each refusal."""
    connection = Connection(path)
    got = b""
    for stream in range(1, min(2 * count, 1 << 31), 2):
        connection.send(call(RECORD, connection.token, stream, request=b"\x0a\1\xff"), reads=False)
        while not has_headers(got, stream):
            select.select([connection.socket], [], [])
            piece = connection.socket.recv(1 << 16)
            assert piece, "the daemon has ended the connection"
            got += piece
        got = after_frames(got)
    connection.close()


def malformed(path, count):
    """Calls each method, and some that do not exist, that many times, with garbage, wrong lengths, flags
    and tokens. Waits until each is answered, or its stream or its connection has ended."""
    dice = random.Random(7)
    connection = Connection(path)  # The next one may be a client's.
    for turn, method in enumerate(METHODS * count):
        request = dice.randbytes(dice.choice((0, 1, 40, 3000)))
        length = dice.choice((len(request), len(request) // 2, 2 * len(request) + 7, 0xFFFFFFFF))
        token = dice.choice((connection.token, connection.token, b"AAAA", b"!", b""))
        prefix = struct.pack(">BI", dice.choice((0, 0, 1, 255)), length)
        stream, got, piece = 2 * turn + 1, b"", b"-"
        connection.send(call(method, token, stream, request=request, prefix=prefix), reads=False)
        while piece and not has_ended(got, stream):
            if not select.select([connection.socket], [], [], 60)[0]:
                raise TimeoutError(f"{method} is not answered: {prefix!r} {request!r}, token {token!r}")
            piece = connection.socket.recv(1 << 16)
            got += piece
        if not piece:
            connection.close()
            connection = connect_again(path, dice.choice((HELLO, CLIENT_HELLO)))
    connection.close()


def frames(answers):
    """(kind, flags, stream, end position) of each complete frame."""
    at = 0
    while at + 9 <= len(answers):
        begin, at = at, at + 9 + int.from_bytes(answers[at:at + 3], "big")
        if at > len(answers):
            return
        yield answers[begin + 3], answers[begin + 4], int.from_bytes(answers[begin + 5:begin + 9], "big"), at


def after_frames(answers):
    """Bytes that are not a complete frame yet."""
    return answers[max((end for *_, end in frames(answers)), default=0):]


def has_headers(answers, stream):
    """Returns whether the answer to that call has begun."""
    return any(kind == HEADERS and of == stream for kind, _, of, _ in frames(answers))


def has_ended(answers, stream):
    """Returns whether nothing more arrives for that call."""
    return any(of == stream and (kind == RST_STREAM or flags & END_STREAM)
               for kind, flags, of, _ in frames(answers))


def leave_unsent(path, count):
    """Makes as many calls on each connection as allowed, and lets gRPC send no answers:
    its windows are closed. Each is computed before the next is requested."""
    connections = [Connection(path) for _ in range(count)]
    refused = 0
    for connection in connections:
        connection.send(frame(SETTINGS, struct.pack(">HI", 4, 0)), reads=False)
        got = b""
        for stream in range(1, 2 * CALLS_AT_ONCE, 2):
            connection.send(call(STATUS, connection.token, stream), reads=False)
            while not has_headers(got, stream):
                select.select([connection.socket], [], [])
                piece = connection.socket.recv(1 << 16)
                assert piece, "the daemon has ended the connection"
                got += piece
        refused += got.count(REFUSED)
    print(f"left {count * CALLS_AT_ONCE - refused} answers, {refused} were refused", flush=True)
    sys.stdin.read()
    for connection in connections:
        connection.close()


def ask_again(path, count, method):
    """As many calls of the method as allowed on each connection, repeated as soon as they are answered,
    until the input ends."""
    connections = {one.socket.fileno(): one for one in (Connection(path) for _ in range(count))}
    streams, left = dict.fromkeys(connections, 1), dict.fromkeys(connections, b"")
    poll = select.poll()
    poll.register(sys.stdin, select.POLLIN)

    def ask(number, calls):
        first = streams[number]
        streams[number] += 2 * calls
        window = frame(WINDOW_UPDATE, struct.pack(">I", 1 << 20))
        assert connections[number].send(window + b"".join(
            call(method, connections[number].token, stream)
            for stream in range(first, streams[number], 2))), "the daemon has ended the connection"

    for number in connections:
        connections[number].send(frame(SETTINGS, struct.pack(">HI", 4, 1 << 20)))
        poll.register(number, select.POLLIN)
        ask(number, CALLS_AT_ONCE)
    print("asking", flush=True)
    answers = refused = 0
    while True:
        for number, _ in poll.poll():
            if number == sys.stdin.fileno():
                print(f"heard {answers - refused} answers, {refused} were refused", flush=True)
                return
            got = left[number] + connections[number].socket.recv(1 << 18)
            refused += got.count(REFUSED)
            ended = sum(kind == HEADERS and flags & END_STREAM for kind, flags, _, _ in frames(got))
            left[number] = after_frames(got)
            answers += ended
            if ended:
                ask(number, ended)


def main():
    user, path, kind, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    if kind == "closed_windows":
        closed_windows(path)
    elif kind == "never_read":
        never_read(path, count)
    elif kind in ASKED:
        ask_again(path, count, ASKED[kind])
    elif kind == "not_utf8":
        not_utf8(path, count)
    elif kind == "malformed":
        malformed(path, count)
    elif kind == "leave_unsent":
        leave_unsent(path, count)
    elif kind == "half_frames":
        connections = [Connection(path, BEGINNING[:10 + i % 20]) for i in range(count)]
        print("open", flush=True)
        sys.stdin.read()
        for connection in connections:
            connection.close()
    else:
        for _ in range(count):
            cut, sent = flood(path, kind, None if kind in CUT else TAKEN_BYTES)
            print(f"{'cut' if cut else 'taken'} {sent}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
