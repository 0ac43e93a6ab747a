"""What only a program with a protocol of its own sends: the server itself refuses what clients' libraries refuse."""

from __future__ import annotations

import contextlib
import json

import pytest

from . import wire

OUTSIDE, INVERTED, INVALID = 2004, 2005, 2000


@pytest.fixture
def raw(fdb, database, keyvalue_server):
    with contextlib.closing(wire.Wire(keyvalue_server.keyvalue_address)) as raw:
        yield raw


def test_system_keys_are_for_those_who_ask_for_them(raw, database):
    """Whatever wrote to the socket itself could read and write keys from 0xff on, which no library lets a program do that has not asked for it."""
    database[b"a"] = b"1"
    stamp = bytes(14)
    for system, expected in ((False, OUTSIDE), (True, 0)):
        for kind in (wire.SET, wire.CLEAR):
            assert raw.ask(wire.COMMIT, wire.commit([(wire.SET, b"b", b"1"), (kind, b"\xff/own", b"")], system))[0] == expected
        assert raw.ask(wire.COMMIT, wire.commit([(wire.CLEAR_RANGE, b"x", b"\xff/own")], system))[0] == expected
        version = raw.version()
        assert raw.ask(wire.GET, wire.get(version, b"\xff", system))[0] == expected
        assert raw.ask(wire.GET_KEY, wire.get_key(version, b"\xff\0", system))[0] == expected
        assert raw.ask(wire.GET_RANGE, wire.get_range(version, b"a", b"\xff\0", system))[0] == expected
        assert raw.ask(wire.GET_RANGE, wire.get_range(version, b"\xff\0", b"\xff", system))[0] == expected
        assert raw.ask(wire.WATCH, wire.watch(b"\xff/own", b"other", system))[0] == expected
        assert raw.ask(wire.SPLIT_POINTS, wire.split_points(b"a", b"\xff\0", 1, system))[0] == expected
        # Nothing of a refused transaction happens.
        assert raw.ask(wire.GET, wire.get(version, b"b"))[1][:1] == bytes([system])
        for beyond in (b"\xff\xff", b"\xff\xff/status/json"):
            assert raw.ask(wire.COMMIT, wire.commit([(wire.SET, beyond, b"")], system))[0] == OUTSIDE
            assert raw.ask(wire.GET, wire.get(version, beyond, system))[0] == OUTSIDE
    version = raw.version()
    assert raw.ask(wire.GET_RANGE, wire.get_range(version, b"b", b"\xff"))[0] == 0
    assert raw.ask(wire.COMMIT, wire.commit([(wire.CLEAR_RANGE, b"b", b"a")]))[0] == INVERTED
    # The metadata's version is everybody's.
    assert raw.ask(wire.GET, wire.get(version, b"\xff/metadataVersion"))[0] == 0
    assert raw.ask(wire.COMMIT, wire.commit([(15, b"\xff/metadataVersion", stamp)]))[0] == 0
    assert raw.ask(wire.COMMIT, wire.commit([(2, b"\xff/metadataVersion", stamp)]))[0] == INVALID
    assert raw.ask(wire.COMMIT, wire.commit([(wire.SET, b"\xff/metadataVersion", stamp)]))[0] == OUTSIDE


def test_keys_that_tools_and_layers_read(fdb, database, keyvalue_server):
    """Tools that keep databases in order look at a cluster's configuration before they touch anything; it was not there."""
    database[b"a"] = b"x" * 1000
    address = keyvalue_server.keyvalue_address.encode()
    transaction = database.create_transaction()

    def rows(prefix: bytes) -> dict[bytes, bytes]:
        return {bytes(row.key)[len(prefix) :]: bytes(row.value) for row in transaction.get_range(prefix, prefix[:-1] + b"0")}

    assert rows(b"\xff\xff/configuration/") == {
        b"coordinators/cluster_description": b"quartet",
        b"coordinators/processes": address,
        b"process/class_source/" + address: b"command_line",
        b"process/class_type/" + address: b"unset",
    }
    assert transaction[b"\xff\xff/configuration/coordinators/processes"] == address
    shards = rows(b"\xff\xff/metrics/data_distribution_stats/")
    assert list(shards) == [b""]
    assert json.loads(shards[b""])["shard_bytes"] >= 1001
    assert json.loads(bytes(transaction[b"\xff\xff/metrics/health/aggregate"].wait()))["worst_storage_queue"] == 0
    for module in (b"management/", b"management/excluded/", b"worker_interfaces/", b"tracing/", b"global_config/"):
        assert rows(b"\xff\xff/" + module) == {}
    assert transaction[b"\xff\xff/management/db_locked"] == None  # noqa: E711
    with pytest.raises(fdb.FDBError) as caught:
        transaction[b"\xff\xff/nowhere"].wait()
    assert caught.value.code == 2113
    transaction.options.set_read_system_keys()
    assert rows(b"\xff/conf/") == {b"initialized": b"1", b"log_replicas": b"1", b"storage_replicas": b"1", b"usable_regions": b"1"}
    assert transaction[b"\xff/conf/initialized"] == b"1"
    assert bytes(transaction[b"\xff/coordinators"].wait()).startswith(b"quartet:")
    assert [bytes(row.key) for row in transaction.get_range(b"\xff/conf/", b"\xff/conf0", limit=1, reverse=True)] == [b"\xff/conf/usable_regions"]
    plain = database.create_transaction()
    with pytest.raises(fdb.FDBError) as caught:
        plain[b"\xff/conf/initialized"].wait()
    assert caught.value.code == OUTSIDE
