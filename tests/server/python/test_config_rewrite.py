"""CONFIG REWRITE: what was changed at run time stands in the configuration file afterwards, and the next start begins with it."""

from __future__ import annotations

import os
import threading

import pytest
import redis
from harness.server import Server

pytestmark = pytest.mark.quartet_only

BEFORE = """# the operator's own words
connections-max = 500  # few

[redis]
# why so little
maxmemory = "50mb"
"""


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(text: str | None) -> Server:
        options = ()
        if text is not None:
            (tmp_path / "quartet.toml").write_text(text)
            options = ("--config", str(tmp_path / "quartet.toml"))
        servers.append(Server(options=options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def connect(server: Server) -> redis.Redis:
    return redis.Redis(port=server.port, decode_responses=True)


def test_changed_parameters_stay(serve, tmp_path):
    server, file = serve(BEFORE), tmp_path / "quartet.toml"
    client = connect(server)
    assert client.config_get("maxmemory") == {"maxmemory": str(50 << 20)}
    assert client.config_rewrite() and file.read_text() == BEFORE
    client.config_set("maxmemory", "64mb")
    client.config_set("notify-keyspace-events", "KEA")
    client.config_set("requirepass", "secret")
    client.config_set("requirepass", "")
    assert client.config_rewrite()
    expected = BEFORE.replace('"50mb"', str(64 << 20)) + 'notify-keyspace-events = "AKE"\n'
    assert file.read_text() == expected
    assert os.listdir(tmp_path) == ["quartet.toml"]

    server.restart()
    client = connect(server)
    assert client.config_get("maxmemory") == {"maxmemory": str(64 << 20)}
    listener = client.pubsub()
    listener.psubscribe("__keyevent@0__:set")
    assert listener.get_message(timeout=60)["type"] == "psubscribe"
    client.set("key", "value")
    assert listener.get_message(timeout=60)["data"] == "key", "events are told from the start"
    assert client.config_rewrite() and file.read_text() == expected


def test_the_file_is_whole_whenever_the_server_is_killed(serve, tmp_path):
    server = serve(BEFORE)
    client = connect(server)
    killer = threading.Timer(0.3, server.kill)
    killer.start()
    number = 0
    try:
        while True:
            number += 1
            client.config_set("maxmemory", 100_000_000 + number)
            client.config_rewrite()
    except redis.ConnectionError:
        pass
    killer.join()
    server.start()
    kept = int(connect(server).config_get("maxmemory")["maxmemory"])
    assert number - 1 <= kept - 100_000_000 <= number or kept == 50 << 20 and number == 1


def test_without_a_file_there_is_nothing_to_rewrite(serve):
    client = connect(serve(None))
    with pytest.raises(redis.ResponseError, match="The server is running without a config file"):
        client.config_rewrite()


def test_a_file_that_cannot_be_written_is_reported(serve, tmp_path):
    client = connect(serve(BEFORE))
    client.config_set("maxmemory", "1gb")
    (tmp_path / "quartet.toml").unlink()
    with pytest.raises(redis.ResponseError, match="Rewriting config file: No such file"):
        client.config_rewrite()


@pytest.mark.parametrize("line", ["nonsense = 1", "maxmemory = 'much'", "port = 1", "requirepass = 'x'", "MAXMEMORY = 1"])
def test_a_wrong_parameter_ends_the_start(serve, line):
    with pytest.raises(RuntimeError, match=f"quartet.toml: redis.{line.split()[0]}"):
        serve(f"[redis]\n{line}\n")


def test_the_credential_for_a_source_is_kept_from_others(serve, tmp_path):
    """After a start nothing was known of it, so REPLICAOF was refused by a source that wants a password."""
    server, file = serve(BEFORE), tmp_path / "quartet.toml"
    file.chmod(0o644)
    client = connect(server)
    client.config_set("masteruser", "copies")
    client.config_set("masterauth", "0123 \"hidden\"")
    client.config_set("requirepass", "secret")
    client.config_set("requirepass", "")
    assert client.config_rewrite()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "requirepass" not in file.read_text()
    server.restart()
    client = connect(server)
    assert client.config_get("master*") == {"masteruser": "copies", "masterauth": '0123 "hidden"'}
    assert not any("hidden" in line for line in server.output)
