"""Searches and aggregations beside what the original answered to the same (`tests/redis-oracle/differential.py --record`).

Differences that docs/search.md names are explained as they are in a run beside the original itself; no other may be.
"""

from __future__ import annotations

import sys

import pytest

from harness.server import ROOT, Server

sys.path.insert(0, str(ROOT / "tests" / "redis-oracle"))

from differential import replay  # noqa: E402


@pytest.mark.quartet_only
def test_every_difference_from_the_original_has_its_class():
    server = Server(durability="interval").start()
    try:
        unexplained = replay(ROOT / "tests/redis/testdata/differential.jsonl", server.port)
    finally:
        server.close()
    assert not unexplained, "\n".join(unexplained[:10])
