"""Commands and events that came with Redis 8 or stay for old clients, beside what Redis 8.2.3 with search 2.10 and JSON 2.8 was seen to reply.

`testdata/redis-8.2.replies` has a command a line. `=>` is the recorded reply of that server, and `~>` what differs here: texts of errors
that have a code since search 8, and replies of newer versions. A line with `|` has commands, then one command, of which the events
are recorded. `python test_redis_8.py PORT OURS` records it anew from servers at these ports.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pytest

from harness.resp import Connection, NilArray
from harness.server import Server

FILE = Path(__file__).parents[1] / "testdata" / "redis-8.2.replies"
CLASSES = "EAnoc"

pytestmark = pytest.mark.quartet_only


def shown(reply) -> str:
    return json.dumps(reply, default=lambda value: "nil[]" if isinstance(value, NilArray) else str(value), ensure_ascii=False)


class Listener:
    """The events of a command: those before a message that ends them."""

    def __init__(self, port: int):
        self.connection = Connection(port)
        self.connection.do("PSUBSCRIBE", "__keyevent@0__:*")
        self.connection.do("SUBSCRIBE", "end")

    def events(self, other: Connection) -> list[str]:
        other.do("PUBLISH", "end", "")
        events = []
        while (message := self.connection.read())[0] != "message":
            if message[0] == "pmessage":
                events.append(f"{message[2].partition('__:')[2]} {message[3]}")
        return events


def replies(port: int, lines: list[str]) -> list[str]:
    listener, found = Listener(port), []
    with Connection(port) as connection:
        connection.do("FLUSHALL")
        connection.do("SET", "d", "q")
        dump = connection.do("DUMP", "d")
        connection.do("CONFIG", "SET", "notify-keyspace-events", CLASSES)
        for line in lines:
            before, mark, command = line.rpartition(" | ")
            words = [dump if word == "DUMP-OF-A-STRING" else word for word in shlex.split(command)]
            if not mark:
                found.append(shown(connection.do(*words)))
                continue
            connection.do("FLUSHALL")
            for earlier in before.split("; "):
                connection.do(*shlex.split(earlier))
            listener.events(connection)
            connection.do(*words)
            found.append(shown(listener.events(connection)))
        connection.do("CONFIG", "SET", "notify-keyspace-events", "")
    return found


def recorded() -> list[tuple[str, str]]:
    """The commands, and the replies that are expected here."""
    pairs = []
    for line in FILE.read_text().splitlines():
        if line.startswith("=> ") or line.startswith("~> "):
            pairs[-1] = (pairs[-1][0], line[3:])
        elif line and not line.startswith("#"):
            pairs.append((line, ""))
    return pairs


def test_replies_are_those_that_were_recorded(server):
    pairs = recorded()
    found = replies(server.port, [command for command, _ in pairs])
    different = [(*pair, reply) for pair, reply in zip(pairs, found) if pair[1] != reply]
    assert not different, "\n".join(f"{command}\n  {expected}\n  {reply}" for command, expected, reply in different)


@pytest.mark.parametrize(("options", "version", "number"), [((), "8.2.3", 0x080203), (("--redis-version", "7.4"), "7.4.0", 0x070400)], ids=["default", "7.4"])
def test_the_version_that_clients_are_given(tmp_path, options, version, number):
    """Clients skipped what is served, and chose older ways, because INFO said 7.4 for good."""
    file = tmp_path / "dump.rdb"
    with Server(options=["--rdb", str(file), *options]) as server, Connection(server.port, protocol=3) as connection:
        assert f"redis_version:{version}\r\n" in connection.do("INFO", "server")
        assert connection.do("HELLO", 3)["version"] == version
        assert f"Redis ver. {version}\n" in connection.do("LOLWUT")
        assert connection.do("EVAL", "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM}", 0) == [version, number]
        connection.do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('v', function() return redis.REDIS_VERSION end)")
        assert connection.do("FCALL", "v", 0) == version
        assert connection.do("SAVE") == "OK"
    assert b"redis-ver" + bytes([len(version)]) + version.encode() in file.read_bytes()


if __name__ == "__main__":
    theirs_port, ours_port = map(int, sys.argv[1:3])
    commands = [command for command, _ in recorded()]
    theirs, ours = replies(theirs_port, commands), replies(ours_port, commands)
    head = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
    for command, reply, own in zip(commands, theirs, ours):
        head += [command, f"=> {reply}"] + ([f"~> {own}"] if own != reply else [])
    FILE.write_text("\n".join(head) + "\n")
