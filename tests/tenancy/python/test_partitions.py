"""Several partitions in one server: databases of all layers spread over them, through the layers' own clients and operators' tools."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import redis
from faunadb import query as q
from harness import dynamodb, fauna
from harness.admin import Admin
from harness.changes import Changes
from harness.changes import Refused as FeedRefused
from harness.resp import Connection
from harness.server import Server, binary

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]

NAMES = [f"database-{number}" for number in range(8)]


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, timeout=120)


def serve_refused(data, *options) -> str:
    """The reason for which a server does not start."""
    off = [word for name in ("redis", "http", "dynamodb", "fauna", "keyvalue") for word in (f"--listen-{name}", "off")]
    refused = run("serve", "--data", data, "--dev", *off, *options)
    assert refused.returncode != 0
    return refused.stderr


def partitions_of(server) -> list[dict]:
    url = f"http://127.0.0.1:{server.http_port}/admin/v1/partitions"
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": "Bearer dev"}), timeout=60) as reply:
        return json.loads(reply.read())["partitions"]


def connect(server, database) -> redis.Redis:
    token = database["credentials"]["token"]
    return redis.Redis(port=server.port, username=database["name"], password=token, decode_responses=True, socket_timeout=60)


def keyvalue(server, database, command: str) -> str:
    cluster_file = Path(server.data) / f"{database['name']}.cluster"
    cluster_file.write_text(f"quartet:{database['credentials']['token']}@127.0.0.1:{server.keyvalue_port}\n")
    done = run("kv", "-C", cluster_file, "--timeout", "60", "--exec", command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tables_of(server, database):
    credentials = database["credentials"]
    return dynamodb.connect(server, key=(credentials["access_key_id"], credentials["secret_access_key"]))


def fill(server, database, round_number):
    name = database["name"]
    with connect(server, database) as client:
        client.set(f"key:{round_number}", name)
        client.rpush("list", f"{name}:{round_number}")
    tables = tables_of(server, database)
    if round_number == 0:
        tables.create_table(
            TableName="table",
            KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    tables.put_item(TableName="table", Item={"k": {"S": f"{name}:{round_number}"}})
    tree = fauna.connect(server, database["credentials"]["fauna_key"])
    if round_number == 0:
        tree.query(q.create_collection({"name": "c"}))
    tree.query(q.create(q.ref(q.collection("c"), str(round_number + 1)), {"data": {"of": name}}))
    keyvalue(server, database, f"writemode on; set row-{round_number} {name}")


def verify(server, database, rounds):
    name = database["name"]
    with connect(server, database) as client:
        assert [client.get(f"key:{number}") for number in range(rounds)] == [name] * rounds
        assert client.lrange("list", 0, -1) == [f"{name}:{number}" for number in range(rounds)]
        assert client.dbsize() == rounds + 1
    items = tables_of(server, database).scan(TableName="table", ConsistentRead=True)["Items"]
    assert sorted(item["k"]["S"] for item in items) == [f"{name}:{number}" for number in range(rounds)]
    tree = fauna.connect(server, database["credentials"]["fauna_key"])
    for number in range(rounds):
        found = tree.query(q.get(q.ref(q.collection("c"), str(number + 1))))
        assert found["data"]["of"] == name
        assert f"is `{name}'" in keyvalue(server, database, f"get row-{number}")


@pytest.fixture
def server(tmp_path):
    server = Server("always", data=str(tmp_path / "data"), options=["--partitions", "4"])
    yield server.start()
    server.close()


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_databases_of_all_layers_are_spread_and_survive_kills(tmp_path, engine):
    data = str(tmp_path / "data")
    server = Server("always", data=data, options=["--partitions", "4", "--engine", engine]).start()
    admin = Admin(server)
    databases = [admin.create(name) for name in NAMES[:4]]
    # The default database is one of the first partition's.
    assert [database["partition"] for database in databases] == [1, 2, 3, 0]
    for database in databases:
        fill(server, database, 0)
    server.kill()
    # As many as the folder has, of its engine.
    server.options = []
    server.start()
    for database in databases:
        verify(server, database, 1)
        fill(server, database, 1)
    described = partitions_of(server)
    shown = {name: partition["partition"] for partition in described for name in partition["databases"]}
    assert shown == {"default": 0, **{database["name"]: database["partition"] for database in databases}}
    assert all(partition["stored_bytes"] > 0 and partition["transactions"] > 0 for partition in described)
    admin.delete(NAMES[0])
    server.restart()
    with pytest.raises(redis.AuthenticationError), connect(server, databases[0]) as client:
        client.ping()
    for database in databases[1:]:
        verify(server, database, 2)
    assert server.stop() == 0
    checked = run("check", "--data", data)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("\nsound\n") == 4 and "partition   3, in " in checked.stdout
    server.close()


def test_one_connection_goes_through_databases_of_all_partitions(server):
    admin = Admin(server)
    databases = [admin.create(name) for name in NAMES]
    with Connection(server.port) as connection:
        expected = 0
        for _ in range(20):
            script = []
            for database in databases:
                script += [("AUTH", database["name"], database["credentials"]["token"]), ("INCR", "n"), ("APPEND", "text", "x")]
            expected += 1
            assert connection.pipeline(*script) == ["OK", expected, expected] * len(databases)
    server.kill()
    server.start()
    for database in databases:
        with connect(server, database) as client:
            assert (client.get("n"), client.strlen("text")) == ("20", 20)


def test_answers_of_several_partitions_on_one_connection_over_http(server):
    admin = Admin(server)
    databases = [admin.create(name) for name in NAMES]
    requests = b""
    for number in range(64):
        token = databases[number % len(databases)]["credentials"]["token"]
        requests += f"GET /incr/n HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=60) as connection:
        connection.sendall(requests)
        received = b""
        while received.count(b'{"result":') < 64:
            part = connection.recv(1 << 16)
            assert part, received
            received += part
    results = [int(part.split(b"}")[0]) for part in received.split(b'{"result":')[1:]]
    assert results == [number // len(databases) + 1 for number in range(64)]
    server.kill()
    server.start()
    for database in databases:
        with connect(server, database) as client:
            assert client.get("n") == "8"


def test_a_script_that_never_ends_keeps_its_own_partition_alone(server):
    databases = [Admin(server).create(name) for name in NAMES[:3]]
    tables = [tables_of(server, database) for database in databases]
    with Connection(server.port) as killer, Connection(server.port) as runner:
        killer.do("CONFIG", "SET", "busy-reply-threshold", "100")
        runner.send("EVAL", "while true do end", "0")
        while not str(killer.do("GET", "k")).startswith("BUSY"):
            pass
        # Another may have kept the partition, before the script began.
        while killer.do("FUNCTION", "KILL").startswith("NOTBUSY"):
            pass
        for database, table in zip(databases, tables, strict=True):
            assert database["partition"] != 0
            with connect(server, database) as client:
                assert client.incr("n") == 1
            request = urllib.request.Request(
                f"http://127.0.0.1:{server.http_port}/incr/n", headers={"Authorization": f"Bearer {database['credentials']['token']}"}
            )
            with urllib.request.urlopen(request, timeout=60) as reply:
                assert json.loads(reply.read()) == {"result": 2}
            assert table.list_tables()["TableNames"] == []
            tree = fauna.connect(server, database["credentials"]["fauna_key"])
            assert tree.query(q.create_collection({"name": "c"}))["name"] == "c"
            keyvalue(server, database, "writemode on; set row value")
        assert str(killer.do("GET", "k")).startswith("BUSY")
        assert killer.do("SCRIPT", "KILL") == "OK"
        assert "Script killed by user" in str(runner.read())


def test_a_feed_is_of_a_database_or_of_one_partition(server):
    admin = Admin(server)
    databases = [admin.create(name) for name in NAMES[:4]]
    for database in databases:
        with connect(server, database) as client:
            client.set("first", "1")
        with Changes(server, database=database["name"], from_="0") as feed:
            told = next(line for line in feed if line.get("changes"))
            assert (told["database"], told["changes"][0]["key"]) == (database["name"], "first")
    with pytest.raises(FeedRefused) as refused:
        Changes(server)
    assert refused.value.status == 400 and "are not one order" in refused.value.body["error"]
    for partition in partitions_of(server):
        inside = set(partition["databases"])
        with Changes(server, partition=str(partition["partition"]), from_="0") as feed:
            seen = set()
            for line in feed:
                seen.add(line.get("database"))
                if inside - {"default"} <= seen:
                    break
            assert seen - {None} <= inside | {"default"}


def test_metrics_are_of_each_partition(server):
    metrics = Admin(server).metrics()
    for number in range(4):
        assert f'quartet_log_syncs_total{{partition="{number}"}} ' in metrics
    shown = run("admin", "--server", f"127.0.0.1:{server.http_port}", "--key", "dev", "partitions")
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [["partition", str(number)] for number in range(4)]


def test_backups_are_of_all_partitions_and_restored_together(server, tmp_path):
    admin = Admin(server)
    databases = [admin.create(name) for name in NAMES[:4]]
    for database in databases:
        fill(server, database, 0)
    address, backup = f"127.0.0.1:{server.http_port}", tmp_path / "backup"
    take = ("backup", "--server", address, "--key", "dev", "--to", backup)
    followed = run(*take, "--follow")
    assert followed.returncode != 0 and "name one of the 4 partitions" in followed.stderr
    taken = run(*take)
    assert taken.returncode == 0, taken.stderr
    between = max(partition["durable_version"] for partition in partitions_of(server))
    for database in databases:
        fill(server, database, 1)
    # Only the last of the four is written to behind that: the others cover the time of the second backup all the same.
    assert run(*take).returncode == 0
    move_and_wait(server, NAMES[1], 3)
    late = admin.create("late")
    fill(server, late, 0)
    admin.delete(NAMES[2])
    assert run(*take).returncode == 0
    checked = run("check", "--backup", backup)
    assert checked.returncode == 0 and checked.stdout.count("partition ") == 4, checked.stdout + checked.stderr
    # As of a version that all cover: before the second round, the move, the new database and the deletion.
    restored = run("restore", "--from", backup, "--data", tmp_path / "before", "--at", between)
    assert restored.returncode == 0 and restored.stdout.count("partition ") == 4, restored.stdout + restored.stderr
    with Server("always", data=str(tmp_path / "before"), options=[]) as before:
        for database in databases:
            assert Admin(before).show(database["name"])["partition"] == database["partition"]
            verify(before, database, 1)
    restored = run("restore", "--from", backup, "--data", tmp_path / "newest", "--engine", "ssd")
    assert restored.returncode == 0, restored.stderr
    with Server("always", data=str(tmp_path / "newest"), options=[]) as newest:
        assert Admin(newest).show(NAMES[1])["partition"] == 3
        verify(newest, late, 1)
        for number in (0, 1, 3):
            verify(newest, databases[number], 2)
    # One alone, where it was: the others are not in the catalogue, and have no rows.
    for name, data, options, rounds in [(NAMES[1], "one", [], 2), (NAMES[2], "deleted", ["--at", between], 1)]:
        restored = run("restore", "--from", backup, "--data", tmp_path / data, "--database", name, *options)
        assert restored.returncode == 0, restored.stderr
        with Server("always", data=str(tmp_path / data), options=[]) as one:
            assert [list(partition["databases"]) for partition in partitions_of(one)].count([name]) == 1
            verify(one, next(database for database in databases if database["name"] == name), rounds)
        checked = run("check", "--data", tmp_path / data)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    gone = run("restore", "--from", backup, "--data", tmp_path / "gone", "--database", NAMES[2])
    assert gone.returncode != 0 and "was deleted before the version" in gone.stderr, gone.stderr
    with Server("always", data=str(tmp_path / "small"), options=[]) as small:
        fewer = run("backup", "--server", f"127.0.0.1:{small.http_port}", "--key", "dev", "--to", backup)
        assert fewer.returncode != 0 and "a server with 4 partitions, and this server has 1" in fewer.stderr, fewer.stderr
    (backup / "partitions" / "2").rename(tmp_path / "away")
    lacking = run("restore", "--from", backup, "--data", tmp_path / "gone")
    assert lacking.returncode != 0 and not (tmp_path / "gone").exists()


def move_and_wait(server, name: str, to: int) -> None:
    moved = run("admin", "--server", f"127.0.0.1:{server.http_port}", "--key", "dev", "move", name, "--to", to)
    assert moved.returncode == 0, moved.stdout + moved.stderr


def test_a_server_of_several_partitions_takes_backups_itself(tmp_path):
    options = ["--partitions", "4", "--backup-targets", f"nightly={tmp_path / 'nightly'}", "--restore-folder", str(tmp_path / "restored")]
    (tmp_path / "restored").mkdir()
    with Server("always", data=str(tmp_path / "data"), options=options) as server:
        admin = Admin(server)
        databases = [admin.create(name) for name in NAMES[:4]]
        for database in databases:
            fill(server, database, 0)
        taken = task(server, "nightly/take", {})
        assert taken["full"] is True and len(taken["partitions"]) == 4
        assert task(server, "nightly/verify", {})["chains"] == 4
        held = ask(server, "GET", "backup-targets/nightly")["chains"]
        assert [chain["partition"] for chain in held] == [0, 1, 2, 3]
        shown = {name for chain in held for name in chain["databases"]}
        assert shown == {"default", *NAMES[:4]}
        restored = task(server, "nightly/restore", {"into": "all"})
        assert len(restored["partitions"]) == 4
        task(server, "nightly/restore", {"into": "one", "database": NAMES[1]})
    with Server("always", data=str(tmp_path / "restored" / "all"), options=[]) as restored:
        for database in databases:
            verify(restored, database, 1)
    with Server("always", data=str(tmp_path / "restored" / "one"), options=[]) as restored:
        verify(restored, databases[1], 1)
        assert [database["name"] for database in Admin(restored).ask("GET", "")["databases"]] == ["default", NAMES[1]]


def ask(server, method: str, path: str, body: object = None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}/admin/v1/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer dev"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


def task(server, path: str, body: object) -> dict:
    """What a task that the server was asked for has done."""
    ask(server, "POST", f"backup-targets/{path}", body)
    ends = time.monotonic() + 60
    while "done" not in (shown := ask(server, "GET", "backup-targets")["task"]):
        assert "failed" not in shown and time.monotonic() < ends, shown
        time.sleep(0.02)
    return shown["done"]


def test_a_folder_of_one_partition_gets_more_and_never_fewer(tmp_path):
    data = tmp_path / "data"
    server = Server("always", data=str(data)).start()
    admin = Admin(server)
    before = admin.create("before")
    fill(server, before, 0)
    assert server.stop() == 0
    names = {path.name for path in data.iterdir()}
    server.options = ["--partitions", "3"]
    server.start()
    after = [admin.create(name) for name in NAMES[:3]]
    assert before["partition"] == 0 and [database["partition"] for database in after] == [1, 2, 1]
    for database in after:
        fill(server, database, 0)
    verify(server, before, 1)
    server.kill()
    assert names | {"partitions"} <= {path.name for path in data.iterdir()} | {"fdb.cluster"}
    assert "do not become fewer" in serve_refused(data, "--partitions", "2")
    assert "name the folder that has all of them" in serve_refused(data / "partitions" / "1")
    away = tmp_path / "away"
    shutil.move(data / "partitions" / "2", away)
    reason = serve_refused(data)
    assert "partition 2, which is not there" in reason, reason
    shutil.copytree(data / "partitions" / "1", data / "partitions" / "2")
    assert "is partition 1" in serve_refused(data)
    shutil.rmtree(data / "partitions" / "2")
    (data / "partitions" / "2").mkdir()
    assert "partition 2 is empty" in serve_refused(data)
    shutil.rmtree(data / "partitions" / "2")
    shutil.move(away, data / "partitions" / "2")
    server.options = []
    server.start()
    for database in [before, *after]:
        verify(server, database, 1)
    server.close()


def test_a_program_without_partitions_meets_a_version_that_it_does_not_know(server):
    """It knows version 1 of `log-reach`, under the same checksum at the same place (docs/formats.md)."""
    server.stop()
    for folder in [Path(server.data), *(Path(server.data) / "partitions" / str(number) for number in (1, 2, 3))]:
        stated = (folder / "log-reach").read_bytes()
        versions = {int.from_bytes(stated[at + 8 : at + 12], "little") for at in (0, 4096) if stated[at : at + 8] == b"QRTREACH"}
        assert 2 in versions and versions <= {1, 2}


def test_a_partition_that_stands_in_anothers_place_is_found(server):
    admin = Admin(server)
    databases = [admin.create(name) for name in NAMES[:4]]
    for database in databases:
        fill(server, database, 0)
    assert server.stop() == 0
    data = Path(server.data)
    one, other = data / "partitions" / "1", data / "partitions" / "2"
    one.rename(data / "aside")
    shutil.copytree(other, one)
    checked = run("check", "--data", data)
    assert checked.returncode == 1 and "this is partition 2, and another folder is as well" in checked.stdout, checked.stdout
    assert "is partition 2" in serve_refused(data)
