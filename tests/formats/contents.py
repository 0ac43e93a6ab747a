"""Data of every layer, through the layers' own clients: writing some, and reading all of it back as JSON."""

from __future__ import annotations

import base64
import re
import subprocess
import tempfile

import redis
from faunadb import query as q
from faunadb.objects import FaunaTime

from harness import dynamodb, fauna
from harness.admin import Admin
from harness.server import Server, binary

# Far from now: nothing here expires while this program lives.
FAR_SECONDS = 32_503_680_000


def write_first(server: Server) -> None:
    """What goes into the checkpoint, or the base."""
    client = redis.Redis(port=server.port)
    client.set("string", b"bytes \x00\xff")
    client.set("expiring", "later", exat=FAR_SECONDS)
    client.set("large string", b"0123456789" * 400)
    client.set("chunked string", b"0123456789" * 9000)
    client.setrange("chunked string", 50_000, "patched")
    client.rpush("list", *range(5))
    client.rpush("large list", *range(200))
    client.rpush("shifted list", *range(300))
    client.lrem("shifted list", 1, 150)
    client.sadd("integers", *range(20))
    client.sadd("large set", *(f"member {number}" for number in range(200)))
    client.zadd("sorted", {"a": -1.5, "b": float("inf"), "c": 0})
    client.zadd("large sorted", {f"member {number}": number / 4 for number in range(200)})
    client.hset("hash", mapping={"name": "amy", "age": "7"})
    client.hset("large hash", mapping={f"field {number}": number for number in range(700)})
    client.hset("expiring fields", mapping={"kept": "1", "leaving": "2"})
    client.execute_command("HEXPIREAT", "expiring fields", FAR_SECONDS, "FIELDS", 1, "leaving")
    for number in range(1, 31):
        client.xadd("stream", {"number": number}, id=f"{number}-1")
    client.xgroup_create("stream", "readers", id="0")
    client.xreadgroup("readers", "first", {"stream": ">"}, count=3)
    client.xack("stream", "readers", "1-1")
    client.execute_command("JSON.SET", "json", "$", '{"a":[1,2.5,null],"b":{"c":"text"}}')
    client.function_load("#!lua name=library\nredis.register_function('one', function() return 1 end)")
    redis.Redis(port=server.port, db=3).set("elsewhere", "in database 3")
    _write_items(server)
    _write_documents(server)
    _key_value(server, r'writemode on; set plain value; set tuple\x00\xff ""; set other text')


def write_then(server: Server) -> None:
    """What is only in the log: overwrites, deletions, ranges cleared."""
    client = redis.Redis(port=server.port)
    client.set("string", "second")
    client.delete("integers")
    client.zadd("large sorted", {"member 7": 1000})
    for score in (1, 2000):
        client.zadd("large sorted", {"a long member " * 30: score})
    client.lpop("large list", 10)
    client.setrange("chunked string", 950, "across a bound")
    client.append("chunked string", "the end")
    client.set("late", "only in the log")
    _items(server).update_item(
        TableName="table", Key=_key(3), UpdateExpression="SET colour = :c", ExpressionAttributeValues={":c": {"S": "green"}}
    )
    _items(server).delete_item(TableName="table", Key=_key(4))
    client = fauna.connect(server)
    client.query(q.update(q.ref(q.collection("spells"), "1"), {"data": {"cost": 40}}))
    client.query(q.delete(q.ref(q.collection("spells"), "2")))
    _key_value(server, "writemode on; clearrange other p; set late text")


def make_database(server: Server) -> dict:
    """A second logical database and its credentials, which are the only ones that will ever open it."""
    shop = Admin(server).create("shop", quotas={"stored_bytes": 1000000})
    client = redis.Redis(port=server.port, username="shop", password=shop["credentials"]["token"])
    client.set("belongs", "to the shop")
    return shop["credentials"]


def read(server: Server, shop: dict) -> dict:
    return {
        "redis": _keys(redis.Redis(port=server.port)),
        "redis database 3": _keys(redis.Redis(port=server.port, db=3)),
        "shop": _keys(redis.Redis(port=server.port, username="shop", password=shop["token"])),
        "shop's quotas": Admin(server).show("shop")["quotas"],
        "dynamodb": _read_items(server),
        "fauna": _read_documents(server),
        "keyvalue": re.findall("^`.*$", _key_value(server, r'getrange "" \xff 100'), re.M),
    }


def _keys(client: redis.Redis) -> dict:
    readers = {
        "string": lambda key: client.get(key),
        "list": lambda key: client.lrange(key, 0, -1),
        "set": lambda key: sorted(client.smembers(key)),
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "hash": lambda key: client.hgetall(key),
        "stream": lambda key: [client.xrange(key), client.xinfo_groups(key), [_pending(entry) for entry in client.xpending_range(key, "readers", "-", "+", 10)]],
        "ReJSON-RL": lambda key: client.execute_command("JSON.GET", key),
    }
    found = {}
    for key in sorted(client.scan_iter(count=1000)):
        kind = client.type(key).decode()
        found[key.decode()] = [kind, client.expiretime(key), readers[kind](key)]
        if kind == "hash":
            times = client.execute_command("HEXPIRETIME", key, "FIELDS", 2, "kept", "leaving")
            found[key.decode()].append(times)
    counts = {"keys": client.dbsize(), "functions": client.function_list(withcode=True), "rank": client.zrank("large sorted", "member 7")}
    return _plain({"keys": found, "counts": counts})


def _pending(entry: dict) -> list:
    return [entry["message_id"], entry["consumer"], entry["times_delivered"]]


def _items(server: Server):
    return dynamodb.connect(server)


def _key(number: int) -> dict:
    return {"owner": {"S": f"owner {number % 3}"}, "number": {"N": str(number)}}


def _write_items(server: Server) -> None:
    client = _items(server)
    attribute = lambda name, kind: {"AttributeName": name, "AttributeType": kind}  # noqa: E731
    keys = lambda hash, range: [{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": range, "KeyType": "RANGE"}]  # noqa: E731
    client.create_table(
        TableName="table",
        AttributeDefinitions=[attribute("owner", "S"), attribute("number", "N"), attribute("colour", "S"), attribute("weight", "N")],
        KeySchema=keys("owner", "number"),
        LocalSecondaryIndexes=[{"IndexName": "by_colour", "KeySchema": keys("owner", "colour"), "Projection": {"ProjectionType": "KEYS_ONLY"}}],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by_weight",
                "KeySchema": keys("colour", "weight"),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]},
            }
        ],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        Tags=[{"Key": "stage", "Value": "old"}],
    )
    client.update_time_to_live(TableName="table", TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"})
    for number in range(1, 9):
        item = {
            **_key(number),
            "colour": {"S": "red" if number % 2 else "blue"},
            "weight": {"N": f"{number}.5"},
            "note": {"S": f"note {number}"},
            "until": {"N": str(FAR_SECONDS)},
            "all": {"L": [{"B": b"\x00\xff"}, {"BOOL": True}, {"NULL": True}, {"M": {"deep": {"NS": ["1", "-2.5e20"]}}}, {"SS": ["x", "y"]}, {"BS": [b"z"]}]},
        }
        client.put_item(TableName="table", Item=item)


def _read_items(server: Server) -> dict:
    client = _items(server)
    by_key = lambda item: (item["owner"]["S"], float(item["number"]["N"]))  # noqa: E731
    query = lambda index, name, value: client.query(  # noqa: E731
        TableName="table",
        IndexName=index,
        KeyConditionExpression="#n = :v",
        ExpressionAttributeNames={"#n": name},
        ExpressionAttributeValues={":v": {"S": value}},
    )["Items"]
    table = client.describe_table(TableName="table")["Table"]
    shown = ("AttributeDefinitions", "KeySchema", "ItemCount", "TableId", "LocalSecondaryIndexes", "StreamSpecification", "LatestStreamLabel")
    return _plain(
        {
            "table": {name: table[name] for name in shown},
            "expiry": client.describe_time_to_live(TableName="table")["TimeToLiveDescription"],
            "tags": client.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"],
            "items": sorted(client.scan(TableName="table")["Items"], key=by_key),
            "by_colour": query("by_colour", "owner", "owner 1"),
            "by_weight": [query("by_weight", "colour", colour) for colour in ("red", "blue", "green")],
        }
    )


def _write_documents(server: Server) -> None:
    client = fauna.connect(server)
    # History is kept for ever, so it is there whenever the directory is opened.
    client.query(q.create_collection({"name": "spells", "history_days": None}))
    client.query(
        q.create_index(
            {
                "name": "by_element",
                "source": q.collection("spells"),
                "terms": [{"field": ["data", "element"]}],
                "values": [{"field": ["data", "cost"], "reverse": True}, {"field": ["ref"]}],
            }
        )
    )
    client.query(q.create_index({"name": "named", "source": q.collection("spells"), "terms": [{"field": ["data", "name"]}], "unique": True}))
    client.query(q.create_function({"name": "double", "body": q.query(q.lambda_("x", q.multiply(q.var("x"), 2)))}))
    client.query(q.create_role({"name": "reader", "privileges": [{"resource": q.collection("spells"), "actions": {"read": True}}]}))
    client.query(q.create_database({"name": "below"}))
    for number in range(1, 6):
        data = {"name": f"spell {number}", "element": "fire" if number % 2 else "water", "cost": number, "at": FaunaTime("2020-01-01T00:00:00.5Z"), "bytes": b"\x00\xff", "deep": {"list": [1, 2.5, None, True]}}
        document = {"data": data, "credentials": {"password": "sesame"}} if number == 1 else {"data": data}
        client.query(q.create(q.ref(q.collection("spells"), str(number)), document))
    client.query(q.update(q.ref(q.collection("spells"), "1"), {"data": {"cost": 30}}))


def _read_documents(server: Server) -> dict:
    client = fauna.connect(server)
    spell = lambda number: q.ref(q.collection("spells"), str(number))  # noqa: E731
    page = lambda found: client.query(q.paginate(found, size=100))["data"]  # noqa: E731
    documents = client.query(q.map_(lambda ref: q.get(ref), q.paginate(q.documents(q.collection("spells")))))["data"]
    events = page(q.events(spell(1)))
    return _plain(
        {
            "documents": documents,
            "history": [events, page(q.events(spell(2)))],
            "before": client.query(q.at(events[0]["ts"], q.get(spell(1)))),
            "by_element": [page(q.match(q.index("by_element"), element)) for element in ("fire", "water")],
            "named": [page(q.match(q.index("named"), f"spell {number}")) for number in range(1, 6)],
            "function": client.query(q.call(q.function("double"), 21)),
            "role": client.query(q.get(q.role("reader"))),
            "databases": page(q.databases()),
            "identified": client.query(q.identify(spell(1), "sesame")),
        }
    )


def _key_value(server: Server, commands: str, token: str = "dev") -> str:
    """Runs commands of `quartet kv`; answers what it says."""
    with tempfile.NamedTemporaryFile("w", prefix="quartet-cluster-") as file:
        file.write(f"quartet:{token}@127.0.0.1:{server.keyvalue_port}\n")
        file.flush()
        ended = subprocess.run([binary(), "kv", "-C", file.name, "--exec", commands], capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout


def _plain(value):
    """As JSON has it: bytes are Latin-1 text, or base64 if they are not printable; what the drivers made is text."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(member) for member in value]
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        return text if text.isprintable() else "base64 " + base64.b64encode(value).decode()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
