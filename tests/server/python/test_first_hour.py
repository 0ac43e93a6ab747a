"""What people meet in the first hour: commands over TLS, addresses and sizes as they are written, and plain words for what is wrong.

`quartet admin` and `cluster` spoke clear text alone, `backup` and `export` trusted public certificates only, and no option ended clear text
on a server's ports. A folder of Redis was opened in silence as a new one, an import to a dead port waited for half a minute, and
`admin delete` asked nobody.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from harness import certificates
from harness.resp import Connection
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(made):
    server = Server(options=["--tls-certificate", str(made.certificate), "--tls-key", str(made.key), "--tls-only"]).start()
    yield server
    server.close()


def run(*words, cwd=None, **environment) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), *map(str, words)], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def test_clear_text_is_closed_on_every_port(server):
    ports = {"redis": server.port, "http": server.http_port, "dynamodb": server.dynamodb_port, "fauna": server.fauna_port, "keyvalue": server.keyvalue_port}
    for name, port in ports.items():
        with socket.create_connection(("127.0.0.1", port), 60) as clear:
            clear.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            try:
                assert clear.recv(100) == b"", name
            except ConnectionResetError:
                pass


def test_commands_go_over_tls(server, made, tmp_path):
    url = f"https://127.0.0.1:{server.http_port}"
    own = ("--server", url, "--server-ca", made.root)
    listed = run("admin", *own, "list")
    assert listed.returncode == 0 and "databases" in listed.stdout, listed.stderr
    # The usual variable names the file too, and without either the certificate is a stranger's.
    assert run("admin", "--server", url, "list", SSL_CERT_FILE=str(made.root)).returncode == 0
    assert run("admin", "--server", url, "list").returncode != 0
    assert run("admin", "--server", url, "--server-ca", tmp_path / "nowhere", "list").returncode != 0
    assert "bytes, all rows" in run("backup", *own, "--to", tmp_path / "backup").stdout
    health = run("healthcheck", "--listen-http", f"127.0.0.1:{server.http_port}")
    assert health.returncode == 0, health.stderr
    fauna = f"https://127.0.0.1:{server.fauna_port}"
    exported = run("export", "fauna", "--from", fauna, "--server-ca", made.root, "--to", tmp_path / "fauna")
    assert "wrote 0 records" in exported.stdout, exported.stderr
    refused = run("export", "dynamodb", "--from", f"https://127.0.0.1:{server.dynamodb_port}", "--server-ca", made.root, "--table", "none", "--to", tmp_path / "x")
    assert "there is no table none" in refused.stderr


def test_tls_alone_needs_a_certificate():
    refused = run("serve", "--dev", "--data", "memory", "--tls-only")
    assert refused.returncode != 0 and "tls-only needs tls-certificate" in refused.stderr


def test_addresses_and_sizes_are_taken_as_they_are_written():
    with Server(options=["--memory-bytes", "256MB", "--request-bytes-max", "64mb"]) as server:
        with Connection(server.port) as connection:
            memory = connection.do("INFO", "memory")
            assert "memory_budget:268435456" in (memory.decode() if isinstance(memory, bytes) else memory)
            limit = connection.do("CONFIG", "GET", "client-query-buffer-limit")
            assert b"67108864" in [value.encode() if isinstance(value, str) else value for value in limit]
        assert run("admin", "--server", f":{server.http_port}", "list").returncode == 0
        assert run("admin", "--server", f"localhost:{server.http_port}", "list").returncode == 0
        assert run("healthcheck", "--listen-http", f"localhost:{server.http_port}").returncode == 0
    for words, told in ((["--memory-bytes", "1000"], "at least"), (["--memory-bytes", "1XB"], "no unit of bytes"), (["--listen-redis", "db.example"], "neither ADDRESS:PORT")):
        refused = run("serve", "--dev", "--data", "memory", *words)
        assert refused.returncode != 0 and told in refused.stderr, refused.stderr


def test_a_folder_of_redis_is_said_to_be_one(tmp_path):
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0011")
    (tmp_path / "appendonlydir").mkdir()
    with Server(data=str(tmp_path)) as server:
        told = "\n".join(server.output)
    for name in ("dump.rdb", "appendonlydir"):
        assert f"quartet import redis --from {tmp_path / name}" in told


def test_an_import_to_a_dead_port_ends_at_once_in_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "things.json").write_text('{"id": "1", "ts": 1, "data": {}}\n')
    for words in (["fauna", "--from", "in"], ["dynamodb", "--from", "in", "--into", "x"]):
        started = time.monotonic()
        refused = run("import", *words, "--to", url, cwd=tmp_path)
        assert time.monotonic() - started < 20
        assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1 and "cannot be reached" in refused.stderr
        assert not (tmp_path / "quartet-import.journal").exists()


def test_so_do_imports_of_keys(tmp_path):
    """One waited for its server as a client of FoundationDB does, and no signal ended it; the other named the target as the source."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    (tmp_path / "dead.cluster").write_text(f"quartet:dev@{address}\n")
    (tmp_path / "in").write_text('{"key":"YQ==","value":""}\n')
    for words, told in (
        (["import", "keyvalue", "--from", "in", "--cluster-file", "dead.cluster"], f"{address} cannot be reached"),
        (["export", "keyvalue", "--to", "out", "--cluster-file", "dead.cluster"], f"{address} cannot be reached"),
        (["export", "keyvalue", "--to", "out", "--cluster-file", "none.cluster"], "there is no cluster file"),
        (["import", "redis", "--from", "in", "--to", f"redis://{address}"], f"the target: connecting to redis://{address}"),
    ):
        refused = run(*words, cwd=tmp_path)
        assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1 and told in refused.stderr, refused.stderr
        assert refused.stderr.count("the source") == 0


def test_a_database_is_deleted_only_if_that_is_meant():
    with Server() as server:
        own = ("admin", "--server", f"127.0.0.1:{server.http_port}")
        assert run(*own, "create", "shop").returncode == 0
        refused = run(*own, "delete", "shop")
        assert refused.returncode != 0 and "--yes" in refused.stderr
        assert "shop" in run(*own, "list").stdout
        assert run(*own, "delete", "shop", "--yes").returncode == 0


def test_a_restore_beyond_a_backup_tells_times(tmp_path):
    with Server() as server:
        with Connection(server.port) as connection:
            connection.do("SET", "a", "1")
        run("backup", "--server", f"127.0.0.1:{server.http_port}", "--to", tmp_path / "backup")
    for at in ("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"):
        refused = run("restore", "--from", tmp_path / "backup", "--data", tmp_path / "data", "--at", at)
        assert refused.returncode != 0 and "(20" in refused.stderr and "Z)" in refused.stderr, refused.stderr


def test_nothing_but_tls_reaches_the_rest_api(server):
    with pytest.raises((urllib.error.URLError, OSError)):
        urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/healthz", timeout=60)
