"""Databases that are moved to another partition while clients of all layers write to them.

QUARTET_TEST_MOVES is how often a database is moved, and how often the server is killed meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import subprocess
import threading
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path

import pytest
import redis
from botocore.exceptions import BotoCoreError, ClientError
from faunadb import query as q
from faunadb.errors import FaunaError
from harness import dynamodb, fauna, small_disk
from harness.admin import Admin, Refused
from harness.changes import Changes
from harness.server import ROOT, Server, binary
from requests.exceptions import RequestException

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

MOVES = int(os.environ.get("QUARTET_TEST_MOVES", "4"))
PARTITIONS = 3
TRANSACTION_TOO_OLD = 1007
PATIENCE_SECONDS = 60


found = importlib.util.spec_from_file_location("keyvalue_wire", ROOT / "tests/keyvalue/python/wire.py")
wire = importlib.util.module_from_spec(found)
found.loader.exec_module(wire)


def moves_of(server) -> dict[str, dict]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/admin/v1/partitions", headers={"Authorization": "Bearer dev"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return {one["database"]: one for one in json.loads(reply.read())["moves"]}


def end_of_move(server, name: str) -> dict:
    """Waits until the end. Answers what the server says of it."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while (one := moves_of(server)[name])["phase"] not in ("moved", "failed"):
        assert time.monotonic() < ends, one
        time.sleep(0.005)
    return one


def move(server, name: str, to: int) -> dict:
    begun = Admin(server).ask("POST", f"/{name}/move", {"to": to})
    assert begun == {"database": name, "to": to, "is_there": False}
    one = end_of_move(server, name)
    assert one["phase"] == "moved", one
    assert Admin(server).show(name)["partition"] == to
    return one


def check(server) -> None:
    """Of a server that is stopped: every row is where it belongs."""
    checked = subprocess.run([binary(), "check", "--data", server.data], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("\nsound\n") == PARTITIONS, checked.stdout


FAILURES = (redis.RedisError, OSError, HTTPException, BotoCoreError, ClientError, FaunaError, RequestException, subprocess.SubprocessError)


class Writer:
    """Writes 0, 1, 2 and so on, until it is told to stop. A write that fails may have happened, and is not tried again."""

    def __init__(self, server, database):
        self.server = server
        self.credentials = database["credentials"]
        self.name = database["name"]
        self.next = 0
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self.stops = threading.Event()
        self.thread: threading.Thread | None = None

    def begin(self) -> None:
        self.stops.clear()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def end(self) -> None:
        self.stops.set()
        self.give_up()
        self.thread.join()

    def give_up(self) -> None:
        """Ends a write that may wait for a server that is gone."""

    def run(self) -> None:
        while not self.stops.is_set():
            number, self.next = self.next, self.next + 1
            try:
                self.write(number)
                self.acknowledged.append(number)
            except FAILURES as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                # It may be down: a client waits a little.
                self.stops.wait(0.02)

    def verify(self) -> None:
        found = self.read()
        assert len(found) == len(set(found)), f"{type(self).__name__}: something is there twice"
        missing = set(self.acknowledged) - set(found)
        assert not missing, f"{type(self).__name__} lost {sorted(missing)[:10]} of {len(self.acknowledged)}: {self.errors[:3]}"
        assert set(found) <= set(range(self.next))


class RedisWriter(Writer):
    client: redis.Redis | None = None

    def connect(self) -> redis.Redis:
        return redis.Redis(port=self.server.port, username=self.name, password=self.credentials["token"], decode_responses=True, socket_timeout=30, retry=None)

    def write(self, number):
        if self.client is None or self.client.connection_pool.connection_kwargs["port"] != self.server.port:
            self.client = self.connect()
        # The value of the counter tells whether an increment was lost or done twice.
        with self.client.pipeline(transaction=True) as both:
            both.rpush("list", number).incr("count").execute()

    def read(self):
        with self.connect() as client:
            found = [int(number) for number in client.lrange("list", 0, -1)]
            assert found == sorted(found) and int(client.get("count") or 0) == len(found)
            return found


class RestWriter(Writer):
    def ask(self, *words):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.http_port}/", json.dumps(words).encode(), {"Authorization": f"Bearer {self.credentials['token']}"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.loads(reply.read())["result"]

    def write(self, number):
        self.ask("ZADD", "numbers", number, f"n{number}")

    def read(self):
        return [int(member[1:]) for member in self.ask("ZRANGE", "numbers", 0, -1)]


class DynamoDbWriter(Writer):
    def connect(self):
        return dynamodb.connect(self.server, key=(self.credentials["access_key_id"], self.credentials["secret_access_key"]))

    def prepare(self):
        self.connect().create_table(
            TableName="table",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "N"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.tables = (self.server.dynamodb_port, self.connect())

    def write(self, number):
        if self.tables[0] != self.server.dynamodb_port:
            self.tables = (self.server.dynamodb_port, self.connect())
        self.tables[1].put_item(TableName="table", Item={"k": {"N": str(number)}}, ConditionExpression="attribute_not_exists(k)")

    def read(self):
        pages = self.connect().get_paginator("scan").paginate(TableName="table", ConsistentRead=True)
        return [int(item["k"]["N"]) for page in pages for item in page["Items"]]


class FaunaWriter(Writer):
    def prepare(self):
        fauna.connect(self.server, self.credentials["fauna_key"]).query(q.create_collection({"name": "c"}))
        self.tree = (self.server.fauna_port, fauna.connect(self.server, self.credentials["fauna_key"]))

    def write(self, number):
        if self.tree[0] != self.server.fauna_port:
            self.tree = (self.server.fauna_port, fauna.connect(self.server, self.credentials["fauna_key"]))
        self.tree[1].query(q.create(q.ref(q.collection("c"), str(number + 1)), {"data": {"n": number}}))

    def read(self):
        tree = fauna.connect(self.server, self.credentials["fauna_key"])
        page = tree.query(q.map_(lambda ref: q.select(["data", "n"], q.get(ref)), q.paginate(q.documents(q.collection("c")), size=100_000)))
        return page["data"]


class KeyValueWriter(Writer):
    shell: subprocess.Popen | None = None

    def give_up(self):
        while self.thread.is_alive():
            shell = self.shell
            if shell is not None and not self.server.alive():
                shell.kill()
            self.thread.join(0.05)

    def run_shell(self, command: str) -> str:
        cluster_file = f"{self.server.data}.{self.name}.cluster"
        with open(cluster_file, "w") as file:
            file.write(f"quartet:{self.credentials['token']}@127.0.0.1:{self.server.keyvalue_port}\n")
        words = [binary(), "kv", "-C", cluster_file, "--timeout", "30", "--exec", command]
        self.shell = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        told, _ = self.shell.communicate(timeout=60)
        if self.shell.returncode != 0:
            raise OSError(told)
        return told

    def write(self, number):
        self.run_shell(f"writemode on; set row-{number:06} {number}")

    def read(self):
        told = self.run_shell("getrange row- row. 100000")
        return [int(line.removeprefix("`row-").split("'")[0]) for line in told.splitlines() if line.startswith("`row-")]


WRITERS = [RedisWriter, RestWriter, DynamoDbWriter, FaunaWriter, KeyValueWriter]


def writers_of(server, database) -> list[Writer]:
    writers = [make(server, database) for make in WRITERS]
    for writer in writers:
        if hasattr(writer, "prepare"):
            writer.prepare()
    return writers


@pytest.fixture
def server(tmp_path):
    server = Server("always", data=str(tmp_path / "data"), options=["--partitions", str(PARTITIONS)])
    yield server.start()
    server.close()


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_clients_of_all_layers_go_on_while_their_database_moves(tmp_path, engine):
    server = Server("always", data=str(tmp_path / "data"), options=["--partitions", str(PARTITIONS), "--engine", engine]).start()
    database = Admin(server).create("shop")
    writers = writers_of(server, database)
    for writer in writers:
        writer.begin()
    place, held = database["partition"], []
    for _ in range(MOVES):
        place = (place + 1) % PARTITIONS
        seen = {writer: len(writer.acknowledged) for writer in writers}
        held.append(move(server, "shop", place)["held_micros"])
        # Everybody goes on in the partition that has it then.
        ends = time.monotonic() + PATIENCE_SECONDS
        while any(len(writer.acknowledged) == seen[writer] for writer in writers):
            assert time.monotonic() < ends, {type(writer).__name__: writer.errors[-3:] for writer in writers}
            time.sleep(0.01)
    for writer in writers:
        writer.end()
    print(f"{engine}: clients were held for {held} microseconds;", {type(writer).__name__: (len(writer.acknowledged), writer.errors[:3]) for writer in writers})
    for writer in writers:
        writer.verify()
    server.kill()
    server.start()
    assert Admin(server).show("shop")["partition"] == place
    for writer in writers:
        writer.verify()
    assert server.stop() == 0
    check(server)
    server.close()


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_a_kill_during_a_move_leaves_the_database_in_one_place(tmp_path, engine):
    server = Server("always", data=str(tmp_path / "data"), options=["--partitions", str(PARTITIONS), "--engine", engine]).start()
    database = Admin(server).create("shop")
    writers = writers_of(server, database)
    chosen = random.Random(os.environ.get("QUARTET_TEST_SEED", "moves"))
    # So that copying takes a while.
    fill(server, database, 20_000)
    seconds, ends = 0.02, set()
    for _ in range(MOVES):
        for writer in writers:
            writer.begin()
        place = Admin(server).show("shop")["partition"]
        target = (place + chosen.choice([1, 2])) % PARTITIONS
        begun = time.monotonic()
        Admin(server).ask("POST", "/shop/move", {"to": target})
        # Until the first has ended nobody knows how long one takes.
        time.sleep(chosen.uniform(0, 2 * seconds))
        ended = moves_of(server)["shop"]["phase"] == "moved"
        seconds = min(1.0, seconds * 1.5) if not ended else min(seconds, time.monotonic() - begun)
        server.kill()
        for writer in writers:
            writer.end()
        checked = subprocess.run([binary(), "check", "--data", server.data], capture_output=True, text=True, timeout=120)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        server.start()
        found = Admin(server).show("shop")["partition"]
        assert found in (place, target)
        ends.add((ended, found == target))
        assert not moves_of(server)
        for writer in writers:
            writer.verify()
    print(f"{engine}: (whether the move had ended, whether the database is at the target): {sorted(ends)}")
    assert (True, False) not in ends
    assert server.stop() == 0
    check(server)
    server.close()


def test_a_client_that_waits_is_told_and_the_others_follow(server):
    database = Admin(server).create("shop")

    def connect(**options):
        return redis.Redis(port=server.port, username="shop", password=database["credentials"]["token"], socket_timeout=PATIENCE_SECONDS, retry=None, **options)

    waiting, listening, plain = connect(), connect(), connect(db=3, client_name="plain", decode_responses=True)
    plain.set("k", "v")
    number = plain.client_id()
    listener = listening.pubsub()
    listener.subscribe("channel")
    assert listener.get_message(timeout=PATIENCE_SECONDS)["type"] == "subscribe"
    ends = []

    def wait():
        try:
            ends.append(waiting.blpop(["nothing"], timeout=0))
        except redis.ConnectionError as error:
            ends.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while plain.info("clients")["blocked_clients"] == 0:
        pass
    move(server, "shop", 2)
    thread.join(PATIENCE_SECONDS)
    assert isinstance(ends[0], redis.ConnectionError), ends
    with pytest.raises(redis.ConnectionError):
        while True:
            listener.get_message(timeout=PATIENCE_SECONDS)
    # The same connection, in its database number, under its name; it is another client to the layer there.
    assert (plain.get("k"), plain.client_getname()) == ("v", "plain")
    assert plain.client_id() != number
    assert connect().ping()


def test_connections_that_rest_behind_a_move_are_reached(server):
    """They had stayed in a layer that nobody knew of: a server that was to stop waited for them, and credentials that were replaced went on there."""
    admin = Admin(server)
    database = admin.create("shop")

    def connect(token):
        client = redis.Redis(port=server.port, username="shop", password=token, socket_timeout=PATIENCE_SECONDS, retry=None, single_connection_client=True)
        assert client.ping()
        return client

    first = connect(database["credentials"]["token"])
    move(server, "shop", 2)
    assert admin.usage("shop")["connections"] == 1
    fresh = admin.ask("POST", "/shop/credentials")["credentials"]
    with pytest.raises(redis.ConnectionError):
        first.connection.read_response()
    second = connect(fresh["token"])
    move(server, "shop", 1)
    admin.delete("shop")
    with pytest.raises(redis.ConnectionError):
        second.connection.read_response()
    third = connect(admin.create("shop")["credentials"]["token"])
    move(server, "shop", 3 - admin.show("shop")["partition"])
    assert server.stop() == 0
    with pytest.raises(redis.ConnectionError):
        third.connection.read_response()


def test_connections_of_the_key_value_protocol_end_and_their_read_versions_with_them(server):
    database = Admin(server).create("shop")

    def connect():
        return contextlib.closing(wire.Wire(f"127.0.0.1:{server.keyvalue_port}", database["credentials"]["token"].encode()))

    with connect() as watching, connect() as idle:
        assert idle.ask(wire.COMMIT, wire.commit([(wire.SET, b"key", b"before")]))[0] == 0
        version = idle.version()
        watch = watching.send(wire.WATCH, wire.watch(b"key", b"before"))
        # Requests are answered in their order, so it watches by now.
        behind = watching.send(wire.READ_VERSION)
        assert watching.reply()[:2] == (behind, 0) and watch < behind
        move(server, "shop", 2)
        # Nobody waits for what cannot come.
        assert watching.is_ended()
        idle.send(wire.GET, wire.get(version, b"key"))
        assert idle.is_ended()
    with connect() as anew:
        assert anew.ask(wire.GET, wire.get(version, b"key"))[0] == TRANSACTION_TOO_OLD
        error, value = anew.ask(wire.GET, wire.get(anew.version(), b"key"))
        assert error == 0 and value.endswith(b"before")


def test_a_feed_of_a_database_goes_on_behind_a_move(server):
    database = Admin(server).create("shop")
    with redis.Redis(port=server.port, username="shop", password=database["credentials"]["token"]) as client:
        client.set("0", "before")
        with Changes(server, timeout=PATIENCE_SECONDS, database="shop", from_="0") as feed:
            lines = iter(feed)
            keys = []
            while "0" not in keys:
                keys += [change["key"] for change in next(lines).get("changes", [])]
            client.set("1", "not seen before the move")
            move(server, "shop", 2)
            client.set("2", "behind it")
            last = 0
            for line in lines:
                if "error" in line:
                    assert "was moved" in line["error"]
                    break
                last = line["version"]
                keys += [change["key"] for change in line.get("changes", [])]
            assert keys == ["0", "1"]
        with Changes(server, timeout=PATIENCE_SECONDS, database="shop", from_=str(last)) as feed:
            keys += [change["key"] for change in next(line for line in feed if line.get("changes"))["changes"]]
        assert keys == ["0", "1", "2"]
        # From before the move: what the partition before has first, and then the rest.
        keys, last = [], 0
        for _ in range(2):
            with Changes(server, timeout=PATIENCE_SECONDS, database="shop", from_=str(last)) as feed:
                for line in feed:
                    if "error" in line:
                        break
                    last = line["version"]
                    keys += [change["key"] for change in line.get("changes", [])]
                    if keys == ["0", "1", "2"]:
                        break
        assert keys == ["0", "1", "2"]


def test_what_cannot_be_moved_is_refused_by_name(server):
    admin = Admin(server)
    place = admin.create("shop")["partition"]
    for name, to, status, why in [
        ("default", 1, 400, "the default database is in partition 0 and stays there"),
        ("news", 1, 404, "there is no database of this name"),
        ("shop", PARTITIONS, 400, f"there is no partition {PARTITIONS}"),
    ]:
        with pytest.raises(Refused) as refused:
            admin.ask("POST", f"/{name}/move", {"to": to})
        assert refused.value.status == status and why in refused.value.text
    with pytest.raises(Refused) as refused:
        admin.ask("DELETE", "/shop/move")
    assert refused.value.status == 409 and "is not being moved" in refused.value.text
    assert admin.ask("POST", "/shop/move", {"to": place})["is_there"] is True
    words = [binary(), "admin", "--server", f"127.0.0.1:{server.http_port}", "--key", "dev", "move", "shop", "--to"]
    done = subprocess.run([*words, str((place + 1) % PARTITIONS)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "moved" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    assert 'quartet_moves_total{outcome="moved"} 1' in admin.metrics()


def fill(server, database, count: int) -> None:
    with redis.Redis(port=server.port, username=database["name"], password=database["credentials"]["token"]) as client:
        for start in range(0, count, 1000):
            client.mset({f"key:{number}": "v" * 100 for number in range(start, start + 1000)})


def test_a_move_is_cancelled_or_has_ended(server):
    """Which of both depends on how fast it is; the database is whole and in one place in any case."""
    database = Admin(server).create("shop")
    fill(server, database, 20_000)
    admin = Admin(server)
    target = (database["partition"] + 1) % PARTITIONS
    admin.ask("POST", "/shop/move", {"to": target})
    with contextlib.suppress(Refused):
        admin.ask("DELETE", "/shop/move")
    one = end_of_move(server, "shop")
    assert one["phase"] == "moved" or "was cancelled" in one["error"], one
    place = target if one["phase"] == "moved" else database["partition"]
    assert admin.show("shop")["partition"] == place
    with redis.Redis(port=server.port, username="shop", password=database["credentials"]["token"]) as client:
        assert client.dbsize() == 20_000
    move(server, "shop", (place + 1) % PARTITIONS)
    assert server.stop() == 0
    check(server)


def test_a_database_is_deleted_while_it_moves(server):
    database = Admin(server).create("shop")
    fill(server, database, 20_000)
    admin = Admin(server)
    admin.ask("POST", "/shop/move", {"to": (database["partition"] + 1) % PARTITIONS})
    admin.delete("shop")
    ends = time.monotonic() + PATIENCE_SECONDS
    while partition_bytes(server):
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert server.stop() == 0
    check(server)


def partition_bytes(server) -> list[int]:
    """Of the partitions that have nothing but that database."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/admin/v1/partitions", headers={"Authorization": "Bearer dev"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        sizes = [partition["stored_bytes"] for partition in json.loads(reply.read())["partitions"]]
    return [size for size in sizes[1:] if size > 10_000]


@pytest.fixture(scope="module")
def killing(tmp_path_factory):
    """A library that kills its process before a sync, by number."""
    library = tmp_path_factory.mktemp("preload") / "kill_at_sync.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).parent / "kill_at_sync.c", "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_a_kill_before_each_sync_of_a_move_leaves_the_database_in_one_place(tmp_path, engine, killing, monkeypatch):
    """Each step of a move is durable before the next one begins, so there is a sync between any two: the server is killed before the first of
    them, then in another move before the second, until a move ends before it comes to its turn."""
    at_sync = tmp_path / "sync"
    monkeypatch.setenv("KILL_AT_SYNC", str(at_sync))
    server = Server("always", data=str(tmp_path / "data"), options=["--partitions", str(PARTITIONS), "--engine", engine], preload=killing).start()
    writers = writers_of(server, Admin(server).create("shop"))
    place, ends, number = 1, [], 0
    while True:
        number += 1
        for writer in writers:
            write_one(writer)
        target = place % (PARTITIONS - 1) + 1
        whole = tmp_path / "number"
        whole.write_text(str(number))
        whole.rename(at_sync)
        is_moved = is_moved_before_the_kill(server, target)
        at_sync.unlink()
        if is_moved:
            break
        server.process.wait(PATIENCE_SECONDS)
        checked = subprocess.run([binary(), "check", "--data", server.data], capture_output=True, text=True, timeout=120)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        server.start()
        found = Admin(server).show("shop")["partition"]
        assert found in (place, target), f"killed before sync {number}"
        assert not moves_of(server)
        for writer in writers:
            writer.verify()
        stored = {size for size in partition_bytes(server)}
        assert len(stored) <= 1, f"killed before sync {number}: rows in more than one partition: {stored}"
        ends.append(found == target)
        place = found
    print(f"{engine}: killed before each of {len(ends)} syncs, at the target afterwards: {ends}")
    # Before the catalogue said that it is there, and behind that.
    assert not ends[0] and ends[-1] and ends == sorted(ends)
    for writer in writers:
        writer.verify()
    assert server.stop() == 0
    check(server)
    server.close()


def write_one(writer: Writer) -> None:
    number, writer.next = writer.next, writer.next + 1
    writer.write(number)
    writer.acknowledged.append(number)


def is_moved_before_the_kill(server, target: int) -> bool:
    """False: the server is killed instead, or about to be."""
    try:
        Admin(server).ask("POST", "/shop/move", {"to": target})
        one = end_of_move(server, "shop")
    except (OSError, HTTPException):
        return False
    assert one["phase"] == "moved", one
    return True


@pytest.fixture
def small_target(tmp_path):
    """A server whose partition 2 is on a small disk of its own."""
    if reason := small_disk.why_not():
        pytest.skip(f"A FULL DISK IS NOT TESTED: {reason}")
    with small_disk.SmallDisk(SMALL_MEGABYTES) as disk:
        below = tmp_path / "data" / "partitions"
        (below / "1").mkdir(parents=True)
        (disk.path / "2").mkdir()
        (below / "2").symlink_to(disk.path / "2")
        options = ["--partitions", str(PARTITIONS), "--log-segment-bytes", str(4 << 20)]
        server = Server("always", data=str(tmp_path / "data"), options=options).start()
        yield server, disk
        server.close()


SMALL_MEGABYTES = 32


def test_a_target_whose_disk_is_full_leaves_the_database_where_it_is(small_target):
    server, disk = small_target
    admin = Admin(server)
    database, other = admin.create("shop"), admin.create("other")
    assert (database["partition"], other["partition"]) == (1, 2)
    fill(server, other, 1000)
    # More than the disk of the target has.
    with redis.Redis(port=server.port, username="shop", password=database["credentials"]["token"]) as client:
        for number in range(SMALL_MEGABYTES + 16):
            client.set(f"large:{number}", bytes([number]) * (1 << 20))
    writers = [RedisWriter(server, database), RestWriter(server, database)]
    for writer in writers:
        writer.begin()
    for _ in range(2):
        admin.ask("POST", "/shop/move", {"to": 2})
        one = end_of_move(server, "shop")
        assert one["phase"] == "failed" and "the disk is full" in one["error"], one
        seen = [len(writer.acknowledged) for writer in writers]
        awaited(lambda: all(len(writer.acknowledged) > before for writer, before in zip(writers, seen, strict=True)))
    for writer in writers:
        writer.end()
        assert not writer.errors
        writer.verify()
    assert admin.show("shop")["partition"] == 1
    # What was copied has gone: the other database of that partition goes on.
    with redis.Redis(port=server.port, username="other", password=other["credentials"]["token"]) as client:
        assert client.dbsize() == 1000
        awaited(lambda: is_taken(client))
    server.kill()
    server.start()
    for writer in writers:
        writer.verify()
    small_disk.run("mount", "-o", f"remount,size={8 * SMALL_MEGABYTES}m", str(disk.path))
    move(server, "shop", 2)
    for writer in writers:
        writer.verify()
    with redis.Redis(port=server.port, username="shop", password=database["credentials"]["token"]) as client:
        for number in range(SMALL_MEGABYTES + 16):
            assert client.get(f"large:{number}") == bytes([number]) * (1 << 20)
    assert server.stop() == 0
    check(server)


def test_a_database_is_moved_away_from_a_full_disk(small_target):
    server, _ = small_target
    admin = Admin(server)
    admin.create("other")
    database = admin.create("shop")
    assert database["partition"] == 2
    with redis.Redis(port=server.port, username="shop", password=database["credentials"]["token"]) as client:
        written = 0
        while is_taken(client, f"large:{written}", bytes([written % 251]) * 100_000):
            written += 1
        move(server, "shop", 1)
        assert is_taken(client, "behind", b"it")
        for number in range(written):
            assert client.get(f"large:{number}") == bytes([number % 251]) * 100_000
    assert server.stop() == 0
    check(server)


def is_taken(client: redis.Redis, key: str = "again", value: bytes = b"x" * 50_000) -> bool:
    """False: refused, because the disk is full."""
    try:
        return client.set(key, value)
    except redis.ResponseError as error:
        assert "No space left on device" in str(error)
        return False


def awaited(condition) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_a_clock_that_is_set_back_during_a_move_and_over_a_restart(tmp_path, engine):
    server = Server("always", data=str(tmp_path / "data"), options=["--partitions", str(PARTITIONS), "--engine", engine])
    server.clock_file = tmp_path / "clock"
    server.set_clock(0)
    server.start()
    database = Admin(server).create("shop")
    # Signatures of DynamoDB are good for some minutes of the server's clock.
    writers = [writer for writer in writers_of(server, database) if not isinstance(writer, DynamoDbWriter)]
    for writer in writers:
        writer.begin()
    fill(server, database, 20_000)
    last = keyvalue_version(server, database)
    for hours, place in [(-1, 2), (-2, 1), (-3, 2)]:
        Admin(server).ask("POST", "/shop/move", {"to": place})
        server.set_clock(3600 * hours)
        assert end_of_move(server, "shop")["phase"] == "moved"
        # libfaketime reads the file once a second.
        awaited(lambda hours=hours: abs(server_seconds(server) - time.time() - 3600 * hours) < 60)
        seen = [len(writer.acknowledged) for writer in writers]
        awaited(lambda seen=seen: all(len(writer.acknowledged) > before for writer, before in zip(writers, seen, strict=True)))
        shown, last = last, keyvalue_version(server, database)
        assert last > shown
    for writer in writers:
        writer.end()
        writer.verify()
    server.kill()
    server.set_clock(-24 * 3600)
    server.start()
    for writer in writers:
        writer.verify()
        write_one(writer)
        writer.verify()
    assert keyvalue_version(server, database) > last
    move(server, "shop", 1)
    for writer in writers:
        writer.verify()
    assert server.stop() == 0
    check(server)
    server.close()


def server_seconds(server) -> int:
    with redis.Redis(port=server.port) as client:
        return client.time()[0]


def keyvalue_version(server, database) -> int:
    """The version of a commit."""
    with contextlib.closing(wire.Wire(f"127.0.0.1:{server.keyvalue_port}", database["credentials"]["token"].encode())) as connection:
        assert connection.ask(wire.COMMIT, wire.commit([(wire.SET, b"version", b"")]))[0] == 0
        return connection.version()
