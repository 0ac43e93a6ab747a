"""Mapped ranges: one call reads entries of an index and the records that they name, as ecto_foundationdb and the Record Layer ask for it.

The symbol was there and answered 2108. The layout of a row and the rules are those of FoundationDB 7.3: its wiki page "Everything about
GetMappedRange", its header (112 bytes a row), and its own tests for serializability and for reading own writes.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, c_char_p, c_int, c_uint8, c_void_p

import pytest
from harness.memory_bounds import BUDGET, GROUP, MIB, Watch, control_group, until

from .conftest import KeyValueServer

WANT_ALL, EXACT = -2, 0
KEPT = 56 * MIB


class Bytes(ctypes.Structure):
    _pack_ = 4
    _fields_ = [("start", POINTER(c_uint8)), ("length", c_int)]

    def read(self) -> bytes:
        return ctypes.string_at(self.start, self.length)


class Row(ctypes.Structure):
    _pack_ = 4
    _fields_ = [("key", Bytes), ("value", Bytes)]


class Selector(ctypes.Structure):
    _pack_ = 4
    _fields_ = [("key", Bytes), ("or_equal", c_int), ("offset", c_int)]


class Range(ctypes.Structure):
    _fields_ = [("begin", Selector), ("end", Selector), ("rows", POINTER(Row)), ("count", c_int), ("room", c_int)]


class Mapped(ctypes.Structure):
    _fields_ = [("row", Row), ("range", Range), ("rest", c_uint8 * 24), ("kind", ctypes.c_uint64)]


class Found(ctypes.Structure):
    _pack_ = 4
    _fields_ = [("key", Bytes), ("value", Bytes), ("is_there", c_uint8)]


assert ctypes.sizeof(Mapped) == 112


@pytest.fixture
def mapped(fdb):
    """Asks for a mapped range; answers rows and whether there are more."""
    library = fdb.impl._capi
    ask, take = library.fdb_transaction_get_mapped_range, library.fdb_future_get_mappedkeyvalue_array
    ask.restype, take.restype = c_void_p, c_int
    selector = [c_char_p, c_int, c_int, c_int]
    ask.argtypes = [c_void_p, *selector, *selector, c_char_p, *[c_int] * 7]
    take.argtypes = [c_void_p, POINTER(POINTER(Mapped)), POINTER(c_int), POINTER(c_int)]

    def asked(transaction, prefix, mapper, limit=0, target_bytes=0, snapshot=False, reverse=False):
        begin, end = prefix, fdb.impl.strinc(prefix)
        mode = EXACT if limit or target_bytes else WANT_ALL
        bounds = (begin, len(begin), 0, 1, end, len(end), 0, 1)
        future = ask(transaction.tpointer, *bounds, mapper, len(mapper), limit, target_bytes, mode, 0, int(snapshot), int(reverse))
        try:
            library.fdb_future_block_until_ready(future)
            array, count, more = POINTER(Mapped)(), c_int(), c_int()
            code = take(future, ctypes.byref(array), ctypes.byref(count), ctypes.byref(more))
            if code:
                raise fdb.FDBError(code)
            return [read(array[index]) for index in range(count.value)], bool(more.value)
        finally:
            library.fdb_future_destroy(future)

    return asked


def read(mapped: Mapped):
    key, value = mapped.row.key.read(), mapped.row.value.read()
    if mapped.kind == 0:
        found = Found.from_address(ctypes.addressof(mapped) + Mapped.range.offset)
        return key, value, (found.key.read(), found.value.read() if found.is_there else None)
    rows = [(mapped.range.rows[index].key.read(), mapped.range.rows[index].value.read()) for index in range(mapped.range.count)]
    return key, value, (mapped.range.begin.key.read(), mapped.range.end.key.read(), rows)


@pytest.fixture
def filled(fdb, database):
    """Ten entries, and records of three rows each; the last has none."""

    @fdb.transactional
    def fill(tr):
        del tr[b"" : b"\xff"]
        for number in range(10):
            tr[fdb.tuple.pack(("index", f"colour{number}", number))] = fdb.tuple.pack((f"name{number}",))
            for part in range(3 if number < 9 else 0):
                tr[fdb.tuple.pack(("record", number, part))] = b"%d.%d" % (number, part)
            tr[fdb.tuple.pack(("name", f"name{number}"))] = b"of %d" % number

    fill(database)
    return database


INDEX = ("index",)


def test_records_come_with_their_entries(fdb, filled, mapped):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    rows, more = mapped(transaction, pack(INDEX), pack(("record", "{K[2]}", "{...}")))
    assert len(rows) == 10 and not more
    for number, (key, value, (begin, end, records)) in enumerate(rows):
        assert (key, value) == (pack(("index", f"colour{number}", number)), pack((f"name{number}",)))
        prefix = pack(("record", number))
        assert (begin, end) == (prefix, fdb.impl.strinc(prefix))
        assert records == [(pack(("record", number, part)), b"%d.%d" % (number, part)) for part in range(3 if number < 9 else 0)]
    backwards, _ = mapped(transaction, pack(INDEX), pack(("record", "{K[2]}", "{...}")), reverse=True)
    assert backwards == rows[::-1]


def test_single_keys_are_named_by_values_too(fdb, filled, mapped):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    rows, _ = mapped(transaction, pack(INDEX), pack(("name", "{V[0]}")))
    assert [found for _, _, found in rows] == [(pack(("name", f"name{number}")), b"of %d" % number) for number in range(10)]
    rows, _ = mapped(transaction, pack(INDEX), pack((b"{{name}}", "{K[1]}")))
    assert rows[3][2] == (pack((b"{name}", "colour3")), None)


def test_limits_count_rows_and_bytes_of_both(fdb, filled, mapped):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    mapper = pack(("record", "{K[2]}", "{...}"))
    rows, more = mapped(transaction, pack(INDEX), mapper, limit=4)
    assert len(rows) == 4 and more and all(len(found[2]) == 3 for _, _, found in rows)
    few, more = mapped(transaction, pack(INDEX), mapper, target_bytes=200)
    assert 1 <= len(few) < 4 and more and few == rows[: len(few)]
    # Rows that were not returned are not depended on.
    other = filled.create_transaction()
    other[pack(("index", "colour9", 9))] = b""
    other.commit().wait()
    transaction[b"own"] = b""
    transaction.commit().wait()


@pytest.mark.parametrize("changed", [("record", 5, 1), ("record", 9, 7), ("index", "colour5", 5), ("index", "colour5x", 5)], ids=str)
def test_everything_that_was_read_is_depended_on(fdb, filled, mapped, changed):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    mapped(transaction, pack(INDEX), pack(("record", "{K[2]}", "{...}")))
    filled[pack(changed)] = b"changed"
    transaction[b"own"] = b""
    with pytest.raises(fdb.FDBError) as refused:
        transaction.commit().wait()
    assert refused.value.code == 1020


def test_a_missing_key_is_depended_on_and_nothing_beside(fdb, filled, mapped):
    pack = fdb.tuple.pack
    for changed, code in ((("absent", "colour5"), 1020), (("absent", "colour5", 1), None)):
        transaction = filled.create_transaction()
        mapped(transaction, pack(INDEX), pack(("absent", "{K[1]}")))
        filled[pack(changed)] = b""
        transaction[b"own"] = b""
        try:
            transaction.commit().wait()
            assert code is None
        except fdb.FDBError as refused:
            assert refused.code == code


@pytest.mark.parametrize(
    ("mapper", "code"),
    [
        (("{K[3]}",), 2030),
        (("{V[x]}",), 2030),
        (("{...}", "record"), 2032),
        (("{V[1]}",), 2030),
        (b"no tuple", 2043),
    ],
    ids=str,
)
def test_faults_of_a_mapper_have_their_codes(fdb, filled, mapped, mapper, code):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    with pytest.raises(fdb.FDBError) as refused:
        mapped(transaction, pack(INDEX), mapper if isinstance(mapper, bytes) else pack(mapper))
    assert refused.value.code == code


def test_rows_that_are_no_tuples_are_refused(fdb, filled, mapped):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    filled[b"plain\xee"] = b"\xee"
    for mapper, code in ((("{K[0]}",), 2041), (("{V[0]}",), 2042)):
        with pytest.raises(fdb.FDBError) as refused:
            mapped(transaction, b"plain", pack(mapper))
        assert refused.value.code == code


@pytest.mark.parametrize("own", [("record", 3, 1), ("record", 9, 0), ("index", "colour3", 3)], ids=str)
def test_own_writes_within_it_are_refused(fdb, filled, mapped, own):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    mapper = pack(("record", "{K[2]}", "{...}"))
    transaction[pack(("elsewhere",))] = b""
    assert len(mapped(transaction, pack(INDEX), mapper)[0]) == 10
    transaction[pack(own)] = b""
    with pytest.raises(fdb.FDBError) as refused:
        mapped(transaction, pack(INDEX), mapper)
    assert refused.value.code == 2039
    cleared = filled.create_transaction()
    del cleared[pack(("record",)) : fdb.impl.strinc(pack(("record",)))]
    with pytest.raises(fdb.FDBError) as refused:
        mapped(cleared, pack(INDEX), mapper)
    assert refused.value.code == 2039


def test_snapshots_and_reads_past_own_writes_are_refused(fdb, filled, mapped):
    pack, transaction = fdb.tuple.pack, filled.create_transaction()
    with pytest.raises(fdb.FDBError) as refused:
        mapped(transaction, pack(INDEX), pack(("record",)), snapshot=True)
    assert refused.value.code == 2108
    transaction = filled.create_transaction()
    transaction.options.set_read_your_writes_disable()
    with pytest.raises(fdb.FDBError) as refused:
        mapped(transaction, pack(INDEX), pack(("record",)))
    assert refused.value.code == 2108


def test_the_status_of_a_client_is_read_as_a_key_or_as_a_value(fdb, database):
    library = fdb.impl._capi
    status = library.fdb_database_get_client_status
    status.argtypes, status.restype = [c_void_p], c_void_p
    database[b"connected"]
    future = status(database.dpointer)
    start, length, present = POINTER(ctypes.c_byte)(), c_int(), c_int()
    library.fdb_future_block_until_ready(future)
    library.fdb_future_get_value(c_void_p(future), ctypes.byref(present), ctypes.byref(start), ctypes.byref(length))
    assert present.value == 1 and b'"Healthy":true' in ctypes.string_at(start, length.value)
    library.fdb_future_destroy(c_void_p(future))


@pytest.mark.quartet_only
@pytest.mark.slow
def test_many_at_once_fit_into_the_memory_of_the_server(fdb, mapped):
    """Each call reads as many ranges as there are entries; 24 clients ask for all of 27 MB at once, forwards and backwards."""
    server = KeyValueServer(options=("--memory-bytes", str(BUDGET))).start()
    with control_group(server):
        database, pack = fdb.open(server.cluster_file), fdb.tuple.pack
        for start in range(0, 300, 50):
            transaction = database.create_transaction()
            for number in range(start, start + 50):
                transaction[pack(("index", number))] = b""
                transaction[pack(("record", number, 0))] = b"v" * 90_000
            transaction.commit().wait()
        at_rest = server.anonymous_bytes()

        def ask(client: int) -> int:
            transaction, read_bytes = database.create_transaction(), 0
            for number in range(4):
                rows, _ = mapped(transaction, pack(INDEX), pack(("record", "{K[1]}", "{...}")), reverse=bool((client + number) % 2))
                read_bytes += sum(len(value) for _, _, (_, _, records) in rows for _, value in records)
            return read_bytes

        with Watch(server) as watch, ThreadPoolExecutor(24) as clients:
            assert all(read_bytes >= 4 * 90_000 for read_bytes in clients.map(ask, range(24)))
            assert server.alive() and watch.most < GROUP, watch.most >> 20
            assert watch.served > 10 and watch.thread.is_alive()
        until(lambda: server.anonymous_bytes() < at_rest + KEPT)
