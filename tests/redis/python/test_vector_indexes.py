"""Upstash's VECTOR.* over the wire: indexes are the same after a kill, a copy and on the other engine."""

from __future__ import annotations

import os
import random
import struct

import pytest

from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.timeout(300)

VECTORS, DIMENSIONS = 120, 16
METRICS = ("COSINE", "EUCLIDEAN", "DOT")


def blob(choice: random.Random) -> bytes:
    return struct.pack(f"<{DIMENSIONS}f", *(choice.uniform(-1, 1) for _ in range(DIMENSIONS)))


def fill(connection: Connection, key: str, metric: str, choice: random.Random) -> None:
    assert connection.do("VECTOR.CREATE", key, "DIM", DIMENSIONS, "METRIC", metric) == 1
    for number in range(VECTORS):
        assert connection.do("VECTOR.ADD", key, f"id{number}", "FP32", blob(choice)) == 1
    for number in range(0, VECTORS, 3):
        assert connection.do("VECTOR.DEL", key, f"id{number}") == 1
    for number in range(1, VECTORS, 6):
        assert connection.do("VECTOR.ADD", key, f"id{number}", "FP32", blob(choice)) == 0


def answers(connection: Connection, key: str) -> list:
    choice = random.Random(8)
    shown = [connection.do("VECTOR.COUNT", key), connection.do("VECTOR.INFO", key)]
    shown += [connection.do("VECTOR.GET", key, f"id{number}") for number in range(0, VECTORS, 7)]
    return shown + [connection.do("VECTOR.QUERY", key, "TOPK", 10, "FP32", blob(choice)) for _ in range(20)]


@pytest.mark.quartet_only
@pytest.mark.skipif("--engine" in os.environ.get("QUARTET_SERVE_OPTIONS", ""), reason="the engine is chosen for all servers")
def test_indexes_are_the_same_after_a_kill_and_on_the_other_engine():
    shown = []
    for engine in ("memory", "ssd"):
        with Server(durability="always", options=["--engine", engine]) as server:
            choice = random.Random(5)
            with Connection(server.port) as connection:
                for metric in METRICS:
                    fill(connection, metric, metric, choice)
                before = [answers(connection, metric) for metric in METRICS]
            server.kill()
            server.start()
            with Connection(server.port) as connection:
                assert [answers(connection, metric) for metric in METRICS] == before
                for metric in METRICS:
                    connection.do("COPY", metric, "copy", "REPLACE")
                    assert answers(connection, "copy") == answers(connection, metric)
        shown.append(before)
    assert shown[0] == shown[1]
