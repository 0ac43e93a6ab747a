"""The faunadb driver against a `Server`."""

from __future__ import annotations

import types
from unittest import mock

from faunadb.client import FaunaClient

from .server import Server


def connect(server: Server, secret: str | None = None, **options) -> FaunaClient:
    """A client. The driver asks the package index for a newer version of itself: that question is answered here."""
    secret = secret or server.root_key or "secret"
    answer = types.SimpleNamespace(json=lambda: {"info": {"version": "0"}})
    with mock.patch("faunadb.client.get", lambda url: answer):
        client = FaunaClient(secret=secret, **{"scheme": "http", "domain": server.host, "port": server.fauna_port, **options})
    client.secret = secret
    return client
