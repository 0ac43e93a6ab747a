"""A write to a hash whose field has just expired leaves the same hash on a replica.

Reported of servers that send such writes on as they came: the replica still has the field, so its hash differs from then on. Known from what
replication promises: both sides agree once everything has arrived.
"""

from __future__ import annotations

import time

import pytest

from harness.resp import Connection
from harness.server import TARGET, Server

pytestmark = pytest.mark.skipif(TARGET == "redis", reason="fields that expire are newer than Redis 7.0")

HASHES = 20

WRITES = {
    "HINCRBY": lambda home, key: home.do("HINCRBY", key, "old", 5),
    "HINCRBYFLOAT": lambda home, key: home.do("HINCRBYFLOAT", key, "old", 5),
    "HSETNX": lambda home, key: home.do("HSETNX", key, "old", "new"),
    "HSET": lambda home, key: home.do("HSET", key, "old", "new"),
    "HDEL": lambda home, key: home.do("HDEL", key, "old"),
    "script": lambda home, key: home.do("EVAL", "return redis.call('HINCRBY', KEYS[1], 'old', 5)", 1, key),
    "transaction": lambda home, key: home.pipeline(["MULTI"], ["HINCRBY", key, "old", 5], ["EXEC"]),
    "copy": lambda home, key: home.pipeline(["COPY", key, f"{key} copy"], ["HINCRBY", f"{key} copy", "old", 5]),
}


@pytest.fixture(scope="module")
def pair():
    home, replica = Server().start(), Server().start()
    with Connection(home.port) as at_home, Connection(replica.port) as at_replica:
        at_replica.do("REPLICAOF", "127.0.0.1", home.port)
        wait_until(lambda: "master_link_status:up" in at_replica.do("INFO", "replication"))
        yield at_home, at_replica
    for server in (home, replica):
        server.close()


def wait_until(holds) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("write", WRITES)
def test_both_sides_keep_the_same_hash(pair, write):
    home, replica = pair
    for number in range(HASHES):
        key = f"{write} {number}"
        home.do("HSET", key, "old", 1, "live", 1)
        home.do("HPEXPIRE", key, 3, "FIELDS", 1, "old")
        wait_until(lambda key=key: home.do("HGET", key, "old") is None) if number % 2 else time.sleep(0.006)
        WRITES[write](home, key)
    home.do("SET", f"{write} arrived", "")
    wait_until(lambda: replica.do("EXISTS", f"{write} arrived") == 1)
    keys = home.do("KEYS", f"{write} *")
    assert {key: contents(replica, key) for key in keys} == {key: contents(home, key) for key in keys}


def contents(connection, key: str):
    if connection.do("TYPE", key) != "hash":
        return connection.do("GET", key)
    flat = connection.do("HGETALL", key)
    return dict(zip(flat[::2], flat[1::2], strict=True))
