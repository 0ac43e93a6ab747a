"""Quartet as the source: the RDB file of SAVE, `redis-cli --rdb`, and a real redis-server as its replica."""

from __future__ import annotations

import os
import random
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import certificates
from harness.admin import Admin
from harness.redis_copy import WAIT_SECONDS_MAX, contents, fill, run_import, start_import, until, url
from harness.resp import Connection, ReplyError
from harness.server import Server, binary, free_port


@pytest.fixture
def source():
    with Server() as server:
        yield server


@pytest.fixture
def redis():
    with Server(target="redis", options=["--enable-debug-command", "yes"]) as server:
        yield server


def info(connection: Connection, field: str) -> str:
    lines = str(connection.do("INFO")).splitlines()
    return next((line.split(":", 1)[1] for line in lines if line.startswith(field + ":")), "")


def follow(redis: Server, source: Server) -> None:
    with Connection(redis.port) as connection:
        connection.do("REPLICAOF", "127.0.0.1", source.port)
        until(lambda: info(connection, "master_link_status") == "up")


def in_step(redis: Server, source: Server) -> None:
    """Waits until the replica has everything, and compares it."""
    with Connection(source.port) as here, Connection(redis.port) as there:
        until(lambda: info(here, "master_repl_offset") == info(there, "master_repl_offset"))
    assert contents(redis.port) == contents(source.port)


def load(file: Path, tmp_path: Path) -> Server:
    """A real Redis that begins with the file."""
    folder = tmp_path / "loaded"
    folder.mkdir()
    shutil.copy(file, folder / "dump.rdb")
    return Server(target="redis", data=str(folder)).start()


def test_a_real_redis_loads_what_save_writes_while_others_write(tmp_path):
    file = tmp_path / "quartet.rdb"
    source = Server(options=["--rdb", str(file)], durability="always").start()
    try:
        fill(source.port)
        expected = contents(source.port)
        stop = threading.Event()

        def write() -> None:
            with Connection(source.port) as connection:
                connection.do("SELECT", 5)
                while not stop.is_set():
                    connection.do("MSET", "a", 1, "b", 1)
                    connection.do("DEL", "a", "b")

        writer = threading.Thread(target=write)
        writer.start()
        with Connection(source.port) as connection:
            assert connection.do("SAVE") == "OK"
            # Of two files that are written within a tick of the clock the times are the same.
            first = os.stat(file).st_ino
            before = connection.do("LASTSAVE")
            assert connection.do("BGSAVE") == "Background saving started"
            until(lambda: os.stat(file).st_ino != first)
            assert connection.do("LASTSAVE") >= before > 0
        stop.set()
        writer.join()
        assert os.stat(file).st_mode & 0o777 == 0o600
        redis = load(file, tmp_path)
        assert contents(redis.port) == expected
        with Connection(redis.port) as connection:
            assert connection.do("FCALL", "f", 0) == 7
            connection.do("SELECT", 5)
            assert connection.do("DBSIZE") in (0, 2)
        redis.close()
    finally:
        source.close()


def test_redis_cli_and_export_take_a_file(source, tmp_path):
    if not shutil.which("redis-cli"):
        pytest.skip("there is no redis-cli")
    fill(source.port)
    for command in (
        ["redis-cli", "-p", str(source.port), "--rdb", str(tmp_path / "cli.rdb")],
        [binary(), "export", "redis", "--from", url(source), "--to", str(tmp_path / "export.rdb")],
    ):
        subprocess.run(command, check=True, timeout=WAIT_SECONDS_MAX, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    redis = load(tmp_path / "cli.rdb", tmp_path)
    assert contents(redis.port) == contents(source.port)
    redis.close()
    target = Server().start()
    run_import(tmp_path / "export.rdb", target)
    assert contents(target.port) == contents(source.port)
    target.close()


def test_a_server_without_the_mark_is_sent_the_length(source):
    fill(source.port)
    with Connection(source.port) as connection:
        connection.send_bytes(b"SYNC\r\n")
        received = b""
        while b"\r\n" not in received or len(received) < 1000:
            received += connection.socket.recv(1 << 16)
        line, rest = received.lstrip(b"\n").split(b"\r\n", 1)
        length = int(line.removeprefix(b"$"))
        while len(rest) < length:
            rest += connection.socket.recv(1 << 16)
        assert rest.startswith(b"REDIS00") and rest[length - 9] == 0xFF


def exercise(connection: Connection, rounds: int) -> None:
    """Commands of every kind, whose outcome depends on what was before, on chance and on time; the same for equal seeds only."""
    choice = random.Random(7)
    script = "redis.call('INCR', KEYS[1]); redis.call('SPOP', KEYS[2]); return redis.call('TIME')"
    connection.do("XGROUP", "CREATE", "events", "workers", "$", "MKSTREAM")
    for number in range(rounds):
        db = choice.choice([0, 0, 0, 9])
        connection.do("SELECT", db)
        commands = [
            ["SET", "s", number, "EX", 1000 + number],
            ["INCRBYFLOAT", "float", "0.1"],
            ["APPEND", "long", "x"],
            ["LPUSH", "l", number],
            ["RPOP", "l"],
            ["LMOVE", "l", "l2", "LEFT", "RIGHT"],
            ["BLPOP", "l", "l2", "0.01"],
            ["LMPOP", 2, "l2", "l", "RIGHT", "COUNT", 2],
            ["BLMPOP", "0.01", 1, "l", "LEFT"],
            ["BLMOVE", "l2", "l", "LEFT", "RIGHT", "0.01"],
            ["ZMPOP", 1, "scores", "MAX", "COUNT", 2],
            ["MSET", "s", number, "t", number],
            ["DECRBY", "t", 3],
            ["SADD", "members", *range(number, number + 5)],
            ["SPOP", "members", 2],
            ["ZADD", "scores", number / 3, f"m{number % 10}"],
            ["ZINCRBY", "scores", "1.5", "m1"],
            ["ZPOPMIN", "scores"],
            ["HSET", "h", f"f{number % 7}", number],
            ["HINCRBYFLOAT", "h", "float", "0.3"],
            ["EXPIRE", "h", 5000],
            ["PERSIST", "h"],
            ["SET", "brief", "x", "PX", "1"],
            ["GET", "brief"],
            ["SADD", "brief", "y"],
            ["GETEX", "s", "PERSIST"],
            ["GETEX", "s", "EX", 500],
            ["XADD", "events", "MAXLEN", "~", 20, "*", "n", number],
            ["XADD", "events", "*", "maxlen", number],
            ["XREADGROUP", "GROUP", "workers", "w1", "COUNT", 2, "STREAMS", "events", ">"],
            ["XAUTOCLAIM", "events", "workers", "w2", "0", "0", "COUNT", 1],
            ["XTRIM", "events", "MAXLEN", "~", 10],
            ["COPY", "h", "h2", "REPLACE"],
            ["RENAME", "h2", "h3"],
            ["MOVE", "h3", 4],
            ["SORT", "members", "BY", "nosort", "STORE", "sorted"],
            ["EVAL", script, 2, "counter", "members"],
            ["PFADD", "hll", number],
            ["SETBIT", "bits", number, 1],
            ["BITOP", "NOT", "bits2", "bits"],
            ["GEOADD", "geo", "13.3", "38.1", f"p{number % 5}"],
            ["DEL", "sorted", "none"],
            ["UNLINK", "h3"],
        ]
        connection.do(*choice.choice(commands))
        if number % 10 == 0:
            connection.do("MULTI")
            for words in choice.sample([words for words in commands if not words[0].startswith("BL")], 4):
                connection.do(*words)
            connection.do("EXEC")
    connection.do("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function() return 8 end)")


def test_a_real_redis_follows_by_a_first_copy_and_the_stream(source, redis):
    fill(source.port)
    follow(redis, source)
    with Connection(source.port, timeout_seconds=90) as connection:
        exercise(connection, 1500)
        connection.do("SELECT", 0)
        assert connection.do("WAIT", 1, 60_000) == 1
        assert info(connection, "connected_slaves") == "1"
        assert connection.do("ROLE")[2][0][0] == "127.0.0.1"
        in_step(redis, source)
        # A broken connection goes on where it was.
        assert connection.do("CLIENT", "KILL", "TYPE", "replica") == 1
        connection.do("SWAPDB", 0, 9)
        exercise(connection, 100)
        until(lambda: info(connection, "sync_partial_ok") == "1")
        assert info(connection, "sync_full") == "1"
    in_step(redis, source)
    with Connection(redis.port) as replica, Connection(source.port) as connection:
        assert replica.do("FCALL_RO", "f", 0) == 8 or replica.do("FUNCTION", "LIST") == connection.do("FUNCTION", "LIST")
        connection.do("FLUSHALL")
        connection.do("SET", "after", 1)
        until(lambda: replica.do("GET", "after") == "1")
        assert replica.do("DBSIZE") == 1


def test_messages_reach_who_listens_at_a_replica(source, redis):
    follow(redis, source)
    with Connection(source.port) as connection, Connection(redis.port) as listener:
        listener.do("SUBSCRIBE", "news")
        connection.do("PUBLISH", "news", "alone")
        connection.do("MULTI")
        connection.do("SET", "a", 1)
        connection.do("PUBLISH", "news", "with others")
        connection.do("EXEC")
        assert [listener.read() for _ in range(2)] == [["message", "news", "alone"], ["message", "news", "with others"]]


def test_wait_counts_only_replicas_that_have_it(source, redis):
    with Connection(source.port, timeout_seconds=30) as connection, Connection(redis.port) as replica:
        assert connection.do("WAIT", 1, 0) == 0
        follow(redis, source)
        connection.do("SET", "a", 1)
        assert connection.do("WAIT", 1, 0) == 1
        assert connection.do("WAIT", 2, 50) == 1
        connection.do("CONFIG", "SET", "min-replicas-to-write", 2)
        assert connection.do("SET", "a", 2).startswith("NOREPLICAS")
        connection.do("CONFIG", "SET", "min-replicas-to-write", 1)
        assert connection.do("SET", "a", 2) == "OK"
        replica.do("REPLICAOF", "NO", "ONE")
        until(lambda: info(connection, "connected_slaves") == "0")
        assert connection.do("SET", "a", 3).startswith("NOREPLICAS")


def test_a_replica_that_lags_too_far_begins_anew(source, redis):
    with Connection(source.port) as connection, Connection(redis.port) as replica:
        connection.do("CONFIG", "SET", "client-output-buffer-limit", "replica 1mb 0 0")
        follow(redis, source)
        replica.send("DEBUG", "SLEEP", 1)
        for number in range(200):
            connection.do("SET", f"k{number % 3}", "x" * 100_000)
        connection.do("SET", "last", 1)
        until(lambda: replica.do("GET", "last") == "1" or None)
        assert contents(redis.port) == contents(source.port)


def test_a_source_that_is_killed_is_followed_anew(redis):
    """The stream's name is new after a start, so nobody goes on in a stream that may lack what a crash took back."""
    source = Server(durability="always", fixed_port=free_port()).start()
    try:
        fill(source.port)
        follow(redis, source)
        for _ in range(2):
            with Connection(source.port) as connection:
                connection.do("INCR", "number")
            source.kill()
            source.start()
            with Connection(source.port) as connection:
                connection.do("DEL", "small set")
                until(lambda: info(connection, "connected_slaves") == "1")
                assert info(connection, "sync_full") == "1" and info(connection, "sync_partial_ok") == "0"
            with Connection(redis.port) as there:
                until(lambda: info(there, "master_link_status") == "up")
            in_step(redis, source)
    finally:
        source.close()


def begin_copy(connection: Connection) -> None:
    """As a replica that can find the end by its mark: takes the first copy, and says nothing."""
    connection.do("REPLCONF", "capa", "eof", "capa", "psync2")
    connection.send("PSYNC", "?", "-1")
    received = b""
    while b"$EOF:" not in received or not received.endswith(received.split(b"$EOF:")[1][:40]) or len(received.split(b"$EOF:")[1]) < 50:
        received += connection.socket.recv(1 << 16)


def test_a_replica_that_says_nothing_is_cut_off_and_one_that_still_loads_is_not(source):
    """One that took longer than the stall timeout to load its copy was cut off, and began anew for ever."""
    with Connection(source.port) as connection, Connection(source.port) as silent, Connection(source.port) as loading:
        begin_copy(silent)
        begin_copy(loading)
        assert info(connection, "connected_slaves") == "2"
        ended = threading.Event()

        def live() -> None:
            while not ended.wait(0.1):
                loading.send_bytes(b"\n")

        thread = threading.Thread(target=live)
        thread.start()
        # So much more than a tenth of a second that a busy machine says nothing in between.
        connection.do("CONFIG", "SET", "repl-timeout", 5)
        until(lambda: info(connection, "connected_slaves") == "1")
        assert silent.read_to_close() == b""
        # Longer than the silent one had.
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 6)
        ended.set()
        thread.join()
        loading.send("REPLCONF", "ACK", "0")
        connection.do("SET", "a", 1)
        received = b""
        while b"SET" not in received:
            received += loading.socket.recv(1 << 16)


def test_replicas_are_refused_over_tls_and_in_another_database(tmp_path):
    made = certificates.make(tmp_path)
    server = Server(options=["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]).start()
    try:
        context = ssl.create_default_context(cafile=str(made.root))
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(b"PSYNC ? -1\r\n")
                assert connection.recv(1000) == b"-ERR replicas are served over connections without TLS only\r\n"
                assert connection.recv(1000) == b""
        token = Admin(server).create("guests")["credentials"]["token"]
        with Connection(server.port) as connection:
            assert connection.do("AUTH", "guests", token) == "OK"
            assert connection.do("PSYNC", "?", "-1") == "ERR Command is not available: 'PSYNC'"
    finally:
        server.close()


def test_a_quartet_moves_to_another_by_a_cut_over(source):
    target = Server().start()
    try:
        fill(source.port)
        process = start_import(url(source), target, "--follow")
        with Connection(source.port) as connection:
            until(lambda: info(connection, "connected_slaves") == "1")
            exercise(connection, 300)
            output, _ = process.communicate("cut over\n", timeout=WAIT_SECONDS_MAX)
            assert process.returncode == 0, output
            assert "no difference" in output
            refused = connection.do("SET", "late", 1)
            assert isinstance(refused, ReplyError) and refused.startswith("NOREPLICAS")
        assert contents(target.port) == contents(source.port)
    finally:
        target.close()
