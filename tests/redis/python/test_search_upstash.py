"""SEARCH.* over the wire, while the server is killed: each answer is compared with a look at all keys in the same transaction.

QUARTET_SEARCH_ROUNDS makes it longer.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from harness import hashes
from harness.resp import Connection, ReplyError

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


# The second of two streams is not in the index: entries come to the first from there, and go.
STREAM_CHANGES = [
    "XADD {0} MAXLEN 100 * t {word} n {number}",
    "XADD {0} MAXLEN 100 * t {word} n none t {word}",
    "XADD s2 MAXLEN 100 * t {word} n {number}",
    "XTRIM {0} MAXLEN 20",
    "RENAME {0} s2",
    "RENAME s2 {0}",
    "COPY s2 {0} REPLACE",
    "DEL {0}",
    "PEXPIRE {0} 20",
    "SET {0} text",
]
DELETE_ANY = """
    if redis.call('TYPE', KEYS[1])['ok'] ~= 'stream' then return 0 end
    local entries = redis.call('XRANGE', KEYS[1], '-', '+')
    if #entries == 0 then return 0 end
    return redis.call('XDEL', KEYS[1], entries[1 + ARGV[1] % #entries][1])"""
SEARCH_AND_ENTRIES = """
    local found = {redis.call('SEARCH.COUNT', 'i', ARGV[1]), redis.call('SEARCH.QUERY', 'i', ARGV[1], 'NOCONTENT', 'LIMIT', '1000')}
    if redis.call('TYPE', 's1')['ok'] ~= 'stream' then return {found, {}} end
    return {found, redis.call('XRANGE', 's1', '-', '+')}"""


def change_stream(connection: Connection, choice: random.Random) -> None:
    """Adds more often than it removes."""
    if choice.randrange(4) == 0:
        reply = connection.do("EVAL", DELETE_ANY, 1, "s1", choice.randrange(1000))
    else:
        changes = STREAM_CHANGES[:3] * 6 + STREAM_CHANGES[3:]
        request = choice.choice(changes).format("s1", word=choice.choice(WORDS), number=choice.randrange(100))
        reply = connection.do(*request.split())
    is_known = any(text in str(reply) for text in hashes.EXPECTED_ERRORS)
    assert is_known or not isinstance(reply, ReplyError), reply


def judge_stream(connection: Connection, choice: random.Random) -> None:
    """One search and the entries, of one moment."""
    word, low = choice.choice(WORDS), choice.randrange(100)
    query, fits = choice.choice(
        [
            ({}, lambda _: True),
            ({"t": {"$eq": word}}, lambda fields: word in fields),
            ({"n": {"$gte": low}}, lambda fields: any(text.isdecimal() and int(text) >= low for text in fields)),
        ]
    )
    (count, found), entries = connection.do("EVAL", SEARCH_AND_ENTRIES, 0, json.dumps(query))
    expected = {entry for entry, fields in entries if fits(fields)}
    assert (count, {hit[0] for hit in found}) == (len(expected), expected), query


@pytest.mark.timeout(300)
@pytest.mark.quartet_only
def test_every_query_finds_what_the_stream_holds_through_kills(fresh_server):
    with Connection(fresh_server.port) as connection:
        assert connection.do(*"SEARCH.CREATE i ON STREAM s1 SCHEMA t TEXT NOSTEM n I64 FAST".split()) == 1
    hashes.judge_through_kills(fresh_server, change_stream, judge_stream, rounds=ROUNDS, changes=CHANGES, searches=SEARCHES)
