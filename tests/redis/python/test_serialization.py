"""DUMP and RESTORE between Quartet and a real Redis, in both directions; and payloads that are none."""

from __future__ import annotations

import random

import pytest

from harness.resp import Connection, ReplyError
from harness.server import Server

READ = {
    "string": ["GET"],
    "list": ["LRANGE", 0, -1],
    "set": ["SMEMBERS"],
    "zset": ["ZRANGE", 0, -1, "WITHSCORES"],
    "hash": ["HGETALL"],
    "stream": ["XRANGE", "-", "+"],
}
WRONG_TRAILER = "ERR DUMP payload version or checksum are wrong"
PIECES = ["", "a", "1", "-129", "70000", "9223372036854775807", "x" * 40, "ab" * 300, "é", "\x00\r\n", "y" * 5000]


@pytest.fixture
def connection(server):
    with Connection(server.port) as connection:
        yield connection


@pytest.fixture(scope="module")
def redis():
    server = Server(target="redis").start()
    with Connection(server.port) as connection:
        yield connection
    server.close()


def value(connection, key: str):
    """Type and contents, without an order where there is none."""
    kind = str(connection.do("TYPE", key))
    command, *rest = READ[kind]
    found = connection.do(command, key, *rest)
    if kind == "hash":
        found = sorted(zip(found[::2], found[1::2]))
    return kind, sorted(found) if kind == "set" else found


def fill(connection, seed: int, key: str) -> None:
    """A value of some kind and size, the same for each seed."""
    choice = random.Random(seed)
    size = choice.choice([1, 2, 5, 100, 600])
    pieces = [choice.choice(PIECES) if choice.random() < 0.3 else str(choice.randrange(-40000, 40000)) for _ in range(size)]
    pairs = [part for piece in pieces for part in (piece, choice.choice(PIECES))]
    scores = [part for piece in pieces for part in (choice.choice(["0", "1.5", "-inf", "inf", "0.125", "-3"]), piece)]
    integers = [str(choice.randrange(-(10 ** choice.randrange(1, 18)), 10**18)) for _ in range(size)]
    commands = [
        ["SET", key, choice.choice(PIECES)],
        ["RPUSH", key, *pieces],
        ["SADD", key, *pieces],
        ["SADD", key, *integers],
        ["HSET", key, *pairs],
        ["ZADD", key, *scores],
    ]
    connection.do("DEL", key)
    connection.do(*commands[seed % len(commands)])


@pytest.mark.quartet_only
@pytest.mark.parametrize("seed", range(60))
def test_values_travel_in_both_directions(connection, redis, seed):
    for source, target in [(connection, redis), (redis, connection)]:
        fill(source, seed, "from")
        payload = source.do("DUMP", "from")
        target.do("RESTORE", "to", 0, payload, "REPLACE")
        assert value(target, "to") == value(source, "from")


def fill_stream(connection, seed: int, key: str) -> None:
    """A stream with entries of several shapes, some deleted, and groups in the midst of their work."""
    choice = random.Random(seed)
    connection.do("DEL", key)
    ids = []
    for number in range(1, choice.choice([2, 4, 130, 450])):
        ids.append(f"{choice.choice([number, number * 10**9])}-{number}" if seed % 2 else f"{number}-{choice.randrange(1, 2**63)}")
        if ids != sorted(ids, key=lambda text: tuple(map(int, text.split("-")))):
            ids.pop()
            continue
        fields = ["f", "g"] if choice.random() < 0.8 else choice.sample(["f", "g", "1", "-5000", "h" * 70], 3)
        connection.do("XADD", key, ids[-1], *[word for field in fields for word in (field, choice.choice(PIECES))])
    for name in ["first", "second", "empty"]:
        connection.do("XGROUP", "CREATE", key, name, 0)
    connection.do("XGROUP", "CREATECONSUMER", key, "empty", "idle")
    for group, consumer, count in [("first", "a", 2), ("first", "b", 7), ("second", "a", 200)]:
        connection.do("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", key, ">")
    connection.do("XACK", key, "first", ids[0])
    connection.do("XDEL", key, *ids[1 : len(ids) // 3 : 3], "99-99")
    if seed % 3 == 0:
        connection.do("XTRIM", key, "MAXLEN", len(ids) // 2)


def described(connection, key: str):
    """All of a stream but what is Redis' inside, when consumers were seen, and the lag: it follows from the rest, since 7.4 otherwise."""

    def without(pairs, names):
        found = dict(zip(pairs[::2], pairs[1::2]))
        return {name: value for name, value in found.items() if name not in names}

    stream = without(connection.do("XINFO", "STREAM", key, "FULL", "COUNT", 0), ["radix-tree-keys", "radix-tree-nodes"])
    stream["groups"] = [without(group, ["consumers", "lag"]) | {"consumers": consumers(group)} for group in stream["groups"]]
    return stream


def consumers(group) -> list:
    found = dict(zip(group[::2], group[1::2]))["consumers"]
    # Redis 7.0 does not tell when a consumer was active.
    told = [dict(zip(consumer[::2], consumer[1::2])) for consumer in found]
    return [{name: consumer[name] for name in ["name", "seen-time", "pel-count", "pending"]} for consumer in told]


@pytest.mark.quartet_only
@pytest.mark.parametrize("seed", range(24))
def test_streams_travel_in_both_directions(connection, redis, seed):
    for source, target in [(connection, redis), (redis, connection)]:
        fill_stream(source, seed, "from")
        target.do("RESTORE", "to", 0, source.do("DUMP", "from"), "REPLACE")
        assert value(target, "to") == value(source, "from")
        assert described(target, "to") == described(source, "from")
        assert target.do("XADD", "to", "*", "f", "v") > "1"


@pytest.mark.quartet_only
def test_a_stream_keeps_its_nodes(connection):
    """So that trimming by nodes removes of a copy what it removes of the original."""
    connection.do("CONFIG", "SET", "stream-node-max-entries", 10)
    fill_stream(connection, 5, "from")
    connection.do("CONFIG", "SET", "stream-node-max-entries", 100)
    connection.do("RESTORE", "to", 0, connection.do("DUMP", "from"), "REPLACE")
    trimmed = [connection.do("XTRIM", key, "MAXLEN", "~", 42) for key in ["from", "to"]]
    assert trimmed[0] == trimmed[1] > 0
    assert connection.do("DUMP", "from") == connection.do("DUMP", "to")


@pytest.mark.quartet_only
def test_payloads_of_compact_and_of_plain_forms(connection, redis):
    """Redis writes listpacks, intsets and quicklists, or, with its limits at zero, tables of elements."""
    for limits in [{}, {"hash-max-listpack-entries": 0, "zset-max-listpack-entries": 0, "set-max-intset-entries": 0}]:
        for name, limit in limits.items():
            redis.do("CONFIG", "SET", name, limit)
        for seed in range(1, 6):
            fill(redis, seed, "from")
            connection.do("RESTORE", "to", 0, redis.do("DUMP", "from"), "REPLACE")
            assert value(connection, "to") == value(redis, "from")


@pytest.mark.quartet_only
def test_libraries_travel_in_both_directions(connection, redis):
    library = "#!lua name=l\nredis.register_function('f', function() return 'answer' end)" + "\n-- " + "x" * 100
    for source, target in [(connection, redis), (redis, connection)]:
        source.do("FUNCTION", "FLUSH")
        source.do("FUNCTION", "LOAD", library)
        target.do("FUNCTION", "RESTORE", source.do("FUNCTION", "DUMP"), "FLUSH")
        assert target.do("FCALL", "f", 0) == "answer"
        target.do("FUNCTION", "FLUSH")


def test_damaged_payloads_are_refused(connection):
    for seed in range(7):
        (fill if seed < 6 else fill_stream)(connection, seed, "from")
        payload = connection.do("DUMP", "from")
        for at in range(0, len(payload), max(1, len(payload) // 50)):
            damaged = payload[:at] + chr((ord(payload[at]) & 0x7F) ^ 1) + payload[at + 1 :]
            if damaged != payload:
                answer = connection.do("RESTORE", "to", 0, damaged, "REPLACE")
                assert answer in (ReplyError(WRONG_TRAILER), ReplyError("ERR Bad data format")), (seed, at)
        for length in range(0, len(payload), max(1, len(payload) // 20)):
            assert connection.do("RESTORE", "to", 0, payload[:length]) == ReplyError(WRONG_TRAILER)


def test_options(connection):
    connection.do("SET", "from", "value")
    payload = connection.do("DUMP", "from")
    busy = ReplyError("BUSYKEY Target key name already exists.")
    assert connection.do("RESTORE", "from", 0, payload) == busy
    assert connection.do("RESTORE", "to", -1, payload) == ReplyError("ERR Invalid TTL value, must be >= 0")
    connection.do("RESTORE", "to", 100000, payload)
    assert 0 < connection.do("PTTL", "to") <= 100000
    connection.do("RESTORE", "to", 4102444800000, payload, "ABSTTL", "REPLACE", "IDLETIME", 5)
    assert connection.do("PEXPIRETIME", "to") == 4102444800000
    connection.do("RESTORE", "to", 1, payload, "ABSTTL", "REPLACE")
    assert connection.do("EXISTS", "to") == 0
    assert connection.do("DUMP", "absent") is None


def test_a_restored_key_keeps_its_frequency(connection):
    connection.do("FLUSHALL")
    connection.do("SET", "k", "v")
    payload = connection.do("DUMP", "k").encode("utf-8", "surrogateescape")
    connection.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    try:
        assert connection.do("RESTORE", "k", 0, payload, "REPLACE", "FREQ", 100) == "OK"
        assert connection.do("OBJECT", "FREQ", "k") == 100
        assert str(connection.do("RESTORE", "k", 0, payload, "REPLACE", "FREQ", 256)) == "ERR Invalid FREQ value, must be >= 0 and <= 255"
    finally:
        connection.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
