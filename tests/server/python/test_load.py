"""Data larger than the budget of memory, written as fast as clients can: the short form of the row `load` of benchmarks/storage.py.

Seen: with 512 MiB, after 2.7 million keys every write was refused for good, because what had not been flushed yet was bounded by bytes of the log
beside the budget and not as a share of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import dynamodb
from harness.admin import Admin
from harness.resp import Closed, Connection, encode
from harness.server import ROOT, Server, binary

sys.path.insert(0, str(ROOT / "benchmarks"))

import load  # noqa: E402

pytestmark = pytest.mark.quartet_only

BUDGET = 64 << 20


@pytest.mark.parametrize(
    ("layer", "clients", "megabytes", "what"),
    [
        ("redis", 1, 64, "nothing"),
        ("redis", 20, 24, "nothing"),
        ("dynamodb", 8, 16, "nothing"),
        ("fauna", 8, 16, "nothing"),
        ("keyvalue", 8, 24, "nothing"),
        ("redis", 4, 24, "backup"),
        ("redis", 4, 24, "snapshot"),
    ],
)
def test_nothing_is_refused_for_what_is_not_flushed(tmp_path, layer, clients, megabytes, what):
    options = ["--memory-bytes", str(BUDGET), "--durability", "interval"]
    told = load.measured(SimpleNamespace(binary=binary()), str(tmp_path), layer, clients, megabytes, [], options, what)
    assert (told["refused"], told["ended"], told["wrong"], told["failed_beside"]) == (0, 0, 0, 0), told
    assert told["acknowledged"] == told["rows"]
    assert told["pace"] > 0, "it was never flushed"
    assert told["memory"] < BUDGET * 9 / 8 + (32 << 20), told


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A server of one I/O thread in which no flush ends while `lock` is held; writers that go on until they are refused or disconnected."""
    library = tmp_path / "held_flush.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, Path(__file__).with_name("held_flush.c")], check=True)
    lock = open(tmp_path / "lock", "w")
    monkeypatch.setenv("HELD_FLUSH", lock.name)
    options = ["--engine", "ssd", "--memory-bytes", str(BUDGET), "--io-threads", "1", "--stop-seconds", str(STOP_SECONDS)]
    server = Server(durability="interval", data=str(tmp_path / "data"), options=options, preload=str(library)).start()
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield SimpleNamespace(server=server, unlock=lambda: fcntl.flock(lock, fcntl.LOCK_UN))
    lock.close()
    server.close()


STOP_SECONDS = 5


class Writer:
    """Sets keys of its own, one batch after the other, on a thread."""

    def __init__(self, server: Server, name: str):
        self.client, self.name, self.acknowledged, self.refusal = Connection(server.port, timeout_seconds=120), name, 0, None
        self.moved = threading.Condition()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def key(self, number: int) -> str:
        return f"{self.name}:{number}"

    def run(self) -> None:
        with contextlib.suppress(OSError, Closed):
            while self.refusal is None:
                self.client.send_bytes(b"".join(encode("SET", self.key(self.acknowledged + number), load.value(number)) for number in range(200)))
                for _ in range(200):
                    reply = self.client.read()
                    if reply != "OK":
                        self.refusal = reply
                        break
                    with self.moved:
                        self.acknowledged += 1
                        self.moved.notify()

    def goes_on(self) -> bool:
        before = self.acknowledged
        with self.moved:
            return self.moved.wait_for(lambda: self.acknowledged > before + 1000, timeout=60)


def asks(server: Server, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=60) as reply:
        return reply.read().decode()


def figure(server: Server, name: str) -> float:
    return float(re.search(rf"^{name} (\S+)$", asks(server, "/metrics"), re.MULTILINE)[1])


def until_writers_wait(server: Server) -> None:
    """Until they wait for the end of the flush: before, they are slowed down, and the log takes some of it twice a second at least."""
    deadline, since, before = time.monotonic() + 120, time.monotonic(), None
    while time.monotonic() < since + 1:
        assert time.monotonic() < deadline, "no writer had to wait"
        taken = figure(server, "quartet_log_bytes_total")
        if taken != before or not figure(server, "quartet_writers_wait"):
            before, since = taken, time.monotonic()


def test_while_writers_wait_others_are_answered_at_once(held):
    writers = [Writer(held.server, f"writer{number}") for number in range(4)]
    until_writers_wait(held.server)
    # No flush ends before `unlock`, so whoever is answered has not waited for one.
    seconds = []
    with Connection(held.server.port) as client:
        for _ in range(50):
            began = time.monotonic()
            assert client.do("PING") == "PONG"
            assert client.do("GET", writers[0].key(0)) == load.value(0)
            assert asks(held.server, "/healthz")
            seconds.append(time.monotonic() - began)
        assert client.do("DEL", writers[0].key(0)) == 1
    assert figure(held.server, "quartet_writers_wait"), "they were to wait all the time"
    # Waiting writers are looked at ten times a second, and three requests that came with them would take longer each time.
    assert min(seconds) < 0.1
    held.unlock()
    assert all(writer.goes_on() for writer in writers)
    assert [writer.refusal for writer in writers] == [None] * 4


def test_while_writers_wait_the_server_stops_within_its_bound(held):
    """It looked after its waiting connections until the flush had ended, and its last commits waited for that as well."""
    writers = [Writer(held.server, f"writer{number}") for number in range(4)]
    until_writers_wait(held.server)
    held.server.process.terminate()
    # No flush ends before `unlock`: without a bound of its own it would not end at all.
    assert held.server.process.wait(STOP_SECONDS + 60) == 0
    for writer in writers:
        writer.thread.join(60)
        assert not writer.thread.is_alive() and writer.refusal is None
    held.unlock()
    held.server.start()
    with Connection(held.server.port, timeout_seconds=60) as client:
        for writer in writers:
            keys = [writer.key(number) for number in range(writer.acknowledged)]
            assert len(keys) > 100
            assert client.do("EXISTS", *keys) == len(keys)


def test_a_request_that_waits_is_charged_once(held):
    shop = Admin(held.server).create("shop", quotas={"commands_per_second": 5})
    credentials = shop["credentials"]
    items = dynamodb.connect(held.server, key=(credentials["access_key_id"], credentials["secret_access_key"]))
    items.create_table(
        TableName="table",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    before = Admin(held.server).usage("shop")
    Writer(held.server, "writer")
    until_writers_wait(held.server)
    with ThreadPoolExecutor() as threads:
        put = threads.submit(items.put_item, TableName="table", Item={"k": {"S": "a"}})
        with pytest.raises(TimeoutError):
            put.result(timeout=2)  # It is looked at ten times a second.
        assert Admin(held.server).usage("shop")["commands"] == before["commands"]
        held.unlock()
        put.result(timeout=60)
    after = Admin(held.server).usage("shop")
    assert (after["commands"] - before["commands"], after["refused"]) == (1, 0)
    assert after["write_units"] - before["write_units"] == 1
