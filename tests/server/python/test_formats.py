"""Data directories of every format open, show what was written there, and stay convertible; other formats are refused."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import redis
import xxhash

import formats
from formats import contents, dissect
from harness import dynamodb
from harness.admin import Admin
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only

FIXTURES = sorted((Path(formats.__file__).parent / "fixtures").iterdir())


@pytest.fixture(params=FIXTURES, ids=lambda folder: folder.name)
def fixture(request, tmp_path):
    """A copy of the directory, and what is known of it."""
    data = tmp_path / "data"
    shutil.copytree(request.param / "data", data)
    return data, json.loads((request.param / "contents.json").read_text())


def check(data: Path) -> str:
    checked = subprocess.run([binary(), "check", "--data", str(data)], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return checked.stdout


def read(data: Path, known: dict) -> dict:
    server = Server(durability="always", data=str(data)).start()
    try:
        return contents.read(server, known["credentials of shop"])
    finally:
        server.stop()


def test_an_old_directory_is_sound_and_shows_what_was_written(fixture):
    data, known = fixture
    assert known["state"] in check(data)
    assert read(data, known) == known["contents"]
    # And again, after this version has written there.
    assert read(data, known) == known["contents"]
    check(data)


def keys_of_redis(rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Those of database 0 by name."""
    prefix = b"\0\1\1K\0"
    return {name_of(key[len(prefix) :]): value for key, value in rows.items() if key.startswith(prefix)}


def name_of(place: bytes) -> bytes:
    """The name of a key: its last seven bytes are in front, with a hash of the others, as `places.rs` draws it."""
    if len(place) < 7:
        return place
    tail, stem = int.from_bytes(place[4:7]), place[7:]
    head = int.from_bytes(place[:4]) - xxhash.xxh3_64_intdigest(stem) & 0xFFFF_FFFF
    lower = [tail >> shift & 0x7F for shift in (17, 10, 3)]
    top = [tail >> shift & 1 for shift in (2, 1, 0)]
    return stem + head.to_bytes(4) + bytes(low | bit << 7 for low, bit in zip(lower, top, strict=True))


def test_the_drawings_of_the_formats_are_true(fixture):
    data, known = fixture
    rows = dissect.rows(data)
    assert f"state       {len(rows)} rows" in known["state"]
    default, fauna = b"\0\1", b"\2"
    keys = keys_of_redis(rows)
    assert keys[b"late"] == b"\0only in the log"
    assert b"integers" not in keys
    assert any(key.startswith(default + fauna) for key in rows)
    assert rows[default + b"\4" + b"plain"] == b"value"
    # A list with a shift says so in its header, which is one byte here.
    assert keys[b"shifted list"][0] == 0xA1


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_the_drawings_are_true_of_what_is_written_today(engine, tmp_path):
    """The stored directories are too small for a tree with inner nodes."""
    data = tmp_path / "data"
    server = Server(durability="always", data=str(data), options=["--engine", engine]).start()
    try:
        with redis.Redis(port=server.port) as connection, connection.pipeline(transaction=False) as pipeline:
            for number in range(20_000):
                pipeline.set(f"name:{number}", b"v" * 40 if number % 100 else b"v" * 4000)
            pipeline.execute()
            connection.save()
            connection.mset({f"name:{number}": "then" for number in range(0, 20_000, 7)})
    finally:
        server.kill()
    values = keys_of_redis(dissect.rows(data))
    assert len(values) == 20_000
    sizes = [(4 if number % 7 == 0 else 4000 if number % 100 == 0 else 40) for number in range(20_000)]
    assert [len(values[b"name:%d" % number]) - 1 for number in range(20_000)] == sizes
    assert f"state       {len(dissect.rows(data))} rows" in check(data)


def with_format(data: Path, number: int) -> None:
    """Says of every file with a version that it is of format `number`, with the right checksum."""
    for path in data.iterdir():
        content = bytearray(path.read_bytes())
        if path.name.startswith("log-0"):
            content[8:12] = struct.pack("<I", number)
            content[12:16] = struct.pack("<I", zlib.crc32(content[:12] + content[16:32]))
        elif path.name.startswith("checkpoint-"):
            content[8:12] = struct.pack("<I", number)
            content[28:32] = struct.pack("<I", zlib.crc32(content[:28]))
        path.write_bytes(content)


@pytest.mark.parametrize("number", [0, 2, 5])
def test_every_other_format_is_named_and_nothing_is_changed(number, fixture):
    data, _ = fixture
    with_format(data, number)
    files = {path.name: path.read_bytes() for path in data.iterdir() if path.name != "LOCK"}
    for command in (["check", "--data", str(data)], ["serve", "--data", str(data)]):
        ended = subprocess.run([binary(), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0, ended.stdout
        assert re.search(rf"format (version )?{number}\b", ended.stdout + ended.stderr), ended.stdout + ended.stderr
        after = {path.name: path.read_bytes() for path in data.iterdir()}
        assert {name: after.get(name) for name in files} == files


def test_an_old_directory_can_be_converted(fixture):
    data, known = fixture
    kind = "memory" if (data / "base").exists() else "ssd"
    subprocess.run([binary(), "convert", "--data", str(data), "--to", kind], check=True, capture_output=True, timeout=60)
    assert known["state"] in check(data)
    assert read(data, known) == known["contents"]


def test_old_credentials_open_the_server(fixture):
    data, known = fixture
    command = [binary(), "serve", "--data", str(data), "--stop-with-stdin"]
    command += [part for listener in ("redis", "http", "dynamodb", "fauna", "keyvalue") for part in (f"--listen-{listener}", "127.0.0.1:0")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        printed = "".join(iter(process.stdout.readline, "ready\n"))
        assert "shown this once" not in printed
        server = Server(data=str(data))
        server.http_port, server.dynamodb_port = (int(re.search(rf"^{name}\s+http://[^:]+:(\d+)", printed, re.M).group(1)) for name in ("http", "dynamodb"))
        assert Admin(server, known["root key"]).show("shop")["name"] == "shop"
        name, secret = re.search(r"key (\S+), secret, shown this once: (\S+)", known["access key"]).groups()
        assert dynamodb.connect(server, key=(name, secret)).list_tables()["TableNames"] == ["table"]
    finally:
        process.communicate("", timeout=60)
