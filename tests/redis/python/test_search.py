"""Search indexes beside their keys, over the wire, while the server is killed.

Two connections change keys at random and a third searches; then the process is killed and started again. Each answer is compared
with a look at all keys in the same transaction, so there is no moment between the two. QUARTET_SEARCH_ROUNDS makes it longer.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from harness import hashes
from harness.resp import Connection, ReplyError

ROUNDS = int(os.environ.get("QUARTET_SEARCH_ROUNDS", "3"))
CHANGES = 400
SEARCHES = 40
WORDS = ["alpha", "beta", "gamma", "delta"]
TAGS = ["red", "blue", "green", "red,blue"]
CREATE = "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT NOSTEM g TAG n NUMERIC SORTABLE".split()


def hset(choice: random.Random):
    text = f"{choice.choice(WORDS)} {choice.choice(WORDS)}"
    return lambda key: ["HSET", key, "t", text, "g", choice.choice(TAGS), "n", choice.randrange(100)]


def change(connection: Connection, choice: random.Random) -> None:
    hashes.change(connection, choice, hset(choice), [["HINCRBY", "n", 5], ["HDEL", "g"]])


def judge(connection: Connection, choice: random.Random) -> None:
    """One search and the keys, of one moment."""
    word, tag, low = choice.choice(WORDS), choice.choice(["red", "blue", "green"]), choice.randrange(100)
    query, fits = choice.choice(
        [
            ("*", lambda _: True),
            (f"@t:{word}", lambda fields: word in fields.get("t", "").split()),
            (f"@g:{{{tag}}}", lambda fields: tag in fields.get("g", "").split(",")),
            (f"@n:[{low} +inf]", lambda fields: "n" in fields and float(fields["n"]) >= low),
            (f"-@t:{word} @g:{{{tag}}}", lambda fields: word not in fields.get("t", "").split() and tag in fields.get("g", "").split(",")),
        ]
    )
    search = "redis.call('FT.SEARCH', 'i', ARGV[1], 'NOCONTENT', 'LIMIT', '0', '1000')"
    found, every = hashes.found_and_hashes(connection, search, query)
    expected = {key for key, fields in every if fits(fields)}
    assert (found[0], set(found[1:])) == (len(expected), expected), query


@pytest.mark.timeout(300)
@pytest.mark.quartet_only
def test_every_search_finds_what_the_keys_hold_through_kills(fresh_server):
    choice = random.Random(0)
    with Connection(fresh_server.port) as connection:
        assert connection.do(*CREATE) == "OK"
        for _ in range(300):
            connection.do("HSET", f"d:more{choice.randrange(10_000)}", "t", choice.choice(WORDS), "n", choice.randrange(100))
    hashes.judge_through_kills(fresh_server, change, judge, rounds=ROUNDS, changes=CHANGES, searches=SEARCHES)


@pytest.mark.quartet_only
def test_an_index_goes_with_many_keys(fresh_server):
    with Connection(fresh_server.port) as connection:
        connection.do(*CREATE)
        connection.pipeline(*(["HSET", f"d:{number}", "n", number] for number in range(2000)))
        connection.do("SET", "d:other", "stays")
        assert connection.do("FT.DROPINDEX", "i", "DD") == "OK"
        assert (connection.do("KEYS", "*"), connection.do("FT._LIST")) == (["d:other"], [])


@pytest.mark.quartet_only
def test_keys_that_are_over_are_looked_at_within_the_time_of_a_search(fresh_server):
    with Connection(fresh_server.port) as connection:
        connection.do(*CREATE)
        connection.do("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        # To look at all of them takes fifty times as long as it may.
        connection.pipeline(*(["HSET", f"d:{number}", "n", number, "t", "alpha"] for number in range(20_000)))
        connection.pipeline(*(["PEXPIRE", f"d:{number}", 1] for number in range(19_999)))
        assert "Timeout" in str(connection.do("FT.SEARCH", "i", "alpha", "TIMEOUT", 1))
        connection.do("DEBUG", "SET-ACTIVE-EXPIRE", "1")
        deadline = time.monotonic() + 60
        while connection.do("DBSIZE") > 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert connection.do("FT.SEARCH", "i", "alpha", "NOCONTENT") == [1, "d:19999"]


@pytest.mark.quartet_only
def test_filling_goes_on_after_a_kill(fresh_server):
    with Connection(fresh_server.port) as connection:
        connection.pipeline(*(["HSET", f"k{number}", "n", number] for number in range(3000)))
        assert connection.do("FT.CREATE", "i", "SCHEMA", "n", "NUMERIC") == "OK"
    fresh_server.kill()
    fresh_server.start()
    with Connection(fresh_server.port) as connection:
        # A search waits half a second for the rest, and says so if that is not enough.
        for _ in range(240):
            found = connection.do("FT.SEARCH", "i", "@n:[100 (600]", "LIMIT", 0, 0)
            if not isinstance(found, ReplyError):
                break
            assert "is being filled" in found
        assert found == [500]
        info = connection.do("FT.INFO", "i")
        assert (info[info.index("indexing") + 1], info[info.index("num_docs") + 1]) == (0, 3000)
