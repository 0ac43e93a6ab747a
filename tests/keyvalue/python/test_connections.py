"""What lies between a client and the server: a connection that breaks, TLS, wrong credentials."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import threading
import time

import pytest

from harness import certificates
from harness.server import Server, binary, free_port

from .conftest import KeyValueServer

UNKNOWN_RESULT = 1021
MARK = b"a value by which the commit is found"


class Between:
    """Stands between clients and a server. A commit with `MARK` in it is held back and its client is cut off; the connection to the server stays."""

    def __init__(self, port: int):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.held: tuple[socket.socket, bytes] | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
            threading.Thread(target=self._to_client, args=(server, client), daemon=True).start()

    def _to_server(self, client, server):
        while sent := self._received(client):
            if MARK in sent and self.held is None:
                self.held = (server, sent)
                client.shutdown(socket.SHUT_RDWR)
                return
            server.sendall(sent)

    def _to_client(self, server, client):
        while sent := self._received(server):
            try:
                client.sendall(sent)
            except OSError:
                return

    @staticmethod
    def _received(connection) -> bytes:
        try:
            return connection.recv(1 << 16)
        except OSError:
            return b""


def test_an_unknown_result_is_answered_once_decided(fdb, keyvalue_server, tmp_path):
    """The connection breaks while a commit is under way, and the commit arrives when its client has been told that its result is unknown: too late."""
    between = Between(keyvalue_server.keyvalue_port)
    cluster_file = tmp_path / "fdb.cluster"
    cluster_file.write_text(f"quartet:dev@{between.address}\n")
    database = fdb.open(str(cluster_file))
    transaction = database.create_transaction()
    transaction[b"late"] = MARK
    with pytest.raises(fdb.FDBError) as caught:
        transaction.commit().wait()
    assert caught.value.code == UNKNOWN_RESULT
    server, sent = between.held
    # The server has ended the connection, so what was held back leads to nothing.
    server.settimeout(60)
    try:
        server.sendall(sent)
        server.sendall(sent)
    except OSError:
        pass
    assert database[b"late"] == None  # noqa: E711
    assert Between._received(server) == b""
    assert database[b"late"] == None  # noqa: E711
    between.listener.close()


def test_tls(fdb, tmp_path, monkeypatch):
    made = certificates.make(tmp_path)
    (tmp_path / "other").mkdir()
    other = certificates.make(tmp_path / "other")
    server = KeyValueServer(options=["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]).start()
    try:
        cluster_file = tmp_path / "tls.cluster"
        cluster_file.write_text(f"quartet:dev@{server.keyvalue_address}:tls\n")

        def get(timeout_seconds=3, **variables):
            environment = {name: value for name, value in os.environ.items() if not name.startswith("FDB_TLS")} | variables
            command = [binary(), "kv", "-C", str(cluster_file), "--timeout", "60", "--exec", f"option on timeout {timeout_seconds}000; get a"]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            return ended.returncode, ended.stdout + ended.stderr

        assert get(timeout_seconds=60, FDB_TLS_CA_FILE=str(made.root))[0] == 0
        assert get(timeout_seconds=60, FDB_TLS_VERIFY_PEERS="Check.Valid=0")[0] == 0
        assert "TLS error (2107)" in get()[1]
        assert "TLS error (2107)" in get(FDB_TLS_CA_FILE=str(tmp_path / "missing"))[1]
        assert "timed out (1031)" in get(FDB_TLS_CA_FILE=str(other.root))[1]
        monkeypatch.setenv("FDB_TLS_CA_FILE", str(made.root))
        database = fdb.open(str(cluster_file))
        database[b"a"] = b"x" * 90_000
        # Larger than what a socket takes at once, both ways.
        rows = {b"%03d" % number: os.urandom(50_000) for number in range(100)}
        transaction = database.create_transaction()
        for key, value in rows.items():
            transaction[key] = value
        transaction.commit().wait()
        assert {bytes(row.key): bytes(row.value) for row in database.get_range(b"0", b"1")} == rows
    finally:
        server.close()


def greeting(credential: bytes) -> bytes:
    return b"QuartKV1" + struct.pack("<IIBH", 23 + len(credential), 0, 1, 1) + bytes(16) + credential


def test_a_root_key_with_any_characters_is_carried_by_the_cluster_file(fdb, tmp_path):
    """The server wrote no cluster file for such a key, and a warning: clients of FoundationDB could not come in at all."""
    key = "it's a pass-word: über @ home"
    listeners = {"listeners": ["keyvalue"], "root_key": key, "data": str(tmp_path / "data")}
    with Server(**listeners) as server:
        file = tmp_path / "data" / "fdb.cluster"
        assert re.fullmatch(r"quartet:hex_[0-9a-f]+@127\.0\.0\.1:\d+\n", file.read_text())
        database = fdb.open(str(file))
        database[b"here"] = b"1"
        assert database[b"here"] == b"1"
        wrong = tmp_path / "wrong.cluster"
        wrong.write_text(re.sub("hex_..", "hex_00", file.read_text()))
        other = fdb.open(str(wrong)).create_transaction()
        other.options.set_timeout(2000)
        with pytest.raises(fdb.FDBError):
            other[b"here"].wait()
        assert server.alive()


def test_wrong_credentials_wait_longer_each_time(tmp_path):
    port = free_port()
    command = [binary(), "serve", "--data", str(tmp_path / "data"), "--listen-keyvalue", f"127.0.0.1:{port}"]
    for name in ("redis", "http", "dynamodb", "fauna"):
        command += [f"--listen-{name}", "off"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        root_key = None
        for line in server.stdout:
            if found := re.match(r"root key, shown this once: (\S+)", line):
                root_key = found.group(1)
            if line.strip() == "ready":
                break

        def attempt(credential: bytes) -> tuple[float, int]:
            """How long the answer took, and whether it is one to a right or to a wrong credential."""
            started = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), 60) as connection:
                connection.sendall(greeting(credential))
                length, _, outcome = struct.unpack("<IIB", connection.recv(9, socket.MSG_WAITALL))
            return time.monotonic() - started, outcome

        tries = [attempt(b"wrong%d" % number) for number in range(15)]
        assert {outcome for _, outcome in tries} == {1}
        # Eight are free, then 10 ms, 20 ms, 40 ms...
        assert tries[-1][0] > 0.3
        assert attempt(root_key.encode())[1] == 0
    finally:
        server.kill()
        server.wait()
