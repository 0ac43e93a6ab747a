"""What scripts take of memory is bounded and given back, however they end.

A script that filled a table and failed, 24 times, took 6 GB and kept them; inside a database with a quota of 1 MB, 1.7 GB.
"""

from __future__ import annotations

import pytest

from harness.admin import Admin
from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.quartet_only

MEBIBYTE = 1 << 20
FILL = "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 100000 + i) end"
FAILING = {
    "a table without end": FILL,
    "a table, then an error": "local t = {} for i = 1, 30 do t[i] = string.rep('x', 100000 + i) end error('enough')",
    "an error that is caught": f"local ok, failure = pcall(function() {FILL} end) error(failure)",
    "strings that double": "local s = 'x' while true do s = s .. s end",
    "one command again and again": "local t = {} for i = 1, 1e9 do t[i] = redis.call('GET', 'big') end",
    "a coroutine": f"coroutine.wrap(function() {FILL} end)()",
}


@pytest.fixture(scope="module")
def world():
    server = Server(options=["--io-threads", "1"]).start()
    with Connection(server.port, 2, timeout_seconds=120) as connection:
        connection.do("CONFIG", "SET", "busy-reply-threshold", "0")
    yield server
    server.close()


def test_memory_of_a_failed_script_is_given_back(world):
    with Connection(world.port, 2, timeout_seconds=120) as connection:
        assert "not enough memory" in connection.do("EVAL", FILL, "0")
        before = world.rss_bytes()
        for _ in range(2):
            assert "not enough memory" in connection.do("EVAL", FILL, "0")
        assert world.rss_bytes() < before + 200 * MEBIBYTE
        assert connection.do("EVAL", "return 1", "0") == 1


def test_a_tenants_script_takes_no_more_than_its_quota(world):
    token = Admin(world).create("small", quotas={"stored_bytes": 4 * MEBIBYTE})["credentials"]["token"]
    with Connection(world.port, 2, timeout_seconds=120) as connection:
        assert connection.do("AUTH", token) == "OK"
        assert connection.do("SET", "big", "x" * MEBIBYTE) == "OK"
        before = world.rss_bytes()
        for script in FAILING.values():
            for _ in range(4):
                assert connection.do("EVAL", script, "0").startswith("ERR ")
        assert world.rss_bytes() < before + 100 * MEBIBYTE
        assert connection.do("EVAL", "local t = {} for i = 1, 1e4 do t[i] = i end return #t", "0") == 10000


def test_garbage_alone_is_no_reason_to_end_a_script(world):
    """Far more passes through it than it may hold at a time."""
    script = "for i = 1, 5000 do local s = string.rep('x', 1e5 + i) end return 'done'"
    with Connection(world.port, 2, timeout_seconds=120) as connection:
        assert connection.do("EVAL", script, "0") == "done"
