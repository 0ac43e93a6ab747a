"""Time series over the wire: they are the same after a kill, on the other engine and on a replica, and TS.READ waits for samples."""

from __future__ import annotations

import os
import threading

import pytest

from harness.redis_copy import until
from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.timeout(300)

SAMPLES = 3000
QUERIES = (
    "TS.RANGE series:{n} - +",
    "TS.REVRANGE series:{n} 5000 20000 AGGREGATION avg 700",
    "TS.RANGE hourly:{n} - + LATEST",
    "TS.GET series:{n}",
    "TS.MRANGE - + AGGREGATION max 5000 WITHLABELS FILTER number={n}",
    "TS.MRANGE - + AGGREGATION sum 5000 FILTER kind=raw GROUPBY kind REDUCE sum",
    "TS.QUERYINDEX kind=raw",
)


def fill(connection: Connection) -> None:
    for number in range(3):
        encoding = ("COMPRESSED", "UNCOMPRESSED", "COMPRESSED")[number]
        settings = ["ENCODING", encoding, "CHUNK_SIZE", 512 << number, "DUPLICATE_POLICY", "LAST", "LABELS", "kind", "raw", "number", number]
        assert connection.do("TS.CREATE", f"series:{number}", *settings) == "OK"
        assert connection.do("TS.CREATE", f"hourly:{number}", "LABELS", "kind", "compacted") == "OK"
        assert connection.do("TS.CREATERULE", f"series:{number}", f"hourly:{number}", "AGGREGATION", "twa", 3600) == "OK"
        for start in range(1, SAMPLES, 300):
            samples = [word for at in range(start, start + 300) for word in (f"series:{number}", at * 10 + at % 7, at * 37 % 101 / 4)]
            connection.do("TS.MADD", *samples)
        connection.do("TS.MADD", *[word for at in range(100) for word in (f"series:{number}", at * 113, 1000)])
        connection.do("TS.DEL", f"series:{number}", 3000, 9000)


def answers(connection: Connection) -> list:
    return [connection.do(*query.format(n=number).split()) for query in QUERIES for number in range(3)]


@pytest.mark.quartet_only
@pytest.mark.skipif("--engine" in os.environ.get("QUARTET_SERVE_OPTIONS", ""), reason="the engine is chosen for all servers")
def test_series_are_the_same_after_a_kill_and_on_the_other_engine():
    shown = []
    for engine in ("memory", "ssd"):
        with Server(durability="always", options=["--engine", engine]) as server:
            with Connection(server.port) as connection:
                fill(connection)
                shown.append(answers(connection))
            server.kill()
            server.start()
            with Connection(server.port) as connection:
                shown.append(answers(connection))
    assert all(one == shown[0] for one in shown) and len(shown[0][0]) > SAMPLES // 2


@pytest.mark.quartet_only
def test_a_replica_has_samples_of_the_present_time_with_that_time():
    with Server() as source, Server() as replica, Connection(replica.port) as there, Connection(source.port) as here:
        here.do("TS.ADD", "before", 5, 1, "LABELS", "of", "before")
        for source_key, target in (("a", "z"), ("z2", "a2")):
            here.do("TS.CREATE", target)
            here.do("TS.ADD", source_key, 1, 5)
            here.do("TS.CREATERULE", source_key, target, "AGGREGATION", "sum", 10)
            here.do("TS.ADD", source_key, 2, 6)
        assert there.do("REPLICAOF", "127.0.0.1", source.port) == "OK"
        until(lambda: there.do("TS.GET", "before") == [5, "1"])
        for source_key in ("a", "z2"):
            here.do("TS.ADD", source_key, 11, 7)
            here.do("TS.ADD", source_key, 25, 7)
        for _ in range(3):
            here.do("TS.ADD", "now", "*", 2, "ON_DUPLICATE", "LAST")
            here.do("TS.INCRBY", "count", 1)
            here.do("TS.MADD", "now", "*", 3)
        here.do("TS.ADD", "now", 9_000_000_000_000, 1)
        until(lambda: there.do("TS.GET", "now") == [9_000_000_000_000, "1"])
        assert there.do("TS.RANGE", "now", "-", "+") == here.do("TS.RANGE", "now", "-", "+")
        assert there.do("TS.RANGE", "count", "-", "+") == here.do("TS.RANGE", "count", "-", "+")
        assert there.do("TS.QUERYINDEX", "of=before") == ["before"]
        for target in ("z", "a2"):
            assert there.do("TS.RANGE", target, "-", "+") == here.do("TS.RANGE", target, "-", "+") == [[0, "6"], [10, "7"]]


def waiting(port: int, *request: object) -> tuple[threading.Thread, list]:
    """Sends a request that waits. Returns its thread, and where its reply will be."""
    replies: list = []

    def ask() -> None:
        with Connection(port, timeout_seconds=100) as connection:
            replies.append(connection.do(*request))

    thread = threading.Thread(target=ask)
    thread.start()
    with Connection(port) as connection:
        until(lambda: "blocked_clients:1" in connection.do("INFO", "clients"))
    return thread, replies


@pytest.mark.quartet_only
@pytest.mark.parametrize(
    ("request_words", "writes", "reply"),
    [
        (("series", "$", "BLOCK", 0, 1), [("TS.ADD", "series", 20, 2)], [[20, "2"]]),
        (("series", "-", "BLOCK", 90_000, 3), [("TS.ADD", "series", 20, 2), ("TS.MADD", "series", 30, 3)], [[10, "1"], [20, "2"], [30, "3"]]),
        (("absent", "-", "BLOCK", 0, 2, "MAX_COUNT", 2), [("TS.ADD", "absent", 1, 1), ("TS.INCRBY", "absent", 1, "TIMESTAMP", 2)], [[1, "1"], [2, "2"]]),
        (("compacted", "-", "BLOCK", 0, 1), [("TS.ADD", "series", 1000, 1)], [[0, "1"]]),
        (("series", 500, "BLOCK", 0, 1), [("DEL", "series")], []),
        (("series", "+", "BLOCK", 300, 2), [], [[10, "1"]]),
        (("absent", "-", "BLOCK", 300, 2), [], []),
    ],
)
def test_a_reader_waits_for_samples(request_words, writes, reply):
    with Server() as server, Connection(server.port) as connection:
        connection.do("TS.CREATE", "compacted")
        connection.do("TS.ADD", "series", 10, 1)
        connection.do("TS.CREATERULE", "series", "compacted", "AGGREGATION", "avg", 100)
        connection.do("TS.ADD", "series", 10, 1, "ON_DUPLICATE", "LAST")
        connection.do("TS.DEL", "series", 0, 1000)
        connection.do("TS.ADD", "series", 10, 1)
        thread, replies = waiting(server.port, "TS.READ", *request_words)
        for write in writes:
            connection.do(*write)
        thread.join(60)
        assert replies == [reply]
