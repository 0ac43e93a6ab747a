"""Search indexes beside their keys, over the wire, while the server is killed.

Connections change keys at random while others search; then the process is killed and started again. Each answer is compared with a
look at all keys in the same transaction, so there is no moment between the two. Longer by the environment: QUARTET_SEARCH_ROUNDS
between kills, QUARTET_SEARCH_MOMENTS of a round at which ten searches are judged, QUARTET_SEARCH_WRITERS; QUARTET_SEARCH_REPLACEMENTS of
all vectors. The counts are printed (`pytest -s`).
"""

from __future__ import annotations

import collections
import json
import os
import random
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from harness import hashes
from harness.resp import Connection, ReplyError
from harness.server import REST_READ_ONLY_TOKEN, Server, binary

ROUNDS = int(os.environ.get("QUARTET_SEARCH_ROUNDS", "3"))
MOMENTS = int(os.environ.get("QUARTET_SEARCH_MOMENTS", "20"))
WRITERS = int(os.environ.get("QUARTET_SEARCH_WRITERS", "2"))
REPLACEMENTS = int(os.environ.get("QUARTET_SEARCH_REPLACEMENTS", "2"))
SEARCHES_AT_ONCE = 10
WORDS = ["alpha", "beta", "gamma", "delta", "albert"]
TAGS = ["red", "blue", "green", "red,blue"]
CREATE = "FT.CREATE i PREFIX 1 d: SCHEMA t TEXT NOSTEM g TAG n NUMERIC SORTABLE".split()


def hset(choice: random.Random):
    text = f"{choice.choice(WORDS)} {choice.choice(WORDS)}"
    return lambda key: ["HSET", key, "t", text, "g", choice.choice(TAGS), "n", choice.randrange(100)]


def change(connection: Connection, choice: random.Random) -> None:
    hashes.change(connection, choice, hset(choice), [["HINCRBY", "n", 5], ["HDEL", "g"]])


Fields = dict[str, str]


def random_question(choice: random.Random) -> tuple[list[str], Callable[[dict[str, Fields]], object], Callable[[list], object]]:
    """A request, what the keys say to it, and how its reply says the same."""
    word, other = choice.sample(WORDS, 2)
    tag, low = choice.choice(["red", "blue", "green"]), choice.randrange(100)
    words = lambda fields: fields.get("t", "").split()  # noqa: E731
    tags = lambda fields: fields["g"].split(",") if "g" in fields else []  # noqa: E731
    number = lambda fields: float(fields["n"]) if "n" in fields else None  # noqa: E731
    if choice.random() < 0.15:
        request = ["FT.AGGREGATE", "i", f"@n:[{low} +inf]", "GROUPBY", "1", "@g", "REDUCE", "COUNT", "0", "AS", "count"]
        count = lambda keys: collections.Counter(fields.get("g") for fields in keys.values() if "n" in fields and number(fields) >= low)  # noqa: E731
        return request, count, lambda reply: {dict(zip(row[::2], row[1::2])).get("g"): int(row[-1]) for row in reply[1:]}
    if choice.random() < 0.1:
        request = ["FT.SEARCH", "i", f"@t:{word}", "LIMIT", "0", "0"]
        return request, lambda keys: sum(word in words(fields) for fields in keys.values()), lambda reply: reply[0]
    if choice.random() < 0.15:
        request = ["FT.SEARCH", "i", f"@g:{{{tag}}}", "NOCONTENT", "SORTBY", "n", "DESC", "LIMIT", "0", "1000"]

        def sorted_keys(keys: dict[str, Fields]) -> list[str]:
            fit = [(key, number(fields)) for key, fields in keys.items() if tag in tags(fields)]
            return [key for key, _ in sorted(fit, key=lambda pair: (pair[1] is None, -(pair[1] or 0), pair[0]))]

        return request, sorted_keys, lambda reply: reply[1:]
    query, fits = choice.choice(
        [
            ("*", lambda _: True),
            (f"@t:{word}", lambda fields: word in words(fields)),
            (f"@t:({word}|{other})", lambda fields: word in words(fields) or other in words(fields)),
            (f"@t:({word} {other})", lambda fields: word in words(fields) and other in words(fields)),
            (f'@t:"{word} {other}"', lambda fields: f"{word} {other}" in " ".join(words(fields))),
            ("@t:al*", lambda fields: any(one.startswith("al") for one in words(fields))),
            (f"@g:{{{tag}}}", lambda fields: tag in tags(fields)),
            (f"@n:[{low} +inf]", lambda fields: "n" in fields and number(fields) >= low),
            (f"@n:[({low} {low + 30}]", lambda fields: "n" in fields and low < number(fields) <= low + 30),
            (f"-@t:{word} @g:{{{tag}}}", lambda fields: word not in words(fields) and tag in tags(fields)),
            (f"@t:{word} @n:[-inf {low}]", lambda fields: word in words(fields) and "n" in fields and number(fields) <= low),
        ]
    )
    request = ["FT.SEARCH", "i", query, "NOCONTENT", "LIMIT", "0", "10000"]
    expected = lambda keys: {key for key, fields in keys.items() if fits(fields)}  # noqa: E731
    # The total is compared with the hits' number, which their set shows only if none comes twice.
    return request, expected, lambda reply: set(reply[1:]) if reply[0] == len(reply) - 1 else reply


SCRIPT = """
    local found, at = {}, 1
    while at <= #ARGV do
        local count = tonumber(ARGV[at])
        found[#found + 1] = redis.call(unpack(ARGV, at + 1, at + count))
        at = at + count + 1
    end
    local all = {}
    for _, key in ipairs(redis.call('KEYS', 'd:*')) do
        if redis.call('TYPE', key)['ok'] == 'hash' then
            all[#all + 1] = {key, redis.call('HGETALL', key)}
        end
    end
    return {found, all}"""


def judge(connection: Connection, choice: random.Random) -> int:
    """Several searches and the keys, of one moment: in a script, or in a transaction behind writes of its own. Returns how many."""
    # On a busy machine a search may take longer than half a second.
    assert connection.do("FT.CONFIG", "SET", "TIMEOUT", "0") == "OK"
    asked = [random_question(choice) for _ in range(SEARCHES_AT_ONCE)]
    script = ["EVAL", SCRIPT, 0, *(word for request, _, _ in asked for word in [len(request), *request])]
    if choice.random() < 0.3:
        key = f"d:{choice.randrange(40)}"
        connection.do("MULTI")
        connection.do(*choice.choice([["DEL", key], ["HSET", key, "t", choice.choice(WORDS), "n", choice.randrange(100)], ["PEXPIRE", key, 1]]))
        connection.do(*script)
        reply = connection.do("EXEC")[-1]
    else:
        reply = connection.do(*script)
    assert not isinstance(reply, ReplyError), reply
    found, every = reply
    keys = {key: dict(zip(flat[::2], flat[1::2])) for key, flat in every}
    for (request, expected, shown), reply in zip(asked, found, strict=True):
        assert shown(reply) == expected(keys), request
    return len(asked)


@pytest.mark.timeout(300 if ROUNDS <= 3 else 7200)
@pytest.mark.quartet_only
def test_every_search_finds_what_the_keys_hold_through_kills(fresh_server):
    failures: list[BaseException] = []
    changes = searches = 0

    def write(seed: int, is_over: threading.Event) -> None:
        nonlocal changes
        try:
            with Connection(fresh_server.port) as connection:
                choice, done = random.Random(seed), 0
                while not is_over.is_set():
                    change(connection, choice)
                    done += 1
                changes += done
        except BaseException as error:
            failures.append(error)

    with Connection(fresh_server.port) as connection:
        assert connection.do(*CREATE) == "OK"
    for round_number in range(ROUNDS):
        is_over = threading.Event()
        writers = [threading.Thread(target=write, args=(1000 * round_number + number, is_over)) for number in range(WRITERS)]
        choice = random.Random(round_number)
        with Connection(fresh_server.port) as connection:
            for _ in range(300):
                connection.do("HSET", f"d:more{choice.randrange(300)}", "t", choice.choice(WORDS), "n", choice.randrange(100))
            for writer in writers:
                writer.start()
            try:
                for _ in range(MOMENTS):
                    searches += judge(connection, choice)
            finally:
                is_over.set()
                for writer in writers:
                    writer.join()
        assert not failures
        fresh_server.kill()
        fresh_server.start()
        with Connection(fresh_server.port) as connection:
            for _ in range(5):
                searches += judge(connection, choice)
    print(f"{searches} searches judged beside {changes} changes, {ROUNDS} kills")
    assert_indexes_are_sound(fresh_server)


def assert_indexes_are_sound(server: Server) -> None:
    """Each index is compared with its keys, and its rows with each other."""
    server.stop()
    checked = subprocess.run([binary(), "check", "--data", server.data], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr


DIMENSIONS = 16
VECTORS = 500


@pytest.mark.timeout(300 if REPLACEMENTS <= 2 else 3600)
@pytest.mark.quartet_only
def test_a_graph_finds_the_nearest_after_all_vectors_were_replaced(fresh_server):
    """An index that compares all vectors judges one with a graph over the same keys."""
    choice = random.Random(1)
    vector = lambda: struct.pack(f"<{DIMENSIONS}f", *(choice.gauss(0, 1) for _ in range(DIMENSIONS)))  # noqa: E731
    shape = ["6", "TYPE", "FLOAT32", "DIM", DIMENSIONS, "DISTANCE_METRIC", "COSINE"]
    with Connection(fresh_server.port) as connection:
        for name, algorithm in (("graph", "HNSW"), ("all", "FLAT")):
            assert connection.do("FT.CREATE", name, "PREFIX", "1", "v:", "SCHEMA", "v", "VECTOR", algorithm, *shape) == "OK"
    for replacement in range(REPLACEMENTS + 1):
        with Connection(fresh_server.port) as connection:
            connection.pipeline(*(["HSET", f"v:{number}", "v", vector()] for number in range(VECTORS)))
        if replacement % 2:
            # Opened again, everything is as it was.
            fresh_server.kill()
            fresh_server.start()
        with Connection(fresh_server.port) as connection:
            assert connection.do("FT.CONFIG", "SET", "TIMEOUT", "0") == "OK"
            recalls = []
            for _ in range(50):
                options = ["NOCONTENT", "SORTBY", "d", "PARAMS", "2", "q", vector(), "DIALECT", "2"]
                found, right = (set(connection.do("FT.SEARCH", name, "*=>[KNN 10 @v $q AS d]", *options)[1:]) for name in ("graph", "all"))
                assert len(found) == len(right) == 10
                recalls.append(len(found & right) / 10)
        recall = sum(recalls) / len(recalls)
        print(f"replaced {replacement} times: recall {recall:.3f} of 10 among {VECTORS}")
        assert recall > 0.9
    assert_indexes_are_sound(fresh_server)


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


@pytest.mark.quartet_only
def test_readers_search_and_cannot_drop(fresh_server):
    with Connection(fresh_server.port) as connection:
        assert connection.do("FT.CREATE", "i", "SCHEMA", "t", "TEXT", "g", "TAG") == "OK"
        assert connection.do("HSET", "k", "t", "alpha", "g", "red") == 2
        dangerous = set(connection.do("ACL", "CAT", "dangerous"))
        assert {"ft.dropindex", "ft._dropindexifx", "ft.tagvals"} <= dangerous
        assert not {"ft.search", "ft.aggregate", "ft.create"} & dangerous

    def ask(*words: str) -> dict:
        headers = {"Authorization": f"Bearer {REST_READ_ONLY_TOKEN}"}
        address = f"http://127.0.0.1:{fresh_server.http_port}"
        request = urllib.request.Request(address, json.dumps(words).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    assert ask("FT.SEARCH", "i", "alpha", "NOCONTENT") == {"result": [1, "k"]}
    assert ask("FT.TAGVALS", "i", "g") == {"result": ["red"]}
    assert ask("FT._LIST") == {"result": ["i"]}
    for refused in (["FT.DROPINDEX", "i"], ["FT.CREATE", "j", "SCHEMA", "t", "TEXT"], ["FT.CONFIG", "GET", "*"], ["FT.SUGADD", "s", "a", "1"]):
        assert "NOPERM" in ask(*refused)["error"], refused
