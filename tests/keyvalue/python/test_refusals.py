"""Calls that cannot be served fail at once with FoundationDB's error, and no future stays pending.

The outcomes are those of release 7.3.79, as its client's source and its recorded replies (`observed.jsonl`) have them.
"""

from __future__ import annotations

import struct

import pytest

OUTSIDE, TOO_LONG, INVERTED, INVALID, DISABLED = 2004, 2102, 2005, 2000, 1034
CANCELLED, USED_DURING_COMMIT, FUTURE_VERSION = 1025, 2017, 1009
NO_MODULE, WRITES_DISABLED, NO_WRITE_MODULE, NO_TENANT = 2113, 2114, 2115, 2131
LONG = b"x" * 10_001
# A call that stayed pending would fail with the timeout's number instead of the expected one.
TIMEOUT_MS = 10_000


def begin(database, *options: str):
    transaction = database.create_transaction()
    transaction.options.set_timeout(TIMEOUT_MS)
    for option in options:
        getattr(transaction.options, f"set_{option}")()
    return transaction


def code(fdb, thunk) -> int:
    try:
        result = thunk()
        if hasattr(result, "wait"):
            result.wait()
        return 0
    except fdb.FDBError as error:
        return error.code


READS = [
    (lambda tr: tr.watch(b"\xff/x"), OUTSIDE),
    (lambda tr: tr.watch(b"\xff\xff/status/json"), OUTSIDE),
    (lambda tr: tr.watch(LONG), TOO_LONG),
    (lambda tr: tr[b"\xff/x"], OUTSIDE),
    (lambda tr: tr[b"\xff\xff"], NO_MODULE),
    (lambda tr: tr[b"\xff\xff/nope"], NO_MODULE),
    (lambda tr: tr[b"\xff\xff\xff"], OUTSIDE),
    (lambda tr: tr.get_key(tr.KeySelector.first_greater_than(b"\xff\x01")), OUTSIDE),
    (lambda tr: tr.get_range_split_points(b"b", b"a", 100), INVERTED),
    (lambda tr: tr.get_range_split_points(b"a", b"\xff\x01", 100), OUTSIDE),
    (lambda tr: tr.get_estimated_range_size_bytes(b"b", b"a"), INVERTED),
]


@pytest.mark.parametrize("read, expected", READS, ids=range(len(READS)))
def test_a_read_that_cannot_be(fdb, database, read, expected):
    transaction = begin(database)
    transaction.KeySelector = fdb.KeySelector
    assert code(fdb, lambda: read(transaction)) == expected
    # It was the call that failed, not the transaction.
    transaction[b"k"] = b"v"
    assert code(fdb, transaction.commit) == 0


WRITES = [
    (lambda tr: tr.set(b"\xff/x", b""), (OUTSIDE, 0)),
    (lambda tr: tr.set(LONG, b""), (TOO_LONG, TOO_LONG)),
    (lambda tr: tr.set(b"\xff/metadataVersion", b"1"), (INVALID, INVALID)),
    (lambda tr: tr.clear(b"\xff/metadataVersion"), (OUTSIDE, 0)),
    (lambda tr: tr.clear(LONG), (0, 0)),
    (lambda tr: tr.clear_range(b"b", b"a"), (INVERTED, INVERTED)),
    (lambda tr: tr.clear_range(b"\xff\x02", b"\xff\x01"), (INVERTED, INVERTED)),
    (lambda tr: tr.clear_range(b"a", b"\xff\x01"), (OUTSIDE, 0)),
    (lambda tr: tr.clear_range(b"a", b"\xff\xff\x01"), (OUTSIDE, OUTSIDE)),
    (lambda tr: tr.add(b"\xff\xff/x", b"1"), (OUTSIDE, OUTSIDE)),
    (lambda tr: tr.set(b"\xff\xff", b""), (WRITES_DISABLED, WRITES_DISABLED)),
    (lambda tr: tr.clear(b"\xff\xff/x"), (WRITES_DISABLED, WRITES_DISABLED)),
    (lambda tr: tr.clear_range(b"\xff\xff/x", b"\xff\xff/y"), (WRITES_DISABLED, WRITES_DISABLED)),
    (lambda tr: tr.set(b"\xff\xff\xff", b""), (OUTSIDE, OUTSIDE)),
    (lambda tr: tr.add_read_conflict_range(b"a", b"\xff\x01"), (OUTSIDE, 0)),
    (lambda tr: tr.add_write_conflict_range(b"a", b"\xff\x01"), (OUTSIDE, 0)),
    (lambda tr: tr.add_read_conflict_key(b"\xff/metadataVersion"), (0, 0)),
    (lambda tr: tr.add_read_conflict_range(LONG, b"y" * 40_000), (0, 0)),
]


@pytest.mark.parametrize("write, expected", WRITES, ids=range(len(WRITES)))
def test_a_write_that_cannot_be_fails_the_commit(fdb, database, write, expected):
    for options, outcome in zip(((), ("access_system_keys",)), expected):
        transaction = begin(database, *options)
        write(transaction)
        assert code(fdb, transaction.commit) == outcome


def test_computed_keys_that_may_be_written_and_are_not_there(fdb, database):
    transaction = begin(database, "special_key_space_enable_writes")
    transaction[b"\xff\xff/x"] = b""
    assert code(fdb, transaction.commit) == NO_WRITE_MODULE


def test_without_read_your_writes_there_are_no_watches(fdb, database):
    transaction = begin(database, "read_your_writes_disable")
    assert code(fdb, lambda: transaction.watch(b"k")) == DISABLED


def test_a_version_ahead_of_all_is_a_future_version(fdb, database):
    transaction = begin(database)
    transaction.set_read_version(1 << 60)
    assert code(fdb, lambda: transaction[b"k"]) == FUTURE_VERSION
    committed = begin(database)
    committed.set_read_version(1 << 60)
    committed[b"k"] = b"v"
    assert code(fdb, committed.commit) == FUTURE_VERSION


def test_no_tenant_exists_whatever_is_asked_of_it(fdb, database):
    transaction = database.open_tenant(b"none").create_transaction()
    assert code(fdb, lambda: transaction[b"k"]) == NO_TENANT
    transaction.reset()
    transaction[b"k"] = b"v"
    assert code(fdb, transaction.commit) == NO_TENANT
    assert code(fdb, lambda: transaction.watch(b"k")) == NO_TENANT
    assert database[b"k"] == None  # noqa: E711 - the binding's value compares with it


def test_a_cancelled_transaction_still_has_a_size(fdb, database):
    transaction = begin(database)
    transaction[b"k"] = b"v"
    transaction.cancel()
    assert transaction.get_approximate_size().wait() == 73
    transaction[b"k"] = b"v"
    assert transaction.get_approximate_size().wait() == 146
    assert code(fdb, lambda: transaction[b"k"]) == CANCELLED
    assert code(fdb, transaction.commit) == CANCELLED
    transaction.reset()
    assert transaction.get_approximate_size().wait() == 0


SIZES = [
    (lambda tr: tr.set_versionstamped_value(b"k", b"\0" * 14), 44 + 1 + 14 + 24 + 3),
    (lambda tr: tr.set_versionstamped_key(b"k" + b"\0" * 14, b"v"), 44 + 15 + 1),
    (lambda tr: (tr.options.set_next_write_no_write_conflict_range(), tr.set(b"k", b"v")), 44 + 2),
    (lambda tr: tr.clear_range(b"k", b"k"), 44 + 2 + 24 + 2),
    (lambda tr: (tr.snapshot[b"k"].wait()), 0),
    # A range counts once for each piece that the transaction has not written itself.
    (lambda tr: (tr.set(b"m", b""), list(tr.get_range(b"k", b"p"))), 44 + 1 + 24 + 3 + 2 * (24 + 2)),
    (lambda tr: (tr.add(b"m", b"1"), list(tr.get_range(b"k", b"p"))), 44 + 2 + 24 + 3 + 3 * (24 + 2)),
]


@pytest.mark.parametrize("act, size", SIZES, ids=range(len(SIZES)))
def test_sizes_are_counted_as_the_original_counts(database, act, size):
    transaction = begin(database)
    act(transaction)
    assert transaction.get_approximate_size().wait() == size


@pytest.mark.parametrize("commits", [True, False])
def test_after_a_commit_only_a_reset_helps(fdb, database, commits):
    """After a commit that failed, operations went on as if nothing had happened, and the next commit was refused."""
    transaction = begin(database)
    transaction[b"k"].wait()
    database[b"other" if commits else b"k"] = b"1"
    transaction[b"mine"] = b"1"
    assert (code(fdb, transaction.commit) == 0) == commits
    assert transaction.get_approximate_size().wait() > 0
    assert transaction.get_read_version().wait() > 0
    assert code(fdb, lambda: transaction[b"k"]) == USED_DURING_COMMIT
    assert code(fdb, lambda: transaction.watch(b"k")) == USED_DURING_COMMIT
    transaction.reset()
    assert code(fdb, lambda: transaction[b"k"]) == 0


CLEARS = [
    (lambda tr: tr.clear(b"n"), True),
    (lambda tr: tr.clear_range(b"m", b"o"), True),
    (lambda tr: tr.clear_range(b"n", b"n"), False),
    (lambda tr: tr.clear_range(b"o", b"p"), False),
    (lambda tr: tr.compare_and_clear(b"n", b"none"), True),
    (lambda tr: tr.add(b"n", b""), True),
]


@pytest.mark.parametrize("write, refused", CLEARS, ids=range(len(CLEARS)))
def test_clearing_what_is_not_there_refuses_those_who_have_read_it(fdb, database, write, refused):
    """Programs fence each other off with a clear of an empty range. It left no trace, and those who had read in it committed."""
    reads = (lambda tr: tr[b"n"].wait(), lambda tr: list(tr.get_range(b"mm", b"nn")), lambda tr: tr.snapshot[b"n"].wait())
    for read, is_judged in zip(reads, (True, True, False)):
        reader, writer = begin(database), begin(database)
        read(reader)
        reader[b"z"] = b"1"
        writer.get_read_version().wait()
        write(writer)
        assert code(fdb, writer.commit) == 0
        assert (code(fdb, reader.commit) == 1020) == (refused and is_judged)
        del database[b"n"]


WATCHED = [
    (lambda tr: tr.set(b"w", b"other"), True),
    (lambda tr: tr.set(b"w", b"1"), False),
    (lambda tr: tr.clear(b"w"), True),
    (lambda tr: tr.clear_range(b"v", b"x"), True),
    (lambda tr: tr.clear_range(b"x", b"y"), False),
    (lambda tr: tr.add(b"w", b"\0"), True),
    (lambda tr: tr.set_versionstamped_value(b"w", b"\0" * 10 + struct.pack("<L", 0)), True),
]


@pytest.mark.parametrize("write, fires", WATCHED, ids=range(len(WATCHED)))
def test_a_watch_is_fired_by_the_transaction_itself_before_it_commits(fdb, database, write, fires):
    """The watch waited for a commit, and a program that waits for the watch before it commits hung."""
    database[b"w"] = b"1"
    transaction = begin(database)
    watched = transaction.watch(b"w")
    transaction[b"w"].wait()
    write(transaction)
    if fires:
        watched.wait()
    else:
        transaction.reset()
        assert code(fdb, lambda: watched) == CANCELLED
