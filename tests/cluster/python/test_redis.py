"""What clients of Redis see of a cluster: INFO, ROLE and the sentinels of its nodes."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
import redis
from harness.cluster import Cluster, until
from redis.sentinel import Sentinel

NAME = "mymaster"


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        yield cluster


def sentinels(cluster):
    ports = [("127.0.0.1", node.sentinel_port) for node in cluster.nodes]
    return Sentinel(ports, socket_timeout=60)


def wait_until_known(cluster, count):
    """Each node reads the members by itself, once a second."""

    def are_known(node):
        with contextlib.suppress(OSError):
            return sum(one["is_running"] for one in node.status()["nodes"]) == count

    for node in cluster.nodes:
        until(lambda node=node: are_known(node), f"{node.name} knows {count} nodes")


def test_every_node_shows_the_home_with_the_others_as_its_replicas(cluster):
    wait_until_known(cluster, 3)

    def each_shows_it():
        home = cluster.home()
        others = {node.port for node in cluster.others()}
        for node in cluster.nodes:
            client = redis.Redis(port=node.port, decode_responses=True, retry=None)
            info = client.info("replication")
            assert (info["role"], info["connected_slaves"]) == ("master", 2)
            replicas = [info["slave0"], info["slave1"]]
            assert {replica["port"] for replica in replicas} == others
            for replica in replicas:
                assert (replica["ip"], replica["state"]) == ("127.0.0.1", "online")
                assert 0 <= replica["offset"] <= info["master_repl_offset"] and replica["lag"] >= 0
            role, offset, listed = client.execute_command("ROLE")
            assert role == "master" and int(offset) > 0
            assert {int(port) for _, port, _ in listed} == others
        assert home is cluster.home()

    cluster.at_one_home(each_shows_it)


def test_sentinels_name_the_home_and_follow_it(cluster):
    wait_until_known(cluster, 3)
    sentinel = sentinels(cluster)
    client = sentinel.master_for(NAME, socket_timeout=60, decode_responses=True)

    def is_named():
        """No sentinel may have heard of the new home yet."""
        with contextlib.suppress(redis.RedisError):
            return sentinel.discover_master(NAME) == ("127.0.0.1", cluster.home().port)

    def the_others_are_named():
        home = cluster.home()
        assert {port for _, port in sentinel.discover_slaves(NAME)} == {node.port for node in cluster.nodes if node is not home}
        state = sentinel.sentinels[0].sentinel_master(NAME)
        assert (state["num-slaves"], state["num-other-sentinels"]) == (2, 2)

    until(is_named, "the home is named")
    cluster.at_one_home(the_others_are_named)
    assert cluster.at_one_home(lambda: client.set("through", "the sentinel"))

    home = cluster.home()
    home.kill()
    until(lambda: any(node.is_home() for node in cluster.nodes if node.alive()), "another node is home")
    until(is_named, "the new home is named")

    def is_read():
        try:
            return client.get("through") == "the sentinel"
        except redis.RedisError:
            return False

    until(is_read, "the client is at the new home")
    home.start()
    wait_until_known(cluster, 3)


def test_ioredis_follows_the_home_by_its_sentinels(cluster):
    """It asks any of the nodes' sentinels, hears of the new home, and loses nothing that was acknowledged."""
    wait_until_known(cluster, 3)
    environment = os.environ | {"QUARTET_SENTINEL_PORTS": " ".join(str(node.sentinel_port) for node in cluster.nodes)}
    command = ["node", "sentinels.js"]
    folder = Path(__file__).parents[2] / "redis" / "node"
    client = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout.readline() == "writes\n"
        old = cluster.home()
        old.kill()
        assert client.stdout.readline() == f"left {old.port}\n"
        said, _ = client.communicate("end\n", timeout=120)
        assert client.returncode == 0 and said.endswith("done\n"), said
    finally:
        client.kill()
        client.wait()
    old.start()
    wait_until_known(cluster, 3)


def test_subscribers_of_a_sentinel_hear_of_a_new_home(cluster):
    """At a node that follows before and after: the connection of one that becomes home, or was it, closes."""
    for _ in range(5):
        wait_until_known(cluster, 3)
        term = cluster.term()
        old = cluster.home()
        new, listening = cluster.others()
        client = redis.Redis(port=listening.sentinel_port, decode_responses=True, socket_timeout=60)
        heard = client.pubsub(ignore_subscribe_messages=False)
        heard.subscribe("+switch-master")
        assert heard.get_message(timeout=60)["type"] == "subscribe"
        handed, message = old.command("hand-over", new.name), None
        if handed.returncode == 0:
            with contextlib.suppress(redis.ConnectionError):
                message = heard.get_message(timeout=60)
        # A home that was silent for a moment on a loaded machine was replaced meanwhile: once more.
        if handed.returncode == 0 and cluster.term() == term + 1:
            break
    assert handed.returncode == 0, handed.stderr
    assert message is not None and message["channel"] == "+switch-master", message
    assert message["data"] == f"{NAME} 127.0.0.1 {old.port} 127.0.0.1 {new.port}"
