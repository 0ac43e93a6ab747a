"""A file that Redis Stack has written (`tests/redis-oracle/record_files.py`) is imported with what its modules keep, and comes back from an export."""

from __future__ import annotations

import pytest

from harness.installed import run
from harness.redis_copy import run_import, until, url
from harness.resp import Connection
from harness.server import ROOT, Server, binary

FILE = ROOT / "tests/redis/testdata/redis-stack.rdb"
REJECTED = 2


@pytest.fixture
def server():
    with Server() as server:
        yield server


def check(port: int) -> None:
    with Connection(port) as connection:
        assert connection.do("JSON.GET", "bike:1") == '{"model":"Hopper","kind":["road","gravel"],"price":900}'
        assert connection.do("PEXPIRETIME", "bike:2") == 4_000_000_000_000
        assert connection.do("TYPE", "bike:1") == "ReJSON-RL" and connection.do("TYPE", "models") == "trietype0"
        assert connection.do("FT.SUGGET", "models", "ho", "WITHPAYLOADS") == ["Hopper", None, "hop", "more"]
        assert connection.do("TYPE", "filter") == "MBbloom--" and connection.do("TYPE", "sketch") == "CMSk-TYPE"
        assert sorted(connection.do("FT._LIST")) == ["bikes", "texts"]
        assert sorted(connection.do("FT.DICTDUMP", "brands")) == ["hopper", "quaker"]
        until(lambda: connection.do("FT.SEARCH", "shop", "@kind:{road} @price:[0 1000]", "NOCONTENT") == [1, "bike:1"])
        until(lambda: connection.do("FT.SEARCH", "texts", "badger", "NOCONTENT") == [1, "text:1"])
        assert connection.do("FT.SEARCH", "texts", "a", "NOCONTENT") == [0]


@pytest.mark.quartet_only
def test_a_file_of_redis_stack_is_imported_and_exported(server, tmp_path):
    output = run_import(FILE, server, code=REJECTED)
    for told in ('FT.CREATE "basque"', "rejected 1"):
        assert told in output, output
    check(server.port)
    run([binary(), "export", "redis", "--from", url(server), "--to", tmp_path / "written.rdb"])
    with Server() as other:
        assert "rejected 0" in run_import(tmp_path / "written.rdb", other)
        check(other.port)


@pytest.mark.quartet_only
def test_a_replica_has_what_was_there_before_and_what_comes_after(server):
    run_import(FILE, server, code=REJECTED)
    with Server() as replica, Connection(replica.port) as there, Connection(server.port) as here:
        assert there.do("REPLICAOF", "127.0.0.1", server.port) == "OK"
        until(lambda: there.do("DBSIZE") == here.do("DBSIZE"))
        check(replica.port)
        here.do("JSON.ARRAPPEND", "bike:2", "$.kind", '"city"')
        here.do("FT.CREATE", "late", "ON", "JSON", "SCHEMA", "$.kind[*]", "AS", "kind", "TAG")
        until(lambda: there.do("FT.SEARCH", "late", "@kind:{city}", "NOCONTENT") == [1, "bike:2"])
