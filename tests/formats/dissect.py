"""The files of a data directory taken apart by nothing but what `docs/formats.md` draws. (Checksums of the ssd engine's files, XXH3, aside.)"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path


class Bytes:
    def __init__(self, content: bytes):
        self.content, self.at = content, 0

    def take(self, count: int) -> bytes:
        taken = self.content[self.at : self.at + count]
        assert len(taken) == count
        self.at += count
        return taken

    def number(self, form: str):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def numbers(self, form: str) -> tuple:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def left(self) -> int:
        return len(self.content) - self.at


def segment(path: Path) -> Iterator[tuple[int, bytes]]:
    """Sequences and payloads of a segment's epochs."""
    content = path.read_bytes()
    magic, version, checksum, first, salt = struct.unpack_from("<8sIIQQ", content)
    assert (magic, f"log-{first:020}") == (b"QRTETLOG", path.name) and version == 1
    assert checksum == zlib.crc32(content[:12] + content[16:32])
    at, expected = 32, first
    while at + 32 <= len(content) and any(content[at : at + 32]):
        magic, own, of_payload, length, sequence, _ = struct.unpack_from("<4sIIIQQ", content, at)
        header = struct.pack("<QQ", salt, at) + content[at : at + 4] + content[at + 8 : at + 32]
        assert own == zlib.crc32(header)
        if magic == b"QCNF":
            assert length == 0
            return
        payload = content[at + 32 : at + 32 + length]
        assert (magic, sequence, zlib.crc32(payload)) == (b"QEPO", expected, of_payload)
        yield sequence, payload
        at, expected = at + 32 + length + -length % 8, expected + 1


def apply(payload: bytes, rows: dict[bytes, bytes]) -> None:
    epoch = Bytes(payload)
    while epoch.left():
        _, length = epoch.numbers("QI")
        effects, full = Bytes(epoch.take(length)), b""
        while effects.left():
            kind = effects.number("B")
            if kind in (3, 4, 6):
                beginning, end = effects.varint(), effects.varint()
                assert beginning + end <= len(full)
                first = full[:beginning] + effects.take(effects.varint()) + full[len(full) - end :]
            else:
                first = effects.take(effects.varint())
            if kind in (0, 1, 5):
                full = first
            if kind in (0, 3):
                rows[first] = effects.take(effects.varint())
            elif kind in (1, 4):
                rows.pop(first, None)
            elif kind in (5, 6):
                offset, new = effects.varint(), effects.take(effects.varint())
                value = rows.get(first, b"").ljust(offset, b"\0")
                rows[first] = value[:offset] + new + value[offset + len(new) :]
            else:
                assert kind == 2
                end = effects.take(effects.varint())
                for key in [key for key in rows if first <= key < end]:
                    del rows[key]


def reach(path: Path) -> tuple[int, int]:
    """First sequence of the newest segment, and the durable one."""
    content, newest = path.read_bytes(), None
    for at in (0, 4096):
        magic, version, checksum, generation, first, durable = struct.unpack_from("<8sIIQQQ", content, at)
        statement = content[at : at + 40]
        assert (magic, version, checksum) == (b"QRTREACH", 1, zlib.crc32(statement[:12] + statement[16:]))
        newest = max(newest or (0, 0, 0), (generation, first, durable))
    return newest[1:]


def checkpoint(path: Path) -> tuple[int, dict[bytes, bytes]]:
    """The position in the log, and the rows."""
    file, rows = Bytes(path.read_bytes()), {}
    magic, version, _, sequence = file.numbers("8sIQQ")
    assert (magic, f"checkpoint-{sequence:020}") == (b"QUARTETC", path.name) and version == 1
    assert file.number("I") == zlib.crc32(file.content[:28])
    while True:
        tag, length, checksum = file.numbers("BII")
        payload = file.take(length)
        assert checksum == zlib.crc32(struct.pack("<BI", tag, length) + payload)
        part = Bytes(payload)
        if tag == 2:
            assert part.number("Q") == len(rows) and part.left() == 16 and not file.left()
            return sequence, rows
        while part.left():
            _, key_bytes, value_bytes = part.numbers("QII")
            key = part.take(key_bytes)
            rows[key] = part.take(value_bytes)


def base(data: Path) -> tuple[int, dict[bytes, bytes]]:
    """The same of a tree."""
    root, rows = Bytes((data / "base").read_bytes()), {}
    magic, version, _, sequence, _, has_tree, height = root.numbers("8sIQQIBB")
    assert magic == b"QUARTETB" and version == 1
    top = tree(root) if has_tree else None
    for _ in range(root.number("I")):
        root.numbers("IQQ")
    assert root.left() == 8
    if top:
        assert node(data, top, height, rows) == len(rows)
    return sequence, rows


def tree(root: Bytes) -> tuple:
    """Where the tree's root is, and how many rows there are."""
    key_bytes = root.number("I")
    place = root.numbers("IIIQ")
    count = root.numbers("QQQB")[0]
    root.take(key_bytes)
    return place, count


def children(content: Bytes) -> Iterator[tuple]:
    """Of an inner node."""
    count, newest = content.numbers("BQ")
    before = b""
    for _ in range(count):
        shared = content.varint()
        assert shared <= len(before)
        before = before[:shared] + content.take(content.varint())
        place = (content.varint(), content.varint(), content.varint(), content.number("Q"))
        rows, _, age = content.varint(), content.varint(), content.varint()
        assert age <= newest
        yield place, rows // 2


def at(data: Path, place: tuple) -> bytes:
    file, offset, length, _ = place
    return (data / f"base-{file:010}").read_bytes()[offset : offset + length]


def node(data: Path, pointed: tuple, height: int, rows: dict[bytes, bytes]) -> int:
    place, stated = pointed
    content, counted = Bytes(at(data, place)), 0
    tag = content.number("B")
    if tag == 1:
        assert height == 0
        for _ in range(content.number("I")):
            _, key_bytes, value_bytes, apart = content.numbers("QIIB")
            key = content.take(key_bytes)
            rows[key] = at(data, content.numbers("IIIQ")) if apart else content.take(value_bytes)
            counted += 1
    else:
        assert content.number("B") == height and tag == 2
        for pointed in children(content):
            counted += node(data, pointed, height - 1, rows)
    assert (counted, content.left()) == (stated, 0)
    return counted


def rows(data: Path) -> dict[bytes, bytes]:
    """What the whole directory holds."""
    checkpoints = sorted(data.glob("checkpoint-*"))
    sequence, found = base(data) if (data / "base").exists() else checkpoint(checkpoints[-1])
    newest, durable = reach(data / "log-reach")
    last = 0
    for path in sorted(data.glob("log-0*")):
        for last, payload in segment(path):
            if last > sequence:
                apply(payload, found)
    assert path.name == f"log-{newest:020}" and last >= durable
    return found
