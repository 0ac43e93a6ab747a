"""Iteration under concurrent writes, and time passing."""

import random
import threading
import time

import pytest


def test_scan_returns_everything(r):
    r.mset({f"k{number}": number for number in range(1000)})
    assert set(r.scan_iter(count=50)) == {f"k{number}" for number in range(1000)}
    assert set(r.scan_iter(match="k99*")) == {"k99"} | {f"k99{digit}" for digit in range(10)}


def test_scan_by_type(r):
    r.set("s", 1), r.rpush("l", 1), r.sadd("set", 1), r.zadd("z", {"a": 1}), r.hset("h", "a", 1)
    for kind, key in {"string": "s", "list": "l", "set": "set", "zset": "z", "hash": "h"}.items():
        assert list(r.scan_iter(_type=kind)) == [key]


@pytest.mark.parametrize("family", ["SCAN", "SSCAN", "HSCAN", "ZSCAN"])
def test_scan_guarantee_under_concurrent_writes(connect, raw, family):
    """Present from start to end: returned. Absent all the time: never returned."""
    add, remove, page = {
        "SCAN": (lambda n: ("SET", n, 1), lambda n: ("DEL", n), lambda c: ("SCAN", c, "COUNT", 20)),
        "SSCAN": (lambda n: ("SADD", "x", n), lambda n: ("SREM", "x", n), lambda c: ("SSCAN", "x", c, "COUNT", 20)),
        "HSCAN": (lambda n: ("HSET", "x", n, "v"), lambda n: ("HDEL", "x", n), lambda c: ("HSCAN", "x", c, "COUNT", 20)),
        "ZSCAN": (lambda n: ("ZADD", "x", 1, n), lambda n: ("ZREM", "x", n), lambda c: ("ZSCAN", "x", c, "COUNT", 20)),
    }[family]
    stable = {f"stable{number}" for number in range(600)}
    raw.pipeline(*[add(name) for name in sorted(stable)])
    done = threading.Event()

    def churn():
        connection, chance = connect(), random.Random(7)
        while not done.is_set():
            names = [f"churn{chance.randrange(5000)}" for _ in range(40)]
            connection.pipeline(*[add(name) for name in names], *[remove(name) for name in names[::2]])

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(3):
            seen, cursor = [], "0"
            while True:
                cursor, items = raw.do(*page(cursor))
                seen += items[::2] if family in ("HSCAN", "ZSCAN") else items
                if cursor == "0":
                    break
            assert stable <= set(seen)
            assert all(name.startswith(("stable", "churn")) for name in seen)
    finally:
        done.set()
        thread.join()


PREFIX = "https://www.example.com/a/long/address/that/all/the/keys/of/one/application/begin/with/as/they/often/do/"


@pytest.mark.quartet_only
def test_a_cursor_survives_a_restart(fresh_server, protocol):
    from harness.resp import Connection

    known = [f"{PREFIX}{number}:name" for number in range(500)] + ["", "a", "ab", "abc"]
    with Connection(fresh_server.port, protocol) as connection:
        connection.pipeline(*[("SET", name, 1) for name in known])
        cursor, seen = connection.do("SCAN", 0, "COUNT", 100)
    while cursor != "0":
        fresh_server.restart()
        with Connection(fresh_server.port, protocol) as connection:
            cursor, items = connection.do("SCAN", cursor, "COUNT", 100)
            seen += items
    assert sorted(known) == sorted(seen)


def test_a_slow_scan_ends_beside_any_number_of_quick_ones(connect, raw):
    """A cursor was the key of a table of 16,384. An iteration with small pages beside a slow one filled it between two
    steps of the slow one, which was forgotten and started over, for good. Cursors are computed from the keys since."""
    known = [f"{PREFIX}{number}" for number in range(6000)]
    raw.pipeline(*[("SET", name, 1) for name in known])
    other = connect()
    iterations = [{"cursor": "0", "seen": []} for _ in range(200)]
    calls = 0
    while open_ones := [one for one in iterations if one["cursor"] is not None]:
        for index, one in enumerate(open_ones):
            cursor, items = raw.do("SCAN", one["cursor"], "COUNT", 1500 + 10 * index)
            one["seen"] += items
            one["cursor"] = None if cursor == "0" else cursor
        # Between their steps: a whole iteration of small pages, and keys that come and go.
        quick, seen = "0", 0
        while True:
            quick, items = other.do("SCAN", quick, "COUNT", 7)
            seen += len(items)
            if quick == "0":
                break
        assert seen >= len(known)
        other.pipeline(*[("SET", f"{PREFIX}{calls}:{number}", 1) for number in range(300)])
        other.pipeline(*[("DEL", f"{PREFIX}{calls - 1}:{number}") for number in range(300)])
        calls += 1
        assert calls <= 8
    for one in iterations:
        seen = [name for name in one["seen"] if ":" not in name[len(PREFIX) :]]
        assert set(seen) == set(known)


def test_pages_of_keys_that_begin_alike_are_small(raw):
    raw.pipeline(*[("SET", f"{PREFIX}{number % 2:0200}{number}", 1) for number in range(3000)])
    cursor, longest = "0", 0
    while True:
        cursor, items = raw.do("SCAN", cursor, "COUNT", 10)
        longest = max(longest, len(items))
        if cursor == "0":
            break
    # Redis' pages are about as long as they are asked to be.
    assert longest <= 40


def test_after_reset_no_line_of_monitor_follows(connect):
    """The line that showed RESET itself came behind its reply: a pooled connection was one reply out of step."""
    connection = connect()
    assert connection.do("MONITOR") == "OK"
    connection.send("RESET")
    connection.send("PING")
    connection.send("ECHO", "x")
    assert [connection.read() for _ in range(3)] == ["RESET", "PONG", "x"]


def test_a_command_of_more_than_a_million_words(raw):
    """It was a protocol error, as before Redis 7.0, and the connection was closed."""
    raw.timeout(60)
    raw.do("SET", "key", 1)
    assert raw.do("EXISTS", *["key"] * 1_100_000) == 1_100_000


def test_a_key_is_gone_at_its_deadline(r):
    # In one go, so that a pause between the two does not count.
    assert r.pipeline().set("k", "v", px=40).get("k").execute() == [True, "v"]
    time.sleep(0.06)
    assert r.get("k") is None
    assert r.exists("k") == 0 and r.ttl("k") == -2 and r.type("k") == "none"


def test_an_expired_key_is_absent_to_every_family(raw):
    raw.pipeline(["RPUSH", "l", 1], ["SADD", "s", 1], ["HSET", "h", "a", 1], ["ZADD", "z", 1, "a"])
    raw.pipeline(*[["PEXPIRE", key, 20] for key in "lshz"])
    time.sleep(0.04)
    assert raw.pipeline(["LLEN", "l"], ["SCARD", "s"], ["HLEN", "h"], ["ZCARD", "z"], ["KEYS", "*"]) == [0, 0, 0, 0, []]
    assert raw.pipeline(["RPUSHX", "l", 1], ["SET", "s", "v", "NX"], ["RENAMENX", "s", "h"]) == [0, "OK", 1]


def test_expired_keys_leave_without_being_read(r):
    for number in range(200):
        r.set(f"k{number}", 1, px=20)
    deadline = time.monotonic() + 60
    while r.dbsize() > 0 or r.info("stats")["expired_keys"] < 200:
        assert time.monotonic() < deadline, "nobody removes expired keys"
        time.sleep(0.05)


@pytest.mark.newer("7.4")
def test_a_field_is_gone_at_its_deadline(raw):
    raw.do("HSET", "h", "a", 1, "b", 2)
    assert raw.do("HPEXPIRE", "h", 40, "FIELDS", 1, "a") == [1]
    time.sleep(0.06)
    assert raw.do("HGET", "h", "a") is None
    assert raw.do("HMGET", "h", "a", "b") == [None, "2"]
    raw.do("HPEXPIRE", "h", 20, "FIELDS", 1, "b")
    time.sleep(0.04)
    assert raw.do("HGETALL", "h") in ([], {})


def test_everything_survives_a_graceful_restart(fresh_server, protocol):
    import redis

    client = redis.Redis(port=fresh_server.port, protocol=protocol, decode_responses=True)
    client.set("s", "v", ex=1000)
    client.rpush("l", *range(300))
    client.hset("h", mapping={f"f{number}": number for number in range(300)})
    client.sadd("set", *range(300))
    client.zadd("z", {f"m{number}": number / 2 for number in range(300)})
    client.execute_command("SELECT", 0)
    client.pfadd("hll", *range(100))
    before, ends = client.pfcount("hll"), client.expiretime("s")
    client.close()
    fresh_server.restart()
    client = redis.Redis(port=fresh_server.port, protocol=protocol, decode_responses=True)
    assert client.get("s") == "v" and client.expiretime("s") == ends
    assert client.lrange("l", 0, -1) == [str(number) for number in range(300)]
    assert len(client.hgetall("h")) == 300 and client.hget("h", "f7") == "7"
    assert client.scard("set") == 300 and client.pfcount("hll") == before
    assert client.zscore("z", "m3") == 1.5 and client.zcard("z") == 300
    client.close()


@pytest.mark.parametrize("pattern", ["a*" * 40 + "b", "*a" * 40 + "c", "[a-" * 100, "\\" * 99, "*" * 1000 + "b"])
def test_patterns_cannot_blow_up(raw, pattern):
    raw.do("SET", "a" * 200, 1)
    # Without a bound it would take longer than a connection waits for a reply.
    assert raw.do("KEYS", pattern) == []
