"""The change feed: in order, without gaps, from any version that is kept, decoded as each layer's clients would say it."""

from __future__ import annotations

import base64
import json
import os
import random
import threading

import pytest
import redis
from faunadb import query as q

from formats.contents import _key_value as key_value
from harness import dynamodb, fauna
from harness.admin import Admin
from harness.changes import Changes, Refused
from harness.server import REST_READ_ONLY_TOKEN, Server

pytestmark = pytest.mark.quartet_only


@pytest.fixture
def host():
    server = Server(durability="always").start()
    yield server
    server.close()


def version_now(server) -> int:
    with Changes(server) as feed:
        return next(iter(feed))["version"]


def changes_of(server, write, **query) -> list[dict]:
    """What is told of what `write` does."""
    before = version_now(server)
    write()
    with Changes(server, from_=before, **query) as feed:
        return [change for line in feed.until(version_now(server)) for change in line["changes"]]


def test_redis_keys_are_in_the_feed(host):
    client = redis.Redis(port=host.port)

    def write():
        client.set("a", "1", pxat=32_503_680_000_000)
        client.set(b"\xff", b"\xfe")
        client.delete("a")
        client.hset("hash", mapping={"f": "v"})
        client.zadd("sorted", {"m": 1.5})
        client.rpush("list", "x", "y")
        redis.Redis(port=host.port, db=2).set("elsewhere", "")
        client.execute_command("JSON.SET", "json", "$", '{"a":[1]}')
        client.flushdb()

    assert changes_of(host, write) == [
        {"layer": "redis", "op": "put", "db": 0, "key": "a", "type": "string", "expires_ms": 32_503_680_000_000, "value": "1"},
        {"layer": "redis", "op": "put", "db": 0, "key_base64": "/w==", "type": "string", "value_base64": "/g=="},
        {"layer": "redis", "op": "delete", "db": 0, "key": "a"},
        {"layer": "redis", "op": "put", "db": 0, "key": "hash", "type": "hash", "value": [["f", "v"]]},
        {"layer": "redis", "op": "put", "db": 0, "key": "sorted", "type": "zset", "value": [["m", "1.5"]]},
        {"layer": "redis", "op": "put", "db": 0, "key": "list", "type": "list", "value": ["x", "y"]},
        {"layer": "redis", "op": "put", "db": 2, "key": "elsewhere", "type": "string", "value": ""},
        {"layer": "redis", "op": "put", "db": 0, "key": "json", "type": "ReJSON-RL", "value": {"a": [1]}},
        {"layer": "redis", "op": "clear", "db": 0},
    ]


def test_elements_of_large_collections_are_in_the_feed_with_their_key(host):
    client = redis.Redis(port=host.port)
    client.hset("hash", mapping={f"field {number}": number for number in range(1000)})
    client.zadd("sorted", {f"member {number}": number for number in range(1000)})
    client.xadd("stream", {"a": "b"}, id="1-1")

    def write():
        client.hset("hash", "field 7", "seven")
        client.zrem("sorted", "member 3")
        client.xadd("stream", {"c": "d"}, id="2-1")

    told = changes_of(host, write)
    shown = [{name: change[name] for name in change if name in ("op", "key", "element", "value", "id", "fields")} for change in told if "element" in change or "id" in change]
    assert shown == [
        {"op": "put_element", "key": "hash", "element": "field 7", "value": "seven"},
        {"op": "delete_element", "key": "sorted", "element": "member 3"},
        {"op": "put_element", "key": "stream", "id": "2-1", "fields": ["c", "d"]},
    ]


def test_long_strings_are_in_the_feed_by_their_new_part(host):
    """Who follows the feed has the string: as many zeros as its length says, and what each patch writes over them."""
    client = redis.Redis(port=host.port)

    def write():
        client.set("log", "x" * 100_000)
        client.append("log", "the end")
        client.setrange("log", 4 * 960 - 6, "across a bound")
        client.setbit("log", 8 * 200_000, 1)

    value, collection, changes = bytearray(), None, changes_of(host, write)
    for change in changes:
        assert (change["key"], change["type"]) == ("log", "string")
        if change["op"] == "put" and "value" in change:
            # It was set whole.
            value = bytearray(_bytes(change, "value"))
        elif change["op"] == "put":
            # Its first change in place makes a collection of it, which begins as zeros.
            if change["collection"] != collection:
                value, collection = bytearray(), change["collection"]
            value.extend(bytes(change["length"] - len(value)))
        else:
            assert change["op"] == "patch"
            new = _bytes(change, "value")
            value[change["offset"] : change["offset"] + len(new)] = new
    assert bytes(value) == client.get("log")
    assert sum(len(_bytes(change, "value")) for change in changes[-5:] if change["op"] == "patch") < 100


def test_large_lists_are_in_the_feed_by_their_ends_and_blocks(host):
    """Who follows the feed has the list: head, blocks by position, tail."""
    client = redis.Redis(port=host.port)

    def write():
        client.rpush("queue", *range(200))
        for number in range(300):
            client.lpush("queue", f"left {number}")
            client.rpush("queue", f"right {number}")
        for _ in range(150):
            client.lpop("queue")
            client.rpop("queue")
        client.lset("queue", 250, "set")
        client.lrem("queue", 1, "7")
        client.linsert("queue", "BEFORE", "100", "x" * 100)

    blocks, ends = {}, {}
    for change in changes_of(host, write):
        assert change["key"] == "queue"
        position = change.get("position_base64", change.get("position"))
        if change["op"] == "put":
            ends = change
        elif change["op"] == "put_elements":
            blocks[position] = change["elements"]
        elif change["op"] == "delete_elements":
            del blocks[position]
        else:
            assert change["op"] == "clear_elements"
            start, end = (_bytes(change, name) for name in ("start", "end"))
            blocks = {position: elements for position, elements in blocks.items() if not start <= base64.b64decode(position) < end}
    ordered = sorted(blocks, key=base64.b64decode)
    told = ends["head"] + [element for position in ordered for element in blocks[position]] + ends["tail"]
    assert told == [element.decode() for element in client.lrange("queue", 0, -1)]
    assert len(told) == ends["count"] and len(blocks) > 5


def _bytes(change: dict, name: str) -> bytes:
    return base64.b64decode(change[f"{name}_base64"]) if f"{name}_base64" in change else change[name].encode()


def test_items_documents_and_pairs_are_in_the_feed(host):
    items = dynamodb.connect(host)
    items.create_table(
        TableName="table",
        AttributeDefinitions=[{"AttributeName": "h", "AttributeType": "S"}, {"AttributeName": "r", "AttributeType": "N"}],
        KeySchema=[{"AttributeName": "h", "KeyType": "HASH"}, {"AttributeName": "r", "KeyType": "RANGE"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    item = {"h": {"S": "a"}, "r": {"N": "-1.5"}, "all": {"L": [{"B": b"\x00"}, {"BOOL": True}]}}
    number = {"layer": "dynamodb", "table": "table", "table_number": 1}

    def write_items():
        items.put_item(TableName="table", Item=item)
        items.delete_item(TableName="table", Key={"h": item["h"], "r": item["r"]})
        items.put_item(TableName="table", Item={"h": {"S": "b"}, "r": {"N": "2"}})

    assert changes_of(host, write_items, layer="dynamodb") == [
        {**number, "op": "put", "item": {**item, "all": {"L": [{"B": "AA=="}, {"BOOL": True}]}}},
        {**number, "op": "delete", "key": {"h": {"S": "a"}, "r": {"N": "-1.5"}}},
        {**number, "op": "put", "item": {"h": {"S": "b"}, "r": {"N": "2"}}},
    ]
    # Of a table that is gone by now the number is left.
    assert changes_of(host, lambda: items.delete_table(TableName="table"), layer="dynamodb") == [
        {**number, "op": "clear", "table": ""},
        {"layer": "dynamodb", "op": "delete_table", "table": "table"},
    ]
    documents = fauna.connect(host)
    documents.query(q.create_collection({"name": "spells"}))
    documents.query(q.create_index({"name": "all", "source": q.collection("spells")}))

    def write_documents():
        documents.query(q.create(q.ref(q.collection("spells"), "1"), {"data": {"name": "fire"}}))
        documents.query(q.delete(q.ref(q.collection("spells"), "1")))

    told = changes_of(host, write_documents, layer="fauna", prefix="spells")
    assert [(change["op"], change["collection"], change["id"]) for change in told] == [("put", "spells", "1"), ("delete", "spells", "1")]
    assert told[0]["document"] == {"data": {"name": "fire"}} and told[0]["ts"] > 0
    told = changes_of(host, lambda: key_value(host, r"writemode on; set k v; set a\x00\xfe x; clear k; clearrange a b"), layer="keyvalue")
    assert told == [
        {"layer": "keyvalue", "op": "set", "key": "k", "value": "v"},
        {"layer": "keyvalue", "op": "set", "key_base64": "YQD+", "value": "x"},
        {"layer": "keyvalue", "op": "clear", "key": "k"},
        {"layer": "keyvalue", "op": "clear_range", "start": "a", "end": "b"},
    ]


def test_a_cleared_range_is_in_the_feed_of_a_name_inside_it(host):
    """A feed of one prefix was not told of a clear that began before the prefix, so what followed it kept what was gone."""
    client = redis.Redis(port=host.port)
    client.set("session:1", "x")
    redis.Redis(port=host.port, db=2).set("elsewhere", "")
    told = changes_of(host, client.flushdb, prefix="session:")
    assert told == [{"layer": "redis", "op": "clear", "db": 0}]
    cleared = {"layer": "keyvalue", "op": "clear_range", "start": "a", "end": "z"}
    for prefix, expected in (("m/", [cleared]), ("z", []), ("A", [])):
        key_value(host, "writemode on; set n value")
        assert changes_of(host, lambda: key_value(host, "writemode on; clearrange a z"), prefix=prefix, layer="keyvalue") == expected


def test_a_token_reads_its_own_database(host):
    shop = Admin(host).create("shop")["credentials"]
    inside = redis.Redis(port=host.port, username="shop", password=shop["token"])

    def write():
        inside.set("inside", "1")
        redis.Redis(port=host.port).set("outside", "1")

    before = version_now(host)
    write()
    now = version_now(host)
    for token in (shop["token"], shop["read_only_token"]):
        with Changes(host, token=token, from_=before) as feed:
            told = feed.until(now)
        assert [change["key"] for line in told for change in line["changes"]] == ["inside"]
        assert {line["database"] for line in told if line["changes"]} == {"shop"}
    with Changes(host, token=REST_READ_ONLY_TOKEN, from_=before) as feed:
        assert [change["key"] for line in feed.until(now) for change in line["changes"]] == ["outside"]
    with Changes(host, from_=before) as feed:
        told = [(line["database"], change["key"]) for line in feed.until(now) for change in line["changes"]]
    assert told == [("shop", "inside"), ("default", "outside")]
    with Changes(host, from_=before, database="shop") as feed:
        assert {line["database"] for line in feed.until(now) if line["changes"]} == {"shop"}
    for token, status in (("wrong", 401), (shop["fauna_key"], 401)):
        with pytest.raises(Refused) as refused:
            Changes(host, token=token)
        assert refused.value.status == status
    with pytest.raises(Refused) as refused:
        Changes(host, token=shop["token"], database="default")
    assert refused.value.status == 403


def test_an_impossible_feed_is_refused(host):
    for query, status in (({"from_": "soon"}, 400), ({"layer": "sql"}, 400), ({"database": "nosuch"}, 404), ({"from_": 2**63}, 409)):
        with pytest.raises(Refused) as refused:
            Changes(host, **query)
        assert refused.value.status == status, query
    held = [Changes(host) for _ in range(8)]
    with pytest.raises(Refused) as refused:
        Changes(host)
    assert refused.value.status == 429
    for feed in held:
        feed.close()


def test_events_are_gone_on_from_by_their_id(host):
    client = redis.Redis(port=host.port)
    accept = {"Accept": "text/event-stream"}
    with Changes(host, headers=accept) as feed:
        lines = feed.lines()
        begun = next(line for line in lines if line.startswith("id: "))
        client.set("a", "1")
        first = next(line for line in lines if line.startswith("id: ") and line != begun)
        assert json.loads(next(lines).removeprefix("data: "))["changes"][0]["key"] == "a"
    client.set("b", "2")
    with Changes(host, headers={**accept, "Last-Event-ID": first.removeprefix("id: ")}) as feed:
        told = (json.loads(line.removeprefix("data: ")) for line in feed.lines() if line.startswith("data: "))
        assert next(line for line in told if line["changes"])["changes"][0]["key"] == "b"


def test_too_old_a_start_is_refused_with_the_way_out():
    options = ["--log-segment-bytes", "65536", "--log-retention-seconds", "0", "--log-retention-bytes", "0"]
    server = Server(durability="always", options=options).start()
    try:
        client = redis.Redis(port=server.port)
        client.set("first", "1")
        before = version_now(server)
        refused = None
        for _ in range(200):
            client.set("large", os.urandom(40_000))
            client.set("large", os.urandom(40_000))
            client.save()
            try:
                Changes(server, from_=before).close()
            except Refused as error:
                refused = error
                break
        assert refused is not None and refused.status == 410
        # The way out: the version of now, and on from there.
        now = version_now(server)
        assert now <= refused.body["newest"] or refused.body["newest"] > before
        client.set("after", "1")
        with Changes(server, from_=now) as feed:
            assert [change["key"] for line in feed.until(now + 1) for change in line["changes"]] == ["after"]
    finally:
        server.close()


def test_a_large_transaction_comes_in_parts_and_a_slow_reader_costs_little(host):
    client = redis.Redis(port=host.port)
    before = version_now(host)
    pipe = client.pipeline(transaction=True)
    for number in range(400):
        pipe.set(f"key:{number}", "v" * 10_000)
    pipe.execute()
    with Changes(host, from_=before) as slow:
        resident = host.rss_bytes()
        # Nobody reads meanwhile: 75 MB, which are 100 MB as lines.
        for number in range(150):
            client.set("other", os.urandom(500_000))
        assert host.rss_bytes() - resident < 60_000_000
        told = slow.until(version_now(host))
    parts = [line for line in told if len(line["changes"]) > 1]
    assert len(parts) > 5 and all(line.get("more") for line in parts[:-1]) and len({line["version"] for line in parts}) == 1
    assert [change["key"] for line in parts for change in line["changes"]] == [f"key:{number}" for number in range(400)]


def test_kills_of_both_sides_leave_no_gap_and_no_duplicate():
    """A replica is fed from the feed alone. Whatever is killed, it goes on from the version it has and ends up with the same state."""
    chosen = random.Random(int(os.environ.get("CHANGES_SEED", 1)))
    server = Server(durability="always", options=["--log-segment-bytes", "65536"]).start()
    replica, versions = {}, []
    try:
        come = version_now(server)
        for _ in range(int(os.environ.get("CHANGES_ROUNDS", 6))):
            writers = [threading.Thread(target=write_until_killed, args=(server.port, chosen.randrange(2**32))) for _ in range(3)]
            for writer in writers:
                writer.start()
            for _ in range(chosen.randrange(1, 4)):
                come = follow(server, come, chosen.randrange(5, 60), replica, versions)
            server.kill()
            for writer in writers:
                writer.join()
            server.start()
        now = version_now(server)
        with Changes(server, from_=come) as feed:
            for line in feed.until(now):
                apply(line, replica, versions)
        client = redis.Redis(port=server.port)
        state = {key: client.get(key) for key in client.scan_iter(count=1000)}
        assert replica == state and len(state) > 5
        assert versions == sorted(set(versions))
    finally:
        server.close()


def write_until_killed(port: int, seed: int) -> None:
    chosen = random.Random(seed)
    client = redis.Redis(port=port, retry=None)
    try:
        while True:
            pipe = client.pipeline(transaction=True)
            for _ in range(chosen.randrange(1, 5)):
                key = f"key:{chosen.randrange(40)}"
                if chosen.random() < 0.2:
                    pipe.delete(key)
                else:
                    pipe.set(key, str(chosen.random()))
            pipe.execute()
    except redis.RedisError:
        pass


def follow(server: Server, come: int, lines: int, replica: dict, versions: list) -> int:
    """Takes so many lines and hangs up; answers how far that was."""
    with Changes(server, from_=come) as feed:
        for line in feed:
            apply(line, replica, versions)
            come = line["version"]
            lines -= 1
            if lines == 0:
                break
    return come


def apply(line: dict, replica: dict, versions: list) -> None:
    assert "more" not in line
    if line["changes"]:
        versions.append(line["version"])
    for change in line["changes"]:
        if change["op"] == "put":
            replica[change["key"].encode()] = change["value"].encode()
        else:
            assert change["op"] == "delete"
            replica.pop(change["key"].encode(), None)


def test_a_server_stops_while_feeds_are_open(host):
    redis.Redis(port=host.port).set("a", "1")
    with Changes(host, from_=0) as first, Changes(host) as second:
        next(iter(first)), next(iter(second))
        assert host.stop() == 0
        assert not [line for line in host.output if line.startswith("Error")]
