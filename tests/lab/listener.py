"""Whoever is on the same switch and writes down what passes: listener.py INTERFACE FILE BYTES."""

import socket
import sys

EVERY_PROTOCOL = 0x0003  # ETH_P_ALL


def main():
    interface, path, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    heard = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as ears, \
            open(path, "wb") as file:
        ears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        ears.bind((interface, 0))
        print("listening", flush=True)
        while heard < wanted:
            heard += file.write(ears.recv(1 << 16))
    print("heard enough", flush=True)


if __name__ == "__main__":
    main()
