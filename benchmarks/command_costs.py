"""What every command of Redis costs on few elements and on many: CPU of the server for each call, and their ratio.

    python benchmarks/command_costs.py --port 6379 --pid "$(pidof quartet)"
    python benchmarks/command_costs.py --port 6379 --pid "$(pidof redis-server)"

A server that nobody else uses; its databases are emptied. The table of commands is `tests/harness/command_costs.py`, which
`tests/field/test_growing_costs.py` checks in its short form. Below it stand requests of many words, on 4,000 and 40,000 of them, and removals
of half of 400,000 elements with the longest time that another client waited.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from harness import command_costs  # noqa: E402
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
REMOVALS = {
    "sorted set": [["ZREM", "k", *HALF], ["ZREMRANGEBYSCORE", "k", "-inf", REMOVED_FROM // 2 - 1], ["ZREMRANGEBYRANK", "k", 0, REMOVED_FROM // 2 - 1],
                   ["ZPOPMIN", "k", REMOVED_FROM // 2]],
    "set": [["SREM", "k", *HALF]],
    "hash": [["HDEL", "k", *HALF], ["HGETDEL", "k", "FIELDS", len(HALF), *HALF]],
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

    def longest_wait(self, run) -> float:
        """Seconds that another client's GET took at most while `run` ran."""
        waits, is_over = [0.0], threading.Event()

        def ask():
            with Connection(self.port, timeout_seconds=600) as other:
                while not is_over.is_set():
                    before = time.perf_counter()
                    other.do("GET", "other")
                    waits.append(time.perf_counter() - before)
                    time.sleep(0.001)

        asking = threading.Thread(target=ask)
        asking.start()
        run()
        is_over.set()
        asking.join()
        return max(waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, required=True)
    arguments = parser.parse_args()
    server = Measured(arguments.port, arguments.pid)
    print("| key | command | us, small | us, large | ratio |\n| --- | --- | ---: | ---: | ---: |")
    for kind in command_costs.CONSTANT:
        costs = {}
        for large, key in ((False, "small"), (True, "large")):
            server.connection.do("FLUSHALL")
            command_costs.fill(server.do_all, kind, key, large)
            for line in command_costs.lines(kind):
                costs[line, large] = server.cost(command_costs.calls(line, key, CALLS))
            server.connection.do("UNWATCH")
        for line in command_costs.lines(kind):
            small, large = costs[line, False], costs[line, True]
            if small is not None and large is not None:
                print(f"| {kind} | `{line}` | {small:.1f} | {large:.1f} | {large / max(small, 0.1):.1f} |")
    print("\n| request | us a word, 4,000 | us a word, 40,000 |\n| --- | ---: | ---: |")
    for name, words in MANY_WORDS.items():
        costs = []
        for count in (4_000, 40_000):
            before = server.cpu_seconds()
            with Connection(server.port, timeout_seconds=600) as connection:
                connection.do(*words(count))
            costs.append((server.cpu_seconds() - before) / count * 1e6)
        print(f"| {name} | {costs[0]:.2f} | {costs[1]:.2f} |")
    server.connection.do("ACL", "DELUSER", "costs")
    print("\n| removal of half of 400,000 | us an element | another's longest wait, ms |\n| --- | ---: | ---: |")
    for kind, removals in REMOVALS.items():
        for removal in removals:
            server.connection.do("FLUSHALL")
            command_costs.fill(server.do_all, kind, "k", True, {True: REMOVED_FROM})
            time.sleep(1)
            before = server.cpu_seconds()
            wait = server.longest_wait(lambda: server.connection.do(*removal))  # noqa: B023
            cost = (server.cpu_seconds() - before) / (REMOVED_FROM // 2) * 1e6
            print(f"| {removal[0]} | {cost:.2f} | {wait * 1000:.0f} |")
    server.connection.do("FLUSHALL")


if __name__ == "__main__":
    main()
