"""`quartet import` and `export` of DynamoDB's tables, FaunaDB's documents, keys with values, and Upstash's databases: round trips,
kills, and records that nobody takes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from faunadb import query as q

from harness.dynamodb import connect
from harness.fauna import connect as connect_fauna
from harness.gate import Gate
from harness.object_store import object_store
from harness.redis_copy import contents, fill, url
from harness.resp import Connection
from harness.server import Server, binary

REJECTED = 2
SECONDS_MAX = 120
# Of the 600 kilobytes or so that the copy of a database of Upstash's sends.
UPSTASH_PASSES = 250_000


@pytest.fixture(scope="module")
def server():
    server = Server().start()
    yield server
    server.close()


@pytest.fixture
def other():
    server = Server().start()
    yield server
    server.close()


def start(*words, cwd: Path, **environment: str) -> subprocess.Popen:
    command = [binary(), *map(str, words)]
    return subprocess.Popen(command, cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(*words, cwd: Path, code: int = 0, **environment: str) -> str:
    process = start(*words, cwd=cwd, **environment)
    output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == code, output
    return output


def kill_at(gate: Gate, *words, cwd: Path, **environment: str) -> None:
    """Starts a copy that goes through the gate, and kills it when that has closed: some has passed, and the rest cannot."""
    process = start(*words, cwd=cwd, **environment)
    try:
        gate.wait_closed()
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


# DynamoDB


def endpoint(server: Server) -> str:
    return f"http://127.0.0.1:{server.dynamodb_port}"


def make_table(server: Server, name: str, items: int) -> None:
    client = connect(server)
    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in (("p", "S"), ("s", "N"), ("g", "S"))],
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
        GlobalSecondaryIndexes=[{"IndexName": "by-g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}],
        BillingMode="PAY_PER_REQUEST",
    )
    for start in range(0, items, 25):
        puts = [{"PutRequest": {"Item": item(number)}} for number in range(start, min(start + 25, items))]
        client.batch_write_item(RequestItems={name: puts})


def item(number: int) -> dict:
    return {
        "p": {"S": f"p{number % 7}"},
        "s": {"N": str(number)},
        "g": {"S": f"g{number % 3}"},
        "all": {"M": {"b": {"B": bytes([number % 256, 255])}, "l": {"L": [{"BOOL": True}, {"NULL": True}]}, "ns": {"NS": ["1.5", "-2"]}}},
    }


def items_of(server: Server, name: str) -> list:
    client, found, start = connect(server), [], {}
    while True:
        page = client.scan(TableName=name, **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return sorted(json.dumps(item, sort_keys=True, default=repr) for item in found)
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def lines_of(folder: Path) -> list:
    return sorted(line for file in sorted((folder / "data").glob("*.gz")) for line in gzip.decompress(file.read_bytes()).splitlines())


def test_a_table_goes_out_and_in_again(server, other, tmp_path):
    make_table(server, "whole", 260)
    out = run("export", "dynamodb", "--from", endpoint(server), "--table", "whole", "--to", "out", cwd=tmp_path)
    assert "wrote 260 records" in out
    assert "holds an export already" in run("export", "dynamodb", "--from", endpoint(server), "--table", "whole", "--to", "out", cwd=tmp_path, code=1)
    assert "brought 260 records; rejected 0" in run("import", "dynamodb", "--from", "out", "--into", "copy", "--to", endpoint(other), cwd=tmp_path)
    assert items_of(other, "copy") == items_of(server, "whole")
    found = connect(other).query(
        TableName="copy", IndexName="by-g", KeyConditionExpression="g = :g", ExpressionAttributeValues={":g": {"S": "g1"}}
    )
    assert found["Count"] == 87
    run("export", "dynamodb", "--from", endpoint(other), "--table", "copy", "--to", "again", cwd=tmp_path)
    assert lines_of(tmp_path / "again") == lines_of(tmp_path / "out")
    assert not (tmp_path / "quartet-import.journal").exists()
    refused = run("import", "dynamodb", "--from", "out", "--into", "copy", "--to", endpoint(other), cwd=tmp_path, code=1)
    assert "holds items; --merge" in refused and not (tmp_path / "quartet-import.journal").exists()
    run("import", "dynamodb", "--from", "out", "--into", "copy", "--to", endpoint(other), "--merge", cwd=tmp_path)
    assert items_of(other, "copy") == items_of(server, "whole")


def test_an_export_of_the_service_wants_a_schema_and_is_verified(server, tmp_path):
    """As the service lays it out: keys from the bucket's root, no description of the table."""
    make_table(server, "described", 0)
    (tmp_path / "schema.json").write_text(json.dumps(connect(server).describe_table(TableName="described"), default=str))
    folder = tmp_path / "AWSDynamoDB" / "01"
    (folder / "data").mkdir(parents=True)
    good = [json.dumps({"Item": {"p": {"S": "a"}, "s": {"N": str(number)}}}) for number in range(60)]
    bad = ["no JSON", json.dumps({"Item": {"p": {"S": "a"}}}), json.dumps({"Item": {"p": {"S": "a"}, "s": {"S": "x"}}}), json.dumps({"Keys": {}})]
    data = gzip.compress("\n".join(good[:30] + bad + good[30:]).encode())
    (folder / "data" / "f.json.gz").write_bytes(data)
    digest = hashlib.md5(data).digest()
    line = {"itemCount": 64, "md5Checksum": base64.b64encode(digest).decode(), "etag": "e", "dataFileS3Key": "AWSDynamoDB/01/data/f.json.gz"}
    (folder / "manifest-files.json").write_text(json.dumps(line) + "\n")
    (folder / "manifest-summary.json").write_text(json.dumps({"outputFormat": "DYNAMODB_JSON", "exportType": "FULL_EXPORT", "itemCount": 64}))
    words = ["import", "dynamodb", "--from", folder, "--into", "from-service", "--to", endpoint(server), "--rejected", "rejected"]
    assert "--schema" in run(*words, cwd=tmp_path, code=1)
    assert "more than 3 records were rejected" in run(*words, "--schema", "schema.json", "--rejected-max", 3, cwd=tmp_path, code=1)
    (tmp_path / "rejected").unlink()
    assert "rejected 4" in run(*words, "--schema", "schema.json", cwd=tmp_path, code=REJECTED)
    assert len((tmp_path / "rejected").read_text().splitlines()) == 4
    assert len(items_of(server, "from-service")) == 60
    (folder / "data" / "f.json.gz").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "is damaged" in run(*words[:5], "damaged", *words[6:], "--schema", "schema.json", cwd=tmp_path, code=1)
    assert items_of(server, "damaged") == []


def test_a_killed_import_of_a_live_table_goes_on(server, other, tmp_path):
    make_table(server, "live", 500)

    def words(to: int) -> list:
        return ["import", "dynamodb", "--from", endpoint(server), "--table", "live", "--to", f"http://127.0.0.1:{to}", "--segments", 3]

    with Gate(other.dynamodb_port, to_server=60_000) as gate:
        kill_at(gate, *words(gate.port), cwd=tmp_path)
        arrived = len(items_of(other, "live"))
        assert 0 < arrived < 500
        # What was copied is not a copy of another table, nor into another place.
        assert "it is of a copy from" in run(*words(gate.port), "--into", "else", cwd=tmp_path, code=1)
        gate.open()
        assert "brought" in run(*words(gate.port), cwd=tmp_path)
    assert items_of(other, "live") == items_of(server, "live")


def test_a_killed_export_of_a_table_is_none_and_is_begun_anew(server, tmp_path):
    make_table(server, "going-out", 300)
    with Gate(server.dynamodb_port, from_server=20_000) as gate:
        words = ["export", "dynamodb", "--table", "going-out", "--to", "out", "--from"]
        kill_at(gate, *words, f"http://127.0.0.1:{gate.port}", cwd=tmp_path)
    assert "manifest-summary.json" in run("import", "dynamodb", "--from", "out", "--into", "x", "--to", endpoint(server), cwd=tmp_path, code=1)
    # As if the first file had been whole, and another begun.
    for name in ("00000000.json.gz", "00000001.json.gz", "00000002.json.gz.unfinished"):
        (tmp_path / "out" / "data" / name).write_bytes(b"of the earlier run")
    told = run(*words, endpoint(server), cwd=tmp_path)
    assert "it is begun anew" in told and "wrote 300 records" in told
    assert [path.name for path in (tmp_path / "out" / "data").iterdir()] == ["00000000.json.gz"]
    assert not list(tmp_path.rglob("lock"))
    assert "brought 300 records" in run("import", "dynamodb", "--from", "out", "--into", "came-in", "--to", endpoint(server), cwd=tmp_path)


def test_an_export_lies_in_a_bucket(server, tmp_path):
    with object_store() as store:
        environment = store.environment
        store.client().create_bucket(Bucket="safe")
        make_table(server, "kept", 30)
        run("export", "dynamodb", "--from", endpoint(server), "--table", "kept", "--to", "s3://safe/exports/1", cwd=tmp_path, **environment)
        run("import", "dynamodb", "--from", "s3://safe/exports/1", "--into", "back", "--to", endpoint(server), cwd=tmp_path, **environment)
        assert items_of(server, "back") == items_of(server, "kept")
        # The bucket's own tables, by signed requests, as the service wants them.
        table = store.client("dynamodb")
        table.create_table(
            TableName="elsewhere", BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}], KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        )
        for number in range(40):
            table.put_item(TableName="elsewhere", Item={"p": {"S": str(number)}})
        run("import", "dynamodb", "--from", store.address, "--table", "elsewhere", "--to", endpoint(server), cwd=tmp_path, **environment)
        assert len(items_of(server, "elsewhere")) == 40


# FaunaDB


def fauna(server: Server) -> str:
    return f"http://127.0.0.1:{server.fauna_port}"


def test_documents_keep_ids_moments_and_values(server, other, tmp_path):
    client = connect_fauna(server)
    for name in ("people", "things"):
        client.query(q.create_collection({"name": name}))
    person = client.query(q.create(q.ref(q.collection("people"), "1"), {"data": {"name": "Ann", "at": q.time("2020-01-01T00:00:00Z"), "on": q.date("2020-01-01")}}))
    for start in range(0, 900, 100):
        numbers = range(start, start + 100)
        client.query(q.do(*[q.create(q.ref(q.collection("things"), str(1000 + n)), {"data": {"n": n, "of": person["ref"], "deep": {"l": [1, {"x": None, "y": n / 3}]}}}) for n in numbers]))
    assert "wrote 901 records" in run("export", "fauna", "--from", fauna(server), "--to", "out", cwd=tmp_path)
    words = ["import", "fauna", "--from", "out", "--to", fauna(other)]
    assert "brought 901 records; rejected 0" in run(*words, cwd=tmp_path)
    run("export", "fauna", "--from", fauna(other), "--to", "again", cwd=tmp_path)
    for name in ("people", "things"):
        assert (tmp_path / "again" / f"{name}.json").read_text() == (tmp_path / "out" / f"{name}.json").read_text()
    found = connect_fauna(other).query(q.get(q.ref(q.collection("people"), "1")))
    assert (found["ts"], found["data"]) == (person["ts"], person["data"])
    assert "holds documents; --merge" in run(*words, cwd=tmp_path, code=1)
    run(*words, "--merge", cwd=tmp_path)
    assert connect_fauna(other).query(q.count(q.documents(q.collection("things")))) == 900
    # The history has each document once, however often it was brought.
    events = connect_fauna(other).query(q.paginate(q.ref(q.collection("things"), "1005"), events=True))
    assert len(events["data"]) == 1


def test_a_killed_import_of_documents_goes_on_and_bad_ones_are_reported(other, tmp_path):
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": str(number), "ts": 1_600_000_000_000_000 + number, "data": {"n": number}}) for number in range(1, 901)]
    lines[10] = "no JSON"
    lines[500] = json.dumps({"id": "no number", "ts": 5, "data": {}})
    lines[501] = json.dumps({"id": "502", "data": {}})
    (tmp_path / "in" / "docs.json").write_text("\n".join(lines))
    client = connect_fauna(other)

    def count() -> int:
        collection = q.collection("docs")
        return client.query(q.if_(q.exists(collection), q.count(q.documents(collection)), 0))

    with Gate(other.fauna_port, to_server=60_000) as gate:
        words = ["import", "fauna", "--from", "in", "--to", f"http://127.0.0.1:{gate.port}", "--rejected", "rejected"]
        kill_at(gate, *words, cwd=tmp_path)
        assert 0 < count() < 897
        gate.open()
        run(*words, cwd=tmp_path, code=REJECTED)
    told = (tmp_path / "rejected").read_text()
    assert "it is no JSON object" in told and "it has no ts" in told and "no number" in told
    assert count() == 897


def test_a_killed_export_of_documents_is_none_and_is_begun_anew(other, tmp_path):
    client = connect_fauna(other)
    for name in ("first", "second"):
        client.query(q.create_collection({"name": name}))
        client.query(q.do(*[q.create(q.ref(q.collection(name), str(n)), {"data": {"n": "x" * 400}}) for n in range(1, 101)]))
    words = ["export", "fauna", "--to", "out", "--from"]
    # The first collection is whole, and the second is not: each is more than 50,000 bytes.
    with Gate(other.fauna_port, from_server=80_000) as gate:
        kill_at(gate, *words, f"http://127.0.0.1:{gate.port}", cwd=tmp_path)
    assert (tmp_path / "out" / "first.json").exists() and not (tmp_path / "out" / "second.json").exists()
    refused = run("import", "fauna", "--from", "out", "--to", fauna(other), "--merge", cwd=tmp_path, code=1)
    assert "ended in the middle" in refused
    (tmp_path / "quartet-import.journal").unlink()
    told = run(*words, fauna(other), cwd=tmp_path)
    assert "it is begun anew" in told and "wrote 200 records" in told
    assert sorted(path.name for path in (tmp_path / "out").glob("*.*")) == ["first.json", "second.json"]


def test_two_files_of_one_collection_arrive_whole(other, tmp_path):
    (tmp_path / "in").mkdir()
    for end, first in (("json", 1), ("jsonl", 501)):
        lines = [json.dumps({"id": str(number), "ts": 5, "data": {}}) for number in range(first, first + 300)]
        (tmp_path / "in" / f"docs.{end}").write_text("\n".join(lines))
    assert "brought 600 records; rejected 0" in run("import", "fauna", "--from", "in", "--to", fauna(other), cwd=tmp_path)
    assert connect_fauna(other).query(q.count(q.documents(q.collection("docs")))) == 600


# Keys and values


def cluster(server: Server) -> list:
    return ["--cluster-file", Path(server.data) / "fdb.cluster"]


def test_keys_go_in_through_kills_and_out_again(other, tmp_path):
    def row(key: bytes, value: bytes) -> str:
        return json.dumps({"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}, separators=(",", ":"))

    rows = [row(number.to_bytes(4, "big"), b"\x00\xff" * (number % 50)) for number in range(12_000)]
    bad = ["{}", row(b"\xff\x01", b""), row(b"k", b"x" * 100_001), '{"key":"!","value":""}']
    (tmp_path / "in").write_text("\n".join(rows[:11000] + bad + rows[11000:]) + "\n")
    journal = tmp_path / "quartet-import.journal"
    with Gate(other.keyvalue_port, to_server=500_000) as gate:
        through = cluster_through(gate, tmp_path)
        words = ["import", "keyvalue", "--from", "in", *through, "--rejected", "rejected"]
        kill_at(gate, *words, cwd=tmp_path)
        assert "keys" in journal.read_text()
        gate.open()
        run(*words, cwd=tmp_path, code=REJECTED)
    assert len(set((tmp_path / "rejected").read_text().splitlines())) == 4
    with Gate(other.keyvalue_port, from_server=300_000) as gate:
        kill_at(gate, "export", "keyvalue", *cluster_through(gate, tmp_path), "--to", "out", cwd=tmp_path)
    assert not (tmp_path / "out").exists() and (tmp_path / "out.unfinished").exists()
    told = run("export", "keyvalue", *cluster(other), "--to", "out", cwd=tmp_path)
    assert "it is begun anew" in told and "wrote 12000 records" in told
    assert (tmp_path / "out").read_text().splitlines() == rows and not (tmp_path / "out.unfinished").exists()
    assert "holds keys; --merge" in run("import", "keyvalue", "--from", "in", *cluster(other), cwd=tmp_path, code=1)
    assert not journal.exists()


def cluster_through(gate: Gate, folder: Path) -> list:
    (folder / "through.cluster").write_text(f"test:test@127.0.0.1:{gate.port}\n")
    return ["--cluster-file", folder / "through.cluster"]


# Upstash


def test_an_upstash_database_arrives_over_rest(server, other, tmp_path):
    fill(server.port)
    with Connection(server.port) as connection:
        connection.do("XACK", "stream", "group", *[f"{n}-0" for n in range(1, 10)])
        connection.do("JSON.SET", "document", "$", '{"a":[1,null,"x"]}')
        expected = {name: told for (db, name), told in contents_with_json(server.port).items() if db == 0}
    words = ["import", "upstash", "--from", f"http://127.0.0.1:{server.http_port}", "--token", "dev", "--to"]
    with Connection(other.port) as connection, Gate(other.port, to_server=UPSTASH_PASSES) as gate:
        kill_at(gate, *words, f"redis://127.0.0.1:{gate.port}", cwd=tmp_path)
        assert connection.do("EXISTS", "quartet:import") == 1
        run(*words, url(other), cwd=tmp_path)
        assert connection.do("EXISTS", "quartet:import") == 0
    found = {name: told for (_, name), told in contents_with_json(other.port).items()}
    assert found.keys() == expected.keys()
    for name, (kind, value, deadline_ms) in expected.items():
        assert (kind, value) == found[name][:2] or kind == "stream" and value[0] == found[name][1][0], name
        assert abs(deadline_ms - found[name][2]) < 60_000, name
    assert "the target holds" in run(*words, url(other), cwd=tmp_path, code=1)


def contents_with_json(port: int) -> dict:
    """JSON documents are left out: their reading is compared apart."""
    with Connection(port) as connection:
        document = connection.do("JSON.GET", "document")
        connection.do("DEL", "document")
        found = contents(port)
        if document is not None:
            connection.do("JSON.SET", "document", "$", document)
            found[0, "document"] = ("ReJSON-RL", document, -1)
    return found
