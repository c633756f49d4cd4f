"""Somebody on the way between two daemons, who passes on all bytes and keeps them."""

import contextlib
import socket
import threading


class Listener:
    """A relay to a daemon's port, for any number of dialers."""

    def __init__(self, port):
        self.port, self.dialers_said, self.daemon_said = port, bytearray(), bytearray()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near = self.server.accept()[0]
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # That daemon is not up yet; this one dials again.
                near.close()
                continue
            for one, other, kept in ((near, far, self.dialers_said), (far, near, self.daemon_said)):
                threading.Thread(target=self.relay, args=(one, other, kept), daemon=True).start()

    @staticmethod
    def relay(one, other, kept):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                kept += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
