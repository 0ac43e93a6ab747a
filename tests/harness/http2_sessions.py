"""Sessions of HTTP/2 that are opened without a pause, each with one request or several: is the outcome of each known to its client?

It is if the request was answered, or the server said RST_STREAM, or a GOAWAY with an error or with an earlier stream. A reset counts while
the client only waits. Node.js, and so FaunaDB's JavaScript driver, settles no promise otherwise: not at the end of the bytes, not at a
reset behind a GOAWAY, and not at a reset while it sends, since it ignores the error of that and then reads the end.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
ACKNOWLEDGED = END_STREAM = 1
END_HEADERS = 4
# Node.js takes a stream that is reset for these reasons, no error and CANCEL, for one that it has given up itself.
SAYS_NOTHING = (0, 8)
# `GET /ping` (RFC 7541, appendix A has the numbers).
REQUEST = b"\x82\x86\x04\x05/ping\x01\x03any"


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack("!I", len(content))[1:] + struct.pack("!BBI", kind, flags, stream) + content


class Session:
    """One session, with one request at a time."""

    def __init__(self, client: socket.socket):
        self.client, self.received = client, b""
        self.unsent = PREFACE + frame(SETTINGS, 0, 0)
        self.has_goaway = False

    def ask(self, stream: int) -> str:
        """How the request of this stream has ended."""
        self.unsent += frame(HEADERS, END_STREAM | END_HEADERS, stream, REQUEST)
        try:
            self.client.sendall(self.unsent)
        except OSError:
            return "reset while it sent"
        while True:
            self.unsent = b""
            for kind, flags, about, content in self._frames():
                if kind in (DATA, HEADERS) and about == stream and flags & END_STREAM:
                    return "answered"
                if kind == RST_STREAM and about == stream:
                    return "says nothing" if struct.unpack("!I", content)[0] in SAYS_NOTHING else "refused"
                if kind == GOAWAY:
                    self.has_goaway = True
                    last, reason = struct.unpack("!II", content[:8])
                    if last < stream or reason:
                        return "refused"
                if kind in (SETTINGS, PING) and not flags & ACKNOWLEDGED:
                    self.unsent += frame(kind, ACKNOWLEDGED, 0, content if kind == PING else b"")
            try:
                if self.unsent:
                    self.client.sendall(self.unsent)
                received = self.client.recv(65536)
            except TimeoutError:
                return "no end"
            except OSError:
                return "reset behind a GOAWAY" if self.has_goaway else "reset"
            if not received:
                return "end behind a GOAWAY" if self.has_goaway else "end"
            self.received += received

    def _frames(self):
        while len(self.received) >= 9:
            end = 9 + int.from_bytes(self.received[:3], "big")
            if len(self.received) < end:
                return
            head, content = self.received[3:9], self.received[9:end]
            self.received = self.received[end:]
            yield *struct.unpack("!BBI", head), content


class Sessions:
    """Threads that open one session after the other at an address. `outcomes` counts how the requests have ended."""

    def __init__(self, address: tuple[str, int], threads: int = 8):
        self.address = address
        self.outcomes: Counter[str] = Counter()
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(random.Random(number),), daemon=True) for number in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, choices: random.Random) -> None:
        while not self.over.is_set():
            try:
                client = socket.create_connection(self.address, timeout=30)
            except OSError:
                time.sleep(0.01)
                continue
            with contextlib.closing(client):
                # As a client that does something else first.
                time.sleep(choices.choice((0, 0, 0.0002, 0.001, 0.005)))
                self._talk(Session(client), choices)

    def _talk(self, session: Session, choices: random.Random) -> None:
        for stream in range(1, 2 * choices.choice((1, 1, 5, 200)), 2):
            outcome = session.ask(stream)
            self.outcomes[outcome] += 1
            if outcome != "answered" or session.has_goaway or self.over.is_set():
                return
            time.sleep(choices.choice((0, 0.001, 0.02)))

    def close(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)

    def all_known(self) -> None:
        unknown = {outcome for outcome in self.outcomes if outcome not in ("answered", "refused", "reset")}
        assert not unknown, self.outcomes
