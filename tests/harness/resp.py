"""A RESP2/RESP3 connection small enough to trust: what the server wrote, with its exact types.

Client libraries fold replies together (they strip `ERR `, turn sets into lists),
so exact replies are checked here and the libraries are checked by themselves.
"""

from __future__ import annotations

import socket


class Simple(str):
    """A `+simple string`."""


class ReplyError(str):
    """An `-error`, as a value: in EXEC one may stand among good replies."""


class Verbatim(str):
    """A `=verbatim string` with its three-letter format in front."""


class Push(list):
    """A `>push`."""


class Set(list):
    """A `~set`."""


class NilArray:
    """RESP2's `*-1`, apart from `$-1`."""

    def __eq__(self, other):
        return isinstance(other, NilArray)

    def __repr__(self):
        return "nil[]"


class Closed(Exception):
    """The server closed the connection."""


NIL_ARRAY = NilArray()


def encode(*arguments) -> bytes:
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        if not isinstance(argument, bytes):
            argument = str(argument).encode("utf-8", "surrogateescape")
        parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
    return b"".join(parts)


class Connection:
    def __init__(self, port: int, protocol: int = 2, timeout_seconds: float | None = 60.0, host: str = "127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.at = 0
        if protocol == 3:
            self.do("HELLO", 3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, *arguments) -> None:
        self.socket.sendall(encode(*arguments))

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def do(self, *arguments):
        self.send(*arguments)
        return self.read()

    def pipeline(self, *commands) -> list:
        self.send_bytes(b"".join(encode(*command) for command in commands))
        return [self.read() for _ in commands]

    def timeout(self, seconds: float | None) -> None:
        self.socket.settimeout(seconds)

    def read_to_close(self) -> bytes:
        """Everything until the server closes; a reset counts as a close."""
        data = self.buffer[self.at :]
        self.buffer, self.at = b"", 0
        try:
            while piece := self.socket.recv(65536):
                data += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
        return data

    def read(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        text = rest.decode("utf-8", "surrogateescape")
        if kind == b"+":
            return Simple(text)
        if kind == b"-":
            return ReplyError(text)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bulk(int(rest)).decode("utf-8", "surrogateescape")
        if kind == b"*":
            return NIL_ARRAY if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"(":
            return int(rest)
        if kind == b"!":
            return ReplyError(self._bulk(int(rest)).decode("utf-8", "surrogateescape"))
        if kind == b"=":
            return Verbatim(self._bulk(int(rest)).decode("utf-8", "surrogateescape"))
        if kind == b"%":
            pairs = [(self.read(), self.read()) for _ in range(int(rest))]
            return dict(pairs)
        if kind == b"~":
            return Set(self.read() for _ in range(int(rest)))
        if kind == b">":
            return Push(self.read() for _ in range(int(rest)))
        raise ValueError(f"not a RESP reply: {line!r}")

    def _line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n", self.at)) < 0:
            self._more()
        line = self.buffer[self.at : end]
        self.at = end + 2
        return line

    def _bulk(self, length: int) -> bytes:
        while len(self.buffer) - self.at < length + 2:
            self._more()
        data = self.buffer[self.at : self.at + length]
        self.at += length + 2
        return data

    def _more(self) -> None:
        try:
            piece = self.socket.recv(1 << 16)
        except ConnectionResetError as gone:
            raise Closed from gone
        if not piece:
            raise Closed
        self.buffer = self.buffer[self.at :] + piece
        self.at = 0
