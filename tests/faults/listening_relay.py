"""Relays between two daemons: one that passes on all bytes, and one that keeps a copy."""

import contextlib
import socket
import threading


class Relay:
    """A port that leads to a daemon's, for any number of dialers."""

    def __init__(self, port):
        self.port = port
        self.server = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def passing(self, towards):
        """Returns what one direction of a new connection does with data: `towards` the daemon that listens,
        or from it."""
        raise NotImplementedError

    def accept(self):
        while True:
            near = self.server.accept()[0]
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:  # That daemon is not up yet; this one dials again.
                near.close()
                continue
            for one, other, towards in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.relay, args=(one, other, self.passing(towards)),
                                 daemon=True).start()

    @staticmethod
    def relay(one, other, passes):
        with contextlib.suppress(OSError):
            while data := bytearray(one.recv(1 << 16)):
                passes(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


class Listener(Relay):
    """Keeps a copy of both directions."""

    def __init__(self, port):
        self.dialers_said, self.daemon_said = bytearray(), bytearray()
        super().__init__(port)

    def passing(self, towards):
        return (self.dialers_said if towards else self.daemon_said).extend
