#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets' corpus: valid inputs of each kind, and near misses.

What a target found and is worth keeping lies beside them, named by its hash, and is left alone.
To be run again when a layout or a target's script changes.
"""
import pathlib
import re
import struct

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
SEEDS = {}


def seed(target, name, data):
    SEEDS[(target, name)] = data.encode() if isinstance(data, str) else bytes(data)


# --- hello: options, size of pieces - 1, the queue's position, then what is sent (hello.h)
CLIENT_MAGIC = 0x6D6C78636F6D6D63
LEAVES, SENDS_FILE, USES_QUEUE, ANOTHER, CLOSES = 1, 2, 4, 8, 16


def client_hello(magic=CLIENT_MAGIC, version=2, role=1, arena=65536, reserved=0):
    packed = struct.pack("<QIIQQ", magic, version, role, arena, reserved)
    assert len(packed) == 32
    return packed


def hello(options, sent, piece=255, position=0):
    return struct.pack("<BBQ", options, piece, position) + sent


def submission(kind=1, data_type=1, operator=1, plan=0, count=16, input_at=0, output_at=64, ticket=1,
               purpose=0, reserved=0):
    packed = struct.pack("<QQQQQQIIBBBBBB2x", ticket, 7, input_at, output_at, count, 0, 0, 0, kind,
                         data_type, operator, plan, purpose, reserved)
    assert len(packed) == 64
    return packed


seed("hello", "client", hello(0, client_hello()))
seed("hello", "client_default_arena", hello(ANOTHER, client_hello(arena=0)))
seed("hello", "tool_and_what_follows", hello(0, client_hello(role=2, arena=0) + b"PRI * HTTP/2.0"))
seed("hello", "other_version", hello(LEAVES, client_hello(version=1)))
seed("hello", "reserved_bits", hello(0, client_hello(reserved=1 << 63)))
seed("hello", "half_and_leaves", hello(LEAVES, client_hello()[:31], piece=7))
seed("hello", "leaves_before_the_answer", hello(CLOSES | SENDS_FILE, client_hello()))
seed("hello", "submits", hello(USES_QUEUE, client_hello() + submission(), position=1))
seed("hello", "submits_wrong", hello(USES_QUEUE, client_hello() + submission(count=1 << 62), position=1))
seed("hello", "submits_garbage", hello(USES_QUEUE, client_hello() + submission(kind=99), position=1))
seed("hello", "impossible_position", hello(USES_QUEUE, client_hello(), position=1 << 40))

# --- frame_meter: size of pieces - 1, whether the preface comes first, then frames (frame_meter_fuzz.cc)
def http2(kind, payload=b"", flags=0, stream=0, length=None):
    length = len(payload) if length is None else length
    return struct.pack(">IBBI", length, kind, flags, stream)[1:] + payload


def metered(*frames, piece=255, preface=True):
    return struct.pack("<BB", piece, preface) + b"".join(frames)


CALL = http2(1, b"h" * 40, 4, 1) + http2(0, b"d" * 5, 1, 1)
seed("frame_meter", "call", metered(http2(4, b"s" * 6), http2(8, b"w" * 4), CALL, http2(4, flags=1)))
seed("frame_meter", "answers", metered(http2(4), http2(1, b"h", 4, 1), http2(0, b"d" * 9, 0, 1),
                                       http2(1, b"t", 5, 1)))
seed("frame_meter", "pings", metered(http2(6, b"p" * 8) * 66, piece=15))
seed("frame_meter", "continuations", metered(http2(1, b"h", 0, 1), http2(9, b"c", 0, 1) * 8,
                                             http2(9, b"c", 4, 1)))
seed("frame_meter", "within_a_block", metered(http2(1, b"h", 0, 1), http2(6, b"p" * 8)))
seed("frame_meter", "long_headers", metered(http2(1, b"h" * 9, 4, 1, length=8193)))
seed("frame_meter", "long_frame", metered(http2(0, b"d" * 9, 0, 1, length=0xFFFFFF)))
seed("frame_meter", "calls", metered(*[http2(1, b"", 5, 2 * i + 1) for i in range(66)]))
seed("frame_meter", "unknown", metered(http2(77) * 65))
seed("frame_meter", "no_preface", metered(b"GET / HTTP/1.1", preface=False))

# --- submission: the arena's size, then steps (submission_fuzz.cc)
WRITE, POP, POSITION, READ, PUSH, COMPLETION, SHAPE = range(7)


def rings(arena, *steps):
    return struct.pack("<Q", arena) + b"".join(steps)


def step(number, data=b""):
    return bytes([number]) + data


seed("submission", "each_kind", rings(1 << 16, *[step(WRITE, submission(kind=k, count=0 if k == 5 else 8))
                                                  for k in range(1, 14)], *[step(POP)] * 14))
seed("submission", "at_the_end", rings(4096, step(WRITE, submission(count=1024, input_at=4096, output_at=0)),
                                       step(POP)))
seed("submission", "wrong_offsets", rings(4096, *[step(WRITE, s) + step(POP) for s in (
    submission(input_at=4100), submission(output_at=2), submission(count=1025),
    submission(input_at=(1 << 64) - 4), submission(kind=5), submission(kind=12, count=4))]))
seed("submission", "garbage", rings(4096, *[step(WRITE, s) + step(POP) for s in (
    submission(kind=0), submission(data_type=15), submission(operator=8), submission(plan=5),
    submission(purpose=1), submission(purpose=2), submission(purpose=3), submission(reserved=1))]))
seed("submission", "positions", rings(4096, step(POSITION, struct.pack("<Q", 1024)), step(POP),
                                      step(POSITION, struct.pack("<Q", 1026)), step(POP),
                                      step(POSITION, struct.pack("<Q", 0)), step(POP)))
seed("submission", "completions", rings(0, *[step(PUSH, struct.pack("<I", n)) for n in range(3)],
                                        step(READ, struct.pack("<Q", 4)), step(PUSH, struct.pack("<I", 9)),
                                        step(COMPLETION, struct.pack("<QQiHBB16xQ", 1, 2, -1, 473, 1, 0, 1))))
seed("submission", "tables", rings(1 << 20, *[step(SHAPE, submission(kind=k, count=0) + bytes([2, 1]) +
                                                   struct.pack("<6Q", 1, 2, 3, 4, 5, 1 << 55))
                                              for k in (12, 13)]))
seed("submission", "large_shape", rings((1 << 39) + 8, step(SHAPE, submission(kind=2, count=1 << 53) +
                                                             bytes([15, 3]))))

# --- frame: four receives, then steps (frame_fuzz.cc)
HEADER = "<IBBHIIQQQQIIIIQQ"
NONE = 0xFFFFFFFF


def header(kind, sequence=1, payload=0, flags=0, step_tag=0, group=0, number=0, offset=0, tag=0,
           magic=0x46434C4D):
    packed = struct.pack(HEADER, magic, kind, flags, step_tag, payload, 0, sequence, 0, group, number, NONE,
                         NONE, tag, 0, offset, 0)
    assert len(packed) == 80
    return packed


def raw(*fields, **named):
    return bytes([0]) + header(*fields, **named)


def described(kind, how=0, *numbers):
    return bytes([7 | kind << 3, how]) + b"".join(struct.pack("<H", n) for n in numbers)


READ_ALL = bytes([2]) + struct.pack("<H", 0xFFFF)
FREE_ALL = bytes([3 | 31 << 3])


def rail(receives, *steps):
    return bytes(receives) + b"".join(steps)


seed("frame", "each_type", rail([0, 0, 0, 0], *[described(k, 0, 300) for k in range(1, 17) if k != 6],
                                READ_ALL, FREE_ALL))
seed("frame", "headers_alone", b"".join(header(k, sequence=int(k > 3)) for k in range(18)))
seed("frame", "data_in_place", rail([2, 3, 4, 5], described(6, 0x00, 4095), READ_ALL,
                                    described(6, 0x06, 2500), READ_ALL))
seed("frame", "data_combined", rail([12, 13, 13, 13], described(6, 0x02, 4375), READ_ALL,
                                    described(6, 0x02, 1), READ_ALL))
seed("frame", "data_in_parts", rail([3] * 4, described(6, 0x10, 99, 0), described(6, 0x10, 99, 100),
                                    described(6, 0x10, 99, 6), *[bytes([2, 16, 0])] * 20))
seed("frame", "copy", rail([3] * 4, described(6, 0x01, 5, 99), described(6, 0x01, 5, 99), READ_ALL))
seed("frame", "outside", rail([2] * 4, described(6, 0x10, 99, 256), READ_ALL))
seed("frame", "not_asked_for", rail([6] * 4, described(6, 0, 99), READ_ALL))
seed("frame", "withdrawn", rail([3] * 4, bytes([5]), described(6, 0, 99), READ_ALL))
seed("frame", "commands_wait", rail([6] * 4, bytes([6 | 5 << 3]), bytes([5]), described(6, 0, 99), READ_ALL))
seed("frame", "lost", rail([5] * 4, described(6, 0xE2, 4000, 900), described(6, 0x02, 4000),
                           described(5, 0xE0, 99, 2), described(5, 0, 500), READ_ALL))
seed("frame", "large_controls", rail([0] * 4, *[described(4, 0x02, 0x2000)] * 3, READ_ALL, FREE_ALL))
seed("frame", "little_room", rail([0] * 4, bytes([4]), *[described(5, 0, 1000)] * 6, READ_ALL, FREE_ALL,
                                  READ_ALL))
seed("frame", "too_long", rail([0] * 4, raw(5, payload=16385), READ_ALL))

# --- discovery: steps (discovery_fuzz.cc)


def said(interface=0, seal=0, flags=0, number=9, incarnation=1, sequence=1, nonce=0, other=0, heard=(),
         changes=b"", damage=b""):
    out = bytes([6, interface, seal, flags | len(heard) << 2, number])
    out += b"" if flags & 1 else bytes([incarnation])
    out += bytes([sequence])
    out += struct.pack("<Q", sequence) if flags & 2 else b""
    out += bytes([nonce, other])
    for how in heard:
        out += bytes([how]) + (b"" if how & 1 else bytes([1]))
    return out + changes + damage


def wait(ms):
    return bytes([1]) + struct.pack("<H", ms)


KEEP, ELSEWHERE = 32, 16
US_NOW, ASKS = 1, 0x40
seed("discovery", "meets", said(heard=[]) + wait(10) + said(sequence=2, heard=[US_NOW | ASKS]) + wait(3000))
seed("discovery", "stranger", said(seal=3) + said(seal=12) + said(seal=48, damage=b"\x05\x00\x01"))
seed("discovery", "recording", said(flags=KEEP, heard=[US_NOW]) + wait(60000) + wait(65000) + bytes([5, 0]))
seed("discovery", "from_elsewhere", said(flags=ELSEWHERE, heard=[US_NOW]))
seed("discovery", "old_nonce", said(heard=[0]) + said(number=5, heard=[2 | 7 << 2]))
seed("discovery", "both_cables", b"".join(said(interface=i, number=n, other=i, heard=[US_NOW])
                                          for i in (0, 1) for n in (9, 10, 2)) + wait(12000) + wait(65000))
seed("discovery", "restarted", said(heard=[US_NOW]) + said(incarnation=2, heard=[US_NOW]) +
     said(incarnation=1, sequence=9, heard=[US_NOW]))
seed("discovery", "own_hello", said(flags=1, number=4, other=1) +
     said(number=4, incarnation=2, heard=[US_NOW]) +
     wait(100))
seed("discovery", "keys_change", bytes([4, 1]) + said(seal=1, heard=[US_NOW]) + wait(2000) + bytes([4, 2]) +
     said(seal=0) + wait(100))
seed("discovery", "interfaces_change", said(heard=[US_NOW]) + bytes([3, 0, 0]) + said(sequence=2) +
     bytes([3, 0, 1]) + said(sequence=3, heard=[US_NOW]) + bytes([3, 2, 1]) + wait(9000))
seed("discovery", "errs", said(flags=64, heard=[US_NOW], changes=struct.pack("<HB", 80, 0xFF)) +
     said(flags=128, heard=[US_NOW], changes=struct.pack("<HBHB", 12, 0xFF, 96, 0x0A)))
seed("discovery", "no_hello", bytes([0, 0]) + struct.pack("<H", 744) +
     struct.pack("<QI", 0x6D6C786863656C6C, 1) + bytes(732))
seed("discovery", "crowd", b"".join(said(number=n, heard=[US_NOW]) for n in range(5, 60)) + wait(2000))

# --- handshake: role and TLS, keys, then how each message is sent (handshake_fuzz.cc)
DIALS, DAEMON_TLS, SPEAKS_TLS, SAYS_TLS = 1, 2, 4, 8
RIGHT = b"\x00"


def way(kind, *changes, cut=None):
    assert changes
    out = bytes([kind | (len(changes) - 1) << 2]) + (b"" if cut is None else bytes([cut]))
    return out + b"".join(bytes(change) for change in changes)


CHANGED, FORGED, CUT = 1, 2, 3


def handshake(name, role, keys, *messages):
    seed("handshake", name, bytes([role, keys]) + b"".join(messages))


ACCEPTED = b"\x01\x00"
handshake("acceptor", 0, 0, RIGHT, RIGHT, RIGHT)
handshake("acceptor_other_key", 0, 2, RIGHT, RIGHT)
handshake("acceptor_two_keys", 0, 1 | 8 | 2 | 1 << 4, RIGHT, RIGHT, RIGHT)
handshake("acceptor_forged", 0, 0, RIGHT, way(FORGED, (70, 1)))
handshake("acceptor_no_interface", 0, 0, RIGHT,
          way(CHANGED, (16, ord("e")), (17, ord("n")), (18, ord("7"))))
handshake("acceptor_other_version", 0, 0, way(CHANGED, (8, 1)))
handshake("acceptor_cut", 0, 0, RIGHT, way(CUT, (0, 0), cut=40))
handshake("acceptor_tls", DAEMON_TLS | SPEAKS_TLS, 0, RIGHT, RIGHT, RIGHT)
handshake("acceptor_no_tls", DAEMON_TLS, 0, RIGHT, RIGHT, b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
handshake("acceptor_no_session", 0, 0, RIGHT, RIGHT, way(CHANGED, (8, 5)))
handshake("dialer", DIALS, 0, RIGHT, RIGHT, ACCEPTED, RIGHT)
handshake("dialer_not_ours", DIALS, 0, way(CHANGED, (0, 0xFF)))
handshake("dialer_forged", DIALS, 0, RIGHT, way(FORGED, (20, 5)), ACCEPTED)
handshake("dialer_tls_asked_for", DIALS | SAYS_TLS | SPEAKS_TLS, 0, RIGHT, RIGHT, ACCEPTED, RIGHT)
handshake("dialer_forged_introduction", DIALS, 0, RIGHT, RIGHT, ACCEPTED, way(FORGED, (20, 5)))


def main():
    for (target, name), data in sorted(SEEDS.items()):
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for one in CORPUS.glob("*/*"):
        # A seed that was removed above, and none that libFuzzer has found.
        if (one.parent.name, one.name) not in SEEDS and not re.fullmatch(r"[0-9a-f]{40}", one.name):
            one.unlink()
    print(f"{len(SEEDS)} seeds, {sum(map(len, SEEDS.values()))} bytes")


if __name__ == "__main__":
    main()
