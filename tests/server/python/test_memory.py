"""What the server takes of the machine's memory, seen from outside: its budget, and what it gives back."""

from __future__ import annotations

import time

import pytest
import redis
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import UnavailableError
from harness import dynamodb, fauna
from harness.server import Server

pytestmark = pytest.mark.quartet_only

MIB = 1 << 20
OUT_OF_MEMORY = "command not allowed when used memory"


@pytest.fixture
def serve():
    servers = []

    def start(*options) -> Server:
        servers.append(Server(options=options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def connect(server: Server) -> redis.Redis:
    return redis.Redis(port=server.port, socket_timeout=60)


def until(holds, seconds: float = 20.0) -> None:
    """Waits for what the server does by itself, many times a second."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


VALUE = b"x" * 100_000


def test_without_maxmemory_it_refuses_before_the_kernel_acts(serve):
    """The server grew until the kernel ended it."""
    budget = 256 * MIB
    server = serve("--memory-bytes", str(budget))
    client = connect(server)
    with pytest.raises(redis.exceptions.OutOfMemoryError, match=OUT_OF_MEMORY):
        for number in range(100_000):
            client.set(f"key:{number}", VALUE)
    assert client.dbsize() > 1000
    assert server.rss_bytes() < budget * 9 / 8 + 32 * MIB
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    memory = client.info("memory")
    assert memory["memory_budget"] == budget and memory["memory_budget_source"] == "memory-bytes"
    client.flushall()
    until(lambda: accepts(client))


def test_beyond_the_budget_every_layer_goes_on_reading_and_deleting(serve):
    server = serve()
    client, items, documents = connect(server), dynamodb.connect(server), fauna.connect(server)
    items.create_table(
        TableName="table",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    items.put_item(TableName="table", Item={"k": {"S": "a"}})
    documents.query(q.create_collection({"name": "things"}))
    thing = documents.query(q.create(q.collection("things"), {"data": {"a": 1}}))["ref"]
    for number in range(2000):
        client.set(f"key:{number}", VALUE)

    server.options = ("--memory-bytes", str(128 * MIB))
    server.restart()
    client, items, documents = connect(server), dynamodb.connect(server), fauna.connect(server)
    with pytest.raises(redis.exceptions.OutOfMemoryError, match=OUT_OF_MEMORY):
        client.set("key", "value")
    for write in (
        lambda: items.put_item(TableName="table", Item={"k": {"S": "b"}}),
        lambda: items.batch_write_item(RequestItems={"table": [{"PutRequest": {"Item": {"k": {"S": "b"}}}}]}),
    ):
        with pytest.raises(ClientError) as refused:
            write()
        assert refused.value.response["Error"]["Code"] == "InternalServerError"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    with pytest.raises(UnavailableError) as refused:
        documents.query(q.create(q.collection("things"), {"data": {}}))
    assert refused.value.errors[0].code == "unavailable"

    assert items.get_item(TableName="table", Key={"k": {"S": "a"}})["Item"] == {"k": {"S": "a"}}
    items.batch_write_item(RequestItems={"table": [{"DeleteRequest": {"Key": {"k": {"S": "a"}}}}]})
    items.delete_item(TableName="table", Key={"k": {"S": "a"}})
    assert documents.query(q.get(thing))["data"] == {"a": 1}
    documents.query(q.delete(thing))
    assert len(client.get("key:0")) == 100_000

    for number in range(2000):
        client.delete(f"key:{number}")
    until(lambda: accepts(client))
    items.put_item(TableName="table", Item={"k": {"S": "b"}})
    documents.query(q.create(q.collection("things"), {"data": {}}))


def accepts(client: redis.Redis) -> bool:
    try:
        return client.set("key", "value")
    except redis.exceptions.OutOfMemoryError:
        return False
