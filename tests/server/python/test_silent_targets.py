"""MIGRATE to servers that accept and then say nothing: whoever asked waits, and nobody else does.

Four such targets used to keep the admin API, passwords and long queries of their I/O thread waiting. Nothing here is timed: what
others ask must be answered while every MIGRATE still waits.
"""

import contextlib
import http.client
import select
import socket

import pytest
from faunadb import query
from harness import fauna
from harness.admin import Admin
from harness.dynamodb import connect
from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.quartet_only

LONG_SCRIPT = "local n = 0 for i = 1, 3000000 do n = n + i end return 'done'"


@pytest.fixture
def silent():
    """A port whose connections are accepted, by the kernel, and never read."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield listener.getsockname()[1]


@pytest.mark.parametrize("count", [4, 40])
def test_silent_targets_stall_nobody(silent, count):
    server = Server(options=["--migrate-targets", "any"]).start()
    try:
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(Connection(server.port)) for _ in range(count)]
            for number, connection in enumerate(waiting):
                connection.do("SET", f"key:{number}", "v")
                connection.send("MIGRATE", "127.0.0.1", silent, f"key:{number}", 0, 600_000)
            use_everything(server)
            answered = [connection for connection in waiting if select.select([connection.socket], [], [], 0)[0]]
            assert not answered, "the others were answered after the targets were given up"
    finally:
        server.close()


def use_everything(server):
    # More than once, so that each I/O thread is asked.
    for number in range(4):
        with Connection(server.port, timeout_seconds=60) as redis:
            redis.do("ACL", "SETUSER", "alice", "on", ">right", "+@all", "~*")
            assert redis.do("AUTH", "alice", "right") == "OK"
            assert redis.do("EVAL", LONG_SCRIPT, 0) == "done"
            assert redis.do("SET", "other", number) == "OK"
        client = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
        client.request("GET", "/healthz")
        assert client.getresponse().read() is not None
        client.close()
        name = f"shop{number}"
        token = Admin(server).create(name)["credentials"]["token"]
        with Connection(server.port, timeout_seconds=60) as tenant:
            assert tenant.do("AUTH", name, token) == "OK"
            assert tenant.do("SET", "k", "v") == "OK"
    documents = fauna.connect(server, timeout=60)
    documents.query(query.create_collection({"name": "people"}))
    person = {"data": {"name": "Ada"}, "credentials": {"password": "secret word"}}
    ref = documents.query(query.create(query.collection("people"), person))["ref"]
    # The password is judged where it may take long, and so is the counting.
    assert documents.query(query.login(ref, {"password": "secret word"}))["secret"]
    numbers = list(range(2000))
    long_query = query.count(query.map_(lambda x: query.map_(lambda y: query.add(x, y), list(range(50))), numbers))
    assert documents.query(long_query) == 2000
    tables = connect(server)
    tables.create_table(
        TableName="things",
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    tables.put_item(TableName="things", Item={"p": {"S": "x"}})
    assert tables.scan(TableName="things")["Count"] == 1
