"""A real disk that is full: no crash loop. Reads and deletions go on, writes are refused in each protocol's own words and go
on by themselves when there is space, and a server starts on a full disk. Nothing acknowledged is lost.

The first write on a full disk used to end the server with status 74, and so did each start after it.
"""

import json
import random
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import UnavailableError
from harness import dynamodb, fauna, small_disk
from harness.resp import Connection
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only

SEGMENT_BYTES = 4 << 20
VALUE = "x" * 50_000
MISCONF = "MISCONF Errors writing to the AOF file: No space left on device"


@pytest.fixture
def disk():
    if reason := small_disk.why_not():
        pytest.skip(f"A FULL DISK IS NOT TESTED: {reason}")
    with small_disk.SmallDisk(48) as disk:
        yield disk


@pytest.fixture
def server(disk):
    server = Server(durability="always", data=str(disk.path / "data"), options=["--log-segment-bytes", str(SEGMENT_BYTES)]).start()
    yield server
    server.close()


def write_until_full(connection, first=0):
    """Answers how many keys were written."""
    number = first
    while (reply := connection.do("SET", f"k{number}", VALUE)) == "OK":
        number += 1
    assert str(reply) == MISCONF
    return number


def wait_for_room(connection):
    deadline = time.monotonic() + 60
    while (reply := connection.do("SET", "again", VALUE)) != "OK":
        assert str(reply) == MISCONF
        assert time.monotonic() < deadline, "writes did not go on"


def information(connection):
    return dict(line.split(":", 1) for line in connection.do("INFO", "persistence").splitlines() if ":" in line)


def rest(server, *command):
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/", json.dumps(command).encode(), {"Authorization": "Bearer quartet"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_disk_that_others_fill(disk, server):
    table = dict(TableName="table", KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}], AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
    dynamo = dynamodb.connect(server)
    dynamo.create_table(BillingMode="PAY_PER_REQUEST", StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}, **table)
    for number in range(3):
        dynamo.put_item(TableName="table", Item={"p": {"S": f"{number}"}, "v": {"S": VALUE}})
    client = fauna.connect(server)
    client.query(q.create_collection({"name": "c"}))
    for number in range(1, 4):
        client.query(q.create(q.ref(q.collection("c"), str(number)), {"data": {"v": VALUE}}))
    filling = disk.fill()
    with Connection(server.port, timeout_seconds=60) as redis:
        count = write_until_full(redis)
        assert count > 20, "the log has room reserved"
        assert information(redis)["aof_last_write_status"] == "err"

        # Writes are refused, in each protocol's own words.
        for command in (["SET", "more", VALUE], ["RPUSH", "list", VALUE], ["EVAL", "return redis.call('SET', 'more', ARGV[1])", "0", VALUE]):
            assert str(redis.do(*command)).startswith(MISCONF), command
        assert str(redis.pipeline(["MULTI"], ["SET", "more", VALUE], ["DEL", "k0"], ["EXEC"])[-1]).startswith(MISCONF)
        assert redis.do("GET", "more") is None and redis.do("EXISTS", "k0") == 1, "taken back as a whole"
        assert rest(server, "SET", "more", VALUE) == (400, {"error": MISCONF})
        with pytest.raises(ClientError) as refused:
            dynamo.put_item(TableName="table", Item={"p": {"S": "more"}, "v": {"S": VALUE}})
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert refused.value.response["Error"]["Code"] == "InternalServerError"
        with pytest.raises(UnavailableError) as refused:
            client.query(q.create(q.collection("c"), {"data": {"v": VALUE}}))
        assert refused.value.errors[0].code == "unavailable"

        # Reads and deletions go on.
        assert redis.do("GET", f"k{count - 1}") == VALUE
        assert rest(server, "STRLEN", "k0") == (200, {"result": len(VALUE)})
        assert dynamo.get_item(TableName="table", Key={"p": {"S": "1"}})["Item"]["v"]["S"] == VALUE
        assert client.query(q.get(q.ref(q.collection("c"), "1")))["data"]["v"] == VALUE
        assert redis.do("DEL", "k0", "k1") == 2
        dynamo.delete_item(TableName="table", Key={"p": {"S": "1"}})
        client.query(q.delete(q.ref(q.collection("c"), "1")))

    # A server starts on it, after whatever end.
    for end in (server.stop, server.kill):
        end()
        server.start()
        with Connection(server.port, timeout_seconds=60) as redis:
            assert redis.do("GET", "k2") == VALUE and redis.do("EXISTS", "k0", "k1") == 0
            assert redis.do("DBSIZE") == count - 2
    assert "Item" not in dynamodb.connect(server).get_item(TableName="table", Key={"p": {"S": "1"}})

    filling.unlink()
    with Connection(server.port, timeout_seconds=60) as redis:
        wait_for_room(redis)
        wait_until_told(redis, "aof_last_write_status", "ok")
    assert server.stop() == 0


def wait_until_told(connection, name, value):
    deadline = time.monotonic() + 60
    while information(connection)[name] != value:
        assert time.monotonic() < deadline, (name, information(connection))


def test_deleting_makes_room_on_a_disk_that_the_server_filled(disk, server):
    with Connection(server.port, timeout_seconds=60) as redis:
        count = write_until_full(redis)
        disk.fill()
        assert count * len(VALUE) > 24 << 20, "most of the disk"
        assert "failed" in str(redis.do("SAVE")), "no room for a checkpoint beside the log"
        assert information(redis)["rdb_last_bgsave_status"] == "err"
        assert (disk.path / "data" / "checkpoint.partial").stat().st_size == 0
        for number in range(10, count):
            assert redis.do("DEL", f"k{number}") == 1
        wait_for_room(redis)
        wait_until_told(redis, "rdb_last_bgsave_status", "ok")
        server.kill()
    server.start()
    with Connection(server.port, timeout_seconds=60) as redis:
        assert redis.do("DBSIZE") == 11 and redis.do("GET", "k9") == VALUE
    assert server.stop() == 0


def test_all_documents_of_an_index_can_be_deleted(disk):
    """Removed documents were taken out of the postings by every deletion beyond 256, which wrote the postings anew: of 23,674 documents of 150 words,
    133 could be deleted before the room reserved for deletions was used up. A deletion of one took half a second by then."""
    options = ["--log-segment-bytes", str(SEGMENT_BYTES)]
    server = Server(durability="always", data=str(disk.path / "data"), options=options).start()
    words = [f"word{number}" for number in range(2000)]
    choice = random.Random(1)
    with Connection(server.port, timeout_seconds=60) as redis:
        assert redis.do("FT.CREATE", "i", "PREFIX", 1, "d:", "SCHEMA", "t", "TEXT") == "OK"
        written = 0
        while (replies := redis.pipeline(*(["HSET", f"d:{written + number}", "t", " ".join(choice.choices(words, k=150))] for number in range(100)))) == [1] * 100:
            written += 100
        written += replies.count(1)
        assert str(replies[-1]) == MISCONF and written > 2000, (written, replies[-1])
        disk.fill()
        order = choice.sample(range(written), written)
        for start in range(0, written, 100):
            keys = [f"d:{number}" for number in order[start : start + 100]]
            assert redis.pipeline(*(["DEL", key] for key in keys)) == [1] * len(keys), (start, written)
            if start == 500:
                found = redis.do("FT.SEARCH", "i", "word7", "LIMIT", 0, written, "NOCONTENT")
                left = {f"d:{number}" for number in order[600:]}
                assert found[0] == len(found) - 1 > 20 and set(found[1:]) < left
                assert redis.do("FT.SEARCH", "i", "word7*", "LIMIT", 0, 0)[0] > found[0]
        wait_for_room(redis)
        assert redis.do("HSET", "d:1", "t", "word7 again") == 1
        assert redis.do("FT.SEARCH", "i", "word7", "NOCONTENT") == [1, "d:1"]
    assert server.stop() == 0
    checked = subprocess.run([binary(), "check", "--data", str(disk.path / "data")], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
