"""A way to a server that closes after so many bytes, so that a kill surely comes in the middle of what goes through it."""

from __future__ import annotations

import contextlib
import socket
import threading


class Gate:
    """Hands on what clients send and what the server answers. `to_server` or `from_server` bytes, of all connections together, pass;
    whatever follows in that direction is held back for ever."""

    def __init__(self, port: int, to_server: int | None = None, from_server: int | None = None):
        self.server_port = port
        self.left = {"to": to_server, "from": from_server}
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_) -> None:
        for each in (self.listener, *self.sockets):
            with contextlib.suppress(OSError):
                # Wakes the threads that wait for it; closing alone does not.
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def open(self) -> None:
        """Whatever comes from now on passes."""
        with self.lock:
            self.left = {"to": None, "from": None}

    def wait_closed(self, seconds: float = 120) -> None:
        assert self.closed.wait(seconds), "less has passed than a test has expected"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                return
            self.sockets += [client, server]
            for source, target, way in ((client, server, "to"), (server, client, "from")):
                threading.Thread(target=self._hand_on, args=(source, target, way), daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, way: str) -> None:
        try:
            while received := source.recv(1 << 16):
                with self.lock:
                    passes = len(received)
                    if self.left[way] is not None:
                        passes = min(passes, self.left[way])
                        self.left[way] -= passes
                target.sendall(received[:passes])
                if passes < len(received):
                    self.closed.set()
                    return
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass
