"""Keyspace notifications: every writing command, and the events it tells, beside what Redis 7.0 was seen to tell.

`testdata/notifications.events` has a command a line and behind `=>` its events as `event key`. `@ MS` lets time pass, with
the expiry cycle off. `pytest --rewrite` with QUARTET_TEST_TARGET=redis replaces the events by observed ones.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from harness.resp import Connection

FILE = Path(__file__).parent.parent / "testdata" / "notifications.events"
MARKER = "__keyevent@0__:(marker)"


def events_of(listener: Connection) -> list[str]:
    """The events until the marker. Those on the channel of the key come in pairs with those on the channel of the event."""
    events: list[str] = []
    while True:
        _, _, channel, payload = listener.read()
        if channel == MARKER:
            return events
        kind, _, subject = channel.partition("__:")
        if kind.startswith("__keyspace@"):
            events.append(f"{payload} {subject}")
        else:
            assert events[-1] == f"{subject} {payload}", "the two channels tell of the same events"


def events_before_marker(connection: Connection, listener: Connection) -> list[str]:
    connection.do("PUBLISH", MARKER, "")
    return events_of(listener)


def test_events_are_those_of_redis(server, request):
    observed = []
    with Connection(server.port) as connection, Connection(server.port) as listener:
        connection.do("FLUSHALL")
        connection.do("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        connection.do("CONFIG", "SET", "notify-keyspace-events", "KEAnm")
        listener.do("PSUBSCRIBE", "__key*")
        for line in FILE.read_text().splitlines():
            command = line.split(" =>")[0]
            if line.startswith("@ "):
                time.sleep(int(line[2:]) / 1000)
            elif not line.startswith("#"):
                connection.do(*shlex.split(command))
                events = [] if in_transaction(command, observed) else events_before_marker(connection, listener)
                line = f"{command} => {', '.join(events)}".rstrip()
            observed.append(line)
        connection.do("CONFIG", "SET", "notify-keyspace-events", "")
        connection.do("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        connection.do("FLUSHALL")
    if request.config.getoption("--rewrite"):
        FILE.write_text("\n".join(observed) + "\n")
    assert observed == FILE.read_text().splitlines()


def in_transaction(command: str, observed: list[str]) -> bool:
    """Between MULTI and EXEC nothing is told, and a marker would be queued with the rest."""
    words = [line.split()[0] for line in [*observed, command]]
    return words.count("MULTI") > words.count("EXEC")
