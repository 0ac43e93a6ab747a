"""Runs transactions of five kinds while the server is killed again and again, and judges what their clients saw.

    python -m consistency [--seconds N] [--seed N]

The judge is tried first on histories whose anomalies are known. The last line has the figures.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time

from harness.server import Server

from . import known
from .judge import FAILED, OK, UNKNOWN, Transaction, judge
from .workloads import ALL, Failed

CLIENTS = 3
# Lists that are in use at a time, and how long one grows before another takes its place.
KEYS = 4
APPENDS_MAX = 24
SECONDS_BETWEEN_KILLS = 4.0


class Workload:
    """The clients of one kind, and their history."""

    def __init__(self, name: str, server: Server, up: threading.Event):
        self.name, self.server, self.up = name, server, up
        self.kind = ALL[name]()
        self.kind.prepare(server)
        self.history: list[Transaction] = []
        self.surprises: list[str] = []
        self.lock = threading.Lock()
        self.values = itertools.count(1)
        self.appends: dict[int, int] = {}
        self.keys = list(range(KEYS))
        self.stop = threading.Event()

    def operations(self, chance: random.Random):
        with self.lock:
            operations = []
            for _ in range(chance.randint(1, 4)):
                place = chance.randrange(KEYS)
                key = self.keys[place]
                if chance.random() < 0.5:
                    operations.append(("read", key, None))
                    continue
                operations.append(("append", key, next(self.values)))
                self.appends[key] = self.appends.get(key, 0) + 1
                if self.appends[key] >= APPENDS_MAX:
                    self.keys[place] = max(self.keys) + 1
            return operations

    def client(self, seed: int) -> None:
        chance, connection = random.Random(f"{self.name} {seed}"), None
        while not self.stop.is_set():
            if not self.up.wait(0.1):
                connection = None
                continue
            try:
                connection = connection or self.kind.connect(self.server)
            except Exception:
                continue
            operations = self.operations(chance)
            began = time.monotonic_ns()
            try:
                done, outcome = self.kind.run(connection, operations), OK
            except Failed:
                done, outcome = operations, FAILED
            except Exception as error:
                done, outcome, connection = operations, UNKNOWN, None
                if self.up.is_set() and self.server.alive():
                    self.surprises.append(repr(error)[:200])
            self.history.append(Transaction(done, began, time.monotonic_ns(), outcome))


def kill_now_and_then(server: Server, up: threading.Event, seconds: float) -> int:
    until, kills = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        time.sleep(min(SECONDS_BETWEEN_KILLS, max(0.0, until - time.monotonic())))
        up.clear()
        server.kill()
        server.start()
        up.set()
        kills += 1
    # What the last kill left is read once more.
    time.sleep(0.5)
    return kills


def main() -> int:
    options = argparse.ArgumentParser(prog="consistency")
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    count, wrong = known.check()
    if wrong:
        print("the judge is wrong", *wrong, sep="\n")
        return 1
    server, up = Server(durability="always").start(), threading.Event()
    workloads = [Workload(name, server, up) for name in ALL]
    up.set()
    seeds = [chosen.seed * 1000 + number for number in range(CLIENTS)]
    threads = [threading.Thread(target=workload.client, args=(seed,), daemon=True) for workload in workloads for seed in seeds]
    for thread in threads:
        thread.start()
    kills = kill_now_and_then(server, up, chosen.seconds)
    for workload in workloads:
        workload.stop.set()
    for thread in threads:
        thread.join(60)
    server.close()
    return report(workloads, kills, count)


def report(workloads: list[Workload], kills: int, known_count: int) -> int:
    bad = 0
    for workload in workloads:
        history = list(workload.history)
        verdict = judge(history)
        outcomes = {outcome: sum(one.outcome == outcome for one in history) for outcome in (OK, FAILED, UNKNOWN)}
        edges = ", ".join(f"{number} {kind}" for kind, number in verdict.edges.items())
        print(f"{workload.name}: {outcomes[OK]} committed, {outcomes[FAILED]} refused, {outcomes[UNKNOWN]} unknown; {edges}")
        for name, examples in verdict.anomalies.items():
            bad += 1
            print(f"  {name}: {examples}")
            for index in {index for example in examples[:1] for index in example if isinstance(index, int) and index < len(history)}:
                print(f"    {index}: {history[index]}")
        if outcomes[OK] < 20 or not verdict.edges["ww"] or not verdict.edges["wr"] or not verdict.edges["rw"]:
            bad += 1
            print("  too little happened to say anything", workload.surprises[:3])
    total = sum(len(workload.history) for workload in workloads)
    print(f"{total} transactions under {kills} kills, judge tried on {known_count} histories: {'no anomaly' if not bad else 'ANOMALIES'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
