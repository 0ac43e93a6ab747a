"""Hashes that change at random while searches look at them, and a server that is killed in between."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from harness.resp import Connection, ReplyError
from harness.server import Server

EXPECTED_ERRORS = ("no such key", "WRONGTYPE", "objects are the same")

# Calls a search of the script's own, and answers with what it found and with all hashes at that moment.
SEARCH_AND_HASHES = """
    local found = %s
    local all = {}
    for _, key in ipairs(redis.call('KEYS', 'd:*')) do
        if redis.call('TYPE', key)['ok'] == 'hash' then
            all[#all + 1] = {key, redis.call('HGETALL', key)}
        end
    end
    return {found, all}"""


def change(connection: Connection, choice: random.Random, hset: Callable[[str], list], others: list[list]) -> None:
    """Changes one of few keys in one of the ways in which a key changes; `hset` writes a hash, `others` are further ways."""
    key, other = (f"d:{choice.randrange(40)}" for _ in range(2))
    requests = [
        hset(key),
        hset(key),
        ["DEL", key],
        ["RENAME", key, other],
        ["COPY", key, other, "REPLACE"],
        ["PEXPIRE", key, 20],
        ["SET", key, "text"],
        ["EVAL", "redis.call('HSET', KEYS[1], 'n', '7') return redis.call('DEL', KEYS[2])", 2, key, other],
        *([command, key, *rest] for command, *rest in others),
    ]
    request = choice.choice(requests)
    reply = connection.do(*request)
    is_known = any(text in str(reply) for text in EXPECTED_ERRORS)
    assert is_known or not isinstance(reply, ReplyError), (request, reply)


def found_and_hashes(connection: Connection, search: str, query: str) -> tuple[object, list[tuple[str, dict[str, str]]]]:
    """Runs a search, an expression in Lua with the query as ARGV[1], and reads all hashes in the same transaction."""
    found, every = connection.do("EVAL", SEARCH_AND_HASHES % search, 0, query)
    return found, [(key, dict(zip(flat[::2], flat[1::2]))) for key, flat in every]


def judge_through_kills(
    server: Server,
    change: Callable[[Connection, random.Random], None],
    judge: Callable[[Connection, random.Random], None],
    *,
    rounds: int,
    changes: int,
    searches: int,
) -> None:
    """Two connections change keys and a third judges; then the server is killed and started, and judged again."""
    failures: list[BaseException] = []

    def write(seed: int) -> None:
        try:
            with Connection(server.port) as connection:
                choice = random.Random(seed)
                for _ in range(changes):
                    change(connection, choice)
        except BaseException as error:
            failures.append(error)

    for round_number in range(rounds):
        writers = [threading.Thread(target=write, args=(10 * round_number + number,)) for number in range(2)]
        choice = random.Random(round_number)
        with Connection(server.port) as connection:
            for writer in writers:
                writer.start()
            for _ in range(searches):
                judge(connection, choice)
        for writer in writers:
            writer.join()
        assert not failures
        server.kill()
        server.start()
        with Connection(server.port) as connection:
            for _ in range(10):
                judge(connection, choice)
