"""Long strings are kept in chunks: every command that reads or writes one answers as Redis does, across the bounds of chunks, through kills, and on replicas."""

from __future__ import annotations

import random

import pytest

from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.quartet_only

CHUNK = 960
KEYS = ["a", "b", "c", "d"]


def offset(rng: random.Random) -> int:
    near_a_bound = max(0, CHUNK * rng.randrange(20) + rng.randint(-3, 3))
    return rng.choice([rng.randrange(80_000), near_a_bound, rng.randrange(100)])


def value(rng: random.Random) -> bytes:
    length = rng.choice([rng.randrange(40), rng.randrange(12_000), CHUNK + rng.randint(-2, 2), 65_536 + rng.randint(-2, 20_000)])
    return bytes([rng.choice([0, 0, 7, 0x78, 255])]) * length


def index(rng: random.Random) -> str:
    return str(rng.choice([1, 1, 1, -1]) * offset(rng))


def command(rng: random.Random) -> list:
    key, other, at = rng.choice(KEYS), rng.choice(KEYS), offset(rng)
    kind = rng.choice(["u8", "i5", "i64", "u63", "u1"])
    small = str(rng.randint(-300, 300))
    return rng.choice([
        lambda: ["SET", key, value(rng)],
        lambda: ["SET", key, value(rng), "GET"],
        lambda: ["GETSET", key, value(rng)],
        lambda: ["APPEND", key, value(rng)],
        lambda: ["APPEND", key, value(rng)[:20]],
        lambda: ["SETRANGE", key, str(at), value(rng)[: rng.randrange(9000)]],
        lambda: ["SETRANGE", key, str(at), "sixteen new ones"],
        lambda: ["SETBIT", key, str(8 * at + rng.randrange(8)), rng.choice("01")],
        lambda: ["SETBIT", key, str(8 * at + rng.randrange(8)), rng.choice("01")],
        lambda: ["BITFIELD", key, "SET", kind, str(8 * at + rng.randrange(8)), small, "INCRBY", kind, f"#{offset(rng) // 8}", small, "GET", "i64", str(8 * offset(rng))],
        lambda: ["BITFIELD", key, "OVERFLOW", "FAIL", "INCRBY", "u4", str(8 * at), small, "INCRBY", "u4", str(8 * at + 4), small],
        lambda: ["BITFIELD_RO", key, "GET", kind, str(8 * at), "GET", "u16", "#1"],
        lambda: ["GETBIT", key, str(8 * at)],
        lambda: ["GETRANGE", key, index(rng), index(rng)],
        lambda: ["GET", key],
        lambda: ["MGET", *KEYS],
        lambda: ["STRLEN", key],
        lambda: ["BITCOUNT", key],
        lambda: ["BITCOUNT", key, index(rng), index(rng), rng.choice(["BYTE", "BIT"])],
        lambda: ["BITPOS", key, rng.choice("01")],
        lambda: ["BITPOS", key, rng.choice("01"), index(rng)],
        lambda: ["BITPOS", key, rng.choice("01"), index(rng), index(rng), rng.choice(["BYTE", "BIT"])],
        lambda: ["BITOP", rng.choice(["AND", "OR", "XOR"]), key, other, rng.choice(KEYS)],
        lambda: ["BITOP", "NOT", key, other],
        lambda: ["COPY", key, other, "REPLACE"] if key != other else ["TYPE", key],
        lambda: ["RENAME", key, other],
        lambda: ["DEL", key],
        lambda: ["INCR", key],
        lambda: ["PFADD", key, small],
        lambda: ["PFCOUNT", key],
        lambda: ["EXPIREAT", key, "4102444800"],
        lambda: ["GETEX", key, "PERSIST"],
        lambda: ["OBJECT", "ENCODING", key] if rng.random() < 0.2 else ["EXISTS", key],
        lambda: ["EVAL", "redis.call('SETRANGE', KEYS[1], ARGV[1], 'by a script') return redis.call('APPEND', KEYS[1])", "1", key, str(at)],
        lambda: ["MULTI"],
        lambda: ["EXEC"],
        lambda: ["DISCARD"],
    ])()


def plain(reply):
    """An error of a script names a line and a digest of its own."""
    text = str(reply)
    return text.split(" script")[0] if "script" in text else repr(reply)


def run_both(rng: random.Random, ours: Connection, theirs: Connection, steps: int) -> None:
    for step in range(steps):
        words = command(rng)
        answers = [plain(connection.do(*words)) for connection in (ours, theirs)]
        assert answers[0] == answers[1], (step, [word[:60] for word in words], *(answer[:200] for answer in answers))


def values(connection: Connection) -> dict:
    return {key: (connection.do("GET", key), connection.do("PEXPIRETIME", key)) for key in KEYS}


@pytest.fixture(scope="module")
def redis_server():
    with Server(target="redis") as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_random_commands_answer_as_redis_does_and_survive_kills(redis_server, engine):
    rng = random.Random(29)
    server = Server(durability="always", options=["--engine", engine]).start()
    try:
        with Connection(redis_server.port) as theirs:
            theirs.do("FLUSHALL")
            for _ in range(4):
                with Connection(server.port) as ours:
                    run_both(rng, ours, theirs, 250)
                    for connection in (ours, theirs):
                        connection.do("DISCARD")
                    before = values(ours)
                    assert before == values(theirs)
                server.kill()
                server.start()
                with Connection(server.port) as ours:
                    assert values(ours) == before
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_replica_has_the_same_long_strings(server):
    """A first copy of chunked values, and then their changes as commands."""
    rng = random.Random(7)
    replica = Server(target="redis").start()
    try:
        with Connection(server.port) as ours, Connection(replica.port) as theirs:
            ours.do("FLUSHALL")
            ours.do("SETRANGE", "sparse", "3000000", "x")
            ours.do("SET", "a", b"\x07" * 200_000)
            theirs.do("REPLICAOF", "127.0.0.1", str(server.port))
            while "master_link_status:up" not in str(theirs.do("INFO", "replication")):
                theirs.do("BLPOP", "nothing", "0.01")
            for _ in range(300):
                ours.do(*command(rng))
            ours.do("DISCARD")
            ours.do("SETBIT", "sparse", "12345678", "1")
            assert ours.do("WAIT", "1", "20000") == 1
            assert values(ours) == values(theirs)
            assert ours.do("GET", "sparse") == theirs.do("GET", "sparse")
    finally:
        replica.close()


def test_a_dump_of_a_sparse_value_comes_back(server):
    with Connection(server.port) as ours:
        ours.do("DEL", "a", "b")
        ours.do("SETRANGE", "a", "300000", "tail")
        ours.do("SETRANGE", "a", "100000", "middle")
        ours.do("RESTORE", "b", "0", ours.do("DUMP", "a"))
        assert ours.do("GET", "b") == ours.do("GET", "a") == "\0" * 100_000 + "middle" + "\0" * 199_994 + "tail"
        assert ours.do("DEBUG", "DIGEST-VALUE", "a") == ours.do("DEBUG", "DIGEST-VALUE", "b")
        # Zeros that nobody wrote take no room; a value that comes whole is kept whole until it is changed.
        assert ours.do("MEMORY", "USAGE", "a") < 20_000
        ours.do("SETBIT", "b", 1, 1)
        assert ours.do("MEMORY", "USAGE", "b") < 20_000
