"""Planned changes of the home, and a home that cannot go on."""

from __future__ import annotations

import signal
import time
import urllib.error

import pytest
import redis
from harness.cluster import Cluster, until
from harness.slow_etcd import SlowWay

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]

def test_a_home_that_is_stopped_hands_over_first():
    """SIGTERM was a crash to the clients: the other nodes had to find out that the home was gone."""
    with Cluster() as cluster:
        home = cluster.home()
        client = redis.Redis(port=home.port, retry=None)
        client.set("key", "value")
        # A node that has just started is fit once the home has heard of it.
        until(lambda: sum(one["is_running"] for one in home.status()["nodes"]) == 3, "all nodes are known to run")

        home.is_wanted = False
        home.process.send_signal(signal.SIGTERM)
        assert home.process.wait(60) == 0
        assert any("handed over before the end" in line for line in home.output), "".join(home.output[-20:])
        assert not any("the home is silent" in line for node in cluster.nodes for line in node.output if node is not home)
        after = next(node for node in cluster.nodes if node.alive() and node.is_home())
        assert redis.Redis(port=after.port).get("key") == b"value"

def test_nothing_is_handed_to_a_node_that_etcd_does_not_answer():
    """The home had stopped writes for it, and waited ten seconds."""
    cluster = Cluster()
    way = SlowWay(cluster.etcd.clients)
    last = cluster.nodes[-1]
    last.options[last.options.index("--log") + 1] = f"etcd://{','.join(way.endpoints)}/test"
    with cluster:
        until(lambda: not last.is_home() or hand_over(cluster.nodes[0]), "another node is home")
        home = cluster.home()
        client = redis.Redis(port=home.port, retry=None)
        client.set("key", "value")
        way.seconds = 3600
        began = time.monotonic()
        with pytest.raises(urllib.error.HTTPError) as refused:
            last.hand_over()
        assert time.monotonic() - began < 9 and refused.value.code in (409, 500, 503), refused.value
        # Writes went on.
        client.set("key", "other")
        assert cluster.home() is home
    way.close()

def hand_over(node) -> bool:
    try:
        node.hand_over()
    except OSError:
        return False
    return node.is_home()
