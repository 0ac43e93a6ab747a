"""A script that never ends keeps the partition, and nothing else.

It hung the server for good: the first request of another layer, or the first one before the script counted as busy, blocked an I/O
thread on the partition's lock, and with the last I/O thread went /healthz, SCRIPT KILL, SHUTDOWN and the signal to stop.
"""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import UnavailableError

from harness import dynamodb, fauna
from harness.admin import Admin, Refused
from harness.resp import Connection, NilArray, ReplyError
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only

ENDLESS = "while true do end"
BUSY = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
# Longer than a request of any layer may wait, with room for a slow machine.
SECONDS_MAX = 100
AT_ONCE = 8


class World:
    """A server with something in each layer, and two databases."""

    def __init__(self, io_threads: int):
        self.server = Server(options=["--io-threads", str(io_threads)]).start()
        self.tenant = Admin(self.server).create("shop")["credentials"]
        with self.connect() as connection:
            assert connection.do("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "+@all") == "OK"
            assert connection.do("SET", "k", "v") == "OK"
        self.table = dynamodb.connect(self.server)
        key = {"AttributeName": "id", "AttributeType": "S"}
        self.table.create_table(
            TableName="items",
            AttributeDefinitions=[key],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.table.put_item(TableName="items", Item={"id": {"S": "a"}})
        self.fauna = fauna.connect(self.server)
        self.fauna.query(q.create_collection({"name": "things"}))

    def connect(self, protocol: int = 2) -> Connection:
        return Connection(self.server.port, protocol, timeout_seconds=SECONDS_MAX)

    def run_endlessly(self, script: str = ENDLESS, busy_after_ms: int = 100) -> Connection:
        """Starts a script and waits until it counts as busy, if it ever does."""
        with self.connect() as connection:
            connection.do("CONFIG", "SET", "busy-reply-threshold", str(busy_after_ms))
        runner = self.connect()
        runner.send("EVAL", script, "0")
        if busy_after_ms:
            with self.connect() as other:
                assert other.do("GET", "k") in ("v", ReplyError(BUSY))
                while other.do("GET", "k") != ReplyError(BUSY):
                    pass
                # Another may have kept the partition, before the script began.
                while other.do("FUNCTION", "KILL").startswith("NOTBUSY"):
                    pass
        return runner

    def page(self, path: str, token: str | None = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.http_port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def key_value(self, commands: str, timeout_ms: int = 3000) -> tuple[int, str]:
        cluster_file = Path(self.server.data) / "fdb.cluster"
        command = [binary(), "kv", "-C", str(cluster_file), "--exec", f"option on timeout {timeout_ms}; {commands}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        return ended.returncode, ended.stdout + ended.stderr

    def item(self):
        return self.table.get_item(TableName="items", Key={"id": {"S": "a"}})["Item"]


@pytest.fixture(params=[1, 3], ids=["1-io-thread", "3-io-threads"])
def world(request):
    world = World(request.param)
    yield world
    world.server.close()


def outcome(function):
    try:
        return function()
    except Exception as error:
        return error


def all_at_once(*functions):
    """For each function the futures of its calls, which have begun."""
    pool = concurrent.futures.ThreadPoolExecutor(len(functions) * AT_ONCE)
    futures = [[pool.submit(outcome, function) for _ in range(AT_ONCE)] for function in functions]
    pool.shutdown(wait=False)
    return futures


def test_everybody_is_answered_while_a_script_never_ends(world):
    runner = world.run_endlessly()
    futures = all_at_once(
        world.item,
        lambda: world.table.put_item(TableName="items", Item={"id": {"S": "b"}}),
        lambda: world.fauna.query(q.exists(q.collection("things"))),
        lambda: world.fauna.query(q.create(q.collection("things"), {"data": {}})),
        lambda: world.page("/get/k"),
        lambda: world.page("/get/k", world.tenant["token"]),
        lambda: Admin(world.server).create("second"),
        lambda: world.key_value("get k"),
    )
    # While those wait, and afterwards, whoever needs no lock is answered.
    for _ in range(2):
        for _ in range(AT_ONCE):
            check_what_needs_no_lock(world)
        concurrent.futures.wait(futures[0])
    get, put, read, write, rest, rest_elsewhere, create, key_value = ([future.result() for future in each] for each in futures)
    for error in get + put:
        assert isinstance(error, ClientError), error
        assert (error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]) == (503, "ServiceUnavailableException")
    assert all(isinstance(error, UnavailableError) for error in read + write), (read, write)
    assert rest == [(400, json.dumps({"error": BUSY}, separators=(",", ":")))] * AT_ONCE
    # The database's users are among its rows.
    assert all(status == 503 and "BUSY" in text for status, text in rest_elsewhere), rest_elsewhere
    assert all(isinstance(error, Refused) and error.status == 503 for error in create), create
    # Its clients try again for as long as they were told to.
    assert all(code == 1 and "(1031)" in text for code, text in key_value), key_value

    with world.connect() as killer:
        assert killer.do("SCRIPT", "KILL") == "OK"
        assert killer.do("GET", "k") == "v"
    assert "Script killed by user" in str(runner.read())
    assert world.item() == {"id": {"S": "a"}}
    assert world.fauna.query(q.exists(q.collection("things"))) is True
    assert world.page("/get/k", world.tenant["token"]) == (200, '{"result":null}')
    assert "`k': not found" in world.key_value("get k", timeout_ms=60_000)[1]


def check_what_needs_no_lock(world):
    """As Redis 7 answers: the commands that have the flag allow_busy."""
    assert world.page("/healthz") == (200, "ok\n")
    assert "quartet_redis_commands_total" in world.page("/metrics")[1]
    assert Admin(world.server).show("shop")["name"] == "shop"
    with world.connect() as new:
        assert new.do("PING") == ReplyError(BUSY)
        assert new.do("AUTH", "ann", "wrong").startswith("WRONGPASS")
        assert new.do("AUTH", "ann", "sesame") == "OK"
        assert new.do("HELLO", "3", "AUTH", "ann", "sesame", "SETNAME", "x")["proto"] == 3
        assert new.do("HELLO", "2")[5] == 2
        assert new.do("WATCH", "k") == "OK"
        assert new.do("UNWATCH") == "OK"
        assert new.do("FUNCTION", "KILL") == ReplyError(BUSY)
        assert new.do("MULTI") == "OK"
        assert new.do("DISCARD") == "OK"
        assert new.do("RESET") == "RESET"
        assert new.do("SHUTDOWN") == ReplyError(BUSY)
        assert new.do("QUIT") == "OK"


def test_requests_before_a_script_counts_as_busy_wait_for_it(world):
    """With a threshold of zero nobody is ever told BUSY, as in Redis; but nobody stands in the way of the others either."""
    runner = world.run_endlessly(script="for i = 1, 1e8 do end return 'done'", busy_after_ms=0)
    watcher, reader = world.connect(), world.connect()
    reader.send("GET", "k")
    futures = all_at_once(world.item, lambda: world.fauna.query(q.exists(q.collection("things"))), lambda: world.page("/get/k"))
    while not all(future.done() for each in futures for future in each):
        assert world.page("/healthz") == (200, "ok\n")
    assert runner.read() == "done"
    assert reader.read() == "v"
    get, read, rest = ([future.result() for future in each] for each in futures)
    # A machine may be so slow that the script outlasts the patience of HTTP's layers.
    assert all(one == {"id": {"S": "a"}} or isinstance(one, ClientError) for one in get), get
    assert all(one is True or isinstance(one, UnavailableError) for one in read), read
    assert all(one[0] in (200, 503) for one in rest), rest
    watcher.close()


def test_a_watch_made_meanwhile_makes_exec_fail(world):
    runner = world.run_endlessly()
    with world.connect() as other:
        assert other.do("WATCH", "k") == "OK"
        with world.connect() as killer:
            assert killer.do("SCRIPT", "KILL") == "OK"
        runner.read()
        assert other.do("MULTI") == "OK"
        assert other.do("SET", "k", "w") == "QUEUED"
        assert isinstance(other.do("EXEC"), NilArray)
        assert other.do("GET", "k") == "v"


def test_leftovers_of_connections_go_when_the_lock_is_free(world):
    subscriber, blocked, watching = world.connect(), world.connect(), world.connect()
    subscriber.do("SUBSCRIBE", "news")
    blocked.send("BLPOP", "list", "0")
    watching.do("WATCH", "k")
    runner = world.run_endlessly()
    for connection in (subscriber, blocked, watching):
        connection.close()
    # They are gone when a connection that came later is served.
    for _ in range(AT_ONCE):
        check_what_needs_no_lock(world)
    with world.connect() as other:
        assert other.do("SCRIPT", "KILL") == "OK"
        runner.read()
        deadline = time.monotonic() + SECONDS_MAX
        while other.do("PUBSUB", "NUMSUB", "news") != ["news", 0] and time.monotonic() < deadline:
            pass
        assert other.do("PUBSUB", "NUMSUB", "news") == ["news", 0]
        assert other.do("RPUSH", "list", "x") == 1
        assert other.do("LLEN", "list") == 1


@pytest.mark.parametrize("how", ["SIGTERM", "SHUTDOWN NOSAVE"])
def test_a_server_with_an_endless_script_can_be_stopped(world, how):
    """What the script wrote is taken back: nobody has been told of it."""
    runner = world.run_endlessly("redis.call('SET', 'k', 'half') " + ENDLESS)
    with world.connect() as other:
        assert other.do("SCRIPT", "KILL").startswith("UNKILLABLE")
        if how != "SIGTERM":
            other.send(*how.split())
            world.server.process.wait(SECONDS_MAX)
    assert world.server.stop() == 0
    runner.close()
    world.server.start()
    with world.connect() as again:
        assert again.do("GET", "k") == "v"
