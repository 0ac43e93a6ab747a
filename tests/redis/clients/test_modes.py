"""Clients over TLS, and those that speak to nothing but a cluster or a sentinel, against one server.

The programs are beside those of their languages' other tests; `./test redis-clients` installs what they need. Java's jars are in the
folder that QUARTET_TEST_JARS names.
"""

import os
import subprocess
from pathlib import Path

import pytest
import redis
from harness import certificates
from harness.resp import Connection
from harness.server import Server, free_port
from redis.cluster import RedisCluster
from redis.sentinel import Sentinel

pytestmark = pytest.mark.quartet_only
HERE = Path(__file__).resolve().parent
JARS = Path(os.environ.get("QUARTET_TEST_JARS", HERE.parents[2] / "target" / "test" / "jars"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def host(made):
    sentinel_port = free_port()
    options = ["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]
    options += ["--redis-cluster-mode", "emulated", "--listen-sentinel", f"127.0.0.1:{sentinel_port}"]
    server = Server(options=options)
    server.sentinel_port = sentinel_port
    server.start()
    yield server
    server.close()


def run(command, folder, host, made):
    environment = os.environ | {
        "QUARTET_REDIS_PORT": str(host.port),
        "QUARTET_SENTINEL_PORT": str(host.sentinel_port),
        "QUARTET_ROOTS": str(made.root),
    }
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0 and ended.stdout.endswith("done\n"), ended.stdout[-3000:] + ended.stderr[-3000:]


def test_ioredis(host, made):
    run(["node", "modes.js"], HERE.parent / "node", host, made)


def test_go_redis(host, made):
    run(["go", "run", "./modes"], HERE.parent / "go", host, made)


def test_jedis_and_lettuce(host, made):
    lines = (HERE / "java" / "jars.sha256").read_text().splitlines()
    class_path = ":".join(str(JARS / line.split("  ", 1)[1]) for line in lines)
    run(["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path, "Modes.java"], HERE / "java", host, made)


@pytest.mark.parametrize("secure", [False, True])
def test_redis_py_as_client_of_a_cluster(host, made, secure):
    options = {"ssl": True, "ssl_ca_certs": str(made.root)} if secure else {}
    client = RedisCluster(host="127.0.0.1", port=host.port, **options)
    assert client.mset_nonatomic({"a": 1, "b": 2}) and client.mget("{x}a", "{x}b") == [None, None]
    pipeline = client.pipeline()
    pipeline.set("c", 3).get("c")
    assert pipeline.execute() == [True, b"3"]
    assert len(client.get_primaries()) == 1
    client.close()


def test_redis_py_as_client_of_a_sentinel(host):
    sentinel = Sentinel([("127.0.0.1", host.sentinel_port)], socket_timeout=60)
    assert sentinel.discover_master("mymaster") == ("127.0.0.1", host.port)
    assert sentinel.discover_slaves("mymaster") == []
    assert sentinel.master_for("mymaster").set("from", "redis-py")
    with pytest.raises(redis.sentinel.MasterNotFoundError):
        sentinel.discover_master("another")


def test_answers_of_a_cluster_of_one(host):
    with Connection(host.port) as client:
        [[first, last, node]] = client.do("CLUSTER", "SLOTS")
        assert (first, last, node[:2]) == (0, 16383, ["127.0.0.1", host.port])
        assert client.do("CLUSTER", "MYID") == node[2]
        assert client.do("CLUSTER", "NODES").startswith(f"{node[2]} 127.0.0.1:{host.port}@0 myself,master ")
        assert client.do("MSET", "one", 1, "{tag}two", 2, "{tag}three", 3) == "OK"
        slot = client.do("CLUSTER", "KEYSLOT", "{tag}two")
        assert client.do("CLUSTER", "COUNTKEYSINSLOT", slot) == 2
        assert sorted(client.do("CLUSTER", "GETKEYSINSLOT", slot, 10)) == ["{tag}three", "{tag}two"]
        # Keys of a slot have no order that a client could rely on.
        [found] = client.do("CLUSTER", "GETKEYSINSLOT", slot, 1)
        assert found in ("{tag}two", "{tag}three")
        assert client.do("CLUSTER", "COUNTKEYSINSLOT", 16384) == "ERR Invalid or out of range slot"
        assert client.do("CLUSTER", "MEET", "127.0.0.1", 1).startswith("ERR This cluster is emulated")
        assert [client.do(name) for name in ("READONLY", "READWRITE", "ASKING")] == ["OK"] * 3
        assert "cluster_enabled:1" in client.do("INFO", "cluster") and "redis_mode:cluster" in client.do("INFO", "server")


def test_the_announced_address_can_be_chosen(host):
    with Connection(host.port) as client:
        client.do("CONFIG", "SET", "cluster-announce-ip", "192.0.2.7", "cluster-announce-port", 7000)
        try:
            assert client.do("CLUSTER", "SLOTS")[0][2][:2] == ["192.0.2.7", 7000]
        finally:
            client.do("CONFIG", "SET", "cluster-announce-ip", "", "cluster-announce-port", 0)
    server = Server(options=["--redis-cluster-mode", "emulated", "--redis-announce", "[2001:db8::1]:7001"]).start()
    try:
        with Connection(server.port) as client:
            assert client.do("CLUSTER", "SLOTS")[0][2][:2] == ["2001:db8::1", 7001]
    finally:
        server.close()


def test_a_sentinel_stays_small_and_silent(host):
    """It is for everybody, so nobody may make it keep much."""
    with Connection(host.sentinel_port) as asking:
        assert asking.do("SUBSCRIBE", "+switch-master") == ["subscribe", "+switch-master", 1]
        assert asking.do("SET", "a", "b").startswith("ERR unknown command 'set'")
        assert asking.do(*["SUBSCRIBE"] + ["c"] * 9)[0] == "subscribe"
    with Connection(host.sentinel_port) as asking:
        asking.send("SENTINEL", "master", "x" * 20_000)
        assert "ERR Protocol error" in asking.read_to_close().decode()
