"""A small change of a large string costs what the change costs: bitmaps of daily users, Bloom filters made of SETBIT, logs made by APPEND.

Reported of a server that read, changed and wrote the whole value. What is compared is the processor time of the server (in a cluster, of the
home) for the same changes of a short string; others may wait three times as long beside a large bitmap as beside a small one.
"""

from __future__ import annotations

import random
import statistics
import threading
import time

import pytest

BITS = 100_000_000


@pytest.fixture
def connection(open_connection):
    return open_connection(timeout_seconds=60)


@pytest.fixture
def costs_what_it_changes(server, connection):
    """Compares the cost of commands with that of others. A copy of the whole value, each time, would be half a second in all."""

    def cost_of(commands: list) -> float:
        before = server.cpu_seconds()
        for command in commands:
            connection.do(*command)
        return server.cpu_seconds() - before

    def compare(commands: list, of_a_short_string: list) -> None:
        short = cost_of(of_a_short_string)
        assert cost_of(commands) < 5 * short + 0.4

    return compare


def test_bits_of_twelve_megabytes(connection, costs_what_it_changes):
    connection.do("SETBIT", "bitmap", BITS - 1, 1)
    places = random.Random(1).sample(range(BITS), 500)
    costs_what_it_changes([("SETBIT", "bitmap", place, 1) for place in places], [("SETBIT", "short", place % 64, 1) for place in places])
    counter = lambda key, place: ("BITFIELD", key, "INCRBY", "u8", f"#{place}", 1)  # noqa: E731
    costs_what_it_changes([counter("bitmap", place // 10) for place in places], [counter("short", place % 8) for place in places])


def test_appends_to_a_megabyte(connection, costs_what_it_changes):
    connection.do("SETRANGE", "log", 1_000_000, "x")
    append = lambda key: ("APPEND", key, "x" * 100)  # noqa: E731
    costs_what_it_changes([append("log")] * 1000, [append(f"short {number}") for number in range(1000)])
    assert connection.do("STRLEN", "log") == 1_100_001


def test_three_bytes_in_five_megabytes(connection, costs_what_it_changes):
    connection.do("SETRANGE", "text", 5_000_000, "x")
    places = random.Random(1).sample(range(5_000_000), 300)
    costs_what_it_changes([("SETRANGE", "text", place, "abc") for place in places], [("SETRANGE", "short", place % 8, "abc") for place in places])


def test_others_do_not_wait_for_a_large_bitmap(connection, open_connection):
    connection.do("SETBIT", "bitmap", BITS - 1, 1)
    writer, places = open_connection(timeout_seconds=60), random.Random(1)

    def seconds_of_an_increment() -> float:
        began = time.monotonic()
        connection.do("INCR", "counter")
        return time.monotonic() - began

    def wait_beside(bits: int) -> float:
        """How long a counter waits while bits are set in as many."""
        stop = threading.Event()

        def write():
            while not stop.is_set():
                writer.do("SETBIT", f"bitmap{bits}" if bits < BITS else "bitmap", places.randrange(bits), 1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            return statistics.median(seconds_of_an_increment() for _ in range(200))
        finally:
            stop.set()
            thread.join()

    usual = wait_beside(8)
    assert wait_beside(BITS) < 3 * usual + 0.02
