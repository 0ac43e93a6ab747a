"""FQL over one kept HTTP/1.1 connection: queries as the JSON that drivers send, replies with their transaction time."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass


class Gone(Exception):
    """No answer: what was asked may have happened or not."""


class Refused(Exception):
    """An answer that is an error: what was asked has not happened."""

    def __init__(self, status: int, errors: list[dict]):
        super().__init__(f"{status} {errors}")
        self.status, self.code, self.description = status, errors[0]["code"], errors[0]["description"]


@dataclass
class Answer:
    value: object
    txn: int
    began: float
    ended: float


class Client:
    """Of one thread, and of one life of the server."""

    def __init__(self, port: int, secret: str = "secret", timeout_seconds: float = 60.0):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)
        self.headers = {"Authorization": f"Bearer {secret}", "X-FaunaDB-API-Version": "4"}

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()

    def ask(self, query) -> Answer:
        began = time.monotonic()
        try:
            self.connection.request("POST", "/", json.dumps(query), self.headers)
            response = self.connection.getresponse()
            reply = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Gone(str(problem)) from problem
        if response.status >= 300:
            raise Refused(response.status, reply["errors"])
        return Answer(reply["resource"], int(response.getheader("X-Txn-Time")), began, time.monotonic())

    def stream(self, query, fields: str = ""):
        """The events of a stream as they come, until the server goes."""
        try:
            self.connection.request("POST", f"/stream{fields and '?fields=' + fields}", json.dumps(query), self.headers)
            response = self.connection.getresponse()
            while line := response.readline():
                if line.strip():
                    yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError):
            return


# ---- queries


def obj(**fields) -> dict:
    return {"object": {name: value for name, value in fields.items()}}


def collection(name: str) -> dict:
    return {"collection": name}


def ref(name: str, id: int | str) -> dict:
    return {"ref": collection(name), "id": str(id)}


def create(of: str, id: int | None = None, /, **data) -> dict:
    return {"create": collection(of) if id is None else ref(of, id), "params": obj(data=obj(**data))}


def update(of: str, id: int, /, **data) -> dict:
    return {"update": ref(of, id), "params": obj(data=obj(**data))}


def field(name: str, document) -> dict:
    return {"select": ["data", name], "from": document}


def match(index: str, *terms) -> dict:
    return {"match": {"index": index}, **({"terms": list(terms)} if terms else {})}


def page(of, size: int = 100_000, **more) -> dict:
    return {"paginate": of, "size": size, **more}


def each(pages, body) -> dict:
    return {"map": {"lambda": "x", "expr": body}, "collection": pages}


def var(name: str) -> dict:
    return {"var": name}


def let(into, **bindings) -> dict:
    return {"let": [{name: value} for name, value in bindings.items()], "in": into}


def when(condition, then, otherwise=None) -> dict:
    return {"if": condition, "then": then, "else": otherwise}
