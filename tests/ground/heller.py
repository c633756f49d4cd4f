"""Sends hellos that should not be accepted: heller.py INTERFACE PORT WHAT HOW_MANY (0: forever).

garbage    random bytes, of many lengths
foreign    hellos of another cluster
forged     hellos with the tag of those that are heard and the sender's own address, but without a proof
replay     what is heard, again and again
mixed      all of these, and what is heard, cut or with a byte changed
"""

import os
import pathlib
import random
import re
import socket
import struct
import sys

WIRE = pathlib.Path(__file__).resolve().parents[2] / "proto" / "wire"
HELLO = (WIRE / "discovery_hello.h").read_text(encoding="utf-8")
MAGIC = int(re.search(r"kDiscoveryMagic = (0x[0-9a-f]+)", HELLO).group(1), 16)
VERSION = int(re.search(r"kDiscoveryVersion = (\d+)", HELLO).group(1))
BYTES = int(re.search(r"sizeof\(DiscoveryHello\) == (\d+)", HELLO).group(1))
GROUP = "ff02::4d4c:5843"
ADDRESS_AT = 64
HEAD = struct.Struct("<QII8s")


def open_socket(interface, port):
    index = socket.if_nametoindex(interface)
    opened = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    opened.bind((GROUP, port, 0, index))
    opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                      socket.inet_pton(socket.AF_INET6, GROUP) + struct.pack("@I", index))
    return opened, (GROUP, port, 0, index)


def hello(tag, address):
    bytes_ = bytearray(HEAD.pack(MAGIC, VERSION, 0, tag) + os.urandom(BYTES - HEAD.size))
    bytes_[ADDRESS_AT:ADDRESS_AT + len(address)] = address
    return bytes(bytes_)


def own_address(interface):
    """Its link-local one."""
    with open("/proc/net/if_inet6", encoding="ascii") as file:
        fields = [line.split() for line in file]
    return next(bytes.fromhex(one[0]) for one in fields if one[5] == interface and one[3] == "20")


def changed(recorded):
    at = random.randrange(HEAD.size, len(recorded))
    return recorded[:at] + bytes([recorded[at] ^ 1]) + recorded[at + 1:]


def main():
    interface, port, what, how_many = sys.argv[1:]
    opened, to = open_socket(interface, int(port))
    address = own_address(interface)
    recorded = []
    while what in ("forged", "replay", "mixed") and len(recorded) < 4:
        heard, sender = opened.recvfrom(2048)
        if socket.inet_pton(socket.AF_INET6, sender[0].split("%")[0]) != address:
            recorded.append(heard)
    tag = recorded[0][16:24] if recorded else os.urandom(8)
    kinds = {"garbage": lambda: os.urandom(random.choice((0, 1, 24, BYTES - 1, BYTES, 1400))),
             "foreign": lambda: hello(os.urandom(8), address),
             "forged": lambda: hello(tag, address),
             "replay": lambda: random.choice(recorded),
             "cut": lambda: random.choice(recorded)[:random.randrange(BYTES)],
             "changed": lambda: changed(random.choice(recorded))}
    filling = (lambda: random.choice(list(kinds.values()))()) if what == "mixed" else kinds[what]
    some = [filling() for _ in range(64)]  # Made in advance, so that only sending takes time.
    print("begins", flush=True)
    sent = 0
    while how_many == "0" or sent < int(how_many):
        opened.sendto(some[sent % len(some)], to)
        sent += 1
    print("done", flush=True)


if __name__ == "__main__":
    main()
