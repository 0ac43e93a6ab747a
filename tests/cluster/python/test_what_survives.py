"""What survives a change of home: each row of the table in docs/cluster.md, by clients of its protocol.

A row is a generator. It connects its clients to `place.node` and yields; uses them while the home is about to go and yields; and gets which
change it was, and checks what is left. The page names its rows as they are called here.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import pytest
import redis
from consistency.workloads import KeyValue
from faunadb import query as q
from harness import certificates, dynamodb, fauna
from harness.cluster import Cluster, Node, until
from harness.resp import Closed, Connection
from harness.server import ROOT, Server
from harness.unnoticed import all_run
from redis.cache import CacheConfig

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

PLANNED, KILLED, DEPOSED = "a planned change", "the home is killed", "the home stands still"
HOME, ANOTHER = "the home", "another node"
PAGE = ROOT / "docs" / "cluster.md"
BEARER = {"Authorization": "Bearer dev"}
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def plain():
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def certified(made):
    with Cluster(options=["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]) as cluster:
        yield cluster


@pytest.fixture
def world(request, name):
    """A row that is about certificates has a cluster with one."""
    return request.getfixturevalue("certified" if name == "tls" else "plain")


class Place:
    """`node` is the node that clients are connected to; `third` is neither the home that goes nor, after a planned change, the next."""

    def __init__(self, world: Cluster, at: str, made: certificates.Certificates, stack: contextlib.ExitStack):
        self.stack, self.made = stack, made
        self.home = world.home()
        self.successor, self.third = (node for node in world.nodes if node is not self.home)
        self.node = self.home if at == HOME else self.third
        self.pool = ThreadPoolExecutor(32)
        stack.callback(self.pool.shutdown, wait=False, cancel_futures=True)

    def redis(self, node: Node | None = None, **options) -> redis.Redis:
        """A client with one connection, which it makes now and never again by itself."""
        chosen = {"socket_timeout": SECONDS_MAX, "retry": None, "decode_responses": True, "single_connection_client": True, **options}
        return self.stack.enter_context(redis.Redis(port=(node or self.node).port, **chosen))

    def http(self, node: Node | None = None) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", (node or self.node).http_port, timeout=SECONDS_MAX)
        self.stack.callback(connection.close)
        return connection

    def later(self, act: Callable) -> Future:
        return self.pool.submit(act)

    def after(self) -> redis.Redis:
        """A client that is made after the change, at a node that runs."""
        return self.redis(self.third)


Row = Generator[None, str, None]
ROWS: dict[str, Callable[[Place], Row]] = {}


def row(act: Callable[[Place], Row]) -> Callable[[Place], Row]:
    ROWS[act.__name__.replace("_", " ")] = act
    return act


def ends(act: Callable) -> None:
    """The connection that `act` uses is closed, now or soon."""
    def is_closed() -> bool:
        try:
            act()
        except (redis.ConnectionError, http.client.HTTPException, OSError):
            return True
        return False

    until(is_closed, "the connection ends", 10)


class Counter:
    """Counts by one request after another, until one fails or it is told to stop."""

    def __init__(self, place: Place, act: Callable[[], object]):
        self.act, self.count, self.over = act, 0, threading.Event()
        self.failure: Exception | None = None
        self.done = place.later(self._run)
        until(lambda: self.count > 5 or self.failure, "requests are answered")

    def _run(self) -> None:
        while not self.over.is_set():
            try:
                self.act()
            except Exception as failure:  # noqa: BLE001
                self.failure = failure
                return
            self.count += 1

    def end(self) -> int:
        self.over.set()
        self.done.result(SECONDS_MAX)
        return self.count


# ---- Redis


@row
def requests(place: Place) -> Row:
    client = place.redis()
    client.delete("requests")
    counter = Counter(place, lambda: client.incr("requests"))
    yield
    change = yield
    if change == PLANNED:
        until(lambda: counter.count > 100 or counter.failure, "it goes on")
    count = counter.end() if change == PLANNED else (counter.done.result(SECONDS_MAX), counter.count)[1]
    executed = int(place.after().get("requests"))
    if change == PLANNED:
        assert (counter.failure, executed) == (None, count)
    else:
        # The last request has no answer, and its outcome is unknown.
        assert isinstance(counter.failure, redis.ConnectionError), counter.failure
        assert executed in (count, count + 1)


@row
def sessions(place: Place) -> Row:
    place.redis().execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all")
    place.redis().acl_save()
    named = place.redis(db=3, protocol=3, client_name="named", username="reader", password="secret")
    named.set("key", "value")
    queued, silent = place.redis(), place.stack.enter_context(Connection(place.node.port))
    queued.delete("queued")
    queued.execute_command("MULTI")
    queued.execute_command("INCR", "queued")
    silent.send("CLIENT", "REPLY", "OFF")
    listening = place.redis().pubsub(ignore_subscribe_messages=True)
    listening.subscribe("channel")
    listening.psubscribe("chan*")
    listening.ssubscribe("shard")
    until(lambda: place.redis().pubsub_shardnumsub("shard")[0][1] == 1, "it is subscribed")

    def names_what_it_is() -> None:
        assert (named.get("key"), named.client_getname(), named.acl_whoami()) == ("value", "named", "reader")
        assert isinstance(named.execute_command("HGETALL", "nothing"), dict), "RESP3"

    def executes_its_queue() -> None:
        assert queued.execute_command("EXEC") == [1]

    def is_silent() -> None:
        silent.send("SET", "silent", "1")
        assert silent.do("CLIENT", "REPLY", "ON") == "OK" and silent.do("GET", "silent") == "1"

    def hears() -> None:
        said, heard = place.after(), set()

        def has_heard() -> bool:
            said.publish("channel", "said")
            said.spublish("shard", "said")
            while message := listening.get_message(timeout=0.2):
                heard.add(message["type"])
            return heard == {"message", "pmessage", "smessage"}

        until(has_heard, "it hears what is said")

    yield
    change = yield
    if change == KILLED:
        for act in (named.ping, queued.ping, listening.get_message, lambda: silent.socket.sendall(b"PING\r\n")):
            ends(act)
        return
    for check in (names_what_it_is, executes_its_queue, is_silent, hears):
        # A home that goes on in time gives the session to the next whole; else it ends.
        with contextlib.nullcontext() if change == PLANNED else contextlib.suppress(redis.ConnectionError, redis.ReadOnlyError, Closed, OSError):
            check()


@row
def waits(place: Place) -> Row:
    first = place.redis()
    first.delete("list", "set", "source", "target", "stream", "grouped")
    first.xgroup_create("grouped", "group", mkstream=True)
    waiting = {
        "BLPOP": lambda client: client.blpop("list", 60),
        "BZPOPMIN": lambda client: client.bzpopmin("set", 60),
        "BLMOVE": lambda client: client.blmove("source", "target", 60),
        "XREAD": lambda client: client.xread({"stream": "$"}, block=60_000),
        "XREADGROUP": lambda client: client.xreadgroup("group", "reader", {"grouped": ">"}, block=60_000),
    }
    answers = {name: place.later(lambda act=act, client=place.redis(): act(client)) for name, act in waiting.items()}
    until(lambda: first.info("clients")["blocked_clients"] == len(waiting), "they wait")
    yield
    change = yield
    if change == KILLED:
        for name, answer in answers.items():
            assert isinstance(answer.exception(SECONDS_MAX), redis.ConnectionError), name
        return
    after = place.after()
    after.rpush("list", "element")
    after.zadd("set", {"member": 1})
    after.rpush("source", "moved")
    after.xadd("stream", {"field": "value"})
    after.xadd("grouped", {"field": "value"})
    found = {name: answer.result(SECONDS_MAX) for name, answer in answers.items()}
    assert [*found["BLPOP"]] == ["list", "element"] and [*found["BZPOPMIN"]][:2] == ["set", "member"] and found["BLMOVE"] == "moved"
    assert "value" in str(found["XREAD"]) and "value" in str(found["XREADGROUP"])
    assert after.xpending("grouped", "group")["pending"] == 1


@row
def popped_elements(place: Place) -> Row:
    node, pushed, popped, failed = place.node, [], [], []
    place.redis().delete("elements")
    over = threading.Event()

    def push(client=place.redis()) -> None:
        while not over.is_set():
            pushed.append(len(pushed))
            try:
                client.rpush("elements", pushed[-1])
            except redis.RedisError as failure:
                failed.append(failure)
                return

    def pop() -> None:
        while not (over.is_set() and popped and popped[-1] is None):
            try:
                with redis.Redis(port=node.port, retry=None, single_connection_client=True) as client:
                    while not (over.is_set() and popped and popped[-1] is None):
                        answer = client.blpop("elements", 1)
                        popped.append(None if answer is None else int(answer[1]))
            except redis.RedisError as failure:
                failed.append(failure)

    threads = [place.later(push), place.later(pop)]
    until(lambda: len(popped) > 10, "elements are popped")
    yield
    change = yield
    if change == PLANNED:
        seen = len(popped)
        until(lambda: len(popped) > seen + 10, "it goes on")
    over.set()
    for thread in threads:
        thread.result(SECONDS_MAX)
    given = [*(one for one in popped if one is not None), *map(int, place.after().lrange("elements", 0, -1))]
    assert len(given) == len({*given}), "an element was given twice"
    missing = {*pushed} - {*given}
    if change == PLANNED:
        assert (missing, failed) == (set(), [])
    else:
        # With the reply that the home did not send, and the push whose outcome is unknown.
        assert len(missing) <= 2, missing


@row
def watched_keys(place: Place) -> Row:
    watched = place.redis()
    watched.set("watched", "before")
    pipe = place.stack.enter_context(watched.pipeline())
    pipe.watch("watched")
    pipe.multi()
    pipe.set("watched", "after")
    yield
    change = yield
    # redis-py reports a connection that ends while keys are watched as a key that was touched.
    with pytest.raises(redis.WatchError if change == PLANNED else (redis.WatchError, redis.ConnectionError)):
        pipe.execute()
    assert place.after().get("watched") == "before"


@row
def bound_connections(place: Place) -> Row:
    monitor = place.stack.enter_context(place.redis().monitor())
    seen = place.later(lambda: [*monitor.listen()])
    tracking, plain = place.redis(protocol=3), place.redis()
    tracking.execute_command("CLIENT", "TRACKING", "ON")
    caching = place.redis(protocol=3, cache_config=CacheConfig(), single_connection_client=False)
    caching.set("cached", "before")
    assert (caching.get("cached"), caching.get("cached")) == ("before", "before")
    assert plain.client_id() in {int(one["id"]) for one in plain.client_list()}
    yield
    change = yield
    assert isinstance(seen.exception(SECONDS_MAX), redis.ConnectionError)
    ends(tracking.ping)
    place.after().set("cached", "after")

    def cached() -> str | None:
        with contextlib.suppress(redis.ConnectionError):
            return caching.get("cached")

    assert until(cached, "the client with a cache connects again") == "after"
    if change == PLANNED:
        assert plain.client_id() in {int(one["id"]) for one in plain.client_list()}


@row
def replicas(place: Place) -> Row:
    """Redis as a replica of this node connects again, and copies. `WAIT` waits while the replica stands still."""
    replica = place.stack.enter_context(Server(target="redis", options=["--replicaof", "127.0.0.1", str(place.node.port)]))
    client = place.redis(replica)

    def has(value: str) -> bool:
        return client.get("replicated") == value

    place.redis().set("replicated", "before")
    until(lambda: has("before"), "the replica has copied")
    os.kill(replica.pid, signal.SIGSTOP)
    place.stack.callback(os.kill, replica.pid, signal.SIGCONT)
    place.redis().set("replicated", "meanwhile")
    waiting = place.later(lambda writer=place.redis(): (writer.set("waited", "1"), writer.wait(1, 8000))[1])
    until(lambda: any(one["cmd"] == "wait" for one in place.redis().client_list()), "it waits")
    assert not waiting.done(), waiting.result()
    yield
    change = yield
    os.kill(replica.pid, signal.SIGCONT)
    failure = waiting.exception(SECONDS_MAX)
    assert isinstance(failure, redis.ConnectionError) if change == KILLED else waiting.result() in (0, 1), failure
    place.after().set("replicated", "after")
    until(lambda: has("after"), "the replica follows the next home")


@row
def cursors(place: Place) -> Row:
    client = place.redis()
    client.sadd("scanned", *range(1000))
    found, seen = client.sscan("scanned", 0, count=100)
    assert found != 0
    table = dynamodb.connect(place.node)
    key, attributes = [{"AttributeName": "id", "KeyType": "HASH"}], [{"AttributeName": "id", "AttributeType": "S"}]
    with contextlib.suppress(table.exceptions.ResourceInUseException):
        table.create_table(TableName="cursors", KeySchema=key, AttributeDefinitions=attributes, BillingMode="PAY_PER_REQUEST")
    for number in range(4):
        table.put_item(TableName="cursors", Item={"id": {"S": str(number)}})
    page = table.scan(TableName="cursors", Limit=2)
    documents = fauna.connect(place.node)
    documents.query(q.if_(q.exists(q.collection("cursors")), None, q.create_collection({"name": "cursors"})))
    if not documents.query(q.exists(q.ref(q.collection("cursors"), "1"))):
        documents.query(q.do(*(q.create(q.ref(q.collection("cursors"), str(number)), {"data": {}}) for number in range(1, 5))))
    every = q.documents(q.collection("cursors"))
    half = documents.query(q.paginate(every, size=2))
    yield
    yield
    after = place.after()
    while found != 0:
        found, more = after.sscan("scanned", found, count=100)
        seen = [*seen, *more]
    assert {*map(int, seen)} == {*range(1000)}
    rest = dynamodb.connect(place.third).scan(TableName="cursors", ExclusiveStartKey=page["LastEvaluatedKey"])
    assert {one["id"]["S"] for one in [*page["Items"], *rest["Items"]]} == {"0", "1", "2", "3"}
    last = fauna.connect(place.third).query(q.paginate(every, size=2, after=half["after"]))
    assert [one.id() for one in [*half["data"], *last["data"]]] == ["1", "2", "3", "4"]


@row
def streams(place: Place) -> Row:
    """A consumer's pending entries, the iterator of a table's stream, functions and scripts."""
    client = place.redis()
    client.delete("log")
    client.xgroup_create("log", "group", mkstream=True)
    client.xadd("log", {"field": "value"})
    [[_, [[pending, _]]]] = read_of(client.xreadgroup("group", "reader", {"log": ">"}))
    client.function_load("#!lua name=kept\nredis.register_function('kept', function() return 7 end)", replace=True)
    script = client.script_load("return 8")
    table, stream = dynamodb.connect(place.node), dynamodb.connect(place.node, "dynamodbstreams")
    key, attributes = [{"AttributeName": "id", "KeyType": "HASH"}], [{"AttributeName": "id", "AttributeType": "S"}]
    with contextlib.suppress(table.exceptions.ResourceInUseException):
        view = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
        table.create_table(TableName="streams", KeySchema=key, AttributeDefinitions=attributes, BillingMode="PAY_PER_REQUEST", StreamSpecification=view)
    arn = table.describe_table(TableName="streams")["Table"]["LatestStreamArn"]
    shards = stream.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    latest = [stream.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="LATEST") for shard in shards]
    iterators = [one["ShardIterator"] for one in latest]
    yield
    yield
    after = place.after()
    [[_, [[again, _]]]] = read_of(after.xreadgroup("group", "reader", {"log": "0"}))
    assert again == pending and after.xack("log", "group", pending) == 1
    assert after.fcall("kept", 0) == 7
    with contextlib.suppress(redis.exceptions.NoScriptError):
        assert after.evalsha(script, 0) == 8
    item = {"id": {"S": "new"}}
    dynamodb.connect(place.third).delete_item(TableName="streams", Key=item)
    dynamodb.connect(place.third).put_item(TableName="streams", Item=item)
    read: list[dict] = []

    def is_read() -> bool:
        reader = dynamodb.connect(place.third, "dynamodbstreams")
        answers = [reader.get_records(ShardIterator=iterator) for iterator in iterators]
        iterators[:] = [answer["NextShardIterator"] for answer in answers if "NextShardIterator" in answer]
        read.extend(record for answer in answers for record in answer["Records"])
        return any(one["eventName"] == "INSERT" for one in read)

    until(is_read, "the iterator reads what was written after the change")


def read_of(answer) -> list:
    """RESP3 answers a map, RESP2 a list of pairs."""
    pairs = answer.items() if isinstance(answer, dict) else answer
    return [[name, entries[0] if entries and isinstance(entries[0], list) and isinstance(entries[0][0], (list, tuple)) else entries] for name, entries in pairs]


# ---- HTTP


def post(connection: http.client.HTTPConnection, *command: str) -> tuple[int, str]:
    connection.request("POST", "/", json.dumps(command), BEARER)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@row
def http_1(place: Place) -> Row:
    idle, busy = place.http(), place.http()
    assert post(idle, "DEL", "posted")[0] == 200

    def count() -> None:
        answer = post(busy, "INCR", "posted")
        if answer[0] != 200:
            raise OSError(*answer)

    counter = Counter(place, count)
    sockets = idle.sock, busy.sock
    yield
    change = yield
    if change == PLANNED:
        seen = counter.count
        until(lambda: counter.count > seen + 10 or counter.failure, "it goes on")
        counted = counter.end()
        assert counter.failure is None and busy.sock is sockets[1], counter.failure
    else:
        counter.done.result(SECONDS_MAX)
        counted = counter.count
        assert isinstance(counter.failure, OSError) and counter.failure.args[0] == 504, counter.failure
        assert busy.sock is None, "the connection was kept"
    # A connection without a request under way goes on in either case.
    status, text = post(idle, "GET", "posted")
    assert status == 200 and idle.sock is sockets[0]
    assert int(json.loads(text)["result"]) - counted in ((0,) if change == PLANNED else (0, 1))


class Http2:
    """One connection over HTTP/2 with prior knowledge, and what happens to it."""

    def __init__(self, port: int):
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.state.initiate_connection()
        self.socket.sendall(self.state.data_to_send())
        self.received = b""
        self.goes_away, self.has_failed, self.is_reset, self.is_closed = False, False, False, False
        self.statuses: dict[int, str] = {}
        self.ended: set[int] = set()

    def send(self, *command: str) -> int:
        stream, body = self.state.get_next_available_stream_id(), json.dumps(command).encode()
        head = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "127.0.0.1"), ("authorization", "Bearer dev")]
        self.state.send_headers(stream, [*head, ("content-length", str(len(body)))])
        self.state.send_data(stream, body, end_stream=True)
        self.socket.sendall(self.state.data_to_send())
        return stream

    def read(self) -> None:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            self.is_reset = self.is_closed = True
            return
        if not data:
            self.is_closed = True
            return
        self.received += data
        # One frame after the other: the library takes none after GOAWAY, and this peer sends its last answers then.
        while len(self.received) >= 9 and len(self.received) >= (end := 9 + int.from_bytes(self.received[:3])):
            frame, self.received = self.received[:end], self.received[end:]
            with contextlib.suppress(h2.exceptions.ProtocolError) if self.goes_away else contextlib.nullcontext():
                for event in self.state.receive_data(frame):
                    self._note(event)
        with contextlib.suppress(OSError):
            self.socket.sendall(self.state.data_to_send())

    def read_to_the_end(self) -> None:
        while not self.is_closed:
            self.read()

    def _note(self, event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.statuses[event.stream_id] = dict(event.headers)[":status"]
        if isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goes_away, self.has_failed = True, event.error_code != h2.errors.ErrorCodes.NO_ERROR
            self.last_stream = event.last_stream_id

    def answered(self, stream: int) -> str:
        while stream not in self.ended and not self.is_closed:
            self.read()
        return self.statuses.get(stream, "none")


@row
def http_2(place: Place) -> Row:
    connection = Http2(place.node.http_port)
    place.stack.callback(connection.socket.close)
    assert connection.answered(connection.send("DEL", "multiplexed")) == "200"
    yield
    under_way = connection.send("INCR", "multiplexed")
    # It acknowledges that the connection ends, as clients do.
    reading = place.later(connection.read_to_the_end)
    change = yield
    reading.result(SECONDS_MAX)
    executed = int(place.after().get("multiplexed") or 0)
    if change == PLANNED:
        assert connection.goes_away and not connection.is_reset
        assert (connection.statuses[under_way], executed) == ("200", 1)
    else:
        assert connection.goes_away and not connection.is_reset and executed in (0, 1)
        # A stream after the last one that is named was not executed, and the client may repeat it.
        is_refused = under_way > connection.last_stream and executed == 0
        assert connection.has_failed or under_way in connection.ended or is_refused


# ---- key-value


@row
def keyvalue(place: Place) -> Row:
    kind = KeyValue()
    client, fdb = kind.connect(place.node), kind.fdb

    def transaction():
        made = client.create_transaction()
        made.options.set_timeout(SECONDS_MAX * 1000)
        return made

    def write(value: bytes) -> None:
        made = transaction()
        made[b"watched"] = value
        made.commit().wait()

    write(b"before")
    old, watching, blind = transaction(), transaction(), transaction()
    for each in (old, blind):
        each.get_read_version().wait()
    watch = watching.watch(b"watched")
    watching.commit().wait()
    yield
    blind[b"blind"] = b"written"
    committing = blind.commit() if place.stands_still else None
    change = yield
    with pytest.raises(fdb.FDBError) as too_old:
        old.get(b"watched").wait()
    assert too_old.value.code in ((1007,) if change == PLANNED else (1007, 1037))
    if change == KILLED:
        with pytest.raises(fdb.FDBError) as unknown:
            committing.wait()
        assert unknown.value.code in (1021, 1007), unknown.value.code
    until(lambda: committed(write, fdb), "writes go on")
    watch.wait()


def committed(write: Callable, fdb) -> bool:
    try:
        write(b"after")
    except fdb.FDBError:
        return False
    return True


# ---- TLS


@row
def tls(place: Place) -> Row:
    """Where the home has answered the handshake: at the home itself, and for Redis at any node."""
    root = str(place.made.root)
    client = place.redis(ssl=True, ssl_ca_certs=root, ssl_check_hostname=False)
    client.set("ciphered", "value")
    connection = http.client.HTTPSConnection("127.0.0.1", place.node.http_port, timeout=SECONDS_MAX, context=ssl.create_default_context(cafile=root))
    place.stack.callback(connection.close)
    assert post(connection, "GET", "ciphered") == (200, '{"result":"value"}')
    first = connection.sock
    yield
    yield
    ends(client.ping)
    if place.node is place.home:
        ends(lambda: post(connection, "GET", "ciphered"))
    else:
        assert post(connection, "GET", "ciphered") == (200, '{"result":"value"}') and connection.sock is first


# ---- the changes


def hand_over(place: Place) -> None:
    def is_handed_over() -> bool:
        """A node that has just started is not fit at once."""
        handed = place.home.command("hand-over", place.successor.name)
        return handed.returncode == 0 or place.successor.is_home()

    until(is_handed_over, "it is handed over")
    until(place.successor.is_home, "the other serves")


def another_is_home(place: Place) -> None:
    until(lambda: next((node for node in (place.successor, place.third) if node.is_home()), None), "another node is home")


@pytest.mark.parametrize("at", [HOME, ANOTHER])
@pytest.mark.parametrize("name", ROWS)
def test_a_planned_change(world, made, name, at):
    all_run(world)
    with contextlib.ExitStack() as stack:
        place = Place(world, at, made, stack)
        place.stands_still = False
        run = ROWS[name](place)
        next(run)
        next(run)
        hand_over(place)
        finish(run, PLANNED)


@pytest.mark.parametrize("name", ROWS)
def test_a_home_that_is_killed(world, made, name):
    """It stands still for a moment, so that there is a request that it never answers."""
    all_run(world)
    with contextlib.ExitStack() as stack:
        place = Place(world, ANOTHER, made, stack)
        place.stands_still = True
        run = ROWS[name](place)
        next(run)
        place.home.pause()
        next(run)
        place.home.kill()
        try:
            another_is_home(place)
            finish(run, KILLED)
        finally:
            place.home.start()


@pytest.mark.parametrize("name", ["sessions"])
def test_a_home_that_stood_still(world, made, name):
    """It learns that it is deposed when it goes on."""
    all_run(world)
    with contextlib.ExitStack() as stack:
        place = Place(world, ANOTHER, made, stack)
        run = ROWS[name](place)
        next(run)
        next(run)
        place.home.pause()
        try:
            another_is_home(place)
        finally:
            place.home.go_on()
        finish(run, DEPOSED)


def finish(run: Row, change: str) -> None:
    with contextlib.suppress(StopIteration):
        run.send(change)


def test_each_row_of_the_page_is_tested():
    [table] = re.findall(r"^\| \| a planned change \|.*\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    named = [line.rsplit("|", 2)[1].strip().strip("`") for line in table.splitlines()[1:]]
    assert sorted(named) == sorted(ROWS)
