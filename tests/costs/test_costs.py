"""Costs do not grow unnoticed: each is measured and compared with what `benchmarks/costs.json` has of it.

A small key took a third more memory after three days, and nobody saw it. A cost that grows by more than 3 percent fails here. Whoever means it
to grow writes the new figure there, with the commit and the reason; whoever makes one smaller writes that down too, so that it stays:
`pytest tests/costs --rewrite` writes all figures. Each is the same on a slow machine and on a fast one: bytes, and instructions that callgrind
counts in a layer, from a request's bytes to its reply's, and in the start of a server. They are those of the release build.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from harness import fauna, layer_costs
from harness.dynamodb import connect
from harness.resp import Connection
from harness.server import ROOT, Server, binary

FILE = ROOT / "benchmarks" / "costs.json"
COSTS = json.loads(FILE.read_text())
GROWTH_MAX = 1.03
# The system may give a process its memory in pages of this size: one more or less is no growth.
PAGE_BYTES = 2 << 20
KEYS = 100_000
# Many, so that what a process takes once hardly shows in its bytes a key.
KEYS_OF_A_PROCESS = 1_000_000
# What the instructions of a request are those of: a layer, from a request's bytes to its reply's, without sockets and the log.
LAYERS = ["*receive_in_steps*", "*DynamoDb*::answer", "*service::Fauna*::answer_within"]
WARMING, COUNTED = 100, 400
# A machine of more cores would have more.
ONE_THREAD = ["--io-threads", "1"]

pytestmark = [pytest.mark.slow, pytest.mark.quartet_only]


@pytest.fixture
def compare(request):
    """Fails if a cost has grown; with --rewrite, writes it down."""

    def compare(kind: str, name: str | None, measured: float, grain: float = 0) -> None:
        if request.config.getoption("--rewrite"):
            costs = json.loads(FILE.read_text())
            if name is None:
                costs[kind] = measured
            else:
                costs.setdefault(kind, {})[name] = measured
            FILE.write_text(json.dumps(costs, indent=4, ensure_ascii=False) + "\n")
            return
        recorded = COSTS[kind] if name is None else COSTS[kind][name]
        assert measured <= recorded * GROWTH_MAX + grain, f"{name or kind}: {recorded} at {COSTS['commit']}; write down why it grows"

    return compare


def requests(kind: str, keys: int) -> list[list]:
    """One request for each key."""
    numbers = list(range(keys))
    if kind.endswith(" at random"):
        random.Random(1).shuffle(numbers)
        kind = kind.removesuffix(" at random")
    name = lambda number: f"key:{number:012}"  # noqa: E731
    value = "x" * 64
    make = {
        "string": lambda number: ["SET", name(number), value],
        "string with a deadline": lambda number: ["SET", name(number), value, "EX", 100_000],
        "counter": lambda number: ["SET", name(number), number],
        "hash": lambda number: ["HSET", name(number), "name", "Ada", "year", 1815],
        "list": lambda number: ["RPUSH", name(number), "one", "two", "three"],
        "set": lambda number: ["SADD", name(number), "one", "two", "three"],
        "sorted set": lambda number: ["ZADD", name(number), 1, "one", 2, "two"],
        "stream": lambda number: ["XADD", name(number), "1-1", "field", value],
        "document": lambda number: ["JSON.SET", name(number), "$", '{"name":"Ada","year":1815}'],
        "member of a set": lambda number: ["SADD", "key", name(number)],
        "member of a sorted set": lambda number: ["ZADD", "key", number, name(number)],
        "field of a hash": lambda number: ["HSET", "key", name(number), value],
        "element of a list": lambda number: ["RPUSH", "key", value],
        "entry of a stream": lambda number: ["XADD", "key", f"1-{number + 1}", "field", value],
    }[kind]
    return [make(number) for number in numbers]


def used_memory(connection: Connection) -> int:
    text = connection.do("INFO", "memory")
    text = text.decode() if isinstance(text, bytes) else str(text)
    return int(text.split("used_memory:")[1].split("\r\n")[0])


def growth_by_key(kind: str, keys: int, before: int, connection: Connection, size) -> float:
    """Bytes by which `size` grows for a key, after the first `before` ones."""
    all_requests = requests(kind, keys)
    connection.pipeline(*all_requests[:before])
    first = size()
    for start in range(before, keys, 500):
        connection.pipeline(*all_requests[start : start + 500])
    return round((size() - first) / (keys - before), 1)


def least(size) -> int:
    """The least of some seconds: on a busy machine the log's last epochs are in memory until they are written."""
    sizes = []
    for _ in range(20):
        sizes.append(size())
        time.sleep(0.2)
    return min(sizes)


@pytest.mark.parametrize("kind", COSTS["bytes_a_key"])
def test_bytes_a_key(kind, fresh_server, compare):
    with Connection(fresh_server.port, timeout_seconds=120) as connection:
        compare("bytes_a_key", kind, growth_by_key(kind, KEYS, 100, connection, lambda: used_memory(connection)))


@pytest.mark.parametrize("kind", COSTS["process_bytes_a_key"])
def test_bytes_of_the_process_a_key(kind, compare):
    """What the server counts is less than what the system gives it: nodes that are half empty, and the allocator's rounding."""
    with Server(durability="none", options=ONE_THREAD) as server, Connection(server.port, timeout_seconds=600) as connection:
        # What any command touches first is no key's.
        connection.pipeline(*requests("counter", 10_000))
        connection.do("FLUSHALL")
        size = lambda: least(server.rss_bytes)  # noqa: E731
        compare("process_bytes_a_key", kind, growth_by_key(kind, KEYS_OF_A_PROCESS, 1000, connection, size), PAGE_BYTES / KEYS_OF_A_PROCESS)


class Counted:
    """A server under callgrind, which counts the instructions of its layers."""

    def __init__(self, folder: Path):
        self.folder = folder
        collected = [f"--toggle-collect={name}" for name in LAYERS]
        callgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *collected]
        self.server = Server(durability="none", data="memory", prefix=callgrind, options=ONE_THREAD)
        self.server.ready_seconds_max = 600.0

    def control(self, word: str) -> None:
        subprocess.run(["callgrind_control", word, str(self.server.pid)], check=True, capture_output=True)

    def instructions(self, call) -> int:
        """Instructions of a call, which is given its number."""
        for number in range(WARMING):
            call(number)
        self.control("--zero")
        for number in range(WARMING, WARMING + COUNTED):
            call(number)
        self.control("--dump")
        [file] = self.folder.glob("out.*")
        total = int(re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)[1])
        file.unlink()
        return round(total / COUNTED)


def calls(server: Server) -> dict:
    """Requests of each layer by their names."""
    redis = Connection(server.port, timeout_seconds=600)
    dynamodb, fql = connect(server, seconds=600), fauna.connect(server, timeout=600)
    for number in range(1000):
        redis.do("ZADD", "board", number * 7 % 1000, f"player:{number}")
        redis.do("RPUSH", "queue", f"job {number}")
    layer_costs.fill_table(dynamodb, "costs", 500)
    layer_costs.fill_collection(fql, "costs", 500)
    value = "x" * 64
    lines = {
        "SET": lambda number: redis.do("SET", f"key:{number:012}", value),
        "GET": lambda number: redis.do("GET", f"key:{number:012}"),
        "MGET of 10": lambda number: redis.do("MGET", *(f"key:{number + one:012}" for one in range(10))),
        "INCR": lambda number: redis.do("INCR", "counter"),
        "EXPIRE": lambda number: redis.do("EXPIRE", f"key:{number:012}", 1000 + number),
        "HSET": lambda number: redis.do("HSET", f"user:{number}", "name", "Ada", "year", number),
        "HGET": lambda number: redis.do("HGET", f"user:{number}", "name"),
        "LPUSH": lambda number: redis.do("LPUSH", "queue", value),
        "RPOP": lambda number: redis.do("RPOP", "queue"),
        "LRANGE of 100": lambda number: redis.do("LRANGE", "queue", 0, 99),
        "SADD": lambda number: redis.do("SADD", "set", f"member:{number:012}"),
        "ZADD": lambda number: redis.do("ZADD", "board", number, f"player:{number}"),
        "ZREVRANGE of 10": lambda number: redis.do("ZREVRANGE", "board", 0, 9, "WITHSCORES"),
        "ZPOPMIN": lambda number: redis.do("ZPOPMIN", "board"),
        "XADD": lambda number: redis.do("XADD", "stream", f"1-{number + 1}", "field", value),
        "EVAL": lambda number: redis.do("EVAL", "return redis.call('INCR', KEYS[1])", 1, "counter"),
        "DEL": lambda number: redis.do("DEL", f"key:{number:012}"),
    }
    operations = layer_costs.dynamodb_lines(dynamodb, "costs")
    functions = layer_costs.fauna_lines(fql, "costs")
    operations = {name: operations[name] for name in ("GetItem", "PutItem, new", "UpdateItem", "Query of an index", "TransactWriteItems")}
    functions = {name: functions[name] for name in ("Get", "Create", "Update", "Paginate of an index", "Map and Get")}
    return {**lines, **operations, **functions}


def test_instructions_of_a_request(tmp_path, compare):
    counted = Counted(tmp_path)
    with counted.server as server:
        lines = calls(server)
        measured = {name: counted.instructions(call) for name, call in lines.items()}
        # A script that the machine holds up for 25 ms runs again on another thread, which makes an interpreter of three million instructions.
        for _ in range(2):
            if measured["EVAL"] > COSTS["instructions"]["EVAL"] * GROWTH_MAX:
                measured["EVAL"] = counted.instructions(lines["EVAL"])
    assert 0 not in measured.values(), measured
    for name, instructions in measured.items():
        compare("instructions", name, instructions)
    assert measured.keys() >= COSTS["instructions"].keys()


def test_instructions_to_the_first_reply(tmp_path, compare):
    """Of the threads that open an empty folder and its listeners, until a request is answered. Others tick as long as the server runs."""
    counts = []
    for run in range(3):
        out = tmp_path / str(run)
        callgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=*quartet::serve::serve*"]
        with Server(prefix=callgrind, options=ONE_THREAD) as server:
            with Connection(server.port, timeout_seconds=600) as connection:
                connection.do("PING")
            server.stop()
        counts.append(int(re.search(r"^totals: (\d+)", out.read_text(), re.MULTILINE)[1]))
    compare("first_reply_instructions", None, min(counts))


def test_idle_memory(compare):
    """Bytes of the process after its first reply, without the pages of the program's file."""
    with Server(options=ONE_THREAD) as server, Connection(server.port) as connection:
        connection.do("PING")
        compare("idle_bytes", None, server.anonymous_bytes(), PAGE_BYTES)


def test_size_of_the_program(compare):
    compare("program_bytes", None, Path(binary()).stat().st_size)
