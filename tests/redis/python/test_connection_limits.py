"""What CONFIG says about connections is obeyed: how many, how silent, and how many bytes may wait in each direction."""

import pytest

from harness.resp import Closed


@pytest.fixture
def config(raw):
    """Sets parameters and puts them back."""
    before = {}

    def current(name):
        reply = raw.do("CONFIG", "GET", name)
        return reply[name] if isinstance(reply, dict) else reply[1]

    def set_to(name, value):
        before.setdefault(name, current(name))
        assert raw.do("CONFIG", "SET", name, value) == "OK"

    yield set_to
    for name, value in before.items():
        assert raw.do("CONFIG", "SET", name, value) == "OK"


def test_maxclients(raw, connect, config):
    other = connect()
    connected = int(raw.do("INFO", "clients").split("connected_clients:")[1].split()[0])
    config("maxclients", connected)
    refused = connect(protocol=2)
    assert refused.read_to_close() == b"-ERR max number of clients reached\r\n"
    other.close()
    while f"connected_clients:{connected - 1}" not in raw.do("INFO", "clients"):
        pass
    assert connect().do("PING") == "PONG"


def test_a_silent_client_is_disconnected(raw, connect, config):
    """The timeout holds for connections that are there already; a waiting or a monitoring one is not silent."""
    silent, waiting, monitor = connect(), connect(), connect()
    silent_id = silent.do("CLIENT", "ID")
    assert monitor.do("MONITOR") == "OK"
    waiting.send("BLPOP", "nosuch", 0)
    config("timeout", 1)
    # The connection that asks is not silent.
    while any(f" id={silent_id} " in f" {line} " for line in raw.do("CLIENT", "LIST").splitlines()):
        pass
    assert silent.read_to_close() == b""
    raw.do("RPUSH", "nosuch", "x")
    assert waiting.read() == ["nosuch", "x"]
    assert "BLPOP" in monitor.read()


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
