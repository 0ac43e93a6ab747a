"""RLTest with what `redisearch` says. Run by the checkout's own Python.

Commands that have gone out of use with 2.0 and are not served here become those that do the same: FT.ADD of a document HSET, FT.GET and
FT.MGET HGETALL, FT.DEL DEL, FT.DROP FT.DROPINDEX. A connection speaks the protocol that its test asks for, which RLTest gives only to
servers that it starts itself.
"""

from __future__ import annotations

import sys

import redis
from RLTest.__main__ import main
from RLTest.env import Env
from RLTest.exists_redis import ExistsRedisEnv

OPTIONS_OF_ONE = ("LANGUAGE", "PAYLOAD", "IF")


def hset_of(words: tuple[object, ...]) -> tuple[set[str], list[object]] | None:
    """The options and the fields, if the request is nothing but FT.ADD of a document. Its score, which HSET does not have, is left out."""
    text = [str(word).upper() for word in words]
    if text[0] != "FT.ADD" or "FIELDS" not in text or any(option in text[: text.index("FIELDS")] for option in OPTIONS_OF_ONE):
        return None
    at = text.index("FIELDS")
    fields = list(words[at + 1 :])
    is_whole = at >= 4 and fields and len(fields) % 2 == 0 and "NOSAVE" not in text[:at]
    return (set(text[4:at]), fields) if is_whole else None


def flattened(words: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(part for word in words for part in (flattened(tuple(word)) if isinstance(word, (list, tuple)) else (word,)))


def add(execute, client, given: tuple[object, ...], options: set[str], fields: list[object]) -> str:
    is_known = execute(client, "EXISTS", given[2])
    if is_known and "REPLACE" not in options:
        raise redis.ResponseError("SEARCH_DOC_EXISTS Document already exists")
    if not is_known and "NOCREATE" in options:
        raise redis.ResponseError("Document does not exist")
    if "REPLACE" in options and "PARTIAL" not in options:
        execute(client, "DEL", given[2])
    execute(client, "HSET", given[2], *fields)
    return "OK"


def fields_of(execute, client, key: object) -> list[object] | None:
    found = execute(client, "HGETALL", key)
    return [part for pair in found.items() for part in pair] or None


def drop(execute, client, given: tuple[object, ...]) -> object:
    command = "_FT.DROPINDEXIFX" if "DROPIFX" in str(given[0]).upper() else "FT.DROPINDEX"
    keeps = [str(word).upper() for word in given[2:]] in (["KEEPDOCS"], ["_FORCEKEEPDOCS"])
    options = [] if keeps else given[2:] or ["DD"]
    return execute(client, command.replace("_FT.DROPINDEXIFX", "FT._DROPINDEXIFX"), given[1], *options)


def with_later_commands(execute):
    def execute_command(self, *words: object, **options: object) -> object:
        # A client splits the name of a command at its spaces.
        given = (*str(words[0]).split(), *flattened(words[1:]))
        name = str(given[0]).upper()
        if name in ("FT.DROP", "FT._DROPIFX") and len(given) in (2, 3):
            return drop(execute, self, given)
        if name == "FT.GET" and len(given) == 3:
            return fields_of(execute, self, given[2])
        if name == "FT.MGET" and len(given) > 2:
            return [fields_of(execute, self, key) for key in given[2:]]
        if name == "FT.DEL" and len(given) == 3:
            return execute(self, "DEL", given[2])
        if found := hset_of(given):
            return add(execute, self, given, *found)
        return execute(self, *words, **options)

    return execute_command


def connection_of(self: ExistsRedisEnv, shardId: int = 1) -> redis.Redis:  # noqa: N803
    protocol = self.protocol if hasattr(self, "protocol") else 2
    return redis.Redis(self.host, self.port, password=self.password, decode_responses=self.decodeResponses, protocol=protocol)


def with_protocol(initialize):
    def __init__(self, *words: object, **options: object) -> None:
        initialize(self, *words, **options)
        self.protocol = options.get("protocol") or 2

    return __init__


redis.Redis.execute_command = with_later_commands(redis.Redis.execute_command)
ExistsRedisEnv.getConnection = connection_of
ExistsRedisEnv.__init__ = with_protocol(ExistsRedisEnv.__init__)
sys.exit(main())
