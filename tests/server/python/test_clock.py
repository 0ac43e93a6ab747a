"""Starts with the machine's clock set back or ahead by an hour: nothing that clients hold repeats or changes its meaning.

A document of FaunaDB took the ref of an earlier one and replaced it, and a past that had been shown changed. Each layer is asked here
for what it makes of the clock: ids, versions, places in streams, reads of the past, tokens, and what expires. With several partitions the
data are those of a database in a partition of its own.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import time

import botocore.auth
import pytest
import redis
from faunadb import query as q
from faunadb.errors import Unauthorized

from formats.contents import _key_value as key_value
from harness import dynamodb, fauna
from harness.admin import Admin
from harness.changes import Changes
from harness.server import ROOT, Server

pytestmark = pytest.mark.quartet_only

HOUR_SECONDS = 3600
SET_VERSIONSTAMPED_VALUE = 15

found = importlib.util.spec_from_file_location("keyvalue_wire", ROOT / "tests/keyvalue/python/wire.py")
wire = importlib.util.module_from_spec(found)
found.loader.exec_module(wire)


class Starts(Server):
    """A server whose next start finds the clock set, and one database of it."""

    def __init__(self, shift_seconds: int, engine: str, partitions: int):
        super().__init__(durability="always", options=["--engine", engine, "--partitions", str(partitions)])
        self.shift_seconds = shift_seconds
        self.credentials: dict | None = None
        self.start()
        if partitions > 1:
            database = Admin(self).create("shop")
            assert database["partition"] > 0
            self.credentials = database["credentials"]

    def start_shifted(self) -> None:
        self.kill()
        self.clock_seconds = self.shift_seconds
        self.start()

    def now_seconds(self) -> float:
        return time.time() + self.clock_seconds

    def redis(self) -> redis.Redis:
        options = {"username": "shop", "password": self.credentials["token"]} if self.credentials else {}
        return redis.Redis(port=self.port, decode_responses=True, **options)

    def dynamodb(self, service: str = "dynamodb"):
        if self.credentials is None:
            return dynamodb.connect(self, service)
        return dynamodb.connect(self, service, key=(self.credentials["access_key_id"], self.credentials["secret_access_key"]))

    def fauna(self, secret: str | None = None):
        return fauna.connect(self, secret or (self.credentials and self.credentials["fauna_key"]))

    def keyvalue(self, commands: str) -> str:
        return key_value(self, commands, self.credentials["token"] if self.credentials else "dev")

    def changes(self, **query) -> Changes:
        return Changes(self, **query, **({"database": "shop"} if self.credentials else {}))


@pytest.fixture
def signs_by_the_servers_clock(host, monkeypatch):
    """Signatures are good for some minutes, so the client's clock is set as the server's."""
    shown = lambda: datetime.datetime.fromtimestamp(host.now_seconds(), datetime.UTC).replace(tzinfo=None)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", shown)


CASES = {
    "back": (-HOUR_SECONDS, "memory", 1),
    "ahead": (HOUR_SECONDS, "memory", 1),
    "back ssd": (-HOUR_SECONDS, "ssd", 1),
    "back partitions": (-HOUR_SECONDS, "memory", 4),
    "back ssd partitions": (-HOUR_SECONDS, "ssd", 4),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def host(request):
    server = Starts(*request.param)
    yield server
    server.close()


def test_redis(host):
    client = host.redis()
    run_id = client.info("server")["run_id"]
    ids = [client.xadd("stream", {"n": n}) for n in range(3)]
    client.xgroup_create("stream", "group", id="0")
    client.xreadgroup("group", "consumer", {"stream": ">"})
    deadlines = {"short": 600, "long": 2 * HOUR_SECONDS}
    for key, seconds in deadlines.items():
        client.set(key, "v", ex=seconds)
        client.hset("fields", key, "v")
        client.hexpireat("fields", client.expiretime(key), key)
    deadlines = {key: client.expiretime(key) for key in deadlines}
    client.set("gone", "v", px=1)
    while client.exists("gone"):
        pass
    cursor, _ = client.scan(0, count=1)
    host.start_shifted()
    client = host.redis()
    assert abs(client.time()[0] - host.now_seconds()) < 60, "the process is shown another time"
    ids += [client.xadd("stream", {"n": n}) for n in range(3)]
    places = [tuple(map(int, id_.split("-"))) for id_ in ids]
    assert places == sorted(set(places))
    assert [id_ for id_, _ in client.xrange("stream")] == ids
    assert client.xpending("stream", "group")["pending"] == 3
    assert all(entry["time_since_delivered"] >= 0 for entry in client.xpending_range("stream", "group", "-", "+", 10))
    assert client.get("gone") is None
    for key, deadline in deadlines.items():
        expected = deadline if deadline > host.now_seconds() else -2
        assert client.expiretime(key) == expected, key
        assert client.hexpiretime("fields", key)[0] == expected, key
    assert client.info("server")["run_id"] != run_id
    client.scan(cursor, count=1)


def test_the_time_of_the_last_checkpoint(host):
    """Clients begin a checkpoint and wait until LASTSAVE shows another time."""
    client = redis.Redis(port=host.port)
    client.set("key", "before")
    client.save()
    before = client.lastsave()
    host.start_shifted()
    client = redis.Redis(port=host.port)
    assert abs((client.lastsave() - before).total_seconds()) < 60
    client.set("key", "after")
    client.save()
    shown = client.lastsave().timestamp()
    assert shown != before.timestamp() and abs(shown - host.now_seconds()) < 60


@pytest.mark.usefixtures("signs_by_the_servers_clock")
def test_dynamodb(host):
    client = host.dynamodb()
    key = {"AttributeName": "pk", "AttributeType": "S"}
    client.create_table(
        TableName="table",
        AttributeDefinitions=[key],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )
    client.update_continuous_backups(TableName="table", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
    put = {"Put": {"TableName": "table", "Item": {"pk": {"S": "once"}}, "ConditionExpression": "attribute_not_exists(pk)"}}
    client.transact_write_items(TransactItems=[put], ClientRequestToken="token")
    write_items(client, "first")
    stream, records = read_stream(host)
    shards = shards_of(host, stream)
    backups = [make_backup(client) for _ in range(2)]
    host.start_shifted()
    client = host.dynamodb()
    write_items(client, "second")
    after_stream, all_records = read_stream(host)
    assert after_stream == stream
    assert set(shards) <= set(shards_of(host, stream))
    assert all_records[: len(records)] == records
    numbers = [number for number, _ in all_records]
    assert numbers == sorted(set(numbers))
    assert [pk for _, pk in all_records] == ["once", *(f"first {n}" for n in range(20)), *(f"second {n}" for n in range(20))]
    resumed = read_stream(host, after=records[-1][0])[1]
    assert resumed == all_records[len(records) :]
    backups += [make_backup(client) for _ in range(2)]
    assert len(set(backups)) == 4
    if host.shift_seconds < 0:  # Ahead, the ten minutes are over.
        client.transact_write_items(TransactItems=[put], ClientRequestToken="token")
    client.restore_table_to_point_in_time(SourceTableName="table", TargetTableName="restored", UseLatestRestorableTime=True)
    client.get_waiter("table_exists").wait(TableName="restored", WaiterConfig={"Delay": 1})
    restored = client.scan(TableName="restored", Select="COUNT", ConsistentRead=True)["Count"]
    assert restored == len(all_records)
    labels = {stream}
    for _ in range(3):
        client.update_table(TableName="table", StreamSpecification={"StreamEnabled": False})
        client.update_table(TableName="table", StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
        labels.add(client.describe_table(TableName="table")["Table"]["LatestStreamArn"])
    assert len(labels) == 4


@pytest.mark.usefixtures("signs_by_the_servers_clock")
def test_items_of_dynamodb_expire_by_the_clock_of_their_server(host):
    client = host.dynamodb()
    client.create_table(
        TableName="table",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.update_time_to_live(TableName="table", TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"})
    now = int(host.now_seconds())
    until = {"past": now - 60, "short": now + 600, "long": now + 2 * HOUR_SECONDS, "never": None}
    there = lambda: sorted(item["pk"]["S"] for item in client.scan(TableName="table", ConsistentRead=True)["Items"])
    for name, second in until.items():
        client.put_item(TableName="table", Item={"pk": {"S": name}, **({"until": {"N": str(second)}} if second else {})})
    awaited(lambda: "past" not in there())
    assert there() == ["long", "never", "short"]
    host.start_shifted()
    client = host.dynamodb()
    # One that is over for the clock as it is set goes, and so does another one that is over by then.
    client.put_item(TableName="table", Item={"pk": {"S": "over"}, "until": {"N": str(int(host.now_seconds()) - 60)}})
    awaited(lambda: "over" not in there())
    if host.shift_seconds > 0:
        awaited(lambda: "short" not in there())
    assert there() == ["long", "never"] + ["short"] * (host.shift_seconds < 0)


def awaited(condition) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def shards_of(host, arn: str) -> list[str]:
    return [shard["ShardId"] for shard in host.dynamodb("dynamodbstreams").describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]]


def write_items(client, name: str) -> None:
    for number in range(20):
        client.put_item(TableName="table", Item={"pk": {"S": f"{name} {number}"}})


def make_backup(client) -> str:
    return client.create_backup(TableName="table", BackupName="backup")["BackupDetails"]["BackupArn"]


def read_stream(host, after: int | None = None) -> tuple[str, list[tuple[int, str]]]:
    """The stream's ARN, and numbers and keys of its records, oldest first."""
    client = host.dynamodb("dynamodbstreams")
    arn = client.list_streams(TableName="table")["Streams"][-1]["StreamArn"]
    records = []
    for shard in client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        start = {"ShardIteratorType": "TRIM_HORIZON"}
        if after is not None:
            start = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": str(after)}
        iterator = client.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], **start)["ShardIterator"]
        while page := client.get_records(ShardIterator=iterator)["Records"]:
            read = (record["dynamodb"] for record in page)
            records += [(int(record["SequenceNumber"]), record["Keys"]["pk"]["S"]) for record in read]
            iterator = client.get_shard_iterator(
                StreamArn=arn,
                ShardId=shard["ShardId"],
                ShardIteratorType="AFTER_SEQUENCE_NUMBER",
                SequenceNumber=page[-1]["dynamodb"]["SequenceNumber"],
            )["ShardIterator"]
    return arn, sorted(records)


def test_fauna(host):
    client = host.fauna()
    client.query(q.create_collection({"name": "c", "history_days": 1}))
    count, create = q.count(q.documents(q.collection("c"))), q.create(q.collection("c"), {"data": {}})
    made = [client.query(create) for _ in range(3)]
    client.query(q.create(q.ref(q.collection("c"), "1"), {"data": {}, "ttl": q.time_add(q.now(), 1, "second")}))
    while client.query(q.exists(q.ref(q.collection("c"), "1"))):
        pass
    key = client.query(q.create_key({"role": "server"}))
    amy = client.query(q.create(q.ref(q.collection("c"), "2"), {"data": {}, "credentials": {"password": "sesame"}}))["ref"]
    login = lambda seconds: client.query(q.login(amy, {"password": "sesame", "ttl": q.time_add(q.now(), seconds, "second")}))
    tokens = {seconds: login(seconds)["secret"] for seconds in (600, 2 * HOUR_SECONDS)}
    shown_id = int(client.query(q.new_id()))
    client.query(count)
    shown = [client.get_last_txn_time(), client.query(q.to_micros(q.now()))]
    assert [client.query(q.at(micros, count)) for micros in shown] == [4, 4]
    host.start_shifted()
    client = host.fauna()
    events = []
    followed = made[0]["ref"]
    made += [client.query(create) for _ in range(3)]
    ids = [int(document["ref"].id()) for document in made]
    assert ids == sorted(set(ids)) and ids[3] > shown_id
    versions = [document["ts"] for document in made]
    assert versions == sorted(set(versions)) and versions[3] > max(shown)
    assert [client.query(q.at(micros, count)) for micros in shown] == [4, 4]
    assert client.query(count) == client.query(q.at(q.now(), count)) == 7
    assert client.get_last_txn_time() >= versions[-1]
    assert not client.query(q.exists(q.ref(q.collection("c"), "1")))
    for seconds, secret in tokens.items():
        # A token of ten minutes is over an hour later.
        if host.shift_seconds < seconds:
            assert host.fauna(secret).query(q.current_identity()) == amy
        else:
            with pytest.raises(Unauthorized):
                host.fauna(secret).query(q.current_identity())
    assert login(600)["secret"] not in tokens.values()
    other = client.query(q.create_key({"role": "server"}))
    assert other["ref"] != key["ref"]
    assert host.fauna(key["secret"]).query(count) == 7
    changed = follow(host, client, followed, events)
    assert [event["type"] for event in events] == ["start", "version"]
    assert versions[-1] <= events[0]["txn"] < events[1]["txn"] == changed["ts"]


def follow(host, client, reference, events: list) -> dict:
    """Follows a document until it has changed once."""
    changed = {}
    stream = client.stream(reference)

    def started(event):
        events.append(vars_of(event))
        changed.update(client.query(q.update(reference, {"data": {"x": 1}})))

    def versioned(event):
        events.append(vars_of(event))
        stream.close()

    stream.on("start", started)
    stream.on("version", versioned)
    stream.start()
    return changed


def vars_of(event) -> dict:
    return {"type": event.type, "txn": event.txn}


def test_keyvalue(host):
    def versions(count: int) -> list[int]:
        said = host.keyvalue("writemode on; " + "; ".join(f"set k{n} v; getversion" for n in range(count)))
        told = [int(line.removeprefix("Committed (").removesuffix(")")) for line in said.splitlines() if line.startswith("Committed")]
        read = [int(line) for line in said.splitlines() if line.isdigit()]
        assert len(told) == len(read) == count and all(one <= other for one, other in zip(told, read, strict=True))
        return told

    first = versions(3)
    with host.changes(from_=first[0] - 1) as feed:
        lines = [line["version"] for line in feed.until(first[-1])]
    stamps = [stamp(host, 1)]
    host.start_shifted()
    stamps += [stamp(host, 2), stamp(host, 3)]
    assert stamps == sorted(set(stamps))
    then = versions(3)
    assert first + then == sorted({*first, *then})
    with host.changes(from_=lines[-1]) as feed:
        later = [line["version"] for line in feed.until(then[-1])]
    assert later == sorted(set(later)) and later[0] == lines[-1] and later[-1] == then[-1]


def stamp(host, number: int) -> bytes:
    """The versionstamp of a commit, which clients make keys of that are to be in the order of the commits."""
    key = f"stamped{number}"
    credential = host.credentials["token"].encode() if host.credentials else b"dev"
    with contextlib.closing(wire.Wire(f"127.0.0.1:{host.keyvalue_port}", credential)) as connection:
        error, _ = connection.ask(wire.COMMIT, wire.commit([(SET_VERSIONSTAMPED_VALUE, key.encode(), bytes(14))]))
        assert error == 0
        error, found = connection.ask(wire.GET, wire.get(connection.version(), key.encode()))
        assert error == 0
        return found[-10:]
