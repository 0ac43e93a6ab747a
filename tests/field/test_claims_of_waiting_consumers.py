"""A consumer that waits in XREADGROUP ... CLAIM gets what a dead consumer holds as soon as that has been idle for long enough.

Reported of what 8.4 has (redis/redis#14402): the waiting consumer was woken by new entries alone, with BLOCK 0 it waited for good.
"""

from __future__ import annotations

import pytest

from harness.server import TARGET

pytestmark = pytest.mark.skipif(TARGET == "redis", reason="CLAIM came with 8.4")


@pytest.mark.parametrize("block", ["0", "60000"])
@pytest.mark.parametrize("dies_first", [True, False])
def test_what_becomes_claimable_ends_the_wait(open_connection, block, dies_first):
    other, waiting = open_connection(), open_connection()
    other.do("DEL", "stream")
    other.do("XGROUP", "CREATE", "stream", "group", "$", "MKSTREAM")

    def die():
        for command in ("MULTI", "XADD stream 5-1 a b", "XREADGROUP GROUP group dead STREAMS stream >"):
            other.do(*command.split())
        assert len(other.do("EXEC")) == 2

    if dies_first:
        die()
    waiting.send(*f"XREADGROUP GROUP group alive BLOCK {block} CLAIM 200 STREAMS stream >".split())
    if not dies_first:
        while "blocked_clients:1" not in other.do("INFO", "clients"):
            pass
        die()
    [[name, [[entry, fields, idle_ms, deliveries]]]] = waiting.read()
    assert (name, entry, fields, deliveries) == ("stream", "5-1", ["a", "b"], 1)
    assert 200 <= int(idle_ms) < 60000
    assert [owned[:2] for owned in other.do("XPENDING", "stream", "group", "-", "+", "5")] == [["5-1", "alive"]]
