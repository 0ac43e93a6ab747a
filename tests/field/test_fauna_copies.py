"""What leaves a database of FaunaDB comes back: the service's own snapshot exports, and a whole database of ours.

The importer took a document's `coll` away and sent the rest to the database as parameters of a write, which ignores those that it does not
know: a line with its fields beside `id` was stored empty and counted as brought. It knew neither the layout nor the values of the service's
exports. A document that held a set came back as no document, fields came back sorted, and roles, keys, passwords and histories not at all.

Known from the original's export (its files' names, both forms of its values) and from `Get`, which keeps the order of fields.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import urllib.request

import pytest
from faunadb import query as q
from faunadb._json import to_json
from faunadb.errors import BadRequest, Unauthorized

from harness.fauna import connect
from harness.server import Server, binary

REJECTED = 2
MOMENT = 1_746_093_600_123_456


@pytest.fixture(scope="module")
def other():
    server = Server().start()
    yield server
    server.close()


@pytest.fixture
def database(server, request):
    """A database of its own, and its secret."""
    root, name = connect(server), re.sub(r"\W", "-", request.node.name)
    root.query(q.create_database({"name": name}))
    secret = root.query(q.create_key({"database": q.database(name), "role": "admin"}))["secret"]
    yield connect(server, secret), secret
    root.query(q.delete(q.database(name)))


def url(server) -> str:
    return f"http://{server.host}:{server.fauna_port}"


def bring(server, secret, folder, *words, code: int = 0) -> str:
    command = [binary(), "import", "fauna", "--from", folder / "in", "--to", url(server), "--secret", secret, "--journal", folder / "journal"]
    process = subprocess.run([*command, "--rejected", folder / "rejected", *words], capture_output=True, text=True)
    assert process.returncode == code, process.stdout + process.stderr
    return process.stdout.strip()


def export(server, secret, to) -> None:
    subprocess.run([binary(), "export", "fauna", "--from", url(server), "--secret", secret, "--to", to], check=True, capture_output=True)


def write(path, records, form: str) -> None:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    text = f"[{','.join(lines)}]" if "json" in form.split(".") else "\n".join(lines) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(f"{path.name}.{form}").write_bytes(gzip.compress(text.encode()) if form.endswith("gz") else text.encode())


def raw(server, secret, expression) -> dict:
    """A resource as the wire has it, with the order of its fields."""
    body, headers = to_json(expression).encode(), {"Authorization": f"Bearer {secret}", "X-FaunaDB-API-Version": "4"}
    return json.load(urllib.request.urlopen(urllib.request.Request(url(server), body, headers)))["resource"]


def test_fields_without_a_place_are_refused_and_the_count_is_of_what_is_stored(server, database, tmp_path):
    client, secret = database
    lines = [
        {"id": "1", "ts": MOMENT, "data": {"a": 1}},
        {"id": "2", "ts": MOMENT, "name": "Ann", "age": 42},
        {"id": "3", "ts": MOMENT, "data": {"a": {"@ref": {"id": "x"}}}},
        {"id": "4", "ts": MOMENT, "coll": "people", "name": "Bo"},
    ]
    write(tmp_path / "in" / "people", lines, "jsonl")
    assert bring(server, secret, tmp_path, code=REJECTED) == "brought 2 records; rejected 2"
    told = (tmp_path / "rejected").read_text()
    assert "it has the field name" in told and '"id": "2"' in told and '"id": "3"' in told
    people = client.query(q.map_(lambda ref: q.get(ref), q.paginate(q.documents(q.collection("people")))))["data"]
    assert [person["data"] for person in people] == [{"a": 1}, {"name": "Bo"}]


TAGGED = {
    "id": "401",
    "coll": {"@mod": "people"},
    "ts": {"@time": "2025-05-01T10:00:00.123456Z"},
    "ttl": {"@time": "2099-01-01T00:00:00Z"},
    "zebra": "Ann",
    "age": {"@int": "42"},
    "big": {"@long": "9007199254740993"},
    "w": {"@double": "61.5"},
    "none": {"@double": "NaN"},
    "born": {"@date": "1990-01-01"},
    "at": {"@time": "2024-01-01T00:00:00Z"},
    "raw": {"@bytes": "AQID"},
    "uuid": {"@uuid": "f47ac10b-58cc-4372-a567-0e02b2c3d479"},
    "friend": {"@ref": {"id": "402", "coll": {"@mod": "people"}}},
    "gone": {"@ref": {"id": "403", "coll": {"@mod": "people"}, "exists": False, "cause": "not found"}},
    "module": {"@mod": "people"},
    "odd": {"@object": {"@x": "y"}},
    "list": [{"@int": "1"}, {"deep": [True, {"@time": "2024-01-01T00:00:00Z"}]}],
    "data": {"id": "a field of that name"},
}
SIMPLE = {
    "id": "401",
    "coll": "people",
    "ts": "2025-05-01T10:00:00.123456Z",
    "ttl": "2099-01-01T00:00:00Z",
    "zebra": "Ann",
    "age": 42,
    "w": 61.5,
    "born": "1990-01-01",
    "friend": {"id": "402", "coll": "people"},
    "odd": {"@x": "y"},
}


def ref(name: str, id: str) -> dict:
    collection = {"@ref": {"id": name, "collection": {"@ref": {"id": "collections"}}}}
    return {"@ref": {"id": id, "collection": collection}}


def password(instance, form: str) -> dict:
    hashed = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"  # of "U*U", published with bcrypt itself
    metadata = {"coll": {"@mod": "Credential"}, "ts": {"@time": "2025-05-01T10:00:00Z"}} if form == "tagged" else {"coll": "Credential", "ts": "2025-05-01T10:00:00Z"}
    return {"id": "77", **metadata, "document": instance, "hashed_password": hashed}


@pytest.mark.parametrize("end", ["jsonl", "json", "jsonl.gz", "json.gz"])
@pytest.mark.parametrize("form", ["tagged", "simple"])
def test_an_export_of_the_service_arrives_whole(server, database, tmp_path, form, end):
    client, secret = database
    document = TAGGED if form == "tagged" else SIMPLE
    other = {**document, "id": "402"}
    bad = ["no JSON", {**document, "id": "403", "coll": "else"}] + ([{**document, "id": "404", "x": {"@later": "1"}}] if form == "tagged" else [])
    data = tmp_path / "in" / "data" / "collections"
    write(data / "people" / "people_00_000000", [document, *bad], end)
    write(data / "people" / "people_01_000000", [other], end)
    write(data / "Credential" / "Credential_00_000000", [password(document["friend"], form)], end)
    (tmp_path / "in" / "metadata_00.json").write_text(json.dumps({"doc_format": form, "total_parts": 1, "files_count": 3}))
    if end.startswith("json.") or end == "json":
        # An element that is no JSON would end the array.
        write(data / "people" / "people_00_000000", [document, *bad[1:]], end)
        bad = bad[1:]
    assert bring(server, secret, tmp_path, code=REJECTED) == f"brought 2 records; rejected {len(bad)}"
    assert "its coll is another collection" in (tmp_path / "rejected").read_text()
    found = raw(server, secret, q.get(q.ref(q.collection("people"), "401")))
    assert (found["ts"], found["ttl"]) == (MOMENT, {"@ts": "2099-01-01T00:00:00Z"})
    friend, odd = ref("people", "402"), {"@obj": {"@x": "y"}}
    if form == "tagged":
        assert found["data"] == {
            "zebra": "Ann", "age": 42, "big": 9007199254740993, "w": 61.5, "none": "NaN", "born": {"@date": "1990-01-01"},
            "at": {"@ts": "2024-01-01T00:00:00Z"}, "raw": {"@bytes": "AQID"}, "uuid": TAGGED["uuid"], "friend": friend,
            "gone": ref("people", "403"), "module": friend["@ref"]["collection"], "odd": odd,
            "list": [1, {"deep": [True, {"@ts": "2024-01-01T00:00:00Z"}]}], "id": "a field of that name",
        }  # fmt: skip
        assert client.query(q.is_double(q.select(["data", "none"], q.get(q.ref(q.collection("people"), "401"))))) is True
    else:
        assert found["data"] == {"zebra": "Ann", "age": 42, "w": 61.5, "born": "1990-01-01", "friend": friend, "odd": odd}
    assert list(found["data"])[0] == "zebra"
    assert client.query(q.identify(q.ref(q.collection("people"), "402"), "U*U")) is True
    # The same command goes on where it was, and what is there is there once.
    bring(server, secret, tmp_path, "--merge", code=REJECTED)
    assert client.query(q.count(q.documents(q.collection("people")))) == 2
    for path in data.glob("people/people_01*"):
        path.unlink()
    (tmp_path / "journal").unlink(missing_ok=True)
    bring(server, secret, tmp_path, "--merge", code=1)


def fill(client) -> dict:
    """Makes one of everything. Returns the secrets."""
    client.query(q.create_database({"name": "below", "data": {"of": "somebody"}}))
    client.query(q.create_collection({"name": "people", "history_days": 30, "data": {"z": 1, "a": 2}}))
    client.query(q.create_collection({"name": "things", "ttl_days": 300}))
    body = q.query(q.lambda_(["x", "y"], q.add(q.var("x"), q.var("y"))))
    client.query(q.create_function({"name": "add", "body": body}))
    client.query(q.create_index({"name": "by-age", "source": q.collection("people"), "terms": [{"field": ["data", "age"]}], "values": [{"field": ["data", "z"], "reverse": True}, {"field": "ref"}]}))
    bound = {"collection": q.collection("things"), "fields": {"size": q.query(q.lambda_("d", q.select(["data", "n"], q.var("d"), 0)))}}
    client.query(q.create_index({"name": "sizes", "unique": True, "serialized": False, "source": bound, "terms": [{"binding": "size"}], "data": {"why": "so"}}))
    privilege = {"resource": q.collection("people"), "actions": {"read": q.query(q.lambda_("d", True)), "create": True}}
    client.query(q.create_role({"name": "reader", "privileges": [privilege, {"resource": q.function("add"), "actions": {"call": True}}], "membership": [{"resource": q.collection("people")}]}))
    client.query(q.update(q.function("add"), {"role": q.role("reader")}))
    client.query(q.create_access_provider({"name": "issuer", "issuer": f"https://issuer.example/{id(client)}", "jwks_uri": "https://issuer.example/keys", "roles": [q.role("reader")]}))
    person = q.ref(q.collection("people"), "1")
    values = {
        "zebra": 1, "apple": 2.0, "tiny": 5e-324, "big": 9_007_199_254_740_993, "t": q.time("2020-01-01T00:00:00.123456789Z"), "d": q.date("2020-01-01"),
        "b": b"\x00\xff", "u": q._fn({"@uuid": "f47ac10b-58cc-4372-a567-0e02b2c3d479"}), "r": person, "c": q.collection("things"), "role": q.role("reader"),
        "set": q.match(q.index("by-age"), 5), "lambda": q.query(q.lambda_("x", q.var("x"))), "e": {}, "l": [[], [None, "x"]],
        "text": "é\u2028\u0000\"\\", "": "no name",
    }  # fmt: skip
    client.query(q.create(person, {"data": values, "credentials": {"password": "sesame"}}))
    odd = q.to_object([["@name", q.to_object([["@inner", [1]]])], ["plain", q.to_object([["@ts", "no time"]])]])
    client.query(q.create(q.ref(q.collection("people"), "2"), {"data": {"odd": odd, "age": 5}, "ttl": q.time("2099-01-01T00:00:00Z")}))
    client.query(q.update(q.ref(q.collection("people"), "2"), {"data": {"age": 6, "more": "x"}}))
    client.query(q.create(q.ref(q.collection("people"), "3"), {"data": {"n": 1}}))
    client.query(q.delete(q.ref(q.collection("people"), "3")))
    # More versions than one query shows.
    for start in range(0, 150, 50):
        for number in range(start, start + 50):
            client.query(q.update(q.ref(q.collection("people"), "1"), {"data": {"apple": number}}))
    client.query(q.create(q.collection("things"), {"data": {"n": 7}}))
    key = client.query(q.create_key({"role": q.role("reader"), "data": {"for": "tests"}}))
    below = client.query(q.create_key({"role": "server", "database": q.database("below"), "priority": 3}))
    token = client.query(q.login(person, {"password": "sesame"}))
    return {"key": key["secret"], "below": below["secret"], "token": token["secret"]}


KINDS = ["databases", "collections", "functions", "indexes", "roles", "access_providers", "keys", "tokens", "credentials"]
OWN = {"global_id", "audience"}


def everything(server, secret) -> dict:
    """All that a database shows, as the wire has it, but for when definitions were made."""
    found = {}
    for kind in KINDS:
        # The driver has no function for each of these.
        shown = raw(server, secret, q.map_(lambda ref: q.get(ref), q.paginate(q._fn({kind: None}), size=1000)))
        definitions = [{name: value for name, value in definition.items() if name not in OWN | {"ts"}} for definition in shown["data"]]
        found[kind] = sorted(map(json.dumps, definitions))
    for name in ("people", "things"):
        documents = q.documents(q.collection(name))
        found[name] = json.dumps(raw(server, secret, q.map_(lambda ref: q.get(ref), q.paginate(documents, size=1000))))
        found[name, "events"] = json.dumps(raw(server, secret, q.paginate(documents, size=1000, events=True)))
    for id in ("1", "2", "3"):
        found[id] = json.dumps(raw(server, secret, q.paginate(q.ref(q.collection("people"), id), size=1000, events=True)))
    return found


def test_a_whole_database_goes_out_and_in_again(server, other, tmp_path):
    # In the root of each, so that secrets lead to the same place.
    server = Server().start()
    try:
        secrets = fill(connect(server))
        export(server, "secret", tmp_path / "in")
        assert bring(other, "secret", tmp_path) == "brought 3 records; rejected 0"
        expected, found = everything(server, "secret"), everything(other, "secret")
        for part, value in expected.items():
            assert found[part] == value, part
        export(other, "secret", tmp_path / "again")
        for path in (tmp_path / "in").rglob("*.json"):
            again = tmp_path / "again" / path.relative_to(tmp_path / "in")
            if path.parent.name != "definitions":
                assert again.read_text() == path.read_text(), path
    finally:
        server.close()
    # What proved callers there proves them here.
    person = q.ref(q.collection("people"), "1")
    assert connect(other).query(q.identify(person, "sesame")) is True
    assert connect(other, secrets["token"]).query(q.current_identity()).id() == "1"
    assert connect(other, secrets["key"]).query(q.call(q.function("add"), 1, 2)) == 3
    assert connect(other, secrets["below"]).query(q.paginate(q.collections()))["data"] == []
    assert connect(other).query(q.paginate(q.match(q.index("by-age"), 6)))["data"]
    # An export is nobody else's to read.
    for path in [tmp_path / "in", *(tmp_path / "in").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_hashes_are_taken_from_those_who_are_trusted_alone(database, server):
    client, secret = database
    client.query(q.create_collection({"name": "people"}))
    person = q.ref(q.collection("people"), "1")
    hashed = password(None, "tagged")["hashed_password"]
    for bad in ("x", hashed[:-1], hashed.replace("$05$", "$31$")):
        with pytest.raises(BadRequest):
            client.query(q.create(person, {"credentials": {"hashed_password": bad}}))
    client.query(q.create(person, {"credentials": {"hashed_password": hashed}}))
    assert client.query(q.identify(person, "U*U")) is True
    # A key of any number that somebody has already is nobody else's.
    taken = client.query(q.create_key({"role": "server"}))
    with pytest.raises(BadRequest):
        client.query(q.create(taken["ref"], {"role": "admin", "hashed_secret": taken["hashed_secret"]}))
    with pytest.raises(Unauthorized):
        connect(server, taken["secret"] + "x").query(1)
    assert connect(server, taken["secret"]).query(q.add(1, 1)) == 2
