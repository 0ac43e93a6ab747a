"""An INCR that its client sent again by itself was counted twice: redis-py repeats a request after an end of the connection.

No error that says that nothing was executed may invite that, so each is one that redis-py hands on at once, with the retries that it has
by default. `docs/cluster.md` names them.
"""

from __future__ import annotations

import pytest
import redis
from harness.server import Server, free_port

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def server():
    with Server("none") as started:
        yield started


class Counting(redis.Connection):
    """Notes what the client sends."""

    sent: list[bytes] = []

    def send_packed_command(self, command, check_health=True):
        self.sent.append(b"".join([command] if isinstance(command, bytes) else command))
        super().send_packed_command(command, check_health)


def connect(server) -> redis.Redis:
    client = redis.Redis(port=server.port)
    client.connection_pool.connection_class = Counting
    return client


def times_sent(word: bytes) -> int:
    return sum(word in packed for packed in Counting.sent)


@pytest.mark.parametrize(
    ("before", "error", "after"),
    [
        # As a node of a cluster answers that knows no home.
        (
            ["REPLICAOF 127.0.0.1 {unused}", "CONFIG SET replica-serve-stale-data no"],
            redis.exceptions.MasterDownError,
            ["CONFIG SET replica-serve-stale-data yes", "REPLICAOF NO ONE"],
        ),
        (["REPLICAOF 127.0.0.1 {unused}"], redis.exceptions.ReadOnlyError, ["REPLICAOF NO ONE"]),
        (["CONFIG SET maxmemory 1"], redis.exceptions.OutOfMemoryError, ["CONFIG SET maxmemory 0"]),
    ],
    ids=["MASTERDOWN", "READONLY", "OOM"],
)
def test_a_refused_write_is_sent_once(server, before, error, after):
    admin, client = redis.Redis(port=server.port), connect(server)
    client.incr("count")
    unused = free_port()
    try:
        for line in before:
            assert admin.execute_command(*line.format(unused=unused).split())
        Counting.sent.clear()
        with pytest.raises(error):
            client.incr("count")
    finally:
        for line in after:
            admin.execute_command(*line.split())
    assert times_sent(b"INCR") == 1
    assert client.incr("count") == int(admin.get("count"))


def test_a_transaction_that_is_refused_is_sent_once(server):
    client = connect(server)
    counted = client.incr("transactions")
    transaction = client.pipeline(transaction=True)
    transaction.incr("transactions").execute_command("INCR")
    Counting.sent.clear()
    with pytest.raises(redis.exceptions.ResponseError):
        transaction.execute()
    assert times_sent(b"EXEC") == 1
    assert int(client.get("transactions")) == counted
