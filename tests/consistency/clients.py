"""Clients that append to lists and read them, and the judgement of what they saw."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence

from harness.server import Server

from .judge import FAILED, OK, UNKNOWN, Transaction, judge
from .workloads import ALL, Failed

# Lists that are in use at a time, and how long one grows before another takes its place.
KEYS = 4
APPENDS_MAX = 24
SURPRISES_MAX = 1000
READ_WITHIN_SECONDS = 120.0
READ_AT_ONCE = 20


class Workload:
    """The clients of one kind, and their history. A client that has failed connects again, to any of the servers.

    `up`: whether the servers are meant to answer. `seconds`: how long a request may take before its outcome counts as unknown.
    `length_max`: the operations of the longest transaction.
    """

    def __init__(self, name: str, servers: Sequence[Server], up: threading.Event, seconds: float = 10.0, length_max: int = 4):
        self.name, self.servers, self.up, self.length_max = name, servers, up, length_max
        self.kind = ALL[name]()
        self.kind.seconds = seconds
        self.kind.prepare(servers[0])
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
            for _ in range(chance.randint(1, self.length_max)):
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
        chance, connection, server = random.Random(f"{self.name} {seed}"), None, self.servers[0]
        while not self.stop.is_set():
            if not self.up.wait(0.1):
                connection = None
                continue
            if connection is None:
                server = chance.choice(self.servers)
            try:
                connection = connection or self.kind.connect(server)
            except Exception:
                continue
            if not self.transact(connection, self.operations(chance), server):
                connection = None
                # One that is away refuses at once.
                time.sleep(0.02)

    def transact(self, connection, operations, server: Server) -> bool:
        """Does one transaction and notes it. False if its outcome is unknown."""
        began = time.monotonic_ns()
        try:
            done, outcome = self.kind.run(connection, operations), OK
        except Failed:
            done, outcome = operations, FAILED
        except Exception as error:
            done, outcome = operations, UNKNOWN
            if self.up.is_set() and server.alive() and len(self.surprises) < SURPRISES_MAX:
                self.surprises.append(repr(error)[:200])
        self.history.append(Transaction(done, began, time.monotonic_ns(), outcome))
        return outcome != UNKNOWN

    def read_all(self, server: Server) -> None:
        """Reads each list once more, from a server that answers, sooner or later."""
        connection, deadline, count = None, time.monotonic() + READ_WITHIN_SECONDS, max(self.keys) + 1
        for first in range(0, count, READ_AT_ONCE):
            reads = [("read", key, None) for key in range(first, min(first + READ_AT_ONCE, count))]
            while not self.transact(connection := connection or self.kind.connect(server), reads, server):
                if time.monotonic() > deadline:
                    raise OSError(f"{self.name}: lists could not be read: {self.surprises[-1:]}")
                connection = None
                time.sleep(0.05)


def report(workloads: list[Workload]) -> bool:
    """Prints a line for each kind, and what is wrong; true if nothing is."""
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
    return not bad
