"""What applications do most, through the driver they do it with."""

from __future__ import annotations

import threading

import pytest
from faunadb import query as q
from faunadb.errors import BadRequest, NotFound, PermissionDenied, Unauthorized
from faunadb.objects import FaunaTime, Ref

from harness.fauna import connect


def spells(client):
    client.query(q.create_collection({"name": "spells"}))
    client.query(
        q.create_index(
            {
                "name": "by_element",
                "source": q.collection("spells"),
                "terms": [{"field": ["data", "element"]}],
                "values": [{"field": ["data", "cost"], "reverse": True}, {"field": ["ref"]}],
            }
        )
    )


def test_a_document_lives_and_dies(client):
    spells(client)
    made = client.query(q.create(q.collection("spells"), {"data": {"name": "fire", "cost": 1.0, "at": FaunaTime("2020-01-01T00:00:00.5Z")}}))
    assert client.query(q.get(made["ref"]))["data"] == made["data"]
    changed = client.query(q.update(made["ref"], {"data": {"cost": 2, "name": None}}))
    assert changed["data"] == {"cost": 2, "at": FaunaTime("2020-01-01T00:00:00.500Z")}
    assert changed["ts"] > made["ts"]
    client.query(q.delete(made["ref"]))
    with pytest.raises(NotFound):
        client.query(q.get(made["ref"]))
    assert client.query(q.select(["data", "cost"], q.at(made["ts"], q.get(made["ref"])))) == 1.0


def test_pages_walk_an_index(client):
    spells(client)
    client.query(q.foreach(lambda n: q.create(q.collection("spells"), {"data": {"element": "fire", "cost": n}}), list(range(100))))
    seen, after = [], None
    while True:
        page = client.query(q.paginate(q.match(q.index("by_element"), "fire"), size=7, after=after))
        seen += [cost for cost, _ in page["data"]]
        after = page.get("after")
        if after is None:
            break
    assert seen == list(range(99, -1, -1))


def test_functions_roles_and_tokens(client, server):
    client.query(q.create_collection({"name": "people"}))
    person = client.query(q.create(q.collection("people"), {"data": {"name": "amy"}, "credentials": {"password": "sesame"}}))
    client.query(q.create_function({"name": "double", "body": q.query(q.lambda_("x", q.multiply(q.var("x"), 2)))}))
    client.query(
        q.create_role(
            {
                "name": "person",
                "membership": [{"resource": q.collection("people")}],
                "privileges": [{"resource": q.function("double"), "actions": {"call": True}}],
            }
        )
    )
    with pytest.raises(BadRequest):
        client.query(q.login(person["ref"], {"password": "wrong"}))
    token = client.query(q.login(person["ref"], {"password": "sesame"}))
    own = connect(server, token["secret"])
    assert own.query(q.call(q.function("double"), 21)) == 42
    assert own.query(q.current_identity()) == person["ref"]
    with pytest.raises(PermissionDenied):
        own.query(q.create(q.collection("people"), {}))
    own.query(q.logout(True))
    with pytest.raises(Unauthorized):
        own.query(1)


def test_a_stream_tells_every_change(client):
    client.query(q.create_collection({"name": "news"}))
    ref = client.query(q.create(q.collection("news"), {"data": {"n": 0}}))["ref"]
    started, told, done = threading.Event(), [], threading.Event()

    def follow():
        def version(event):
            told.append(event.event["document"]["data"]["n"])
            if len(told) == 10:
                stream.close()
                done.set()

        stream = client.stream(ref, on_start=lambda event: started.set(), on_version=version)
        stream.start()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert started.wait(60)
    for n in range(1, 11):
        client.query(q.update(ref, {"data": {"n": n}}))
    assert done.wait(60)
    assert told == list(range(1, 11))


def test_databases_are_apart(make_client, client):
    spells(client)
    other = make_client()
    assert not other.query(q.exists(q.collection("spells")))
    with pytest.raises(BadRequest):
        other.query(q.create(Ref("1", Ref("spells", Ref("collections"))), {}))


def test_a_restart_loses_nothing(fresh_server):
    client = connect(fresh_server)
    spells(client)
    made = client.query(q.create(q.collection("spells"), {"data": {"element": "ice", "cost": 3}}))
    fresh_server.kill()
    fresh_server.start()
    client = connect(fresh_server)
    assert client.query(q.get(q.match(q.index("by_element"), "ice")))["ref"] == made["ref"]
