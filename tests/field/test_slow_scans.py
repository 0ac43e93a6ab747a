"""A slow iteration ends while quick ones with small pages run beside it.

Reported by users of clients whose iterations never ended. SCAN promises that a full iteration ends and returns every key that was there
throughout; redis-server 7.0.15 needs about as many calls as there are pages.
"""

from __future__ import annotations

import pytest

KEYS, PAGE = 20_000, 5_000


@pytest.mark.timeout(400)
@pytest.mark.parametrize("pages", [1, 4])
def test_a_slow_iteration_ends(open_connection, pages):
    slow, quick = open_connection(), open_connection()
    for start in range(0, KEYS, 1000):
        slow.do("MSET", *(word for number in range(start, start + 1000) for word in (f"key:{number}", "value")))
    cursor, seen, calls = "0", set(), 0
    while calls == 0 or cursor != "0":
        cursor, page = slow.do("SCAN", cursor, "COUNT", PAGE)
        seen.update(page)
        calls += 1
        assert calls <= 2 * KEYS // PAGE, f"{calls} calls have returned {len(seen)} keys"
        if calls % pages == 0:
            iterate(quick)
    assert len(seen) == KEYS


def iterate(connection) -> None:
    cursor = "0"
    while True:
        cursor, _ = connection.do("SCAN", cursor, "COUNT", 1)
        if cursor == "0":
            return
