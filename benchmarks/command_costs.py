"""What every command of Redis costs on few elements and on many: CPU of the server for each call, and their ratio.

    python benchmarks/command_costs.py --port 6379 --dynamodb-port 8000 --fauna-port 8443 --cluster-file fdb.cluster --pid "$(pidof quartet)"
    python benchmarks/command_costs.py --port 6379 --pid "$(pidof redis-server)"

A server that nobody else uses; its databases are emptied. The table of commands is `tests/harness/command_costs.py`, which
`tests/field/test_growing_costs.py` checks in its short form; `--beside PORT PID` measures another server for the same lines, in columns of their
own. Below it stand requests of many words, on 4,000 and 40,000 of them, and writes of many elements with the longest time that another client's
GET and SET waited. With the ports of the other layers and a cluster file, their tables (`tests/harness/layer_costs.py`) follow.
"""

from __future__ import annotations

import argparse
import functools
import sys
import threading
import time
import types
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from harness import command_costs, fauna, layer_costs  # noqa: E402
from harness.dynamodb import connect  # noqa: E402
from harness.resp import Connection, ReplyError  # noqa: E402

CALLS = 200
REMOVED_FROM = 400_000
MANY_WORDS = {
    "WATCH": lambda count: ["WATCH", *(f"name{number}" for number in range(count))],
    "ACL SETUSER ~": lambda count: ["ACL", "SETUSER", "costs", "reset", *(f"~pattern{number}:*" for number in range(count))],
    "ACL SETUSER &": lambda count: ["ACL", "SETUSER", "costs", "reset", *(f"&channel{number}:*" for number in range(count))],
    "SUBSCRIBE": lambda count: ["SUBSCRIBE", *(f"channel{number}" for number in range(count))],
    "CLIENT TRACKING PREFIX": lambda count: [
        "CLIENT", "TRACKING", "on", "BCAST", *(word for number in range(count) for word in ("PREFIX", f"{number:06}:"))
    ],
}
HALF = [f"m{number}" for number in range(0, REMOVED_FROM, 2)]
WRITES_OF_MANY = {
    "sorted set": [["ZREM", "k", *HALF], ["ZREMRANGEBYSCORE", "k", "-inf", REMOVED_FROM // 2 - 1], ["ZREMRANGEBYRANK", "k", 0, REMOVED_FROM // 2 - 1],
                   ["ZPOPMIN", "k", REMOVED_FROM // 2], ["ZRANGESTORE", "stored", "k", 0, REMOVED_FROM // 2 - 1], ["COPY", "k", "stored"],
                   ["ZUNIONSTORE", "stored", 1, "k"], ["ZINTERSTORE", "stored", 2, "k", "k"], ["DEL", "k"]],
    "set": [["SREM", "k", *HALF], ["SPOP", "k", REMOVED_FROM // 2], ["SUNIONSTORE", "stored", "k"], ["SINTERSTORE", "stored", "k", "k"],
            ["SDIFFSTORE", "stored", "k"], ["SORT", "k", "ALPHA", "STORE", "stored"], ["UNLINK", "k"]],
    "hash": [["HDEL", "k", *HALF], ["HGETDEL", "k", "FIELDS", len(HALF), *HALF]],
    "list": [["LPOP", "k", REMOVED_FROM // 2], ["LTRIM", "k", REMOVED_FROM // 2, -1]],
    "stream": [["XDEL", "k", *(f"1-{number + 1}" for number in range(0, REMOVED_FROM, 2))], ["XTRIM", "k", "MAXLEN", REMOVED_FROM // 2]],
    "keys": [["UNLINK", *(f"filler{number}" for number in range(0, REMOVED_FROM, 2))], ["SWAPDB", 0, 1], ["FLUSHDB"]],
}


class Measured:
    def __init__(self, port: int, pid: int):
        self.port, self.pid = port, pid
        self.connection = Connection(port, timeout_seconds=600)

    def cpu_seconds(self) -> float:
        return time.clock_gettime(~self.pid << 3 | 2)

    def do_all(self, requests: list) -> list:
        replies = []
        for start in range(0, len(requests), 200):
            batch = requests[start : start + 200]
            for request in batch:
                self.connection.send(*request)
            replies += [self.connection.read() for _ in batch]
        return replies

    def cost(self, requests: list) -> float | None:
        """Microseconds a request; nothing if the server does not know the command."""
        before = self.cpu_seconds()
        replies = self.do_all(requests)
        cost = (self.cpu_seconds() - before) / len(requests) * 1e6
        return None if any(isinstance(reply, ReplyError) and "unknown" in reply.lower() for reply in replies) else cost

    def longest_wait(self, run, request: tuple = ("GET", "other")) -> float:
        """Seconds that another client's request took at most while `run` ran."""
        waits, is_over = [0.0], threading.Event()

        def ask():
            with Connection(self.port, timeout_seconds=600) as other:
                while not is_over.is_set():
                    before = time.perf_counter()
                    other.do(*request)
                    waits.append(time.perf_counter() - before)
                    time.sleep(0.001)

        asking = threading.Thread(target=ask)
        asking.start()
        run()
        is_over.set()
        asking.join()
        return max(waits)

    def costs(self, kind: str) -> dict[str, tuple]:
        """Microseconds of each line on few and on many, and another's longest wait beside those on many, in milliseconds."""
        costs: dict[str, tuple] = {}
        for large, key in ((False, "small"), (True, "large")):
            self.connection.do("FLUSHALL")
            command_costs.fill(self.do_all, kind, key, large)
            for line in command_costs.lines(kind):
                calls = command_costs.calls(line, key, CALLS)
                costs[line] = (*costs.get(line, ()), self.cost(calls))
                if large:
                    wait = self.longest_wait(lambda: self.do_all(calls))  # noqa: B023
                    costs[line] = (*costs[line], wait * 1000)
            self.connection.do("UNWATCH")
        return costs

    def write_of_many(self, kind: str, write: list) -> tuple:
        """Microseconds an element; the longest waits of another's GET and SET, in milliseconds."""
        figures: list[float] = []
        for request in (("GET", "other"), ("SET", "other", "value")):
            self.connection.do("FLUSHALL")
            command_costs.fill(self.do_all, kind, "k", True, {True: REMOVED_FROM})
            time.sleep(1)
            before = self.cpu_seconds()
            wait = self.longest_wait(lambda: self.connection.do(*write), request)
            figures = [*(figures or [(self.cpu_seconds() - before) / (REMOVED_FROM // 2) * 1e6]), wait * 1000]
        return tuple(figures)


def text(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"


def row(*columns) -> None:
    print("| " + " | ".join(column if isinstance(column, str) else text(column) for column in columns) + " |")


def head(*columns: str) -> None:
    print()
    row(*columns)
    row(*("---" if not index else "---:" for index in range(len(columns))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--beside", type=int, nargs=2, metavar=("PORT", "PID"), help="another server that is measured for the same lines")
    parser.add_argument("--dynamodb-port", type=int)
    parser.add_argument("--fauna-port", type=int)
    parser.add_argument("--cluster-file")
    parser.add_argument("--kind", action="append", help="only these kinds of keys")
    arguments = parser.parse_args()
    server = Measured(arguments.port, arguments.pid)
    servers = [server, *([Measured(*arguments.beside)] if arguments.beside else [])]
    names = ["", ", beside"][: len(servers)]
    head("command", "key", *(f"{column}{name}" for name in names for column in ("us, small", "us, large", "another's wait on large, ms")))
    for kind in arguments.kind or command_costs.CONSTANT:
        tables = [one.costs(kind) for one in servers]
        for line in command_costs.lines(kind):
            row(f"`{line}`", kind, *(figure for table in tables for figure in table[line]))
    if not arguments.kind:
        many_words(server)
    writes = {kind: write for kind, write in WRITES_OF_MANY.items() if not arguments.kind or kind in arguments.kind}
    head("write of 200,000 and more", *(f"{column}{name}" for name in names for column in ("us an element", "another's GET, ms", "another's SET, ms")))
    for kind, all_of_kind in writes.items():
        for write in all_of_kind:
            row(f"{write[0]}", *(figure for one in servers for figure in one.write_of_many(kind, write)))
    for one in servers:
        one.connection.do("FLUSHALL")
    place = types.SimpleNamespace(host="127.0.0.1", root_key=None, dynamodb_port=arguments.dynamodb_port, fauna_port=arguments.fauna_port)
    if arguments.dynamodb_port:
        layer_table(server, "DynamoDB", connect(place), layer_costs.fill_table, layer_costs.dynamodb_lines)
    if arguments.fauna_port:
        layer_table(server, "FQL", fauna.connect(place), layer_costs.fill_collection, layer_costs.fauna_lines)
    if arguments.cluster_file:
        import fdb

        fdb.api_version(730)
        fill, lines = (functools.partial(function, fdb) for function in (layer_costs.fill_keys, layer_costs.keyvalue_lines))
        layer_table(server, "key-value", fdb.open(arguments.cluster_file), fill, lines)


def many_words(server: Measured) -> None:
    head("request", "us a word, 4,000", "us a word, 40,000")
    for name, words in MANY_WORDS.items():
        costs = []
        for count in (4_000, 40_000):
            before = server.cpu_seconds()
            with Connection(server.port, timeout_seconds=600) as connection:
                connection.do(*words(count))
            costs.append((server.cpu_seconds() - before) / count * 1e6)
        row(name, *costs)
    server.connection.do("ACL", "DELUSER", "costs")


def layer_table(server: Measured, layer: str, client, fill, lines_of) -> None:
    names = {False: "costs_of_few", True: "costs_of_many"}
    for large, name in names.items():
        fill(client, name, layer_costs.ITEMS[large])
    few, many = (lines_of(client, name) for name in names.values())
    head(layer, "us, small", "us, large", "ratio", "another's longest wait on large, ms")
    for line in few:

        def run(call) -> None:
            for number in range(CALLS):
                call(number)

        costs = []
        for call in (few[line], many[line]):
            before = server.cpu_seconds()
            run(call)
            costs.append((server.cpu_seconds() - before) / CALLS * 1e6)
        wait = server.longest_wait(lambda: run(many[line]))  # noqa: B023
        row(line, *costs, costs[1] / costs[0], wait * 1000)


if __name__ == "__main__":
    main()
