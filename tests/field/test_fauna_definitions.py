"""The definition of an index is read back as it was given, so that a deployment tool's second run finds what its first one wrote.

Known from the original's source, whose validators keep the form of sources, terms and values, and from a tool's own suite, which deploys
twice.
"""

from __future__ import annotations

import pytest
from faunadb import query as q

from harness.fauna import connect


@pytest.fixture
def client(server, request):
    root, name = connect(server), request.node.name.replace("[", "-").replace("]", "")
    root.query(q.create_database({"name": name}))
    client = connect(server, root.query(q.create_key({"database": q.database(name), "role": "admin"}))["secret"])
    client.query(q.create_collection({"name": "a"}))
    yield client
    root.query(q.delete(q.database(name)))


A = q.collection("a")


@pytest.mark.parametrize(
    ("part", "form"),
    [
        ("source", A),
        ("source", [A]),
        ("source", {"collection": A}),
        ("source", [{"collection": A}]),
        ("terms", [{"field": "ref"}]),
        ("terms", [{"field": ["data", "created"]}, {"field": "ref"}]),
        ("values", [{"field": ["data", "created"]}, {"field": "ref"}]),
        ("values", [{"field": "ref", "reverse": True}]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_index_is_kept_as_given(client, part, form):
    definition = {"name": "index", "source": A, part: form}
    created = client.query(q.create_index(definition))
    given = client.query(form)
    assert created[part] == client.query(q.get(q.index("index")))[part] == given
    # The second run of a tool: what is there equals what is to be there, and the rest is updated.
    same = q.equals(q.select(part, q.get(q.index("index"))), form)
    update = q.update(q.index("index"), {"serialized": True})
    assert client.query(q.if_(same, update, q.abort("readonly")))["name"] == "index"
    assert client.query(q.update(q.index("index"), {part: form}))[part] == given
