"""What a short request may cost: memory and time at most, whatever it multiplies.

Each row is some data, a request, what it answers, and the bytes by which the server's memory may grow at its peak. Before, one
`JSON.SET d $[*] VALUE` of 200 KB took 10.7 GB, and only then was refused. Times are bounded generously: they are to tell a second from
minutes.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.resp import Connection, ReplyError
from harness.server import Server

MB = 1 << 20
GB = 1 << 30
SECONDS_MAX = 60.0
REPLY_TOO_LARGE = "ERR the reply exceeds the maximum size"
# Instead of 1 GB, so that the test needs neither the memory nor the time.
REPLY_BYTES_MAX = 32 << 20
TOO_OFTEN = "ERR the request names the same large key too often"
DOCUMENT_TOO_LARGE = "ERR the document exceeds the maximum size of 1 GB in memory"
# A buffer grows to twice its size by a copy.
LARGE = 5 * REPLY_BYTES_MAX
EFFECTS_TOO_LARGE = "ERR the command's effects exceed the maximum size"
MATCHES = "ERR the path matches too many values"

LONG = "x" * 200_000
QUOTED = f'"{LONG}"'
ELEMENTS = "[" + ",".join(["1"] * 20_000) + "]"
NESTED = "[" * 100 + ",".join(["1"] * 50_000) + "]" * 100
SHORT_TEXTS = "[" + ",".join(['"a"'] * 20_000) + "]"
ARRAYS = "[" + ",".join(["[]"] * 20_000) + "]"
OBJECTS = "[" + ",".join(["{}"] * 20_000) + "]"


@dataclass
class Row:
    name: str
    request: tuple
    expected: str
    """A pattern of the reply as text, at its start."""
    growth_max: int
    before: list[tuple] = field(default_factory=list)


def document(text: str) -> list[tuple]:
    return [("JSON.SET", "d", "$", text)]


def large_set(kind: str) -> list[tuple]:
    """A set of 200,000 members, or a sorted set."""
    if kind == "set":
        return [("SADD", "s", *range(start, start + 20_000)) for start in range(0, 200_000, 20_000)]
    return [("ZADD", "s", *(word for n in range(start, start + 20_000) for word in (n, n))) for start in range(0, 200_000, 20_000)]


OWN_ID = "the id of the connection"
MANY = 20_000
BIG_STRING = [("SETRANGE", "k", 16 * MB - 1, "x")]
ROWS = [
    Row("JSON.SET of many", ("JSON.SET", "d", "$[*]", QUOTED), DOCUMENT_TOO_LARGE, 32 * MB, document(ELEMENTS)),
    Row("JSON.MERGE of many", ("JSON.MERGE", "d", "$[*]", f'{{"a":{QUOTED}}}'), DOCUMENT_TOO_LARGE, 32 * MB, document(OBJECTS)),
    Row("JSON.STRAPPEND to many", ("JSON.STRAPPEND", "d", "$[*]", QUOTED), DOCUMENT_TOO_LARGE, 16 * MB, document(SHORT_TEXTS)),
    Row("JSON.ARRAPPEND to many", ("JSON.ARRAPPEND", "d", "$[*]", QUOTED), DOCUMENT_TOO_LARGE, 16 * MB, document(ARRAYS)),
    Row("JSON.ARRINSERT into many", ("JSON.ARRINSERT", "d", "$[*]", 0, QUOTED), DOCUMENT_TOO_LARGE, 16 * MB, document(ARRAYS)),
    Row("JSON.NUMMULTBY of many", ("JSON.NUMMULTBY", "d", "$[*]", "1.2345678901234567e300"), r"\[1.2345", 32 * MB, document(ELEMENTS)),
    Row("JSON.SET of small values", ("JSON.SET", "d", "$", "[" + "[]," * MB + "1]"), "OK", 200 * MB),
    Row("JSON.GET of one path often", ("JSON.GET", "d", *["$"] * 10_000), REPLY_TOO_LARGE, LARGE, document(f"[{QUOTED}]")),
    Row("JSON.GET of one name often", ("JSON.GET", "d", "$[" + ",".join(["'a'"] * 10_000) + "]"), REPLY_TOO_LARGE, LARGE, document(f'{{"a":{QUOTED}}}')),
    Row("JSON.GET indented", ("JSON.GET", "d", "INDENT", LONG), REPLY_TOO_LARGE, LARGE, document(ELEMENTS)),
    Row("JSON.GET of nested values", ("JSON.GET", "d", "$..*"), REPLY_TOO_LARGE + "|" + MATCHES, LARGE, document(NESTED)),
    Row("JSON.DEBUG MEMORY of nested values", ("JSON.DEBUG", "MEMORY", "d", "$..*"), REPLY_TOO_LARGE + "|" + MATCHES, LARGE, document(NESTED)),
    Row("JSON.MGET of one key often", ("JSON.MGET", *["d"] * 200_000, "$.none"), TOO_OFTEN, 100 * MB, document(f"[{QUOTED}]")),
    Row("MGET of one key often", ("MGET", *["k"] * MANY), REPLY_TOO_LARGE, LARGE, BIG_STRING),
    Row("HMGET of one field often", ("HMGET", "h", *["f"] * MANY), REPLY_TOO_LARGE, LARGE, [("HSET", "h", "f", LONG)]),
    Row("HRANDFIELD with repetitions", ("HRANDFIELD", "h", -1_000_000, "WITHVALUES"), REPLY_TOO_LARGE, LARGE, [("HSET", "h", "f", LONG)]),
    Row("SRANDMEMBER with repetitions", ("SRANDMEMBER", "s", -1_000_000_000), "ERR value is out of range", 16 * MB, [("SADD", "s", "a")]),
    Row("XREAD of one stream often", ("XREAD", "STREAMS", *["x"] * MANY, *["0"] * MANY), REPLY_TOO_LARGE, LARGE, [("XADD", "x", "1", "f", LONG)]),
    Row("XCLAIM of one entry often", ("XCLAIM", "x", "g", "c", 0, *["1-0"] * MANY), REPLY_TOO_LARGE, LARGE,
        [("XADD", "x", "1", "f", LONG), ("XGROUP", "CREATE", "x", "g", "0"), ("XREADGROUP", "GROUP", "g", "b", "STREAMS", "x", ">")]),
    Row("SORT of equal elements by a long value", ("SORT", "l", "BY", "k*", "ALPHA"), EFFECTS_TOO_LARGE, LARGE, [("SET", "k1", LONG), ("RPUSH", "l", *["1"] * MANY)]),
    Row("SORT with many patterns", ("SORT", "l", *["GET", "#"] * 20_000), "ERR SORT asks for too many values", 16 * MB, [("RPUSH", "l", *["1"] * MANY)]),
    Row("SORT that gets a long value", ("SORT", "l", "BY", "nosort", "GET", "k*"), REPLY_TOO_LARGE, LARGE, [("SET", "k1", LONG), ("RPUSH", "l", *["1"] * MANY)]),
    Row("SORT that stores a long value", ("SORT", "l", "BY", "nosort", "GET", "k*", "STORE", "t"), EFFECTS_TOO_LARGE, LARGE,
        [("SET", "k1", LONG), ("RPUSH", "l", *["1"] * MANY)]),
    Row("SUNION of one set often", ("SUNION", *["s"] * MANY), TOO_OFTEN, 32 * MB, large_set("set")),
    Row("SUNIONSTORE of one set often", ("SUNIONSTORE", "t", *["s"] * MANY), TOO_OFTEN, 32 * MB, large_set("set")),
    Row("SDIFF of one set often", ("SDIFF", *["s"] * MANY), TOO_OFTEN, 32 * MB, large_set("set")),
    Row("SINTERCARD of one set often", ("SINTERCARD", MANY, *["s"] * MANY), TOO_OFTEN, 32 * MB, large_set("set")),
    Row("ZUNIONSTORE of one set often", ("ZUNIONSTORE", "t", MANY, *["s"] * MANY), TOO_OFTEN, 32 * MB, large_set("set")),
    Row("ZINTERSTORE of one sorted set often", ("ZINTERSTORE", "t", MANY, *["s"] * MANY), TOO_OFTEN, 32 * MB, large_set("zset")),
    Row("ZUNION of a set many times", ("ZUNION", 4, *["s"] * 4), r"\[", 200 * MB, large_set("set")),
    Row("BITOP of one string often", ("BITOP", "OR", "t", *["k"] * MANY), TOO_OFTEN, 64 * MB, BIG_STRING),
    Row("BITFIELD of many fields", ("BITFIELD", "k", *["SET", "u8", 0, 1] * MANY), r"\[", 80 * MB, BIG_STRING),
    Row("PFMERGE of one key often", ("PFMERGE", "t", *["p"] * MANY), "OK", 16 * MB, [("PFADD", "p", *range(20_000))]),
    Row("LCS of long values", ("LCS", "a", "b"), "ERR Insufficient memory", 16 * MB, [("SET", "a", LONG), ("SET", "b", LONG)]),
    Row("LCS as long as it may be", ("LCS", "a", "b", "LEN"), "11000", 64 * MB, [("SET", "a", "a" * 11_000), ("SET", "b", "a" * 11_000)]),
    Row("SETRANGE beyond the end", ("SETRANGE", "k", 512 * MB, "x"), "ERR string exceeds", MB),
    Row("APPEND beyond the end", ("APPEND", "k", LONG), "ERR string exceeds", 2 * MB, [("CONFIG", "SET", "proto-max-bulk-len", MB), ("SETRANGE", "k", MB - 1, "x")]),
    Row("GEOSEARCHSTORE of everything", ("GEOSEARCHSTORE", "t", "geo", "FROMLONLAT", 0, 0, "BYRADIUS", 40_000, "km"), "20000", 64 * MB,
        [("GEOADD", "geo", *(word for n in range(20_000) for word in (n % 180, n % 80, n)))]),
    Row("COPY of a large set", ("COPY", "s", "t"), "1", 128 * MB, large_set("set")),
    Row("LINSERT into a long list", ("LINSERT", "l", "BEFORE", "pivot", "x"), str(MANY + 2), 16 * MB, [("RPUSH", "l", *["1"] * MANY, "pivot")]),
    Row("COMMAND DOCS of one command often", ("COMMAND", "DOCS", *["set"] * 200_000), REPLY_TOO_LARGE, LARGE),
    Row("CLIENT LIST of one connection often", ("CLIENT", "LIST", "ID", *[OWN_ID] * 200_000), REPLY_TOO_LARGE, LARGE),
    Row("SETRANGE at the end", ("SETRANGE", "k", 64 * MB, "x"), str(64 * MB + 1), 256 * MB),
]


@pytest.fixture(scope="module")
def attacked():
    server = Server(durability="none").start()
    yield server
    server.close()


def memory(server: Server, name: str) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+) kB", status, re.M)[1]) * 1024


@pytest.mark.quartet_only
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.timeout(120)
def test_a_short_request_costs_little(attacked, row):
    check(attacked, row.before, [row.request], row.expected, row.growth_max)


def check(server: Server, before: list[tuple], requests: list[tuple], expected: str, growth_max: int) -> None:
    with Connection(server.port, timeout_seconds=SECONDS_MAX) as connection:
        connection.do("FLUSHALL")
        connection.do("CONFIG", "SET", "proto-max-bulk-len", 512 * MB)
        assert connection.do("DEBUG", "SET-REPLY-BYTES-MAX", REPLY_BYTES_MAX) == "OK"
        for command in before:
            assert not isinstance(reply := connection.do(*command), ReplyError), (command[:3], reply)
        own_id = connection.do("CLIENT", "ID")
        requests = [tuple(own_id if word is OWN_ID else word for word in request) for request in requests]
        # Read first: what the server gives back between the two, of rows that were removed, is no growth.
        start_bytes = memory(server, "VmRSS")
        # From here the peak counts anew.
        Path(f"/proc/{server.pid}/clear_refs").write_text("5")
        start = time.monotonic()
        replies = connection.pipeline(*requests)
        seconds, growth = time.monotonic() - start, memory(server, "VmHWM") - start_bytes
        shown = str(replies[-1])[:200]
        assert re.match(expected, shown, re.S), shown
        assert growth <= growth_max + sum(len(str(word)) for request in requests for word in request) * 2, f"{growth / MB:.0f} MB"
        assert seconds < SECONDS_MAX, f"{seconds:.1f} s"


@pytest.mark.quartet_only
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "command, before",
    [
        (("GET", "k"), [("SETRANGE", "k", 2 * MB - 1, "x")]),
        (("HGETALL", "h"), [("HSET", "h", "f", LONG * 10)]),
        (("LRANGE", "l", 0, -1), [("RPUSH", "l", *[LONG] * 10)]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_transaction_of_a_thousand_reads_costs_no_more_than_one(attacked, command, before):
    requests = [("MULTI",), ("SET", "other", "new"), *[command] * 1000, ("EXEC",)]
    check(attacked, before, requests, REPLY_TOO_LARGE, LARGE)
    with Connection(attacked.port) as connection:
        assert connection.do("EXISTS", "other") == 0, "of a refused transaction nothing stays"


@pytest.mark.quartet_only
@pytest.mark.timeout(120)
@pytest.mark.skipif("AMPLIFICATION_LONG" not in os.environ, reason="a gigabyte of effects each: only with AMPLIFICATION_LONG")
@pytest.mark.parametrize("command", [("APPEND", "k", "x"), ("SETRANGE", "k", 0, "y"), ("COPY", "k", "t", "REPLACE")], ids=lambda command: command[0])
def test_a_transaction_of_a_thousand_writes_costs_no_more_than_its_effects_may(attacked, command):
    check(attacked, [("SETRANGE", "k", 8 * MB - 1, "x")], [("MULTI",), *[command] * 1000, ("EXEC",)], EFFECTS_TOO_LARGE, 4 * GB)
