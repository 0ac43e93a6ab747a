"""The Python driver against one server; each test works in a database of its own."""

from __future__ import annotations

import itertools

import pytest
from faunadb import query as q

from harness.fauna import connect

names = (f"database-{number}" for number in itertools.count(1))


@pytest.fixture
def make_client(server):
    """Makes a client for the admin, or another role, of a database that is made when first named."""
    root = connect(server)

    def make(database: str | None = None, role: str = "admin"):
        name = database or next(names)
        if not root.query(q.exists(q.database(name))):
            root.query(q.create_database({"name": name}))
        key = root.query(q.create_key({"database": q.database(name), "role": role}))
        return connect(server, key["secret"])

    return make


@pytest.fixture
def client(make_client):
    return make_client()
