"""Many streams at once: each gets every event once and in order."""

from __future__ import annotations

import json
import selectors
import socket
import time

import httpx
import pytest
from faunadb import query as q

STREAMS = 1000
EVENTS = 3


class Follower:
    """A stream over HTTP/1.1 on a socket of its own, read when there is something."""

    def __init__(self, port: int, body: str, secret: str = "secret"):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        head = f"POST /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\nX-FaunaDB-API-Version: 4\r\nContent-Length: {len(body)}\r\n\r\n"
        self.socket.sendall((head + body).encode())
        self.received = b""

    def read(self) -> None:
        self.received += self.socket.recv(65536)

    def events(self) -> list[dict]:
        lines = self.received.split(b"\r\n")
        return [json.loads(line) for line in lines[:-1] if line.startswith(b'{"type"')]


def gather(followers: list[Follower], count: int, seconds: float = 60.0) -> float:
    """Reads until every follower has so many events; answers how long that took."""
    began, waiting = time.monotonic(), selectors.DefaultSelector()
    left = [follower for follower in followers if len(follower.events()) < count]
    for follower in left:
        waiting.register(follower.socket, selectors.EVENT_READ, follower)
    missing = len(left)
    while missing:
        assert time.monotonic() - began < seconds, f"{missing} streams lack events"
        for key, _ in waiting.select(1):
            key.data.read()
            if len(key.data.events()) >= count:
                waiting.unregister(key.data.socket)
                missing -= 1
    return time.monotonic() - began


@pytest.mark.slow
def test_a_thousand_streams_get_each_event_once_and_in_order(client, server):
    client.query(q.create_collection({"name": "news"}))
    note = client.query(q.create(q.collection("news"), {"data": {"n": 0}}))["ref"]
    body = '{"ref":{"collection":"news"},"id":"%s"}' % note.id()
    followers = [Follower(server.fauna_port, body, client.secret) for _ in range(STREAMS)]
    gather(followers, 1)
    took = []
    for n in range(1, EVENTS + 1):
        client.query(q.update(note, {"data": {"n": n}}))
        took.append(gather(followers, 1 + n))
    # Nobody is told anything more.
    time.sleep(0.2)
    for follower in followers:
        follower.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            follower.read()
        told = [event["event"]["document"]["data"]["n"] for event in follower.events()[1:]]
        assert told == list(range(1, EVENTS + 1))
        follower.socket.close()
    print(f"an event reached {STREAMS} streams in " + ", ".join(f"{seconds * 1000:.0f} ms" for seconds in took))


def test_many_streams_on_one_connection(client, server):
    """What a browser or a driver for JavaScript does: HTTP/2, one session."""
    client.query(q.create_collection({"name": "news"}))
    notes = [client.query(q.create(q.collection("news"), {"data": {"n": 0}}))["ref"] for _ in range(3)]
    with httpx.Client(http1=False, http2=True, timeout=60) as session:
        opened = []
        for index in range(60):
            body = '{"ref":{"collection":"news"},"id":"%s"}' % notes[index % 3].id()
            url = f"http://127.0.0.1:{server.fauna_port}/stream"
            stream = session.stream("POST", url, content=body, headers={"Authorization": f"Bearer {client.secret}"})
            opened.append((stream, stream.__enter__().iter_lines()))
        for _, lines in opened:
            assert '"start"' in next(lines)
        for note in notes:
            client.query(q.update(note, {"data": {"n": 1}}))
        for _, lines in opened:
            assert '"n":1' in next(lines)
        for stream, _ in opened:
            stream.__exit__(None, None, None)


def test_sources_that_cannot_be_followed(client):
    client.query(q.create_collection({"name": "news"}))
    for wrong in (q.collection("news"), 1, "x", {"a": 1}, q.union(q.documents(q.collection("news")), q.documents(q.collection("news")))):
        errors = []
        stream = client.stream(wrong, on_error=lambda event: errors.append(event))
        stream.start()
        assert errors, wrong
