"""What a command costs does not grow with what it does not touch.

A command that copies the whole value, walks all elements or looks through a list for each of its words is quick on the few that a test has,
and holds up everybody on the many that a user has: WATCH of 80,000 names took 20 seconds, ACL SETUSER with 100,000 patterns as long, ten of
300,000 members in common were counted by reading all. What is compared is the processor time of the server for the same calls on few and on
many, as a ratio with a floor that a copy of many exceeds, so no test depends on how fast a machine is.
"""

from __future__ import annotations

import json

import pytest
from faunadb import query as fauna_query

from harness import command_costs, fauna, growth, layer_costs
from harness.dynamodb import connect
from harness.growth import CALLS, TRIES, has_grown

FEW, MANY = 1_000, 100_000


@pytest.fixture
def connection(open_connection):
    return open_connection(timeout_seconds=120)


@pytest.fixture
def do_all(connection):
    def do_all(requests: list) -> list:
        replies = []
        for start in range(0, len(requests), 200):
            batch = requests[start : start + 200]
            for request in batch:
                connection.send(*request)
            replies += [connection.read() for _ in batch]
        return replies

    return do_all


@pytest.fixture
def cost(server, do_all):
    """The server's processor time for these requests, in seconds."""

    def cost(requests: list) -> float:
        before = server.cpu_seconds()
        do_all(requests)
        return server.cpu_seconds() - before

    return cost


@pytest.mark.slow
@pytest.mark.parametrize("kind", command_costs.CONSTANT)
def test_what_a_command_costs_does_not_grow(kind, cost, do_all, connection):
    """Three commands that end early were given a walk of all elements before, to count their memory, and 100,000 of them were below the floor then."""
    elements = {False: FEW, True: MANY}
    few, grown = {}, {}
    for large, key in ((False, "small"), (True, "large")):
        connection.do("FLUSHALL")
        command_costs.fill(do_all, kind, key, large, elements)
        for line in command_costs.lines(kind):
            calls = command_costs.calls(line, key, CALLS)
            if not large:
                few[line] = cost(calls)
                continue
            tries = [cost(calls)]
            while has_grown(few[line], min(tries)) and len(tries) < TRIES:
                tries.append(cost(calls))
            if has_grown(few[line], min(tries)):
                grown[line] = few[line], tries
        connection.do("UNWATCH")
    assert grown == {}, "seconds on few and on many"
    connection.do("FLUSHALL")


@pytest.mark.quartet_only
def test_every_command_is_in_the_table(connection):
    unnamed = command_costs.unnamed(str(name) if isinstance(name, str) else name.decode() for name in connection.do("COMMAND", "LIST"))
    assert unnamed == set(), "say in harness/command_costs.py what their cost grows with"


FEW_ITEMS, MANY_ITEMS = 1_000, 30_000


@pytest.mark.slow
@pytest.mark.quartet_only
def test_what_an_operation_of_dynamodb_costs_does_not_grow(server):
    client = connect(server)
    tables = {False: "costs-of-few", True: "costs-of-many"}
    for large, count in ((False, FEW_ITEMS), (True, MANY_ITEMS)):
        layer_costs.fill_table(client, tables[large], count)
    lines = {large: layer_costs.dynamodb_lines(client, table) for large, table in tables.items()}
    assert growth.grown_lines(server, lines) == {}, "seconds on few and on many"
    for table in tables.values():
        client.delete_table(TableName=table)


@pytest.mark.slow
@pytest.mark.quartet_only
def test_what_a_function_of_fql_costs_does_not_grow(server):
    client = fauna.connect(server)
    collections = {False: "costs_of_few", True: "costs_of_many"}
    for large, count in ((False, FEW_ITEMS), (True, MANY_ITEMS)):
        layer_costs.fill_collection(client, collections[large], count)
    lines = {large: layer_costs.fauna_lines(client, name) for large, name in collections.items()}
    assert growth.grown_lines(server, lines) == {}, "seconds on few and on many"
    for name in collections.values():
        client.query(fauna_query.delete(fauna_query.collection(name)))


WORDS, TIMES = 4_000, 10


def numbered(word: str):
    return lambda count: [word.format(number) for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, words",
    [
        (["WATCH"], numbered("name{}")),
        (["ACL", "SETUSER", "costs", "reset"], numbered("~pattern{}:*")),
        (["ACL", "SETUSER", "costs", "reset"], numbered("%R~pattern{}:*")),
        (["ACL", "SETUSER", "costs", "reset"], numbered("&channel{}:*")),
        (["ACL", "SETUSER", "costs", "reset", "-@all"], numbered("+get|first{}")),
        (["ACL", "SETUSER", "costs", "reset", "nopass"], lambda count: [f"#{number:064x}" for number in range(count)]),
        (["SUBSCRIBE"], numbered("channel{}")),
        (["PSUBSCRIBE"], numbered("pattern{}*")),
        (["DEL"], numbered("name{}")),
        (["MGET"], numbered("name{}")),
        (["BLPOP"], lambda count: [*numbered("name{}")(count), "0.001"]),
        (["CLIENT", "LIST", "ID"], lambda count: [str(number) for number in range(1_000_000, 1_000_000 + count)]),
        (["CLIENT", "TRACKING", "on", "BCAST"], lambda count: [word for number in range(count) for word in ("PREFIX", f"{number:06}:")]),
        (["JSON.SET", "costs", "$"], lambda count: [json.dumps({f"member{number}": number for number in range(count)})]),
        (["JSON.MERGE", "merged", "$"], lambda count: [json.dumps({f"member{number}": number for number in range(count)})]),
        (["EVAL", "return #KEYS"], lambda count: [str(count), *numbered("name{}")(count)]),
    ],
    ids=lambda value: " ".join(value[:5]) if isinstance(value, list) else "",
)
def test_no_list_is_searched_for_each_of_its_words(command, words, server, open_connection):
    costs = {}
    for count in (WORDS, TIMES * WORDS):
        connection = open_connection(timeout_seconds=120)
        connection.do("JSON.SET", "merged", "$", "{}")
        before = server.cpu_seconds()
        connection.do(*command, *words(count))
        connection.close()
        costs[count] = server.cpu_seconds() - before
    with open_connection(timeout_seconds=120) as connection:
        connection.do("ACL", "DELUSER", "costs")
        connection.do("DEL", "costs", "merged")
    assert costs[TIMES * WORDS] < 3 * TIMES * costs[WORDS] + 0.5, costs


@pytest.mark.slow
def test_synonyms_are_not_searched_for_each(server, open_connection):
    """An index is read again when a definition changes, and each of its synonyms was counted with all before it: with 400 of them an alias cost a
    millisecond, with 10,000 half a second."""
    costs = {}
    with open_connection(timeout_seconds=120) as connection:
        connection.do("FT.CREATE", "costs", "SCHEMA", "t", "TEXT")
        for count in (900, 9_000):
            connection.do("FT.SYNUPDATE", "costs", "group", "SKIPINITIALSCAN", *(f"word{number}" for number in range(count)))
            before = server.cpu_seconds()
            for number in range(20):
                connection.do("FT.ALIASADD", f"alias{number}", "costs")
                connection.do("FT.ALIASDEL", f"alias{number}")
            costs[count] = server.cpu_seconds() - before
        connection.do("FT.DROPINDEX", "costs")
    assert costs[9_000] < 3 * 10 * costs[900] + 0.5, costs


@pytest.mark.slow
def test_attributes_to_get_are_not_searched_for_each(server):
    client = connect(server, validates=False)
    costs = {}
    for count in (WORDS, TIMES * WORDS):
        names = [f"attribute{number}" for number in range(count)]
        before = server.cpu_seconds()
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.get_item(TableName="no-such-table", Key={"k": {"S": "k"}}, AttributesToGet=names)
        costs[count] = server.cpu_seconds() - before
    assert costs[TIMES * WORDS] < 3 * TIMES * costs[WORDS] + 0.5, costs
