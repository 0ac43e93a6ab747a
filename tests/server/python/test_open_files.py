"""The limit on open files: connections of all listeners share what log and checkpoints leave, and nobody can use it up.

1,024 connections that said nothing used to end the server: the next segment of the log could not be created.
"""

import http.client
import socket

import pytest
from harness.admin import Admin
from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.quartet_only

OPEN_FILES = 256


@pytest.fixture
def limited():
    options = ["--log-segment-bytes", str(1 << 20)]
    server = Server(durability="always", options=options, open_files=OPEN_FILES).start()
    yield server
    server.close()


def fill_segments(connection):
    """Writes several segments of the log, and a checkpoint: both need descriptors."""
    for number in range(40):
        assert connection.do("SET", f"k{number}", "x" * 100_000) == "OK"
    assert connection.do("SAVE") == "OK"


def ask(port, path="/healthz", **headers):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def test_connections_of_redis_leave_descriptors_for_the_log(limited):
    with Connection(limited.port) as writer:
        clients = []
        while True:
            client = Connection(limited.port)
            client.send("PING")
            reply = client.read()
            if reply != "PONG":
                break
            clients.append(client)
        assert reply == "ERR max number of clients reached"
        assert 16 < len(clients) < OPEN_FILES
        fill_segments(writer)
        assert ask(limited.dynamodb_port, "/")[0] == 503
        # Operators get in from this machine.
        assert Admin(limited).ask("GET", "")["databases"][0]["name"] == "default"
        assert int(writer.do("CONFIG", "GET", "maxclients")[1]) <= len(clients) + 1
        refused = writer.do("CONFIG", "SET", "maxclients", "100000")
        assert "The operating system is not able to handle the specified number of clients, try with" in refused
        for client in clients:
            client.close()
        while "connected_clients:1\r" not in writer.do("INFO", "clients"):
            pass
    assert limited.stop() == 0


def test_peers_that_show_nothing_make_room_for_those_who_do(limited):
    ports = [limited.http_port, limited.dynamodb_port, limited.fauna_port]
    strangers = [socket.create_connection(("127.0.0.1", ports[number % 3]), 60) for number in range(2 * OPEN_FILES)]
    for stranger in strangers[-100:]:
        stranger.sendall(b"POST / HTTP/1.1\r\nHost: local")
    with Connection(limited.port) as writer:
        fill_segments(writer)
        for port, path in [(limited.http_port, "/set/a/1"), (limited.dynamodb_port, "/"), (limited.fauna_port, "/ping")]:
            assert ask(port, path)[0] == 200
    # Those who came first went first.
    assert strangers[0].recv(1) == b""
    for stranger in strangers:
        stranger.close()
    assert limited.alive()
