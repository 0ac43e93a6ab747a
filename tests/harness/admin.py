"""The admin API of a `Server`, started with --dev unless a key is given."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from .server import Server


class Refused(Exception):
    def __init__(self, status: int, text: str):
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


class Admin:
    def __init__(self, server: Server, key: str = "dev"):
        self.server = server
        self.key = key

    def ask(self, method: str, path: str, body: object = None):
        return self.send(method, f"/admin/v1/databases{path}", body)

    def send(self, method: str, path: str, body: object = None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.http_port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                text = reply.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None
        return json.loads(text) if text else None

    def create(self, name: str, **decisions):
        return self.ask("POST", "", {"name": name, **decisions})

    def show(self, name: str):
        return self.ask("GET", f"/{name}")

    def change(self, name: str, **decisions):
        return self.ask("PATCH", f"/{name}", decisions)

    def delete(self, name: str) -> None:
        self.ask("DELETE", f"/{name}")

    def usage(self, name: str):
        return self.show(name)["usage"]

    def metrics(self) -> str:
        url = f"http://127.0.0.1:{self.server.http_port}/metrics"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.key}"} if self.key else {})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read().decode()
