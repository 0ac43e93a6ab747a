"""Vector sets over the wire: on both engines, through kills, and from one server to another."""

from __future__ import annotations

import os
import random
import time

import pytest

from harness.resp import Connection
from harness.server import Server

pytestmark = pytest.mark.timeout(300)

ELEMENTS, DIMENSIONS = 120, 16


def vector(choice: random.Random) -> list[str]:
    return [f"{choice.uniform(-1, 1):.4f}" for _ in range(DIMENSIONS)]


def add(connection: Connection, key: str, element: str, components: list[str], *options: str) -> None:
    connection.do("VADD", key, "VALUES", DIMENSIONS, *components, element, *options)


def answers(connection: Connection, key: str) -> list:
    """What a set shows: its sizes, its graph, and what searches find."""
    names = connection.do("VRANGE", key, "-", "+")
    shown = [names, connection.do("VCARD", key)]
    for name in names[::10]:
        shown.append(connection.do("VLINKS", key, name, "WITHSCORES"))
        shown.append(connection.do("VEMB", key, name, "RAW"))
        shown.append(connection.do("VSIM", key, "ELE", name, "WITHSCORES", "WITHATTRIBS"))
        shown.append(connection.do("VSIM", key, "ELE", name, "FILTER", ".n > 50", "WITHSCORES"))
    return shown


@pytest.mark.quartet_only
@pytest.mark.skipif("--engine" in os.environ.get("QUARTET_SERVE_OPTIONS", ""), reason="the engine is chosen for all servers")
def test_sets_are_the_same_after_a_kill_and_on_the_other_engine():
    shown = []
    for engine in ("memory", "ssd"):
        with Server(durability="always", options=["--engine", engine]) as server:
            choice = random.Random(5)
            with Connection(server.port) as connection:
                for number in range(ELEMENTS):
                    add(connection, "v", f"e{number}", vector(choice), "SETATTR", f'{{"n":{number}}}')
                for number in range(0, ELEMENTS, 3):
                    connection.do("VREM", "v", f"e{number}")
                for number in range(1, ELEMENTS, 6):
                    add(connection, "v", f"e{number}", vector(choice))
                before = answers(connection, "v")
            server.kill()
            server.start()
            with Connection(server.port) as connection:
                assert answers(connection, "v") == before
                connection.do("COPY", "v", "copy")
                assert answers(connection, "copy") == before
        shown.append(before)
    assert shown[0] == shown[1]


@pytest.mark.quartet_only
def test_a_search_in_a_transaction_finds_what_is_there(server):
    """Sets small enough that the graph reaches all of them are judged by their elements."""
    choice = random.Random(9)
    script = """
        local found = redis.call('VSIM', KEYS[1], 'VALUES', 16, unpack(ARGV))
        return {found, redis.call('VRANGE', KEYS[1], '-', '+')}"""
    with Connection(server.port) as connection:
        for _ in range(600):
            name = f"e{choice.randrange(40)}"
            match choice.randrange(4):
                case 0:
                    connection.do("VREM", "v", name)
                case _:
                    add(connection, "v", name, vector(choice))
            found, names = connection.do("EVAL", script, 1, "v", *vector(choice), "COUNT", "100")
            assert sorted(found) == names


@pytest.mark.quartet_only
@pytest.mark.skipif("--engine" in os.environ.get("QUARTET_SERVE_OPTIONS", ""), reason="the engine is chosen for all servers")
@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_elements_that_wait_are_linked_after_a_kill(engine):
    """A larger set links new elements later: none is missed meanwhile, and a kill loses none."""
    names = [f"e{number}" for number in range(600)]
    with Server(durability="always", options=["--engine", engine]) as server:
        choice = random.Random(7)
        with Connection(server.port) as connection:
            for name in names:
                add(connection, "v", name, vector(choice))
        server.kill()
        server.start()
        with Connection(server.port) as connection:
            assert connection.do("VCARD", "v") == len(names)
            for name in names[::7]:
                assert connection.do("VSIM", "v", "ELE", name, "COUNT", 1) == [name]

            def leads_back(name):
                links = connection.do("VLINKS", "v", name)[-1]
                return links and all(name in connection.do("VLINKS", "v", other)[-1] for other in links)

            ends = time.monotonic() + 60
            while not leads_back(names[-1]) and time.monotonic() < ends:
                time.sleep(0.05)
            assert all(leads_back(name) for name in names[::7] + names[-1:])
