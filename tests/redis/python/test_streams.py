"""Streams and places as redis-py has them, readers that wait, and groups that share work."""

import threading
import time

import pytest
import redis

from harness.resp import ReplyError


def test_entries_come_back(r):
    first = r.xadd("s", {"a": "1", "b": "2"})
    second = r.xadd("s", {"a": "3"}, maxlen=100, approximate=True)
    assert r.xrange("s") == [(first, {"a": "1", "b": "2"}), (second, {"a": "3"})]
    assert r.xrevrange("s", count=1) == [(second, {"a": "3"})]
    assert r.xlen("s") == 2 and r.xdel("s", first) == 1 and r.xtrim("s", maxlen=0) == 1
    assert r.xinfo_stream("s")["last-generated-id"] == second


def test_a_group_shares_and_hands_over(r):
    assert r.xgroup_create("s", "g", mkstream=True)
    ids = [r.xadd("s", {"n": number}) for number in range(4)]
    r.xreadgroup("g", "a", {"s": ">"}, count=3)
    assert r.xpending("s", "g") == {"pending": 3, "min": ids[0], "max": ids[2], "consumers": [{"name": "a", "pending": 3}]}
    assert r.xack("s", "g", ids[0]) == 1
    assert r.xclaim("s", "g", "b", 0, [ids[1]]) == [(ids[1], {"n": "1"})]
    assert r.xautoclaim("s", "g", "b", 0, justid=True) == [ids[1], ids[2]]
    assert [entry["message_id"] for entry in r.xpending_range("s", "g", "-", "+", 10, consumername="b")] == ids[1:3]
    assert [consumer["pending"] for consumer in r.xinfo_consumers("s", "g")] == [0, 2]
    group = r.xinfo_groups("s")[0]
    assert (group["entries-read"], group["lag"]) == (3, 1)
    full = r.xinfo_stream("s", full=True)
    assert full["length"] == 4 and len(full["groups"]) == 1


def test_a_group_is_made_once(r):
    r.xgroup_create("s", "g", mkstream=True)
    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        r.xgroup_create("s", "g")
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        r.xreadgroup("other", "c", {"s": ">"})


def test_readers_wait_for_entries(connect, raw):
    reader = connect(protocol=2)
    reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "t", "$", "$")
    blocked(raw)
    raw.do("XADD", "t", "1-1", "a", "1")
    assert reader.read() == [["t", [["1-1", ["a", "1"]]]]]


def test_a_wait_ends_in_time(connect):
    reader = connect(protocol=2)
    start = time.monotonic()
    reader.do("XREAD", "BLOCK", 50, "STREAMS", "s", "$")
    assert time.monotonic() - start > 0.04


def test_a_waiting_consumer_learns_that_its_group_is_gone(connect, raw):
    raw.do("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    reader = connect(protocol=2)
    reader.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "s", ">")
    blocked(raw)
    raw.do("XGROUP", "DESTROY", "s", "g")
    reply = reader.read()
    assert isinstance(reply, ReplyError) and str(reply).startswith("NOGROUP")


def blocked(connection) -> None:
    deadline = time.monotonic() + 60
    while "blocked_clients:0" in connection.do("INFO", "clients"):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_consumers_lose_and_double_nothing(connect):
    """Consumers that wait share what producers add; each entry is given once and acknowledged once."""
    entries, consumers = 400, 4
    connect().do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    given: list[list[str]] = [[] for _ in range(consumers)]

    def consume(name, mine):
        connection = connect(protocol=2)
        while True:
            ((_, batch),) = connection.do("XREADGROUP", "GROUP", "g", name, "COUNT", 7, "BLOCK", 0, "STREAMS", "s", ">")
            for identifier, fields in batch:
                assert connection.do("XACK", "s", "g", identifier) == 1
                if fields[1] == "stop":
                    return
                mine.append(fields[1])

    threads = [threading.Thread(target=consume, args=(f"c{index}", mine)) for index, mine in enumerate(given)]
    for thread in threads:
        thread.start()
    producer = connect()
    for number in range(entries):
        producer.do("XADD", "s", "*", "n", number)
    while any(thread.is_alive() for thread in threads):
        producer.do("XADD", "s", "*", "n", "stop")
        time.sleep(0.01)
    assert sorted(int(number) for mine in given for number in mine) == list(range(entries))


def test_places_are_found(r):
    r.geoadd("g", [13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"])
    assert r.geodist("g", "Palermo", "Catania", unit="km") == 166.2742
    assert r.geohash("g", "Palermo") == ["sqc8b49rny0"]
    assert r.geosearch("g", longitude=15, latitude=37, radius=200, unit="km", sort="ASC", withdist=True) == [["Catania", 56.4413], ["Palermo", 190.4424]]
    assert r.geosearchstore("near", "g", member="Palermo", width=100, height=100, unit="km", storedist=True) == 1
    assert r.zscore("near", "Palermo") == 0
