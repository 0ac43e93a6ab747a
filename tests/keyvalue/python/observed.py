"""Runs the small programs whose outcomes were observed at FoundationDB, and shows an outcome as it is written down there.

A program is Python in which `;;` parts the lines. It leaves its outcome in `R`. Byte strings are shown as hexadecimal, errors as their number.
"""

from __future__ import annotations

import struct
import time


class Program:
    """What a program's names mean, for one database."""

    def __init__(self, fdb, database):
        self.fdb, self.database = fdb, database
        self.kept = []  # A transaction that is dropped takes its futures with it.

    def run(self, steps: str):
        self.kept.clear()
        self.database.clear_range(b"", b"\xff")
        for letter in "abcde":
            self.database[letter.encode()] = b"v" + letter.encode()
        names = self.names()
        try:
            exec(steps.replace(" ;; ", "\n"), names)
            return self.shown(names["R"])
        except self.fdb.FDBError as error:
            return {"error": error.code}
        except Exception as error:
            return {"python": f"{type(error).__name__}: {error}"}

    def names(self) -> dict:
        selector = self.fdb.KeySelector
        return {
            "R": None, "db": self.database, "fdb": self.fdb, "time": time, "struct": struct,
            "KS": selector, "SM": self.fdb.StreamingMode,
            "lt": selector.last_less_than, "le": selector.last_less_or_equal,
            "gt": selector.first_greater_than, "ge": selector.first_greater_or_equal,
            "T": self.transaction, "E": self.outcome, "C": lambda tr: self.outcome(tr.commit), "J": self.shown,
            "gr": self.raw_range, "two": self.two, "atomic": self.atomic, "seed": self.seed,
        }  # fmt: skip

    def transaction(self, **options):
        transaction = self.database.create_transaction()
        self.kept.append(transaction)
        for name, value in options.items():
            setter = getattr(transaction.options, f"set_{name}")
            setter() if value is True else setter(value)
        return transaction

    def outcome(self, thunk):
        try:
            result = thunk()
            return self.shown(result.wait() if hasattr(result, "wait") else result)
        except self.fdb.FDBError as error:
            return {"error": error.code}
        except Exception as error:
            return {"python": f"{type(error).__name__}: {error}"}

    def shown(self, value):
        impl = self.fdb.impl
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, impl.Value):
            return self.shown(value.value if value.present() else None)
        if isinstance(value, (bytes, bytearray)):
            value = bytes(value)
            if len(value) <= 120:
                return {"b": value.hex()}
            return {"b_len": len(value), "head": value[:16].hex(), "tail": value[-16:].hex()}
        if isinstance(value, self.fdb.KeyValue):
            return [self.shown(value.key), self.shown(value.value)]
        if isinstance(value, dict):
            return {str(key): self.shown(part) for key, part in value.items()}
        if isinstance(value, self.fdb.FDBError):
            return {"error": value.code}
        if isinstance(value, impl.Transaction):
            return "ok"
        if hasattr(value, "wait"):
            return self.shown(value.wait())
        try:
            return [self.shown(part) for part in value]
        except TypeError:
            return repr(value)

    def raw_range(self, transaction, begin, end, limit=0, tb=0, mode=-2, it=1, rev=False, snap=False):
        """One request of a range, not continued: rows, bytes, first key, last key, and whether there may be more."""
        selector = self.fdb.KeySelector
        begin = begin if isinstance(begin, selector) else selector.first_greater_or_equal(begin)
        end = end if isinstance(end, selector) else selector.first_greater_or_equal(end)
        future = self.fdb.impl.FutureKeyValueArray(
            transaction.capi.fdb_transaction_get_range(
                transaction.tpointer, begin.key, len(begin.key), begin.or_equal, begin.offset,
                end.key, len(end.key), end.or_equal, end.offset, limit, tb, mode, it, snap, rev,
            )
        )  # fmt: skip
        try:
            rows, count, more = future.wait()
        except self.fdb.FDBError as error:
            return {"error": error.code}
        size = sum(len(row.key) + len(row.value) for row in rows)
        ends = [self.shown(rows[0].key), self.shown(rows[-1].key)] if rows else [None, None]
        return [count, size, *ends, bool(more)]

    def two(self, first, second):
        """Two transactions that read at the same state; the first commits before the second."""
        transactions = [self.database.create_transaction() for _ in range(2)]
        for transaction in transactions:
            transaction.get_read_version().wait()
        for transaction, act in zip(transactions, (first, second)):
            act(transaction)
        return [self.outcome(transaction.commit) for transaction in transactions]

    def atomic(self, operation: str, old: bytes | None, operand: bytes):
        if old is None:
            del self.database[b"x"]
        else:
            self.database[b"x"] = old
        transaction = self.database.create_transaction()
        getattr(transaction, operation)(b"x", operand)
        seen = self.outcome(lambda: transaction[b"x"])
        committed = self.outcome(transaction.commit)
        return {"commit": committed, "stored": self.outcome(lambda: self.database[b"x"]), "ryw": seen}

    def seed(self, count: int, value_bytes: int = 100, prefix: bytes = b"k") -> None:
        for start in range(0, count, 2000):
            transaction = self.database.create_transaction()
            for number in range(start, min(count, start + 2000)):
                transaction[prefix + b"%06d" % number] = b"x" * value_bytes
            transaction.commit().wait()
