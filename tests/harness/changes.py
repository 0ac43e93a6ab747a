"""The change feed of a `Server`, as a client that remembers how far it has come."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlencode

from .server import Server


class Refused(Exception):
    def __init__(self, status: int, body: dict):
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Changes:
    """One connection. Iterating gives the lines as they come, and ends when the server or the connection does."""

    def __init__(self, server: Server, token: str = "dev", timeout: float = 60, headers: dict | None = None, **query):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=timeout)
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        path = "/v1/changes?" + urlencode({name.rstrip("_"): value for name, value in query.items()})
        self.connection.request("GET", path, headers={**shown, **(headers or {})})
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise Refused(self.answer.status, json.loads(self.answer.read()))

    def lines(self) -> Iterator[str]:
        try:
            while line := self.answer.readline():
                if not line.endswith(b"\n"):
                    return
                yield line.decode().rstrip("\n")
        except (OSError, http.client.HTTPException):
            return

    def __iter__(self) -> Iterator[dict]:
        return (json.loads(line) for line in self.lines())

    def until(self, version: int) -> list[dict]:
        """What is told up to this version, which must be told or be passed."""
        told = []
        for line in self:
            assert "error" not in line, line
            told.append(line)
            if line["version"] >= version and not line.get("more"):
                return told
        raise AssertionError("the feed ended")

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> "Changes":
        return self

    def __exit__(self, *_) -> None:
        self.close()
