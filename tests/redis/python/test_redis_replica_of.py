"""Quartet as the replica of another server: REPLICAOF with a real redis-server, and with a source that stops where a test wants it to."""

from __future__ import annotations

import socket
import threading

import pytest

from harness.admin import Admin
from harness.certificates import make
from harness.redis_copy import contents, fill, until
from harness.resp import Connection, ReplyError, encode
from harness.server import Server, free_port

EMPTY_RDB = b"REDIS0011\xff" + bytes(8)
STREAM = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def replica():
    with Server(durability="always") as server:
        yield server


@pytest.fixture
def redis():
    options = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb", "--repl-ping-replica-period", "1"]
    with Server(target="redis", options=options) as server:
        yield server


def info(port: int, field: str) -> str:
    with Connection(port) as connection:
        lines = str(connection.do("INFO")).splitlines()
    return next((line.split(":", 1)[1] for line in lines if line.startswith(field + ":")), "")


def follow(replica: Server, source: Server) -> None:
    with Connection(replica.port) as connection:
        assert connection.do("REPLICAOF", "127.0.0.1", source.port) == "OK"
    until(lambda: info(replica.port, "master_link_status") == "up")


def in_step(replica: Server, source: Server) -> None:
    """Waits until the replica has everything, and compares it."""
    until(lambda: info(source.port, "master_repl_offset") == info(replica.port, "slave_repl_offset"))
    assert contents(replica.port) == contents(source.port)


def has(port: int, key: str, value: str) -> bool:
    with Connection(port) as connection:
        return connection.do("GET", key) == value


def test_a_replica_follows_shows_itself_and_is_promoted(redis, replica):
    fill(redis.port)
    with Connection(replica.port) as there, Connection(redis.port) as here:
        there.do("SET", "own", "goes")
        there.do("FUNCTION", "LOAD", "#!lua name=own\nredis.register_function('own', function() return 1 end)")
        follow(replica, redis)
        in_step(replica, redis)
        assert there.do("EXISTS", "own", "quartet:import") == 0 and there.do("FCALL_RO", "own", 0).startswith("ERR Function not found")
        here.do("MULTI")
        for words in (["SELECT", 9], ["INCR", "number"], ["SPOP", "set", 3], ["SELECT", 0], ["DEL", "zset"]):
            here.do(*words)
        here.do("EXEC")
        in_step(replica, redis)
        assert there.do("ROLE")[:4] == ["slave", "127.0.0.1", redis.port, "connected"]
        assert info(replica.port, "role") == "slave" and info(redis.port, "connected_slaves") == "1"
        assert f"port={replica.port},state=online" in info(redis.port, "slave0")
        for words in (["SET", "a", 1], ["EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "a"], ["FLUSHALL"], ["SWAPDB", 0, 1]):
            assert "READONLY You can't write against a read only replica." in there.do(*words), words
        assert there.do("GET", "string") == "value"
        assert there.do("REPLICAOF", "127.0.0.1", redis.port) == "OK Already connected to specified master"
        assert there.do("REPLICAOF", "NO", "ONE") == "OK"
        assert there.do("SET", "a", 1) == "OK" and there.do("ROLE")[0] == "master"
        here.do("SET", "later", 1)
    replica.kill()
    replica.start()
    assert info(replica.port, "role") == "master" and has(replica.port, "a", "1") and not has(replica.port, "later", "1")


def test_a_broken_link_and_a_killed_replica_go_on_where_they_were(redis, replica):
    fill(redis.port)
    follow(replica, redis)
    with Connection(redis.port) as here:
        assert here.do("CLIENT", "KILL", "TYPE", "replica") == 1
        here.do("SET", "after", "the break")
        until(lambda: has(replica.port, "after", "the break"))
        assert info(redis.port, "sync_partial_ok") == "1"
        replica.kill()
        here.do("INCR", "number")
        replica.start()
        until(lambda: info(replica.port, "master_link_status") == "up")
        in_step(replica, redis)
    assert (info(redis.port, "sync_full"), info(redis.port, "sync_partial_ok")) == ("1", "2")
    # What the source no longer knows begins anew, without what is gone.
    replica.kill()
    with Connection(redis.port) as here:
        here.do("CONFIG", "SET", "repl-backlog-size", 16384)
        here.do("DEL", "after")
        for _ in range(20):
            here.do("SET", "long", "x" * 10_000)
    replica.start()
    until(lambda: info(replica.port, "master_link_status") == "up")
    in_step(replica, redis)


def test_a_source_that_wants_a_password_is_followed_once_it_is_known(replica):
    redis = Server(target="redis", options=["--repl-diskless-sync-delay", "0"]).start()
    try:
        with Connection(redis.port) as here, Connection(replica.port) as there:
            here.do("SET", "a", "secret")
            here.do("CONFIG", "SET", "requirepass", "hidden")
            there.do("REPLICAOF", "127.0.0.1", redis.port)
            until(lambda: info_says_refused(replica))
            assert info(replica.port, "master_link_status") == "down"
            there.do("CONFIG", "SET", "masterauth", "hidden")
            until(lambda: there.do("GET", "a") == "secret")
    finally:
        redis.close()


def parameter(connection: Connection, name: str) -> str:
    found = connection.do("CONFIG", "GET", name)
    return dict(zip(found[::2], found[1::2]))[name] if isinstance(found, list) else found[name]


def test_a_user_of_the_source_is_shown_and_the_parameters_tell(replica):
    """As an operator of Redis sets it up: a user that may do nothing but replicate."""
    redis = Server(target="redis", options=["--repl-diskless-sync-delay", "0"]).start()
    try:
        with Connection(redis.port) as here, Connection(replica.port) as there:
            here.do("SET", "a", "1")
            here.do("ACL", "SETUSER", "copies", "on", ">hidden", "+psync", "+replconf", "+ping")
            here.do("ACL", "SETUSER", "cannot", "on", ">hidden", "+ping")
            here.do("ACL", "SETUSER", "default", "resetpass", ">other")
            assert parameter(there, "replicaof") == "" == parameter(there, "slaveof")
            there.do("CONFIG", "SET", "masteruser", "cannot", "masterauth", "hidden")
            there.do("REPLICAOF", "127.0.0.1", redis.port)
            assert parameter(there, "replicaof") == f"127.0.0.1 {redis.port}" == parameter(there, "slaveof")
            assert (parameter(there, "masteruser"), parameter(there, "masterauth")) == ("cannot", "hidden")
            until(lambda: any("NOPERM" in line for line in replica.output))
            there.do("CONFIG", "SET", "masteruser", "copies")
            until(lambda: there.do("GET", "a") == "1")
            assert not any("hidden" in line for line in replica.output)
            there.do("MULTI")
            assert there.do("REPLICAOF", "NO", "ONE") == "ERR Command not allowed inside a transaction"
            there.do("DISCARD")
            there.do("REPLICAOF", "NO", "ONE")
            assert parameter(there, "replicaof") == ""
    finally:
        redis.close()


def test_a_source_is_followed_over_tls(replica, tmp_path):
    """With the names of Redis' parameters: roots of one's own, and a certificate of one's own that the source asks for."""
    (tmp_path / "strange").mkdir()
    made, strange, port = make(tmp_path), make(tmp_path / "strange"), free_port()
    options = ["--tls-port", port, "--tls-cert-file", made.certificate, "--tls-key-file", made.key, "--tls-ca-cert-file", made.root]
    options += ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--bind", "127.0.0.1", "127.0.0.2"]
    redis = Server(target="redis", options=[str(option) for option in options]).start()
    try:
        with Connection(redis.port) as here, Connection(replica.port) as there:
            fill(redis.port)
            there.do("CONFIG", "SET", "tls-replication", "yes", "tls-ca-cert-file", strange.root)
            there.do("CONFIG", "SET", "tls-client-cert-file", made.certificate, "tls-client-key-file", made.key)
            # Another name of the same place: Redis looks at who has signed, and not at names.
            there.do("REPLICAOF", "127.0.0.2", port)
            until(lambda: any("TLS with rediss://" in line for line in replica.output))
            assert info(replica.port, "master_link_status") == "down" and there.do("DBSIZE") == 0
            there.do("CONFIG", "SET", "tls-ca-cert-file", made.root)
            until(lambda: info(replica.port, "master_link_status") == "up")
            in_step(replica, redis)
            here.do("SET", "large", "x" * 3_000_000)
            in_step(replica, redis)
            assert f"port={replica.port},state=online" in info(redis.port, "slave0")
            there.do("CONFIG", "SET", "tls-replication", "no")
            there.do("REPLICAOF", "NO", "ONE")
    finally:
        redis.close()


def info_says_refused(replica: Server) -> bool:
    return any("REPLICAOF has ended" in line for line in replica.output)


class Source:
    """A source that sends so much of a first copy, and then what a test tells it to."""

    def __init__(self, records: bytes = EMPTY_RDB, sends: int | None = None):
        self.records, self.sends = records, len(records) if sends is None else sends
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        self.begun = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(accepted)
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        try:
            received = b""
            while b"PSYNC" not in received:
                part = accepted.recv(4096)
                if not part:
                    return
                received += part
                accepted.sendall(b"+OK\r\n" * part.count(b"REPLCONF"))
            begin = f"+FULLRESYNC {STREAM} 0\r\n${len(self.records)}\r\n".encode()
            accepted.sendall(begin + self.records[: self.sends])
            self.begun.set()
            while accepted.recv(4096):
                pass
        except OSError:
            pass

    def say(self, *requests) -> None:
        self.sockets[-1].sendall(b"".join(encode(*request) for request in requests))

    def close(self) -> None:
        self.listener.close()
        for accepted in self.sockets:
            accepted.close()


def test_part_of_a_first_copy_is_never_shown(replica):
    """A client that reads while the first copy arrives, or after it broke, must not take what is there for the whole."""
    with Connection(replica.port) as there:
        for number in range(3000):
            there.send("SET", f"key{number}", "x" * 1000)
        for _ in range(3000):
            there.read()
        there.send_bytes(b"SYNC\r\n")
        received = b""
        while b"\r\n" not in received:
            received += there.socket.recv(1 << 16)
        line, records = received.lstrip(b"\n").split(b"\r\n", 1)
        while len(records) < int(line.removeprefix(b"$")):
            records += there.socket.recv(1 << 16)
    source = Source(records, sends=len(records) // 2)
    try:
        with Connection(replica.port) as there:
            there.do("SET", "own", "goes")
            assert there.do("REPLICAOF", "127.0.0.1", source.port) == "OK"
            assert source.begun.wait(60)
            until(lambda: str(there.do("GET", "own")).startswith("LOADING"))
            assert info(replica.port, "master_sync_in_progress") == "1"
            for words in (["SET", "a", 1], ["DBSIZE"], ["EVAL", "return 1", 0], ["SAVE"], ["PING"]):
                assert there.do(*words) == "LOADING Redis is loading the dataset in memory", words
        replica.kill()
        source.close()
        replica.start()
        with Connection(replica.port) as there:
            assert there.do("GET", "key1").startswith("LOADING")
            assert there.do("REPLICAOF", "NO", "ONE") == "OK"
            assert there.do("DBSIZE") == 0 and there.do("SET", "a", 1) == "OK"
    finally:
        source.close()


def test_nothing_expires_before_the_source_says_so(replica):
    """The stream arrives late: a deadline that the source has taken back in time had passed here, and the key was lost."""
    source = Source()
    try:
        with Connection(replica.port) as there:
            there.do("REPLICAOF", "127.0.0.1", source.port)
            assert source.begun.wait(60)
            source.say(
                ["SELECT", 0],
                ["SET", "kept", "1", "PXAT", 1000],
                ["PEXPIREAT", "kept", 2000],
                ["HSET", "hash", "f", "v"],
                ["PEXPIREAT", "hash", 2000],
                ["PERSIST", "hash"],
                ["SET", "over", "1", "PXAT", 1000],
                ["INCR", "kept"],
                ["PERSIST", "kept"],
                ["PUBLISH", "channel", "message"],
                ["SET", "last", 1],
            )
            until(lambda: there.do("GET", "last") == "1")
            assert there.do("GET", "kept") == "2" and there.do("HGET", "hash", "f") == "v"
            # To clients it is over, and its rows go when the source says so.
            assert there.do("GET", "over") is None and there.do("DBSIZE") == 4
            source.say(["DEL", "over"], ["SET", "last", 2])
            until(lambda: there.do("GET", "last") == "2")
            assert there.do("DBSIZE") == 3
    finally:
        source.close()


def test_waiting_and_queueing_clients_get_an_error(replica):
    source = Source()
    try:
        with Connection(replica.port) as waits, Connection(replica.port) as queues, Connection(replica.port) as there:
            waits.send("BLPOP", "list", 0)
            queues.do("MULTI")
            queues.do("SET", "a", 1)
            until(lambda: info(replica.port, "blocked_clients") == "1")
            there.do("REPLICAOF", "127.0.0.1", source.port)
            assert waits.read().startswith("UNBLOCKED")
            assert queues.do("EXEC").startswith("EXECABORT")
            assert source.begun.wait(60)
            source.say(["SELECT", 0], ["RPUSH", "list", "x"])
            until(lambda: there.do("LLEN", "list") == 1)
    finally:
        source.close()


def test_nobody_replicates_himself(replica):
    with Connection(replica.port) as there:
        there.do("SET", "a", 1)
        assert there.do("REPLICAOF", "127.0.0.1", replica.port) == "OK"
        until(lambda: any("NOMASTERLINK" in line for line in replica.output))
        assert there.do("GET", "a") == "1" and info(replica.port, "master_link_status") == "down"
        assert there.do("REPLICAOF", "NO", "ONE") == "OK" and there.do("SET", "a", 2) == "OK"


def test_only_the_operator_may_and_only_where_it_is_allowed(replica):
    listing = Server(options=["--migrate-targets", "127.0.0.1:1"]).start()
    try:
        with Connection(listing.port) as connection:
            refused = connection.do("REPLICAOF", "127.0.0.1", 2)
            assert isinstance(refused, ReplyError) and "REPLICAOF 127.0.0.1:2 is not allowed" in refused
            assert connection.do("REPLICAOF", "127.0.0.1", "x") == "ERR Invalid master port"
    finally:
        listing.close()
    made = Admin(replica).create("guests")
    with Connection(replica.port) as connection:
        assert connection.do("AUTH", "guests", made["credentials"]["token"]) == "OK"
        for words in (["REPLICAOF", "127.0.0.1", free_port()], ["REPLICAOF", "NO", "ONE"], ["PSYNC", "?", "-1"], ["SYNC"]):
            assert connection.do(*words) == f"ERR Command is not available: '{words[0]}'"
        assert connection.do("REPLCONF", "quartet-none", "").startswith("ERR")
    with Connection(replica.port) as connection:
        assert connection.do("REPLCONF", "quartet-none", "").startswith("ERR Unrecognized REPLCONF option")
