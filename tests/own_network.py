"""A network of its own for each of pytest's workers.

Workers run real daemons beside each other, and so may other test runs on the same machine: they
would meet on ports, which are free when they are looked for and taken when they are used, and hear
each other's hellos. On Linux, as root, a worker begins in a network namespace of its own that has
nothing but loopback. Elsewhere all share the machine's network, and tests/run has one worker.
"""

import ctypes
import fcntl
import functools
import os
import socket
import struct
import sys
import threading

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def enter():
    """Of the calling thread, and of every thread and process that it starts from here on."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return False  # A container may forbid it to root as well.
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return True


@functools.cache
def is_allowed():
    """Whether workers can have one. Tried in a thread that ends with it."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(enter()))
    thread.start()
    thread.join()
    return answers == [True]
