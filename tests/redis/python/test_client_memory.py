"""What connections may make the server keep: listeners that do not read, buffers, queues of transactions, all of them together."""

import pytest
from harness.resp import Closed, Connection
from harness.server import Server


@pytest.fixture
def server():
    server = Server().start()
    yield server
    server.close()


@pytest.fixture
def operator(server):
    with Connection(server.port) as connection:
        yield connection


def listener(server, name, channel="news"):
    connection = Connection(server.port)
    connection.do("CLIENT", "SETNAME", name)
    connection.do("SUBSCRIBE", channel)
    return connection


def names(operator):
    lines = operator.do("CLIENT", "LIST").splitlines()
    return [line.split(" name=")[1].split()[0] for line in lines if " name= " not in line]


def wait_for_names(operator, expected):
    while names(operator) != expected:
        pass


def test_a_message_to_many_who_do_not_read_is_kept_once(server, operator):
    """500 listeners and 400 messages of 100 KB were 21 GB: each had a copy of its own."""
    operator.do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0")
    listeners = [listener(server, f"l{number}") for number in range(60)]
    before = server.rss_bytes()
    for number in range(150):
        assert operator.do("PUBLISH", "news", f"{number:03}" + "x" * 100_000) == 60
    kept = server.rss_bytes() - before
    # A copy each would be 900 MB. The messages are 15 MB, and each connection is about to send one or two of them.
    assert kept < 300 << 20, kept
    for connection in (listeners[0], listeners[-1]):
        received = [connection.read()[2][:3] for _ in range(150)]
        assert received == [f"{number:03}" for number in range(150)]
    for connection in listeners:
        connection.close()


def test_the_classes_of_output_buffers_are_shown(operator):
    default = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"
    assert operator.do("CONFIG", "GET", "client-output-buffer-limit")[1] == default
    assert operator.do("CONFIG", "SET", "client-output-buffer-limit", "replica 1mb 2mb 3 pubsub 16mb 4mb 30") == "OK"
    shown = "normal 0 0 0 slave 1048576 2097152 3 pubsub 16777216 4194304 30"
    assert operator.do("CONFIG", "GET", "client-output-buffer-limit")[1] == shown


def test_the_hard_limit_of_listeners(server, operator):
    operator.do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 8mb 0 0")
    stuck, reader = listener(server, "stuck"), listener(server, "reader")
    for _ in range(200):
        operator.do("PUBLISH", "news", "x" * 200_000)
        assert len(reader.read()[2]) == 200_000
    wait_for_names(operator, ["reader"])
    reader.close()
    # What the kernel had taken is all that comes.
    with pytest.raises((Closed, ConnectionError)):
        while True:
            stuck.read()


def test_the_soft_limit_of_listeners_holds_although_nothing_more_is_published(server, operator):
    operator.do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 4mb 1")
    stuck = listener(server, "stuck")
    for _ in range(100):
        operator.do("PUBLISH", "news", "x" * 200_000)
    wait_for_names(operator, [])
    stuck.close()


def test_the_largest_clients_are_closed_first(server, operator):
    """Redis' client eviction, of whatever class: a transaction's queue, a query, listeners. Who is exempt stays."""
    operator.do("CLIENT", "NO-EVICT", "on")
    queue = Connection(server.port)
    queue.do("CLIENT", "SETNAME", "queue")
    queue.do("MULTI")
    for _ in range(30):
        assert queue.do("SET", "k", "x" * 1_000_000) == "QUEUED"
    query = Connection(server.port)
    query.do("CLIENT", "SETNAME", "query")
    query.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n" + b"x" * 2_000_000)
    exempt = Connection(server.port)
    exempt.do("CLIENT", "SETNAME", "exempt")
    exempt.do("CLIENT", "NO-EVICT", "on")
    exempt.send_bytes(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n" + b"x" * 5_000_000)
    small = Connection(server.port)
    small.do("CLIENT", "SETNAME", "small")
    # Requests that are queued stay, however long a busy machine takes; buffers of an idle client do not.
    small.do("MULTI")
    assert small.do("SET", "k", "x" * 100_000) == "QUEUED"
    operator.do("CONFIG", "SET", "maxmemory-clients", "25mb")
    assert operator.do("CONFIG", "GET", "maxmemory-clients")[1] == str(25 << 20)
    wait_for_names(operator, ["query", "exempt", "small"])
    operator.do("CONFIG", "SET", "maxmemory-clients", "1mb")
    wait_for_names(operator, ["exempt"])
    assert "evicted_clients:3\r" in operator.do("INFO", "stats")
    with pytest.raises((Closed, ConnectionError)):
        queue.do("EXEC")
    for connection in (query, exempt, small):
        connection.close()
