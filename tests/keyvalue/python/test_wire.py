"""What only a program with a protocol of its own sends: the server itself refuses what clients' libraries refuse."""

from __future__ import annotations

import contextlib
import json

import pytest

from . import wire
from .conftest import KeyValueServer

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
    assert raw.ask(wire.COMMIT, wire.commit([(wire.SET, b"\xff/metadataVersion", stamp)]))[0] == INVALID


def test_a_selector_counts_no_key_out_of_reach(raw, database):
    """The last key at or before 0xff was 0xff itself, if somebody had written that system key: what lies out of reach was counted."""
    database[b"last"] = b"1"
    assert raw.ask(wire.COMMIT, wire.commit([(wire.SET, b"\xff", b"1")], system=True))[0] == 0
    version = raw.version()
    for system, expected in ((False, b"last"), (True, b"\xff")):
        assert raw.ask(wire.GET_KEY, wire.get_key(version, b"\xff", system, or_equal=True, offset=0)) == (0, expected)
    assert raw.ask(wire.COMMIT, wire.commit([(wire.CLEAR, b"\xff", b"")], system=True))[0] == 0


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


def test_the_status_has_what_exporters_read(fdb, database, keyvalue_server):
    """`workload`, `latency_probe` and `processes`, by the names of the original's status; counts are of what was done, and nothing is invented."""

    def cluster() -> dict:
        return json.loads(bytes(database[b"\xff\xff/status/json"]))["cluster"]

    before = cluster()["workload"]
    for number in range(20):
        database[b"key%d" % number] = b"x" * 100
        assert database[b"key%d" % number] == b"x" * 100
    mine, theirs = database.create_transaction(), database.create_transaction()
    mine[b"key1"].wait()
    mine[b"other"] = theirs[b"key1"] = b"changed"
    theirs.commit().wait()
    with pytest.raises(fdb.FDBError):
        mine.commit().wait()
    described = cluster()
    after = described["workload"]

    def rose(group: str, name: str) -> int:
        return after[group][name]["counter"] - before[group][name]["counter"]

    assert (rose("transactions", "committed"), rose("transactions", "conflicted")) == (21, 1)
    # A transaction that only writes asks for no read version, and counts as committed only.
    assert rose("transactions", "started") >= 21 and rose("operations", "writes") == 21
    assert rose("operations", "reads") >= 21 and rose("bytes", "read") >= 2100 and rose("bytes", "written") >= 2100
    assert after["operations"]["reads"]["hz"] >= 0
    probe = described["latency_probe"]
    assert set(probe) >= {"transaction_start_seconds", "immediate_priority_transaction_start_seconds", "read_seconds", "commit_seconds"}
    assert all(0 <= seconds < 60 for seconds in probe.values())
    (process,) = described["processes"].values()
    assert process["address"] == keyvalue_server.keyvalue_address and process["network"]["current_connections"] >= 1
    assert {role["role"] for role in process["roles"]} >= {"coordinator", "storage", "log"}
    assert described["connection_string"].endswith(f"@{keyvalue_server.keyvalue_address}") and described["full_replication"] is True


def test_a_cut_frame_does_nothing(fdb, raw, database, keyvalue_server):
    """Any part of a commit, and then the end of the connection, or nothing more while others go on."""
    whole = wire.frame(1, wire.COMMIT, wire.commit([(wire.SET, b"cut", b"value")]))
    waiting = []
    for length in range(len(whole)):
        cut = wire.Wire(keyvalue_server.keyvalue_address)
        cut.socket.sendall(whole[:length])
        if length % 2:
            waiting.append(cut)
        else:
            cut.close()
    assert raw.ask(wire.GET, wire.get(raw.version(), b"cut")) == (0, b"\0")
    for cut in waiting:
        cut.close()


def test_absurd_lengths_end_the_connection(keyvalue_server):
    """Of a transaction of ten million bytes at most, no frame of hundreds of megabytes is waited for. Lengths within a frame say nothing about memory either."""
    address = keyvalue_server.keyvalue_address
    for announced in (b"\xff\xff\xff\xff", (256 << 20).to_bytes(4, "little"), (12_000_000).to_bytes(4, "little")):
        with contextlib.closing(wire.Wire(address)) as raw:
            raw.socket.sendall(announced)
            assert raw.is_ended()
    inside = b"\xff\xff\xff\x7f"
    for code, body in [
        (wire.COMMIT, bytes(10) + inside),
        (wire.COMMIT, wire.commit([]) + b"\0" + inside),
        (wire.WATCH, b"\0" + inside),
        (wire.GET_KEY, bytes(9) + bytes(5) + inside),
        (wire.SPLIT_POINTS, bytes(13) + inside),
    ]:
        with contextlib.closing(wire.Wire(address)) as raw:
            raw.send(code, body)
            assert raw.is_ended()
    with contextlib.closing(wire.Wire(address)) as raw:
        # A little too much is refused in words.
        too_much = [(wire.SET, b"%06d" % number, b"x" * 100_000) for number in range(101)]
        assert raw.ask(wire.COMMIT, wire.commit(too_much))[0] == 2101
        assert raw.ask(wire.WATCH, wire.watch(b"k" * 10_001, None))[0] == 2102
        assert raw.ask(wire.WATCH, wire.watch(b"k", b"v" * 100_001))[0] == 2103


def test_a_client_that_asks_for_gigabytes_and_never_reads_costs_little(fdb):
    """Thirty peers ask for six gigabytes and take none of it. Another client is served all the while."""
    with contextlib.closing(KeyValueServer(durability="none").start()) as server:
        address = server.keyvalue_address
        honest = wire.Wire(address)
        for piece in range(2):
            rows = [(wire.SET, b"%d/%04d" % (piece, number), b"x" * 10_000) for number in range(900)]
            assert honest.ask(wire.COMMIT, wire.commit(rows))[0] == 0
        before = server.anonymous_bytes()
        slow = [wire.Wire(address, receive_bytes=4096) for _ in range(30)]
        for peer in slow:
            asked = wire.get_range(peer.version(), b"", b"\xff")
            peer.socket.sendall(b"".join(wire.frame(number, wire.GET_RANGE, asked) for number in range(200)))
        most = 0
        for _ in range(300):
            assert honest.ask(wire.GET, wire.get(honest.version(), b"1/0001"))[1][:2] == b"\1x"
            most = max(most, server.anonymous_bytes())
        assert most - before < 30 * (4 << 20), (most - before) >> 20
        for peer in slow:
            peer.close()


def test_ten_thousand_open_transactions_on_many_connections(fdb):
    """Five hundred connections with twenty each, at a hundred states of the data: each reads its own, and together they take little."""
    with contextlib.closing(KeyValueServer(durability="none", options=["--keyvalue-read-seconds", "300"]).start()) as server:
        writer = wire.Wire(server.keyvalue_address)
        peers = [wire.Wire(server.keyvalue_address) for _ in range(500)]
        before = server.anonymous_bytes()
        opened = []
        for number in range(10_000):
            if number % 100 == 0:
                assert writer.ask(wire.COMMIT, wire.commit([(wire.SET, b"count", b"%d" % number)]))[0] == 0
            peer = peers[number % 500]
            opened.append((peer, peer.version(), number - number % 100))
        for peer, version, count in opened:
            assert peer.ask(wire.GET, wire.get(version, b"count")) == (0, b"\1%d" % count)
        assert server.anonymous_bytes() - before < 64 << 20
        for peer in (writer, *peers):
            peer.close()


def test_split_points_are_bounded_in_bytes(fdb, raw, database):
    """A hundred thousand points of ten kilobytes would be a gigabyte in one reply."""
    rows = [(wire.SET, b"%04d" % number + b"k" * 9_000, b"") for number in range(1_000)]
    assert raw.ask(wire.COMMIT, wire.commit(rows))[0] == 0
    error, body = raw.ask(wire.SPLIT_POINTS, wire.split_points(b"", b"\xff", 1))
    assert error == 0
    assert 1 << 20 < len(body) <= (4 << 20) + 20_000
