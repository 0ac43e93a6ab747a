"""What users of FoundationDB rely on: isolation by name, unknown results, watches, versionstamps, and a server that is killed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

import pytest

from .conftest import KeyValueServer

CONFLICT, UNKNOWN_RESULT, TOO_OLD = 1020, 1021, 1007


def outcome(fdb, commit) -> int:
    try:
        commit().wait()
        return 0
    except fdb.FDBError as error:
        return error.code


def two(database):
    transactions = [database.create_transaction() for _ in range(2)]
    for transaction in transactions:
        transaction.get_read_version().wait()
    return transactions


def test_write_skew_is_refused(fdb, database):
    database[b"a"] = database[b"b"] = b"1"
    first, second = two(database)
    first[b"a"], second[b"b"] = first[b"b"].wait(), second[b"a"].wait()
    assert [outcome(fdb, first.commit), outcome(fdb, second.commit)] == [0, CONFLICT]


def test_a_phantom_is_refused(fdb, database):
    first, second = two(database)
    assert list(second.get_range(b"a", b"z")) == []
    first[b"m"] = b"new"
    second[b"count"] = b"0"
    assert [outcome(fdb, first.commit), outcome(fdb, second.commit)] == [0, CONFLICT]


def test_snapshot_reads_do_not_conflict(fdb, database):
    first, second = two(database)
    assert list(second.snapshot.get_range(b"a", b"z")) == []
    first[b"m"] = b"new"
    second[b"count"] = b"0"
    assert [outcome(fdb, first.commit), outcome(fdb, second.commit)] == [0, 0]


READS = {
    "key": lambda fdb, tr: tr[b"k"],
    "selector": lambda fdb, tr: tr.get_key(fdb.KeySelector.first_greater_or_equal(b"k")),
    "range": lambda fdb, tr: tr.get_range(b"j", b"l"),
}


@pytest.mark.parametrize("kind", READS)
def test_a_commit_is_judged_by_reads_that_nobody_has_waited_for(fdb, database, kind):
    """A read began where its task first ran. A commit that was called right behind it was sent before, without the read: one in four was let through."""
    for number in range(100):
        transaction = database.create_transaction()
        transaction.get_read_version().wait()
        database[b"k"] = b"%d" % number
        transaction[b"own"] = b"1"
        read = READS[kind](fdb, transaction)
        assert outcome(fdb, transaction.commit) == CONFLICT
        del read


def test_concurrent_increments_are_all_counted(fdb, database):
    database[b"count"] = struct.pack("<Q", 0)

    @fdb.transactional
    def increment(tr):
        count = struct.unpack("<Q", bytes(tr[b"count"]))[0]
        tr[b"count"] = struct.pack("<Q", count + 1)

    def run():
        for _ in range(25):
            increment(database)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert struct.unpack("<Q", bytes(database[b"count"]))[0] == 150


def test_versionstamps_grow_with_commits_and_are_unique(fdb, database):
    stamps = []
    for number in range(20):
        transaction = database.create_transaction()
        transaction.set_versionstamped_key(b"s" + b"\0" * 10 + struct.pack("<L", 1), b"%d" % number)
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        stamps.append(bytes(stamp.wait()))
    rows = [(bytes(row.key), bytes(row.value)) for row in database.get_range(b"s", b"t")]
    assert stamps == sorted(set(stamps))
    assert rows == [(b"s" + stamp, b"%d" % number) for number, stamp in enumerate(stamps)]


def test_a_watch_tells_of_another_value_and_not_of_the_same(fdb, database):
    database[b"w"] = b"1"

    @fdb.transactional
    def watch(tr):
        return tr.watch(b"w")

    watched = watch(database)
    database[b"w"] = b"1"
    # Another transaction round: what the server had to tell of the first write has been told.
    assert database[b"w"] == b"1" and not watched.is_ready()
    database[b"w"] = b"2"
    watched.wait()


def test_a_cancelled_watch_gives_its_place_back_at_once(fdb, keyvalue_server):
    database = fdb.open(keyvalue_server.cluster_file)
    database.options.set_max_watches(2)
    transaction = database.create_transaction()
    for _ in range(20):
        transaction.watch(b"watched").cancel()
    kept = [transaction.watch(b"watched") for _ in range(2)]
    with pytest.raises(fdb.FDBError) as refused:
        transaction.watch(b"watched").wait()
    assert refused.value.code == 1032
    transaction.reset()
    for watch in kept:
        with pytest.raises(fdb.FDBError):
            watch.wait()


def test_a_watch_outlives_the_server(fdb):
    server = KeyValueServer(durability="always").start()
    try:
        database = fdb.open(server.cluster_file)
        database[b"w"] = b"1"

        @fdb.transactional
        def watch(tr):
            return tr.watch(b"w")

        watched = watch(database)
        server.kill()
        server.start()
        database[b"w"] = b"2"
        watched.wait()
    finally:
        server.close()


def test_kills_lose_nothing_and_leave_no_commit_in_doubt(fdb):
    """Each transaction writes a key of its own and counts; an unknown result is resolved by reading the key."""
    server = KeyValueServer(durability="always").start()
    try:
        database = fdb.open(server.cluster_file)
        database[b"count"] = struct.pack("<Q", 0)
        stop, committed, unknown = threading.Event(), [], []

        def write(name: bytes):
            number = 0
            while not stop.is_set():
                transaction = database.create_transaction()
                key = b"t/%s/%06d" % (name, number)
                while True:
                    try:
                        if transaction[key].present():
                            committed.append(key)
                            break
                        transaction[key] = b""
                        transaction.add(b"count", struct.pack("<Q", 1))
                        transaction.commit().wait()
                        committed.append(key)
                        break
                    except fdb.FDBError as error:
                        if error.code == UNKNOWN_RESULT:
                            unknown.append(key)
                        transaction.on_error(error).wait()
                number += 1

        threads = [threading.Thread(target=write, args=(b"%d" % index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            stop.wait(0.4)
            server.kill()
            server.start()
        stop.wait(0.4)
        stop.set()
        for thread in threads:
            thread.join()
        kept = {bytes(row.key) for row in database.get_range(b"t/", b"t0")}
        assert kept == set(committed) and len(committed) == len(kept)
        assert struct.unpack("<Q", bytes(database[b"count"]))[0] == len(kept)
    finally:
        server.close()


def test_a_version_from_before_a_restart_is_too_old_or_repeated(fdb):
    server = KeyValueServer(durability="always").start()
    try:
        database = fdb.open(server.cluster_file)
        database[b"k"] = b"1"
        transaction = database.create_transaction()
        assert transaction[b"k"] == b"1"
        server.kill()
        server.start()
        database[b"k"] = b"2"
        with pytest.raises(fdb.FDBError) as caught:
            transaction[b"l"].wait()
        assert caught.value.code == TOO_OLD
    finally:
        server.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"QuartKV1" + struct.pack("<I", 0xFFFFFFFF),
        b"QuartKV1" + struct.pack("<I", 0),
        b"QuartKV1" + struct.pack("<IIB", 5, 1, 2),
        b"QuartKV1" + struct.pack("<IIBH16x", 23, 1, 1, 1) + struct.pack("<IIB", 5, 2, 99),
        b"QuartKV1" + struct.pack("<IIBH16x", 23, 1, 1, 1) + struct.pack("<IIBQ", 13, 2, 8, 0),
    ],
    ids=["another protocol", "absurd length", "no head", "no greeting", "unknown request", "cut commit"],
)
def test_bad_frames_end_the_connection_and_nothing_else(fdb, database, keyvalue_server, sent):
    host, port = keyvalue_server.keyvalue_address.split(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        connection.sendall(sent)
        while connection.recv(1024):
            pass
    database[b"alive"] = b"yes"
    assert database[b"alive"] == b"yes"


def test_a_bad_conflict_range_is_refused_at_the_commit(fdb, database):
    """FoundationDB's own tester lost transactions whose database could not be opened: the original tells that by what is asked for, not here."""
    transaction = database.create_transaction()
    with pytest.raises(fdb.FDBError) as inverted:
        transaction.add_read_conflict_range(b"b", b"a")
    assert inverted.value.code == 2005
    transaction.add_read_conflict_range(b"a", b"\xff\xff\x01")
    assert outcome(fdb, transaction.commit) == 2004
    nowhere = fdb.open("/nowhere/fdb.cluster").create_transaction()
    nowhere.add_write_conflict_range(b"a", b"b")
    assert outcome(fdb, nowhere.commit) == 1515


def test_ten_thousand_open_transactions_read_each_at_its_own_version(fdb):
    count, every = 10_000, 200
    with contextlib.closing(KeyValueServer(options=["--keyvalue-read-seconds", "120"]).start()) as server:
        database = fdb.open(server.cluster_file)
        opened = []
        for number in range(count):
            if number % every == 0:
                database[b"count"] = b"%d" % number
            transaction = database.create_transaction()
            opened.append((transaction, transaction.get_read_version()))
            if number % every == every - 1:
                opened[-1][1].wait()
        reads = [transaction[b"count"] for transaction, _ in opened]
        assert [int(bytes(value)) for value in reads] == [number - number % every for number in range(count)]
