"""Clients of HTTP/2 at a node that becomes home, and at nodes that end or whose home does."""

from __future__ import annotations

import contextlib
import socket
import time

import h2.connection
import h2.events
import pytest
from harness.cluster import Cluster, until
from harness.http2_sessions import Sessions
from harness.unnoticed import all_run

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]


def test_a_client_that_has_connected_before_its_node_became_home_is_answered():
    """The node accepted the connection while another was home, and became home before the first bytes: it looked for another home for
    three seconds, and reset the connection. A client of HTTP/1 was answered. The node passes the connection to its own layers.
    """
    with Cluster() as cluster:
        all_run(cluster)
        node = cluster.others()[0]
        with socket.create_connection((node.host, node.fauna_port), timeout=30) as client:
            node.hand_over()
            until(node.is_home, "it is home")
            connection = h2.connection.H2Connection()
            connection.initiate_connection()
            headers = [(":method", "GET"), (":path", "/ping"), (":scheme", "http"), (":authority", "any")]
            connection.send_headers(1, headers, end_stream=True)
            client.sendall(connection.data_to_send())
            events = []
            while not any(isinstance(event, h2.events.StreamEnded) for event in events):
                received = client.recv(65536)
                assert received, events
                events += connection.receive_data(received)
                client.sendall(connection.data_to_send())
        assert any(isinstance(event, h2.events.ResponseReceived) for event in events), events


@pytest.mark.parametrize("is_home", [True, False], ids=["home", "other"])
def test_each_client_of_a_node_that_is_stopped_knows_the_outcome(is_home):
    """FaunaDB's JavaScript driver waited indefinitely for sessions that it opened while its node ended (SIGTERM). A node that ended closed
    what had not sent its first bytes yet, reset what waited to be accepted while the client sent, and reset, in the middle of its streams,
    what it passed on. Now it waits a second for the first bytes, refuses new streams by a GOAWAY, and answers the others first.
    """
    for _ in range(3):
        with Cluster() as cluster:
            all_run(cluster)
            node = cluster.home() if is_home else cluster.others()[0]
            with contextlib.closing(Sessions((node.host, node.fauna_port))) as sessions:
                until(lambda: sessions.outcomes["answered"] > 20, "sessions are answered")
                assert node.stop() == 0
            print(sessions.outcomes)
            sessions.all_known()


def test_each_client_of_a_node_whose_home_fails_knows_the_outcome():
    """The node that passed them on reset their connections, which a client of Node.js does not notice if it sends at that moment, nor if
    the home had announced its end before. The node says a GOAWAY with an error.
    """
    with Cluster() as cluster:
        all_run(cluster)
        for _ in range(2):
            home, node = cluster.home(), cluster.others()[0]
            with contextlib.closing(Sessions((node.host, node.fauna_port))) as sessions:
                until(lambda: sessions.outcomes["answered"] > 20, "sessions are answered")
                home.kill()
                until(lambda: any(other.is_home() for other in cluster.nodes if other is not home), "another home")
                time.sleep(1)
            print(sessions.outcomes)
            sessions.all_known()
            assert not sessions.outcomes["reset"], sessions.outcomes
            home.start()
            all_run(cluster)
