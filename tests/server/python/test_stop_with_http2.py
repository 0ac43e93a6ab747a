"""A server that is stopped under clients of HTTP/2."""

from __future__ import annotations

import contextlib
import os
import signal
import socket

import pytest
from harness.cluster import until
from harness.http2_sessions import Session, Sessions
from harness.server import Server

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]


def refuses(server: Server) -> bool:
    try:
        socket.create_connection((server.host, server.fauna_port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_client_that_has_just_connected_is_answered():
    """FaunaDB's JavaScript driver waited indefinitely for a session that it opened when its server ended (SIGTERM): a connection that had
    not sent its first bytes was closed without a word. The server waits for them, for a second after the client has connected.
    """
    with Server() as server:
        with contextlib.closing(socket.create_connection((server.host, server.fauna_port), timeout=30)) as client:
            os.kill(server.pid, signal.SIGTERM)
            until(lambda: refuses(server), "it accepts nobody any more")
            assert Session(client).ask(1) == "answered"
        assert server.stop() == 0


def test_each_client_knows_the_outcome():
    """The same for what waited to be accepted: it was reset, perhaps while its client sent."""
    for _ in range(5):
        with Server() as server:
            with contextlib.closing(Sessions((server.host, server.fauna_port))) as sessions:
                until(lambda: sessions.outcomes["answered"] > 50, "sessions are answered")
                assert server.stop() == 0
            print(sessions.outcomes)
            sessions.all_known()
