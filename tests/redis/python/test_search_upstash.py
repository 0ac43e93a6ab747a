"""SEARCH.* over the wire, while the server is killed: each answer is compared with a look at all keys in the same transaction.

QUARTET_SEARCH_ROUNDS makes it longer.
"""

from __future__ import annotations

import json
import os
import random
import threading

import pytest

from harness.resp import Connection, ReplyError

ROUNDS = int(os.environ.get("QUARTET_SEARCH_ROUNDS", "2"))
CHANGES = 300
SEARCHES = 30
WORDS = ["alpha", "beta", "gamma", "delta"]
CREATE = "SEARCH.CREATE i ON HASH PREFIX 1 d: SCHEMA t TEXT NOSTEM n I64 FAST".split()


def change(connection: Connection, choice: random.Random) -> None:
    key, other = (f"d:{choice.randrange(40)}" for _ in range(2))
    request = choice.choice(
        [
            ["HSET", key, "t", f"{choice.choice(WORDS)} {choice.choice(WORDS)}", "n", choice.randrange(100)],
            ["HSET", key, "t", choice.choice(WORDS), "n", "none"],
            ["HDEL", key, "n"],
            ["DEL", key],
            ["RENAME", key, other],
            ["COPY", key, other, "REPLACE"],
            ["PEXPIRE", key, 20],
            ["SET", key, "text"],
            ["EVAL", "redis.call('HSET', KEYS[1], 'n', '7') return redis.call('DEL', KEYS[2])", 2, key, other],
        ]
    )
    reply = connection.do(*request)
    known = ("no such key", "WRONGTYPE", "objects are the same")
    assert any(text in str(reply) for text in known) or not isinstance(reply, ReplyError), (request, reply)


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
    script = """
        local found = redis.call('SEARCH.QUERY', 'i', ARGV[1], 'NOCONTENT', 'LIMIT', '1000')
        local all = {}
        for _, key in ipairs(redis.call('KEYS', 'd:*')) do
            if redis.call('TYPE', key)['ok'] == 'hash' then
                all[#all + 1] = {key, redis.call('HGETALL', key)}
            end
        end
        return {redis.call('SEARCH.COUNT', 'i', ARGV[1]), found, all}"""
    count, found, every = connection.do("EVAL", script, 0, json.dumps(query))
    expected = {key for key, flat in every if fits(dict(zip(flat[::2], flat[1::2])))}
    assert (count, {hit[0] for hit in found}) == (len(expected), expected), query


@pytest.mark.timeout(300)
@pytest.mark.quartet_only
def test_every_query_finds_what_the_keys_hold_through_kills(fresh_server):
    failures: list[BaseException] = []

    def write(seed: int) -> None:
        try:
            with Connection(fresh_server.port) as connection:
                choice = random.Random(seed)
                for _ in range(CHANGES):
                    change(connection, choice)
        except BaseException as error:
            failures.append(error)

    with Connection(fresh_server.port) as connection:
        assert connection.do(*CREATE) == 1
    for round_number in range(ROUNDS):
        writers = [threading.Thread(target=write, args=(10 * round_number + number,)) for number in range(2)]
        choice = random.Random(round_number)
        with Connection(fresh_server.port) as connection:
            for writer in writers:
                writer.start()
            for _ in range(SEARCHES):
                judge(connection, choice)
        for writer in writers:
            writer.join()
        assert not failures
        fresh_server.kill()
        fresh_server.start()
        with Connection(fresh_server.port) as connection:
            for _ in range(10):
                judge(connection, choice)


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
