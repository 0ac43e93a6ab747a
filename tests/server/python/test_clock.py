"""Starts with the machine's clock set back or ahead by an hour: nothing that clients hold repeats or changes its meaning.

A document of FaunaDB took the ref of an earlier one and replaced it, and a past that had been shown changed. Each layer is asked here
for what it makes of the clock: ids, versions, places in streams, reads of the past, and what expires.
"""

from __future__ import annotations

import datetime
import time

import botocore.auth
import pytest
import redis
from faunadb import query as q

from formats.contents import _key_value as key_value
from harness import dynamodb, fauna
from harness.changes import Changes
from harness.server import Server

pytestmark = pytest.mark.quartet_only

HOUR_SECONDS = 3600


class Starts(Server):
    """A server whose next start finds the clock set."""

    def __init__(self, shift_seconds: int):
        super().__init__(durability="always")
        self.shift_seconds = shift_seconds

    def start_shifted(self) -> None:
        self.kill()
        self.clock_seconds = self.shift_seconds
        self.start()

    def now_seconds(self) -> float:
        return time.time() + self.clock_seconds


@pytest.fixture
def signs_by_the_servers_clock(host, monkeypatch):
    """Signatures are good for some minutes, so the client's clock is set as the server's."""
    shown = lambda: datetime.datetime.fromtimestamp(host.now_seconds(), datetime.UTC).replace(tzinfo=None)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", shown)


@pytest.fixture(params=[-HOUR_SECONDS, HOUR_SECONDS], ids=["back", "ahead"])
def host(request):
    server = Starts(request.param).start()
    yield server
    server.close()


def test_redis(host):
    client = redis.Redis(port=host.port, decode_responses=True)
    run_id = client.info("server")["run_id"]
    ids = [client.xadd("stream", {"n": n}) for n in range(3)]
    client.xgroup_create("stream", "group", id="0")
    client.xreadgroup("group", "consumer", {"stream": ">"})
    deadlines = {"short": 600, "long": 2 * HOUR_SECONDS}
    for key, seconds in deadlines.items():
        client.set(key, "v", ex=seconds)
    deadlines = {key: client.expiretime(key) for key in deadlines}
    client.set("gone", "v", px=1)
    while client.exists("gone"):
        pass
    cursor, _ = client.scan(0, count=1)
    host.start_shifted()
    client = redis.Redis(port=host.port, decode_responses=True)
    assert abs(client.time()[0] - host.now_seconds()) < 60, "the process is shown another time"
    ids += [client.xadd("stream", {"n": n}) for n in range(3)]
    places = [tuple(map(int, id_.split("-"))) for id_ in ids]
    assert places == sorted(set(places))
    assert client.xpending("stream", "group")["pending"] == 3
    assert all(entry["time_since_delivered"] >= 0 for entry in client.xpending_range("stream", "group", "-", "+", 10))
    assert client.get("gone") is None
    for key, deadline in deadlines.items():
        expected = deadline if deadline > host.now_seconds() else -2
        assert client.expiretime(key) == expected, key
    assert client.info("server")["run_id"] != run_id
    client.scan(cursor, count=1)


@pytest.mark.usefixtures("signs_by_the_servers_clock")
def test_dynamodb(host):
    client = dynamodb.connect(host)
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
    backups = [make_backup(client) for _ in range(2)]
    host.start_shifted()
    client = dynamodb.connect(host)
    write_items(client, "second")
    after_stream, all_records = read_stream(host)
    assert after_stream == stream
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


def write_items(client, name: str) -> None:
    for number in range(20):
        client.put_item(TableName="table", Item={"pk": {"S": f"{name} {number}"}})


def make_backup(client) -> str:
    return client.create_backup(TableName="table", BackupName="backup")["BackupDetails"]["BackupArn"]


def read_stream(host, after: int | None = None) -> tuple[str, list[tuple[int, str]]]:
    """The stream's ARN, and numbers and keys of its records, oldest first."""
    client = dynamodb.connect(host, "dynamodbstreams")
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
    client = fauna.connect(host)
    client.query(q.create_collection({"name": "c", "history_days": 1}))
    count, create = q.count(q.documents(q.collection("c"))), q.create(q.collection("c"), {"data": {}})
    made = [client.query(create) for _ in range(3)]
    client.query(q.create(q.ref(q.collection("c"), "1"), {"data": {}, "ttl": q.time_add(q.now(), 1, "second")}))
    while client.query(q.exists(q.ref(q.collection("c"), "1"))):
        pass
    key = client.query(q.create_key({"role": "server"}))
    shown_id = int(client.query(q.new_id()))
    client.query(count)
    shown = [client.get_last_txn_time(), client.query(q.to_micros(q.now()))]
    assert [client.query(q.at(micros, count)) for micros in shown] == [3, 3]
    host.start_shifted()
    client = fauna.connect(host)
    events = []
    followed = made[0]["ref"]
    made += [client.query(create) for _ in range(3)]
    ids = [int(document["ref"].id()) for document in made]
    assert ids == sorted(set(ids)) and ids[3] > shown_id
    versions = [document["ts"] for document in made]
    assert versions == sorted(set(versions)) and versions[3] > max(shown)
    assert [client.query(q.at(micros, count)) for micros in shown] == [3, 3]
    assert client.query(count) == client.query(q.at(q.now(), count)) == 6
    assert client.get_last_txn_time() >= versions[-1]
    assert not client.query(q.exists(q.ref(q.collection("c"), "1")))
    other = client.query(q.create_key({"role": "server"}))
    assert other["ref"] != key["ref"]
    assert fauna.connect(host, key["secret"]).query(count) == 6
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
        said = key_value(host, "writemode on; " + "; ".join(f"set k{n} v; getversion" for n in range(count)))
        told = [int(line.removeprefix("Committed (").removesuffix(")")) for line in said.splitlines() if line.startswith("Committed")]
        read = [int(line) for line in said.splitlines() if line.isdigit()]
        assert len(told) == len(read) == count and all(one <= other for one, other in zip(told, read, strict=True))
        return told

    first = versions(3)
    with Changes(host, from_=first[0] - 1) as feed:
        lines = [line["version"] for line in feed.until(first[-1])]
    host.start_shifted()
    then = versions(3)
    assert first + then == sorted({*first, *then})
    with Changes(host, from_=lines[-1]) as feed:
        later = [line["version"] for line in feed.until(then[-1])]
    assert later == sorted(set(later)) and later[0] == lines[-1] and later[-1] == then[-1]
