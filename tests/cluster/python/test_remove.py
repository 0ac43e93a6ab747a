"""A node that is gone for good is removed, and no longer counts for what etcd may drop."""

import contextlib

import pytest
import redis
from harness.cluster import Cluster, Node, until


def described(cluster):
    """What the home says of the cluster."""
    return cluster.at_one_home(lambda: cluster.home().status())


def names(status):
    return {node["name"] for node in status["nodes"]}


def test_a_node_that_is_gone_for_good_is_removed_and_no_longer_counts():
    with Cluster() as cluster, contextlib.ExitStack() as left:
        fourth = Node(cluster, "fourth")
        cluster.nodes.append(fourth)
        fourth.start()
        until(lambda: described(cluster)["configured"] == 4, "the fourth node is counted")
        home, gone, away = cluster.home(), *cluster.others()[:2]
        for name, reason in ((home.name, "is home"), (gone.name, "runs"), ("nobody", "there is no node")):
            refused = home.command("remove", name)
            assert refused.returncode == 1 and reason in refused.stderr, refused.stderr

        # Two of four have what is written from here on: that is not a majority, and etcd keeps it.
        # The one that goes for good stands still: it answers nobody, and ends by itself once it goes on.
        gone.pause()
        cluster.nodes.remove(gone)
        left.callback(gone.close)
        away.kill()
        had = cluster.home().metrics()["quartet_log_applied"]
        client = redis.Redis(port=home.port)
        for number in range(50):
            cluster.at_one_home(lambda number=number: client.set(f"key:{number}", number))

        def are_known_to_be_away():
            nodes = described(cluster)["nodes"]
            return not any(node["is_running"] for node in nodes if node["name"] in (gone.name, away.name))

        until(are_known_to_be_away, "two nodes are away")
        held = cluster.home().metrics()["quartet_log_trimmed_below"]
        assert held <= had + 1

        asked = next(node for node in cluster.others() if node.alive())
        removed = asked.command("remove", gone.name, "--json")
        assert removed.returncode == 0, removed.stderr
        assert '"configured": 3' in removed.stdout
        until(lambda: names(described(cluster)) == {node.name for node in cluster.nodes}, "it is no longer named")
        until(lambda: cluster.home().metrics()["quartet_log_trimmed_below"] > had + 1, "what two of three have is dropped")

        gone.go_on()
        assert gone.process.wait(60) == 78
        assert any("this node was removed from the cluster" in line for line in gone.output)
        with pytest.raises(RuntimeError, match=f"{gone.name} was removed from the cluster"):
            gone.start()

        def is_back():
            """It needs a copy by now: it ends, and is started again."""
            try:
                return redis.Redis(port=away.port, retry=None).get("key:49") == b"49"
            except redis.RedisError:
                return False

        away.start()
        until(is_back, "the other node that was away is back")
