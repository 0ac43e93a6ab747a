"""A small change of a large string costs what the change costs: bitmaps of daily users, Bloom filters made of SETBIT, logs made by APPEND.

Reported of a server that read, changed and wrote the whole value. Bounds in seconds are generous: redis-server 7.0.15 is far within each,
also when it syncs every command. In a cluster each reply waits for etcd, which takes longer than what is measured here: there the same
bounds are for the home's processor, and others may wait three times as long beside a large bitmap as beside a small one.
"""

from __future__ import annotations

import random
import statistics
import threading
import time

import pytest
from harness.target import OVER_A_CLUSTER, running

BITS = 100_000_000


def seconds_of(connection, commands: list, now=time.monotonic) -> float:
    started = now()
    for command in commands:
        connection.do(*command)
    return now() - started


def cost_of(connection, commands: list) -> float:
    """Seconds, of the clock or of the home's processor."""
    return seconds_of(connection, commands, running().cpu_seconds if OVER_A_CLUSTER else time.monotonic)


@pytest.fixture
def connection(open_connection):
    return open_connection(timeout_seconds=60)


def test_bits_of_twelve_megabytes(connection):
    connection.do("SETBIT", "bitmap", BITS - 1, 1)
    places = random.Random(1)
    assert cost_of(connection, [("SETBIT", "bitmap", places.randrange(BITS), 1) for _ in range(500)]) < 3
    counters = [("BITFIELD", "bitmap", "INCRBY", "u8", f"#{places.randrange(BITS // 10)}", 1) for _ in range(100)]
    assert cost_of(connection, counters) < 1


def test_appends_to_a_megabyte(connection):
    connection.do("SETRANGE", "log", 1_000_000, "x")
    assert cost_of(connection, [("APPEND", "log", "x" * 100)] * 1000) < 2
    assert connection.do("STRLEN", "log") == 1_100_001


def test_three_bytes_in_five_megabytes(connection):
    connection.do("SETRANGE", "text", 5_000_000, "x")
    places = random.Random(1)
    assert cost_of(connection, [("SETRANGE", "text", places.randrange(5_000_000), "abc") for _ in range(300)]) < 2


def test_others_do_not_wait_for_a_large_bitmap(connection, open_connection):
    connection.do("SETBIT", "bitmap", BITS - 1, 1)
    writer, places = open_connection(timeout_seconds=60), random.Random(1)

    def wait_beside(bits: int) -> float:
        """How long a counter waits while bits are set in as many."""
        stop = threading.Event()

        def write():
            while not stop.is_set():
                writer.do("SETBIT", f"bitmap{bits}" if bits < BITS else "bitmap", places.randrange(bits), 1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            return statistics.median(seconds_of(connection, [("INCR", "counter")]) for _ in range(200))
        finally:
            stop.set()
            thread.join()

    usual = wait_beside(8) if OVER_A_CLUSTER else 0
    assert wait_beside(BITS) < 3 * usual + 0.02
