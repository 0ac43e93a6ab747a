"""RLTest with what `redisearch` says: FT.ADD of a document becomes HSET, FT.DROP FT.DROPINDEX. Run by the checkout's own Python."""

from __future__ import annotations

import sys

import redis
from RLTest.__main__ import main

OPTIONS_OF_ONE = ("LANGUAGE", "PAYLOAD", "IF")


def hset_of(words: tuple[object, ...]) -> tuple[bool, list[object]] | None:
    """Whether the key is replaced, and its fields, if the request is nothing but FT.ADD of a whole document with score 1."""
    text = [str(word).upper() for word in words]
    if text[0] != "FT.ADD" or "FIELDS" not in text or any(option in text[: text.index("FIELDS")] for option in OPTIONS_OF_ONE):
        return None
    at = text.index("FIELDS")
    fields = list(words[at + 1 :])
    is_whole = at >= 4 and fields and len(fields) % 2 == 0 and text[3] in ("1", "1.0") and "NOSAVE" not in text[:at]
    return ("REPLACE" in text[4:at] and "PARTIAL" not in text[4:at], fields) if is_whole else None


def flattened(words: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(part for word in words for part in (flattened(tuple(word)) if isinstance(word, (list, tuple)) else (word,)))


def with_documents_by_hset(execute):
    def execute_command(self, *words: object, **options: object) -> object:
        given = flattened(words)
        if str(given[0]).upper() == "FT.DROP" and len(given) == 2:
            return execute(self, "FT.DROPINDEX", given[1], "DD")
        if found := hset_of(given):
            replaces, fields = found
            is_known = execute(self, "EXISTS", given[2])
            if is_known and not replaces and "REPLACE" not in [str(word).upper() for word in given]:
                raise redis.ResponseError("SEARCH_DOC_EXISTS Document already exists")
            if replaces:
                execute(self, "DEL", given[2])
            execute(self, "HSET", given[2], *fields)
            return "OK"
        return execute(self, *words, **options)

    return execute_command


redis.Redis.execute_command = with_documents_by_hset(redis.Redis.execute_command)
sys.exit(main())
