"""Costs do not grow unnoticed: each is measured and compared with what `benchmarks/costs.json` has of it.

A small key took a third more memory after three days, and nobody saw it. A cost that grows by more than 3 percent fails here. Whoever means it
to grow writes the new figure there, with the commit and the reason; whoever makes one smaller writes that down too, so that it stays.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from harness.resp import Connection

COSTS = json.loads((Path(__file__).parents[3] / "benchmarks" / "costs.json").read_text())
KEYS = 100_000
GROWTH_MAX = 1.03


def requests(kind: str) -> list[list]:
    """One request for each key."""
    numbers = list(range(KEYS))
    if kind.endswith(" at random"):
        random.Random(1).shuffle(numbers)
        kind = kind.removesuffix(" at random")
    name = lambda number: f"key:{number:012}"  # noqa: E731
    value = "x" * 64
    make = {
        "string": lambda number: ["SET", name(number), value],
        "string with a deadline": lambda number: ["SET", name(number), value, "EX", 100_000],
        "counter": lambda number: ["SET", name(number), number],
        "hash": lambda number: ["HSET", name(number), "name", "Ada", "year", 1815],
        "list": lambda number: ["RPUSH", name(number), "one", "two", "three"],
        "set": lambda number: ["SADD", name(number), "one", "two", "three"],
        "sorted set": lambda number: ["ZADD", name(number), 1, "one", 2, "two"],
        "stream": lambda number: ["XADD", name(number), "1-1", "field", value],
        "document": lambda number: ["JSON.SET", name(number), "$", '{"name":"Ada","year":1815}'],
        "member of a set": lambda number: ["SADD", "key", name(number)],
        "member of a sorted set": lambda number: ["ZADD", "key", number, name(number)],
        "field of a hash": lambda number: ["HSET", "key", name(number), value],
        "element of a list": lambda number: ["RPUSH", "key", value],
        "entry of a stream": lambda number: ["XADD", "key", f"1-{number + 1}", "field", value],
    }[kind]
    return [make(number) for number in numbers]


def used_memory(connection: Connection) -> int:
    text = connection.do("INFO", "memory")
    text = text.decode() if isinstance(text, bytes) else str(text)
    return int(text.split("used_memory:")[1].split("\r\n")[0])


def bytes_a_key(connection: Connection, kind: str) -> float:
    connection.do("FLUSHALL")
    all_requests = requests(kind)
    connection.pipeline(*all_requests[:100])
    before = used_memory(connection)
    for start in range(100, KEYS, 500):
        connection.pipeline(*all_requests[start : start + 500])
    return (used_memory(connection) - before) / (KEYS - 100)


@pytest.mark.slow
@pytest.mark.quartet_only
@pytest.mark.parametrize("kind", COSTS["bytes_a_key"])
def test_bytes_a_key(kind, fresh_server):
    with Connection(fresh_server.port, timeout_seconds=120) as connection:
        measured = bytes_a_key(connection, kind)
    recorded = COSTS["bytes_a_key"][kind]
    assert measured <= recorded * GROWTH_MAX, f"{measured:.1f} bytes, {recorded} at {COSTS['commit']}: write down why it grows"
