"""A command of more than 1,048,576 words is served: users load a million members, or pairs, at once.

The limit was lifted in Redis 7.0; redis-server 7.0.15 serves these.
"""

from __future__ import annotations

import pytest

from harness.resp import encode

WORDS = 1_100_000


@pytest.mark.timeout(300)
def test_a_million_members(open_connection):
    connection = open_connection(timeout_seconds=120)
    connection.send_bytes(encode("SADD", "set", *range(WORDS)))
    assert connection.read() == WORDS
    assert connection.do("SCARD", "set") == WORDS


@pytest.mark.timeout(300)
def test_a_million_words_of_pairs(open_connection):
    connection = open_connection(timeout_seconds=120)
    connection.send_bytes(encode("MSET", *(word for number in range(WORDS // 2) for word in (f"key{number}", number))))
    assert connection.read() == "OK"
    assert connection.do("DBSIZE") == WORDS // 2
