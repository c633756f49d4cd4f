"""A separate network for each of pytest's workers.

Daemons of several workers, or of other test runs, would use the same ports and receive each other's hellos.
On Linux, as root, a worker has a network namespace with only loopback. Elsewhere tests/run has one worker.
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
    """Gives the calling thread, and everything that it starts, a separate network."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return False  # A container may forbid it even to root.
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return True


@functools.cache
def is_allowed():
    """Returns whether workers can have one, tried in a separate thread."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(enter()))
    thread.start()
    thread.join()
    return answers == [True]
