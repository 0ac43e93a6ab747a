"""What CONFIG says about connections is obeyed: how many, how silent, and how many bytes may wait in each direction."""

import pytest

from harness.resp import Closed
from harness.target import OVER_A_CLUSTER


@pytest.fixture
def config(connect):
    """Sets parameters and puts them back, through connections that are new each time, since others may have been closed."""
    before = {}

    def ask(*arguments):
        connection = connect(protocol=2)
        reply = connection.do("CONFIG", *arguments)
        connection.close()
        return reply

    def set_to(name, value):
        before.setdefault(name, ask("GET", name)[1])
        assert ask("SET", name, value) == "OK"

    yield set_to
    for name, value in before.items():
        assert ask("SET", name, value) == "OK"


def test_maxclients(raw, connect, config):
    if OVER_A_CLUSTER:
        raw.do("PING")
    config("maxclients", 2)
    # The server notices by and by that those who asked have gone.
    while "connected_clients:1\r" not in raw.do("INFO", "clients"):
        pass
    other = connect()
    if OVER_A_CLUSTER:
        other.do("PING")
    refused = connect(protocol=2)
    assert refused.read_to_close() == b"-ERR max number of clients reached\r\n"
    other.close()
    while "connected_clients:1\r" not in raw.do("INFO", "clients"):
        pass


def test_a_silent_client_is_disconnected(connect, config):
    """The timeout holds for connections that are there already; a waiting or a monitoring one is not silent."""
    silent, waiting, monitor = connect(), connect(), connect()
    assert monitor.do("MONITOR") == "OK"
    waiting.send("BLPOP", "nosuch", 0)
    config("timeout", 1)
    assert silent.read_to_close() == b""
    assert connect().do("RPUSH", "nosuch", "x") == 1
    assert waiting.read() == ["nosuch", "x"]
    assert '"BLPOP"' in monitor.read()
    # A new connection's HELLO may come between.
    assert any('"RPUSH"' in monitor.read() for _ in range(2))


def test_output_beyond_the_hard_limit_closes(raw, connect, config):
    """Nothing is sent, and the commands before the close have been executed."""
    raw.do("SET", "big", "x" * 200_000)
    config("client-output-buffer-limit", "normal 100000 0 0")
    connection = connect()
    connection.send("MULTI")
    connection.send("SET", "a", 1)
    connection.send("GET", "big")
    connection.send("SET", "b", 2)
    connection.send("EXEC")
    assert b"x" not in connection.read_to_close()
    assert raw.do("MGET", "a", "b") == ["1", "2"]


def test_input_beyond_the_query_buffer_limit_closes(connect, config):
    config("client-query-buffer-limit", 1 << 20)
    connection = connect()
    with pytest.raises((Closed, ConnectionError)):
        connection.do("SET", "a", "x" * (2 << 20))
        connection.do("PING")


def test_an_idle_connection_gives_its_buffers_back(raw, connect):
    """It used to keep sixteen kilobytes for as long as it lived, and CLIENT LIST said that it had none."""
    idle = connect(protocol=2)
    idle.do("CLIENT", "SETNAME", "idle")

    def buffer_bytes():
        line = next(line for line in raw.do("CLIENT", "LIST").splitlines() if " name=idle " in line)
        return int(line.split(" tot-mem=")[1].split()[0])

    def has_buffers_once_it_speaks():
        """On a busy machine it may count as idle again before anybody looks."""
        while buffer_bytes() < 16 * 1024:
            assert idle.pipeline(["PING"], ["GET", "nosuch"]) == ["PONG", None]

    has_buffers_once_it_speaks()
    while buffer_bytes() > 0:
        pass
    has_buffers_once_it_speaks()


@pytest.mark.parametrize("how", ["limit", "kill"])
def test_a_client_that_does_not_read_can_be_disconnected(raw, connect, config, how):
    """It used to be left alone for as long as its replies could not be sent: a minute."""
    if how == "limit":
        config("client-output-buffer-limit", "normal 1000000 0 0")
    stuck = connect(protocol=2)
    assert stuck.do("MONITOR") == "OK"
    number = raw.do("CLIENT", "LIST").split(" flags=O ")[0].rsplit("id=", 1)[1].split()[0]
    # More than the sockets take, of which there are six on the way over a node that passes it on.
    sent, times = 0, 30
    if OVER_A_CLUSTER:
        times = 60 if how == "kill" else 120
    for _ in range(times):
        raw.do("SET", "big", "x" * 1_000_000 if how == "kill" else "x" * 500_000)
        sent += 1_000_000 if how == "kill" else 500_000
        if OVER_A_CLUSTER and how == "limit" and f"id={number} " not in raw.do("CLIENT", "LIST"):
            break
    if how == "kill":
        assert raw.do("CLIENT", "KILL", "ID", number) == 1
    while f"id={number} " in raw.do("CLIENT", "LIST"):
        pass
    # The end arrives behind what the kernel had taken already.
    assert len(stuck.read_to_close()) < (sent if OVER_A_CLUSTER else 30_000_000)
