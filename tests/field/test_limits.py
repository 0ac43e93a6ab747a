"""LIMIT of SINTERCARD, ZINTERCARD and of SORT ... BY nosort limits what is looked at, as their documentation says, not only what is answered.

Reported of a server that took 8 to 14 ms for ten of 300,000 members. What is compared is the processor time of the server for the same
answer of a small key and of a large one.
"""

from __future__ import annotations

import statistics

import pytest

COMMANDS = [
    "SINTERCARD 2 {0}:s1 {0}:s2 LIMIT 10",
    "ZINTERCARD 2 {0}:z1 {0}:z2 LIMIT 10",
    "ZINTERCARD 2 {0}:s1 {0}:s2 LIMIT 10",
    "SORT {0}:z1 BY nosort LIMIT 0 5",
    "SORT {0}:z1 BY nosort LIMIT 90 5 DESC",
    "SORT {0}:l BY nosort LIMIT 0 5",
    "SORT {0}:l BY nosort LIMIT 5 5 DESC",
    "SORT_RO {0}:s1 BY nosort LIMIT 0 5",
]


LARGE = 60_000


@pytest.fixture
def filled(open_connection):
    connection = open_connection()
    connection.do("FLUSHALL")
    for name, count in (("small", 2000), ("large", LARGE)):
        for start in range(0, count, 2000):
            members = [f"m{number:06}" for number in range(start, start + 2000)]
            scored = [word for number, member in enumerate(members, start) for word in (number, member)]
            connection.do("RPUSH", f"{name}:l", *members)
            for number in (1, 2):
                connection.do("SADD", f"{name}:s{number}", *members)
                connection.do("ZADD", f"{name}:z{number}", *scored)
    yield connection
    connection.do("FLUSHALL")


def test_ten_of_many_cost_as_ten_of_few(filled, server):
    def cpu_seconds(command: str, name: str) -> float:
        words = command.format(name).split()
        samples = []
        for _ in range(5):
            before = server.cpu_seconds()
            for _ in range(10):
                filled.do(*words)
            samples.append(server.cpu_seconds() - before)
        return statistics.median(samples)

    for command in COMMANDS:
        small, large = cpu_seconds(command, "small"), cpu_seconds(command, "large")
        assert large < 10 * small + 0.02, f"{command}: {small:.4f} s and {large:.4f} s for ten"


def test_what_is_left_is_right(filled):
    members = [f"m{number:06}" for number in range(LARGE)]
    assert filled.do("SORT", "large:z1", "BY", "nosort", "LIMIT", "3", "2") == members[3:5]
    assert filled.do("SORT", "large:z1", "BY", "nosort", "LIMIT", "3", "2", "DESC") == [members[-4], members[-5]]
    assert filled.do("SORT", "large:l", "BY", "nosort", "LIMIT", "3", "2") == members[3:5]
    assert filled.do("SORT", "large:l", "BY", "nosort", "LIMIT", str(LARGE - 2), "9", "DESC") == [members[1], members[0]]
    assert len(set(filled.do("SORT", "large:s1", "BY", "nosort", "LIMIT", "1500", "1500"))) == 1500
    assert filled.do("SORT", "large:l", "BY", "nosort", "LIMIT", "300000", "5") == []
    assert filled.do("SINTERCARD", "2", "large:s1", "large:s2") == LARGE
    assert filled.do("SINTERCARD", "2", "large:s1", "large:s2", "LIMIT", "1500") == 1500
    assert filled.do("ZINTERCARD", "2", "large:z1", "large:s2") == LARGE
    assert filled.do("ZINTERCARD", "2", "small:s1", "large:z2", "LIMIT", "1500") == 1500
    assert filled.do("SINTERCARD", "2", "large:s1", "large:none", "LIMIT", "1") == 0
