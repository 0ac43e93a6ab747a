"""The key-value protocol as bytes, for what no client's library would send. `docs/keyvalue-protocol.md` draws it."""

from __future__ import annotations

import socket
import struct

HELLO, READ_VERSION, RELEASE, GET, GET_KEY, GET_RANGE, COMMIT, WATCH, SPLIT_POINTS = 1, 2, 4, 5, 6, 7, 8, 9, 12
SET, CLEAR_RANGE, CLEAR = 0, 1, 255


def frame(number: int, code: int, body: bytes = b"") -> bytes:
    return struct.pack("<IIB", 5 + len(body), number, code) + body


def greeting(credential: bytes = b"dev") -> bytes:
    return b"QuartKV1" + frame(0, HELLO, struct.pack("<H", 1) + bytes(16) + credential)


def sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def selector(key: bytes, or_equal: bool = False, offset: int = 1) -> bytes:
    return struct.pack("<Bi", or_equal, offset) + sized(key)


def get(version: int, key: bytes, system: bool = False) -> bytes:
    return struct.pack("<QB", version, system) + key


def get_key(version: int, key: bytes, system: bool = False, or_equal: bool = False, offset: int = 1) -> bytes:
    return struct.pack("<QB", version, system) + selector(key, or_equal, offset)


def get_range(version: int, begin: bytes, end: bytes, system: bool = False) -> bytes:
    return struct.pack("<QIIBB", version, 0, 0, 0, system) + selector(begin) + selector(end)


def commit(mutations: list[tuple[int, bytes, bytes]], system: bool = False) -> bytes:
    written = b"".join(bytes([kind]) + sized(key) + sized(value) for kind, key, value in mutations)
    return struct.pack("<QBB", 0, 0, system) + sized(b"") + sized(b"") + written


def watch(key: bytes, value: bytes | None, system: bool = False) -> bytes:
    return bytes([system]) + sized(key) + bytes([value is not None]) + (value or b"")


def split_points(begin: bytes, end: bytes, piece_bytes: int, system: bool = False) -> bytes:
    return struct.pack("<QIB", piece_bytes, 0xFFFFFFFF, system) + sized(begin) + sized(end)


class Wire:
    """One connection that has said who it is."""

    def __init__(self, address: str, credential: bytes = b"dev", receive_bytes: int | None = None):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(60)
        self.socket.connect((host, int(port)))
        self.socket.sendall(greeting(credential))
        self.next = 1
        self.reply()

    def send(self, code: int, body: bytes = b"") -> int:
        self.next += 1
        self.socket.sendall(frame(self.next, code, body))
        return self.next

    def reply(self) -> tuple[int, int, bytes]:
        """The request's number, an error or 0, and what else the reply has."""
        length, number, code = struct.unpack("<IIB", self._received(9))
        body = self._received(length - 5)
        return (number, 0, body) if code == 0 else (number, *struct.unpack_from("<H", body), body[2:])

    def ask(self, code: int, body: bytes = b"") -> tuple[int, bytes]:
        sent = self.send(code, body)
        number, error, rest = self.reply()
        assert number == sent
        return error, rest

    def version(self) -> int:
        return struct.unpack("<Q", self.ask(READ_VERSION)[1])[0]

    def is_ended(self) -> bool:
        """The server has ended the connection, after any replies."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self):
        self.socket.close()

    def _received(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self.socket.recv(count - len(received))
            if not piece:
                raise ConnectionError("the server has ended the connection")
            received += piece
        return bytes(received)
