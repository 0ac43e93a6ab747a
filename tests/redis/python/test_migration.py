"""MIGRATE: to Redis, to another Quartet, from Redis; and to targets that refuse, fall silent or talk nonsense."""

from __future__ import annotations

import socket
import threading

import pytest

from harness.resp import Connection, ReplyError, Simple
from harness.server import Server, free_port

COMMANDS = {
    "string": ["SET", "k", "v"],
    "list": ["RPUSH", "k", "a", "b"],
    "set": ["SADD", "k", "a", "b"],
    "zset": ["ZADD", "k", 1, "a"],
    "hash": ["HSET", "k", "f", "v"],
    "stream": ["XADD", "k", "1-1", "f", "v"],
}


@pytest.fixture
def source(server):
    with Connection(server.port) as connection:
        connection.do("FLUSHALL")
        yield connection


@pytest.fixture(scope="module", params=["redis", "quartet"])
def other(request):
    with Server(target=request.param) as server:
        yield server


@pytest.fixture
def target(other):
    with Connection(other.port) as connection:
        connection.do("FLUSHALL")
        yield connection


def migrate(source, port: int, key: str, *options, db: int = 0, timeout: int = 60_000):
    return source.do("MIGRATE", "127.0.0.1", port, key, db, timeout, *options)


class Peer:
    """A target that answers what a test tells it to, once the requests are there."""

    def __init__(self, answer: bytes):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.may_answer = threading.Event()
        self.has_received = threading.Event()
        self.answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        connection, _ = self.listener.accept()
        connection.recv(1 << 16)
        self.has_received.set()
        self.may_answer.wait(60)
        try:
            connection.sendall(self.answer)
            connection.recv(1)
        except OSError:
            pass


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_key_moves_with_its_deadline(source, target, other, kind):
    source.do(*COMMANDS[kind])
    before = source.do("DUMP", "k") if other.target == "quartet" else None
    source.do("PEXPIRE", "k", 100_000)
    assert migrate(source, other.port, "k", db=3) == Simple("OK")
    assert source.do("EXISTS", "k") == 0
    target.do("SELECT", 3)
    assert target.do("TYPE", "k") == kind
    assert 0 < target.do("PTTL", "k") <= 100_000
    if before:
        assert target.do("DUMP", "k") == before


@pytest.mark.quartet_only
def test_redis_hands_keys_to_quartet(source, server):
    redis = Server(target="redis").start()
    with Connection(redis.port) as connection:
        for kind, (command, _, *words) in COMMANDS.items():
            connection.do(command, kind, *words)
        assert migrate(connection, server.port, "", "KEYS", *COMMANDS) == Simple("OK")
        assert connection.do("DBSIZE") == 0
    redis.close()
    assert {kind: source.do("TYPE", kind) for kind in COMMANDS} == {kind: kind for kind in COMMANDS}


def test_options(source, target, other):
    assert migrate(source, other.port, "k") == Simple("NOKEY")
    source.do("MSET", "a", 1, "b", 2, "c", 3)
    target.do("SET", "b", "there")
    assert migrate(source, other.port, "a", "COPY") == Simple("OK")
    assert source.do("GET", "a") == target.do("GET", "a") == "1"
    busy = "ERR Target instance replied with error: BUSYKEY Target key name already exists."
    assert migrate(source, other.port, "", "KEYS", "b", "none", "c") == ReplyError(busy)
    assert source.do("MGET", "a", "b", "c") == ["1", "2", None], "what arrived is gone here, what did not is not"
    assert migrate(source, other.port, "", "REPLACE", "KEYS", "a", "b") == Simple("OK")
    assert source.do("DBSIZE") == 0
    assert target.do("MGET", "a", "b", "c") == ["1", "2", "3"]


def test_words_that_are_no_options(source):
    source.do("SET", "k", 1)
    assert migrate(source, 1, "k", "KEYS", "a").startswith("ERR When using MIGRATE KEYS option")
    assert migrate(source, 1, "k", "AUTH") == ReplyError("ERR syntax error")
    assert migrate(source, 1, "k", "AUTH2", "user") == ReplyError("ERR syntax error")
    assert migrate(source, 1, "k", "x") == ReplyError("ERR syntax error")
    assert migrate(source, 1, "k", db="x") == ReplyError("ERR value is not an integer or out of range")
    assert source.do("COMMAND", "GETKEYS", "MIGRATE", "h", 1, "", 0, 1, "AUTH", "keys", "KEYS", "a", "b") == ["a", "b"]


def test_credentials(source, target, other):
    target.do("ACL", "SETUSER", "mover", "on", ">secret", "~*", "+@all")
    target.do("ACL", "SETUSER", "default", ">other")
    try:
        source.do("SET", "k", 1)
        assert "NOAUTH" in migrate(source, other.port, "k")
        wrong = migrate(source, other.port, "k", "AUTH2", "mover", "wrong")
        assert wrong.startswith("ERR Target instance replied with error: WRONGPASS")
        assert source.do("GET", "k") == "1"
        assert migrate(source, other.port, "k", "AUTH2", "mover", "secret") == Simple("OK")
        source.do("SET", "l", 1)
        assert migrate(source, other.port, "l", "AUTH", "other") == Simple("OK")
        assert target.do("MGET", "k", "l") == ["1", "1"]
    finally:
        target.do("ACL", "SETUSER", "default", "nopass")


@pytest.mark.parametrize(
    "answer, failure",
    [
        (b"", "IOERR error or timeout reading to target instance"),
        (b"+OK\r\n", "IOERR error or timeout reading to target instance"),
        (b"x" * 200_000, "IOERR error or timeout reading to target instance"),
        (b"$-9\r\n", "IOERR error or timeout reading to target instance"),
        (b"-ERR no\r\n+OK\r\n", "ERR Target instance replied with error: ERR no"),
    ],
)
@pytest.mark.quartet_only
def test_a_target_that_fails_costs_no_key(source, answer, failure):
    peer = Peer(answer)
    peer.may_answer.set()
    source.do("SET", "k", 1)
    # Only what is not answered runs out of time.
    assert migrate(source, peer.port, "k", timeout=2000 if failure.startswith("IOERR") else 60_000) == ReplyError(failure)
    assert source.do("GET", "k") == "1"


def test_nobody_is_there(source):
    """go-redis' own suite waits for this text: Redis learns that it was refused when it writes."""
    source.do("SET", "k", 1)
    assert migrate(source, free_port(), "k") == ReplyError("IOERR error or timeout writing to target instance")
    assert source.do("GET", "k") == "1"


@pytest.mark.quartet_only
def test_a_key_that_changes_meanwhile_stays(source, server):
    """Nothing stands still while the target is asked: a write of that time must not be lost."""
    peer = Peer(b"+OK\r\n" * 4)
    source.do("MSET", "a", 1, "b", 2, "c", 3)
    source.do("CONFIG", "SET", "notify-keyspace-events", "Eg")
    with Connection(server.port) as writer, Connection(server.port) as listener:
        listener.do("SUBSCRIBE", "__keyevent@0__:del")
        source.send("MIGRATE", "127.0.0.1", peer.port, "", 0, 60_000, "KEYS", "a", "b", "c")
        assert peer.has_received.wait(60)
        writer.do("APPEND", "a", "x")
        writer.do("EXPIRE", "b", 1000)
        peer.may_answer.set()
        assert source.read().startswith("ERR 2 of the keys changed while they were migrated")
        assert writer.do("MGET", "a", "b", "c") == ["1x", "2", None]
        assert listener.read() == ["message", "__keyevent@0__:del", "c"]
    source.do("CONFIG", "SET", "notify-keyspace-events", "")
