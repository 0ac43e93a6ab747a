"""What the server takes of the machine's memory, seen from outside: its budget, and what it gives back."""

from __future__ import annotations

import threading
import time

import pytest
import redis
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import UnavailableError
from harness import dynamodb, fauna
from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.quartet_only

MIB = 1 << 20
OUT_OF_MEMORY = "command not allowed when used memory"


@pytest.fixture
def serve():
    servers = []

    def start(*options, durability: str = "none") -> Server:
        servers.append(Server(options=options, durability=durability).start())
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def connect(server: Server) -> redis.Redis:
    return redis.Redis(port=server.port, socket_timeout=60)


def until(holds, seconds: float = 60.0) -> None:
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
    assert server.anonymous_bytes() < budget * 9 / 8 + 32 * MIB
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    memory = client.info("memory")
    assert memory["memory_budget"] == budget and memory["memory_budget_source"] == "memory-bytes"
    client.flushall()
    until(lambda: accepts(client))


def test_after_deleting_half_the_memory_engine_takes_writes_at_once(serve):
    """Rows that are freed here and there leave the process as large as it was. Where the log lagged (a busy machine), what waited for it made the
    process larger for a moment; that was taken for a sign that the freed memory is of no use, eightfold and for good, and writes were refused for half
    a minute with half of the budget free. Growth for epochs is known now, and any other counts only while it lasts.
    """
    server = serve("--memory-bytes", str(256 * MIB))
    client = connect(server)
    keys = 0
    with pytest.raises(redis.exceptions.OutOfMemoryError, match=OUT_OF_MEMORY):
        for keys in range(100_000):
            client.set(f"key:{keys}", VALUE[:10_000])
    for number in range(0, keys, 2):
        client.delete(f"key:{number}")
    for number in range(keys // 8):
        client.set(f"other:{number}", VALUE[:10_000])


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


def test_a_cache_that_evicts_refuses_nothing_beside_checkpoints(serve):
    """Evicting gives back nothing that a checkpoint holds, so commands were refused until it was written."""
    server = serve("--memory-bytes", str(128 * MIB))
    client = connect(server)
    client.config_set("maxmemory-policy", "allkeys-random")
    over = threading.Event()

    def save() -> None:
        while not over.is_set():
            try:
                connect(server).bgsave()
            except redis.exceptions.ResponseError:
                time.sleep(0.01)

    saving = threading.Thread(target=save)
    saving.start()
    try:
        for first in range(0, 24_000, 500):
            with client.pipeline(transaction=False) as pipeline:
                for number in range(first, first + 500):
                    pipeline.set(f"key:{number % 12_000}", VALUE[:10_000])
                pipeline.execute()
    finally:
        over.set()
        saving.join()
    assert client.info("stats")["evicted_keys"] > 0
    client.bgsave(schedule=True)
    until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "ok" and client.info("persistence")["rdb_bgsave_in_progress"] == 0, 60)


def test_nothing_is_evicted_below_maxmemory(serve):
    """Small rows were judged by what larger ones take beside key and value, ten bytes more, so a cache was never as full as it may be."""
    server = serve("--memory-bytes", "0")
    client = connect(server)
    client.config_set("maxmemory-policy", "allkeys-random")
    keys = 100_000
    with client.pipeline(transaction=False) as pipeline:
        for number in range(keys):
            pipeline.set(f"key:{number}", "value")
            if number % 10_000 == 9_999:
                pipeline.execute()
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 400_000)
    client.set("key:0", "other")
    assert client.dbsize() == keys and client.info("stats")["evicted_keys"] == 0
    client.config_set("maxmemory", client.info("memory")["used_memory"] - 400_000)
    client.set("key:0", "value")
    assert client.dbsize() < keys


def accepts(client: redis.Redis) -> bool:
    try:
        return client.set("key", "value")
    except redis.exceptions.OutOfMemoryError:
        return False


class Peak:
    """The most resident memory of a server while this is open."""

    def __init__(self, server: Server):
        self.server, self.bytes, self.done = server, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        while not self.done.is_set():
            self.bytes = max(self.bytes, self.server.rss_bytes())
            self.done.wait(0.002)

    def __enter__(self) -> "Peak":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.done.set()
        self.thread.join()


def set_value(connection: Connection, key: str, length: int) -> str:
    """SET without ever holding the whole value here."""
    chunk = b"x" * MIB
    connection.send_bytes(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key.encode(), length))
    for start in range(0, length, MIB):
        connection.send_bytes(chunk[: length - start])
    connection.send_bytes(b"\r\n")
    return connection.read()


def skip_value(connection: Connection, key: str) -> int:
    """GET without keeping the value; its length."""
    connection.send("GET", key)
    with connection.socket.makefile("rb") as replies:
        length = int(replies.readline()[1:])
        for start in range(0, length, MIB):
            replies.read(min(MIB, length - start))
        assert replies.readline() == b"\r\n"
    return length


def test_a_large_value_takes_little_more_than_twice_its_size_and_is_given_back(serve):
    """One of 400 MB took 1.5 GB, and the process kept that after DEL.

    Shorter than the log that brings a checkpoint on, which would keep the value until it is written; and acknowledged once it is in the
    log, which keeps it until then.
    """
    server = serve("--memory-bytes", "0", durability="always")
    length = 200 * MIB
    with Connection(server.port, timeout_seconds=60) as connection:
        assert connection.do("PING") == "PONG"
        before = server.rss_bytes()
        with Peak(server) as peak:
            assert set_value(connection, "large", length) == "OK"
        assert peak.bytes - before < 2.2 * length
        until(lambda: server.rss_bytes() - before < 1.1 * length)
        with Peak(server) as peak:
            assert skip_value(connection, "large") == length
        assert peak.bytes - before < 2.2 * length
        assert connection.do("DEL", "large") == 1
        until(lambda: server.rss_bytes() - before < 0.1 * length)


def test_memory_purge_gives_back_what_the_allocator_keeps(serve):
    """So little that the server does not do it by itself."""
    server = serve("--memory-bytes", "0", "--io-threads", "1")
    client = connect(server)
    before = server.rss_bytes()
    pipeline = client.pipeline(transaction=False)
    for number in range(14_000):
        pipeline.set(f"key:{number}", VALUE[:1000])
        if number % 500 == 499:
            pipeline.execute()
    full = server.rss_bytes() - before
    assert full > 14_000_000
    client.flushall()
    until(lambda: client.info("memory")["lazyfree_pending_objects"] == 0)

    def purged() -> bool:
        assert client.memory_purge()
        return server.rss_bytes() - before < full / 2

    until(purged)


@pytest.mark.slow
def test_a_value_may_have_512_megabytes(serve):
    """Values ended 16 bytes short of it."""
    server = serve("--memory-bytes", "0")
    length = 512 * MIB
    with Connection(server.port, timeout_seconds=60) as connection:
        assert set_value(connection, "set", length) == "OK"
        assert connection.do("STRLEN", "set") == length
        assert connection.do("GETRANGE", "set", -2, -1) == "xx"
        assert "string exceeds maximum allowed size" in connection.do("APPEND", "set", "y")
        connection.do("DEL", "set")
        assert connection.do("SETBIT", "bits", 8 * length - 1, 1) == 0
        assert connection.do("STRLEN", "bits") == length
        assert connection.do("GETBIT", "bits", 8 * length - 1) == 1
