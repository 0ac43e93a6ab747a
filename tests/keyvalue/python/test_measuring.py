"""How long requests take is measured, by operation and by database, and slow ones are told of without their keys and values."""

from __future__ import annotations

import re
import time

import pytest
from harness.admin import Admin

from .conftest import KeyValueServer


def counts(server, name, labels):
    found = re.findall(rf"^{name}_count{{{labels}}} (\d+)$", Admin(server).metrics(), re.MULTILINE)
    return int(found[0]) if found else 0


@pytest.mark.alone("metrics are those of the node that is asked")
def test_each_operation_is_counted_once(fdb, database, keyvalue_server):
    def count(operation):
        return counts(keyvalue_server, "quartet_request_duration_seconds", f'layer="keyvalue",operation="{operation}"')

    before = {operation: count(operation) for operation in ("get", "get_range", "commit", "read_version")}
    whole = counts(keyvalue_server, "quartet_database_request_seconds", 'database="default"')
    transaction = database.create_transaction()
    transaction[b"a"].wait()
    transaction[b"b"].wait()
    list(transaction.get_range(b"a", b"z"))
    transaction[b"a"] = b"value"
    transaction.commit().wait()
    made = {operation: count(operation) - before[operation] for operation in before}
    assert made == {"get": 2, "get_range": 1, "commit": 1, "read_version": 1}
    assert counts(keyvalue_server, "quartet_database_request_seconds", 'database="default"') - whole >= 5


def test_a_slow_commit_is_logged_without_its_keys(fdb):
    server = KeyValueServer(options=["--slow-request-milliseconds", "1"]).start()
    try:
        database = fdb.open(server.cluster_file)
        transaction = database.create_transaction()
        for number in range(20_000):
            transaction[b"hidden %d" % number] = b"hidden"
        transaction.commit().wait()
        deadline = time.monotonic() + 60
        while not (told := [line for line in server.output if "slow request" in line and "keyvalue" in line and "commit" in line]):
            assert time.monotonic() < deadline, server.output[-20:]
            time.sleep(0.05)
        assert "20000 mutations" in told[0] and not any("hidden" in line for line in told)
    finally:
        server.close()
