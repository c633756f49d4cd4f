"""A hostile client of a daemon: hello_garbage.py SOCKET WHAT HOW_MANY SEED.

garbage   random bytes of many lengths, and then it waits until the daemon closes the connection
flood     connections that say nothing, closed all at once
"""

import random
import socket
import sys


def connect(path):
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.settimeout(20)
    opened.connect(path)
    return opened


def say_garbage(path, dice):
    with connect(path) as opened:
        try:
            opened.sendall(dice.randbytes(dice.choice((1, 7, 64, 128, 4096, 100_000))))
            while opened.recv(65536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass


def main():
    path, what, count, seed = sys.argv[1:]
    dice = random.Random(int(seed))
    if what == "flood":
        held = [connect(path) for _ in range(int(count))]
        for opened in held:
            opened.close()
    else:
        for _ in range(int(count)):
            say_garbage(path, dice)
    print("done", flush=True)


if __name__ == "__main__":
    main()
