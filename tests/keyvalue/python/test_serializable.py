"""Random transactions with ranges, selectors and atomic operations, many at once, are strictly serializable; also when the server is killed underneath.

KEYVALUE_CHECK_SECONDS makes it a long run, KEYVALUE_CHECK_SEED another one.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
import struct
import threading
import time

import pytest

from harness.threads import Threads

from .conftest import KeyValueServer
from .judge import BEYOND, READS, Done, Replay, Step, complaints

SECONDS = float(os.environ.get("KEYVALUE_CHECK_SECONDS", "5"))
SEED = int(os.environ.get("KEYVALUE_CHECK_SEED", "1"))
THREADS = 8
KEYS = [b"k%02d" % number for number in range(12)]
CONFLICT, UNKNOWN_RESULT = 1020, 1021
# The server was away, or came back without the state that was read.
GONE = (1007, 1009, 1025, 1031, 1037)


class Run(Threads):
    """Threads that do transactions, and what they saw."""

    def __init__(self, fdb, database, seed: int):
        super().__init__(THREADS)
        self.fdb, self.database, self.seed = fdb, database, seed
        self.done: list[Done] = []
        self.unknown: list[Done] = []
        self.refused = 0

    def begin(self, number: int):
        return random.Random(f"{self.seed} {number}"), (b"%d-%06d" % (number, count) for count in itertools.count())

    def work(self, made) -> None:
        choice, names = made
        self._transaction(choice, next(names))

    def _transaction(self, choice: random.Random, name: bytes):
        transaction, began = self.database.create_transaction(), time.monotonic()
        transaction.options.set_timeout(20_000)
        one, is_committing = Done(name, began, 0.0, 0, None), False
        try:
            one.read_version = transaction.get_read_version().wait()
            for _ in range(choice.randint(1, 6)):
                one.steps.append(self._step(choice, transaction))
            writes = any(step.kind not in READS for step in one.steps)
            if writes:
                # The row tells whether the transaction happened, and when.
                transaction.set_versionstamped_value(b"t/" + name, b"\0" * 10 + struct.pack("<L", 0))
            is_committing = True
            transaction.commit().wait()
            one.ended = time.monotonic()
            one.commit_version = transaction.get_committed_version() if writes else None
            self.done.append(one)
        except self.fdb.FDBError as error:
            if error.code == UNKNOWN_RESULT:
                one.ended = time.monotonic()
                self.unknown.append(one)
            elif error.code == CONFLICT:
                self.refused += 1
            elif error.code not in GONE:
                raise
            elif is_committing:
                # Its time ran out: it may happen even later.
                one.ended = float("inf")
                self.unknown.append(one)

    def _step(self, choice: random.Random, transaction) -> Step:
        key, other = choice.choice(KEYS), choice.choice(KEYS)
        snapshot = choice.random() < 0.15
        reading = transaction.snapshot if snapshot else transaction
        match choice.randrange(10):
            case 0 | 1 | 2:
                found = reading.get(key)
                return Step("get", (key,), bytes(found) if found.present() else None, snapshot)
            case 3 | 4:
                begin, end = sorted((key, other))
                limit, reverse = choice.choice((0, 1, 3)), choice.random() < 0.4
                rows = reading.get_range(begin, end, limit, reverse)
                return Step("range", (begin, end, limit, reverse), [(bytes(row.key), bytes(row.value)) for row in rows], snapshot)
            case 5:
                or_equal, offset = choice.random() < 0.5, choice.randint(-2, 3)
                selected = bytes(reading.get_key(self.fdb.KeySelector(key, or_equal, offset)))
                return Step("select", (key, or_equal, offset), min(selected, BEYOND), snapshot)
            case 6:
                transaction[key] = value = choice.randbytes(choice.randint(0, 8))
                return Step("set", (key, value))
            case 7:
                begin, end = sorted((key, other))
                transaction.clear_range(begin, end)
                return Step("clear", (begin, end))
            case _:
                operation = choice.choice(("add", "bit_xor", "max", "byte_min", "compare_and_clear"))
                operand = choice.randbytes(choice.randint(1, 4))
                getattr(transaction, operation)(key, operand)
                return Step(operation, (key, operand))

    def go_on_until(self, holds) -> None:
        """For a while in any case, and for as long as a slow machine needs."""
        self.stop.wait(SECONDS / 5)
        deadline = time.monotonic() + 120
        while not self.broken and not holds():
            assert time.monotonic() < deadline, f"{len(self.done)} transactions, {self.refused} refused"
            self.stop.wait(0.05)

    def judged(self) -> list[Done]:
        """All that happened, those included of which nobody was told so."""
        rows = {bytes(row.key)[2:]: bytes(row.value) for row in self.database.get_range(b"t/", b"t0")}
        stamps = {name: struct.unpack(">Q", stamp[:8])[0] for name, stamp in rows.items()}
        for one in self.unknown:
            if one.name in stamps:
                one.commit_version = stamps[one.name]
                self.done.append(one)
        writers = {one.name: one.commit_version for one in self.done if one.commit_version is not None}
        assert writers == stamps
        assert list(complaints(self.done)) == []
        left = {bytes(row.key): bytes(row.value) for row in self.database.get_range(b"k", BEYOND)}
        assert left == Replay(self.done).states[-1]
        return self.done


def test_concurrent_transactions_are_strictly_serializable(fdb, database):
    with Run(fdb, database, SEED) as run:
        run.stop.wait(SECONDS)
        run.go_on_until(lambda: len(run.done) > 50 and run.refused > 0)
    run.judged()


def test_so_they_are_when_the_server_is_killed(fdb):
    server = KeyValueServer(durability="always").start()
    try:
        with Run(fdb, fdb.open(server.cluster_file), SEED) as run:
            for _ in range(max(3, int(SECONDS / 2))):
                before = len(run.done)
                run.go_on_until(lambda before=before: len(run.done) > before + 5)
                server.kill()
                server.start()
            before = len(run.done)
            run.go_on_until(lambda: len(run.done) > before + 5)
        run.judged()
    finally:
        server.close()


def history(*transactions) -> list[Done]:
    """From (began, ended, read version, commit version, steps)."""
    return [Done(b"%d" % index, *parts[:4], [Step(*step) for step in parts[4]]) for index, parts in enumerate(transactions)]


GOOD = history(
    (0, 1, 0, 1, [("set", (b"a", b"1")), ("set", (b"b", b"1"))]),
    (2, 3, 1, 2, [("get", (b"a",), b"1"), ("set", (b"c", b"2"))]),
    (4, 5, 2, None, [("range", (b"a", b"z", 0, False), [(b"a", b"1"), (b"b", b"1"), (b"c", b"2")])]),
)
BAD = {
    "write skew": history(
        (0, 9, 0, 1, [("get", (b"a",), None), ("set", (b"b", b"1"))]),
        (0, 9, 0, 2, [("get", (b"b",), None), ("set", (b"a", b"1"))]),
    ),
    "phantom": history(
        (0, 9, 0, 1, [("set", (b"m", b"1"))]),
        (0, 9, 0, 2, [("range", (b"a", b"z", 0, False), []), ("set", (b"n", b"0"))]),
    ),
    "lost update": history(
        (0, 9, 0, 1, [("get", (b"a",), None), ("set", (b"a", b"1"))]),
        (0, 9, 0, 2, [("get", (b"a",), None), ("set", (b"a", b"1"))]),
    ),
    "a selector that passed over a new key": history(
        (0, 9, 0, 1, [("set", (b"m", b"1"))]),
        (0, 9, 0, 2, [("select", (b"a", False, 1), BEYOND), ("set", (b"n", b"0"))]),
    ),
    "half of a transaction": history(
        (0, 1, 0, 1, [("set", (b"a", b"1")), ("set", (b"b", b"1"))]),
        (0, 9, 1, None, [("get", (b"a",), b"1"), ("get", (b"b",), None)]),
    ),
    "old news": history(
        (0, 1, 0, 1, [("set", (b"a", b"1"))]),
        (2, 3, 0, None, [("get", (b"a",), None)]),
    ),
    "one version for two": history((0, 9, 0, 1, [("set", (b"a", b"1"))]), (0, 9, 0, 1, [("set", (b"b", b"1"))])),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_the_judge_complains_of(name):
    assert list(complaints(BAD[name])) != []


def test_the_judge_is_content_with_what_is_right():
    assert list(complaints(GOOD)) == []
    skew = copy.deepcopy(BAD["write skew"])
    # Snapshot reads ask for no more than one moment.
    for step in (step for one in skew for step in one.steps):
        step.snapshot = True
    assert list(complaints(skew)) == []


def test_no_watch_misses_the_last_change(fdb, database):
    """Whoever watches sees, round by round, some newer value, and in the end the last."""
    last, watchers = 200, 24
    database[b"w"] = struct.pack(">L", 0)
    seen = [0] * watchers

    @fdb.transactional
    def look(tr):
        return struct.unpack(">L", bytes(tr[b"w"]))[0], tr.watch(b"w")

    def watch(index: int):
        while seen[index] < last:
            seen[index], changed = look(database)
            if seen[index] < last:
                changed.wait()

    threads = [threading.Thread(target=watch, args=(index,), daemon=True) for index in range(watchers)]
    for thread in threads:
        thread.start()
    for number in range(1, last + 1):
        database[b"w"] = struct.pack(">L", number)
    for thread in threads:
        thread.join(60)
    assert seen == [last] * watchers
