"""Programs that should not be at the peer port: stranger.py ADDRESS WHAT [HOW_MANY]. An address that is a
path is a daemon's client socket, the target of garbage and connects.

garbage    random bytes, of many lengths     half       a hello that stops in the middle
version    the hello of another version      foreign    the hello of another cluster
nokey      a hello with a wrong proof        loris      a byte of a hello now and then, for ever
connects   connects that say nothing, all at once and then closed

With the cluster's key in LAB_KEY, a neighbour whose daemon has gone mad, proved and introduced:
frames      garbage instead of frames        cutoff     a frame that ends in its payload
toolong     a frame that says it has 4 GiB   beyond     frames far ahead of their turn
unreadable  HOW_MANY messages that cannot be read
messages    HOW_MANY messages of all kinds, with fields drawn at random
headers     HOW_MANY frames with true sums, whose other fields are drawn at random
"""

import hashlib
import hmac
import os
import pathlib
import random
import re
import resource
import select
import socket
import struct
import sys
import time

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
WIRE = PROTO / "wire"
TABLE = (WIRE / "version_table.cc").read_text(encoding="utf-8")
VERSION = int(re.search(r"\.newest = (\d+)", TABLE)[1])
MAGIC = 0x6d6c78636f6d6d70
GREETING = struct.Struct("<QII64s8s8s32s")
PLAIN_WILL_DO = 1
PROOF = struct.Struct("<16s48s")           # Then the MAC.
INTRODUCTION = struct.Struct("<QQQQ64s32s")  # Then the MAC.
FRAME = struct.Struct("<IBBHIIQQQQIIIIQQ")
FRAME_MAGIC = 0x46434c4d
CONTROL, DATA = 4, 6
IDS = []  # Ids of nodes that it knows.
CLUSTER = os.environ.get("LAB_CLUSTER", "lab").encode()


def derived(key, label):
    """As proto/key/cluster_key.h."""
    extracted = hmac.digest(b"mlxcomm cluster key, version 1", key, hashlib.sha256)
    return hmac.digest(extracted, label + b"\0\1", hashlib.sha256)


def cluster_key():
    return bytes.fromhex(pathlib.Path(os.environ["LAB_KEY"]).read_text(encoding="ascii"))


def greeting(version=VERSION, cluster=CLUSTER):
    key_id = derived(cluster_key(), b"id")[:8]
    return GREETING.pack(MAGIC, version, PLAIN_WILL_DO, cluster, key_id, bytes(8), os.urandom(32))


def signed(key, dialer, acceptor, message):
    return message + hmac.digest(derived(key, b"proof"), b"dialer  " + dialer + acceptor + message,
                                 hashlib.sha256)


def read(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError(f"closed after {len(data)} of {count} bytes")
        data += more
    return data


def prove(connection, key):
    """Runs up to the proof; returns the other side's greeting, and what is needed to continue."""
    own = greeting()
    connection.sendall(own)
    theirs = read(connection, GREETING.size)
    connection.sendall(signed(key, own, theirs, PROOF.pack(os.urandom(16), b"intruder")))
    return own, theirs


def become_neighbour(address):
    key = cluster_key()
    connection = socket.create_connection(address, timeout=60)
    own, theirs = prove(connection, key)
    IDS.append(read(connection, PROOF.size + 32 + 8)[:16])
    number = random.getrandbits(63) | 1
    connection.sendall(signed(key, own, theirs, INTRODUCTION.pack(
        number, number, 0, 1, b"intruder", b"1.0")))
    read(connection, INTRODUCTION.size + 32)
    return connection


def frame(kind, sequence, payload_bytes, payload=b"", flag=0, others=(0, 1, 1, 0xffffffff, 0xffffffff, 0)):
    def header(header_sum, payload_sum):
        return FRAME.pack(FRAME_MAGIC, kind, flag, 0, payload_bytes, header_sum, sequence, *others,
                          payload_sum, 0, 0)

    payload_sum = crc32c(payload)
    return header(crc32c(header(0, payload_sum)), payload_sum) + payload


def crc32c(data):
    """As daemon/rail/frame_sum.h."""
    total = 0xffffffff
    for byte in data:
        total ^= byte
        for _ in range(8):
            total = total >> 1 ^ (0x82f63b78 if total & 1 else 0)
    return total ^ 0xffffffff


def dial(address):
    if not isinstance(address, str):
        return socket.create_connection(address, timeout=60)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(address)
    return connection


def until_closed(connection):
    """The other side must close it, whatever it sends first."""
    connection.settimeout(60)
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass


def say_and_wait(connection, data, then_half=False):
    try:
        connection.sendall(data)
        if then_half:
            connection.shutdown(socket.SHUT_WR)
    except (BrokenPipeError, ConnectionResetError):
        return
    until_closed(connection)


def send_and_wait(address, data, then_half=False):
    with dial(address) as connection:
        say_and_wait(connection, data, then_half)


def wrong_proof(address):
    with socket.create_connection(address, timeout=60) as connection:
        prove(connection, os.urandom(32))
        until_closed(connection)


def loris(address, count):
    """Never so slow that a connection looks dead, never so fast that a hello is complete."""
    connections, turn = [], 0
    print("at it", flush=True)
    while True:
        while len(connections) < count:
            connections.append(socket.create_connection(address, timeout=60))
            connections[-1].setblocking(False)
        for connection in list(connections):
            try:
                connection.send(greeting()[turn % 8:turn % 8 + 1])
                if connection.recv(1, socket.MSG_DONTWAIT) == b"":
                    raise ConnectionError("closed")
            except BlockingIOError:
                pass
            except OSError:
                connection.close()
                connections.remove(connection)
        turn += 1
        time.sleep(0.02)


def connects(address, count):
    held = []
    for _ in range(count):
        held.append(dial(address))
    for connection in held:
        connection.close()


def go_mad(address, what):
    with become_neighbour(address) as connection:
        said = {"frames": os.urandom(65536),
                "cutoff": frame(CONTROL, 1, 1000) + b"x" * 10,
                "toolong": frame(DATA, 1, 0xffffffff) + b"x" * 4096,
                "beyond": b"".join(frame(CONTROL, 1 << 40 | n, 8, b"12345678")
                                   for n in range(100))}[what]
        say_and_wait(connection, said, then_half=what == "cutoff")


def write_unreadable(address, count):
    with become_neighbour(address) as connection:
        for sequence in range(1, 1 + count):
            connection.sendall(frame(CONTROL, sequence, 1, b"\xff"))
        connection.shutdown(socket.SHUT_WR)
        until_closed(connection)


def message_kinds():
    """{its name: [(type, number) of each field]}, of all that daemons send each other."""
    text = "".join((PROTO / f"mlxcomm/v1/{name}.proto").read_text(encoding="utf-8")
                   for name in ("peer", "diagnostics"))
    return {name: [(kind, int(number)) for kind, number in re.findall(r"(\w+) \w+ = (\d+)[ ;\[]", body)]
            for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE)}


def varint(value):
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def drawn(kinds, name, dice, depth=0):
    """A readable message: one kind of PeerMessage; for others, any of their fields."""
    fields = [dice.choice(kinds[name])] if depth == 0 else [
        one for one in kinds[name] * 2 if depth < 4 and dice.random() < 0.5]
    said = b""
    for kind, number in fields:
        if kind in kinds or kind in ("string", "bytes"):
            texts = IDS if kind == "bytes" else (b"", b"job", b"\x1b[2J", b"n" * dice.randrange(300))
            data = drawn(kinds, kind, dice, depth + 1) if kind in kinds else dice.choice(texts)
            said += varint(number << 3 | 2) + varint(len(data)) + data
        elif kind in ("double", "fixed64"):
            said += varint(number << 3 | 1) + dice.randbytes(8)
        else:
            said += varint(number << 3) + varint(dice.choice((0, 1, 2, 255, 1 << 31, dice.getrandbits(64))))
    return said


def write_drawn(address, what, count):
    """Continues with another connection if the daemon ends one."""
    dice, kinds = random.Random(count), message_kinds()
    connection = become_neighbour(address)
    sequence = 0
    for _ in range(count):
        sequence += 1
        payload = drawn(kinds, "PeerMessage", dice)
        data = frame(CONTROL, sequence, len(payload), payload)
        if what == "headers":
            data = frame(dice.randrange(20), dice.choice((0, sequence)), len(payload), payload,
                         dice.choice((0, 1, 255)), [dice.choice((0, 1, 0xffffffff)) for _ in range(6)])
        try:
            connection.sendall(data)
            while select.select([connection], [], [], 0)[0]:
                if not connection.recv(1 << 16):
                    raise BrokenPipeError
        except (BrokenPipeError, ConnectionResetError):
            connection.close()
            connection = become_neighbour(address)
            sequence = 0
    with connection:
        connection.shutdown(socket.SHUT_WR)
        until_closed(connection)


def main():
    host, _, port = sys.argv[1].rpartition(":")
    address = sys.argv[1] if sys.argv[1].startswith("/") else (host, int(port))
    what = sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    whole = {"loris": loris, "connects": connects, "unreadable": write_unreadable}
    if what in ("messages", "headers"):
        write_drawn(address, what, count)
    elif what in whole:
        whole[what](address, count)
    else:
        for turn in range(count):
            if what == "garbage":
                sizes = (GREETING.size, GREETING.size + 1, 4096, 1 << 20)
                send_and_wait(address, os.urandom(random.Random(turn).choice(sizes)))
            elif what == "half":
                send_and_wait(address, greeting()[:1 + turn * 37 % (GREETING.size - 1)], then_half=True)
            elif what == "version":
                send_and_wait(address, greeting(version=VERSION + 1 + turn))
            elif what == "foreign":
                send_and_wait(address, greeting(cluster=b"another"))
            elif what == "nokey":
                wrong_proof(address)
            else:
                go_mad(address, what)
    print(f"{what} {count} done", flush=True)


if __name__ == "__main__":
    main()
