"""What a command costs does not grow with what it does not touch.

A command that copies the whole value, walks all elements or looks through a list for each of its words is quick on the few that a test has,
and holds up everybody on the many that a user has: WATCH of 80,000 names took 20 seconds, ACL SETUSER with 100,000 patterns as long, ten of
300,000 members in common were counted by reading all. What is compared is the processor time of the server for the same calls on few and on
many, as a ratio with a floor that a copy of many exceeds, so no test depends on how fast a machine is.
"""

from __future__ import annotations

import json

import pytest

from harness import command_costs
from harness.dynamodb import connect

CALLS = 40
FEW, MANY = 1_000, 100_000
# Seconds of 40 calls. One that looks at each of 100,000 elements costs more.
FLOOR = 0.25


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
    elements = {False: FEW, True: MANY}
    costs = {}
    for large, key in ((False, "small"), (True, "large")):
        connection.do("FLUSHALL")
        command_costs.fill(do_all, kind, key, large, elements)
        for line in command_costs.lines(kind):
            costs[line, large] = cost(command_costs.calls(line, key, CALLS))
        connection.do("UNWATCH")
    grown = {line: (costs[line, False], costs[line, True]) for line, large in costs if large and costs[line, True] > 5 * costs[line, False] + FLOOR}
    assert grown == {}, "seconds on few and on many"
    connection.do("FLUSHALL")


@pytest.mark.quartet_only
def test_every_command_is_in_the_table(connection):
    unnamed = command_costs.unnamed(str(name) if isinstance(name, str) else name.decode() for name in connection.do("COMMAND", "LIST"))
    assert unnamed == set(), "say in harness/command_costs.py what their cost grows with"


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
