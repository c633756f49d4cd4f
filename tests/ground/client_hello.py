"""What a process sends to a daemon at its socket, by hand: a hello, and then perhaps garbage in its queue."""

import mmap
import os
import socket
import struct

HELLO = struct.Struct("<QIIQQ")
MAGIC = 0x6D6C78636F6D6D63
VERSION = 2  # proto/queue/hello.h


def say_hello(path, data, descriptors=0):
    """The daemon's answer, raw, and its descriptors."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(path)
    connection.sendall(data)
    answer, files, _, _ = socket.recv_fds(connection, 256, max(descriptors, 4))
    return connection, answer, files


def spoil_queue(path, seed):
    """A session whose submissions are garbage; returns once the daemon has ended it."""
    connection, _, files = say_hello(path, HELLO.pack(MAGIC, VERSION, 1, 1 << 20, 0), 3)
    assert len(files) == 3
    arena, segment, doorbell = files
    memory = mmap.mmap(segment, os.fstat(segment).st_size)
    garbage = bytearray(os.urandom(64 * 16))
    memory[4096:4096 + len(garbage)] = bytes(garbage)
    # `written` of the submissions: 64 bytes into the header's ring positions.
    written = struct.pack("<Q", 1 + seed if seed % 2 else 1 << 40)
    memory[64:72] = written
    bell = socket.socket(fileno=doorbell)
    bell.settimeout(30)
    try:
        bell.send(b"x")
        while bell.recv(64):  # Until end-of-file, when the daemon has closed the session.
            pass
    except (BrokenPipeError, ConnectionResetError):
        pass  # It checked before the ring.
    bell.close()
    memory.close()
    os.close(arena)
    os.close(segment)
    connection.close()
