"""SEARCH.* over the wire, while the server is killed: each answer is compared with a look at all keys in the same transaction.

QUARTET_SEARCH_ROUNDS makes it longer.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from harness import hashes
from harness.resp import Connection

ROUNDS = int(os.environ.get("QUARTET_SEARCH_ROUNDS", "2"))
CHANGES = 300
SEARCHES = 30
WORDS = ["alpha", "beta", "gamma", "delta"]
CREATE = "SEARCH.CREATE i ON HASH PREFIX 1 d: SCHEMA t TEXT NOSTEM n I64 FAST".split()


def hset(choice: random.Random):
    text = f"{choice.choice(WORDS)} {choice.choice(WORDS)}"
    return lambda key: ["HSET", key, "t", text, "n", choice.randrange(100)]


def change(connection: Connection, choice: random.Random) -> None:
    hashes.change(connection, choice, hset(choice), [["HSET", "t", choice.choice(WORDS), "n", "none"], ["HDEL", "n"]])


def number(fields: dict[str, str]) -> int | None:
    text = fields.get("n", "")
    return int(text) if text.isdecimal() else None


def judge(connection: Connection, choice: random.Random) -> None:
    """One search and the keys, of one moment."""
    word, low = choice.choice(WORDS), choice.randrange(100)
    query, fits = choice.choice(
        [
            ({}, lambda _: True),
            ({"t": {"$eq": word}}, lambda fields: word in fields.get("t", "").split()),
            ({"n": {"$gte": low}}, lambda fields: (number(fields) if number(fields) is not None else -1) >= low),
        ]
    )
    search = "{redis.call('SEARCH.COUNT', 'i', ARGV[1]), redis.call('SEARCH.QUERY', 'i', ARGV[1], 'NOCONTENT', 'LIMIT', '1000')}"
    (count, found), every = hashes.found_and_hashes(connection, search, json.dumps(query))
    expected = {key for key, fields in every if fits(fields)}
    assert (count, {hit[0] for hit in found}) == (len(expected), expected), query


@pytest.mark.timeout(300)
@pytest.mark.quartet_only
def test_every_query_finds_what_the_keys_hold_through_kills(fresh_server):
    with Connection(fresh_server.port) as connection:
        assert connection.do(*CREATE) == 1
    hashes.judge_through_kills(fresh_server, change, judge, rounds=ROUNDS, changes=CHANGES, searches=SEARCHES)


@pytest.mark.quartet_only
def test_answers_in_both_protocols(fresh_server):
    with Connection(fresh_server.port) as connection:
        assert connection.do("SEARCH.CREATE", "i", "ON", "JSON", "PREFIX", "1", "d:", "SCHEMA", "t", "TEXT", "n", "F64", "FAST") == 1
        connection.do("JSON.SET", "d:1", "$", '{"t": "red fox", "n": 1.5}')
        stats = '{"s": {"$stats": {"field": "n"}}}'
        assert connection.do("TYPE", "i") == "search"
        assert connection.do("SEARCH.AGGREGATE", "i", "{}", stats) == ["s", ["count", 1, "min", "1.5", "max", "1.5", "sum", "1.5", "avg", "1.5"]]
        assert connection.do("SEARCH.QUERY", "i", '{"n": {"$gt": 1}}') == [["d:1", "1", [["$", '{"t":"red fox","n":1.5}']]]]
        connection.do("HELLO", "3")
        found = connection.do("SEARCH.AGGREGATE", "i", "{}", stats)
        assert found == {"s": {"count": 1, "min": 1.5, "max": 1.5, "sum": 1.5, "avg": 1.5}}
        assert connection.do("SEARCH.QUERY", "i", '{"n": {"$gt": 1}}', "NOCONTENT") == [["d:1", 1.0]]
        assert connection.do("SEARCH.LISTINDEXES") == [{"name": "i", "type": "JSON"}]


@pytest.mark.quartet_only
def test_filling_goes_on_after_a_kill(fresh_server):
    with Connection(fresh_server.port) as connection:
        connection.pipeline(*(["HSET", f"d:{number}", "t", "alpha", "n", number] for number in range(3000)))
        assert connection.do(*CREATE) == 1
    fresh_server.kill()
    fresh_server.start()
    with Connection(fresh_server.port) as connection:
        # Each waits as long as a search may, and then says how far the index is.
        for _ in range(100):
            reply = connection.do("SEARCH.WAITINDEXING", "i")
            if reply == 1:
                break
            assert "is being filled" in str(reply)
        assert reply == 1
        assert connection.do("SEARCH.COUNT", "i", '{"t": {"$eq": "alpha"}}') == 3000
        connection.do("DEL", "i")
        assert connection.do("SEARCH.COUNT", "i", "{}") == -1
