"""etcd is lost, or has gone back in time: a new log begins with what the most advanced node has."""

import contextlib
import shutil

import pytest
import redis
from harness.cluster import Cluster, until


def write(cluster, first, last):
    for number in range(first, last):
        assert cluster.at_one_home(lambda number=number: redis.Redis(port=cluster.home().port, retry=None).set(f"key:{number}", number))


def all_have(cluster, nodes, count):
    keys = [f"key:{number}" for number in range(count)]
    for node in nodes:
        found = cluster.at_one_home(lambda node=node: redis.Redis(port=node.port, decode_responses=True).mget(keys))
        assert found == [str(number) for number in range(count)], node.name


def wait_until_alike(cluster):
    """Every node has applied what the home has."""

    def are_alike():
        # A node may end, and be started again for a copy.
        with contextlib.suppress(OSError):
            return len({node.metrics()["quartet_log_applied"] for node in cluster.nodes if node.alive()}) == 1

    until(are_alike, "all nodes have the same records")


def stop_all(cluster):
    for node in cluster.nodes:
        node.kill()


def lose_etcd(cluster):
    """Etcd ends first: a node that is left would take over, and have a record more than the home."""
    cluster.etcd.stop()
    stop_all(cluster)
    cluster.etcd.lose()
    cluster.etcd.start()


def test_etcd_is_lost_and_a_new_log_begins_with_all_that_was_acknowledged():
    with Cluster() as cluster:
        write(cluster, 0, 100)
        wait_until_alike(cluster)
        behind = cluster.others()[-1]
        behind.kill()
        home = cluster.home()
        write(cluster, 100, 200)
        wait_until_alike(cluster)
        lose_etcd(cluster)

        for node in cluster.nodes:
            with pytest.raises(RuntimeError, match=r"etcd holds no cluster below /test.*quartet cluster adopt"):
                node.start()
        refused = behind.adopt("--from", behind.name)
        assert refused.returncode == 1 and "adopt from that one, or say --accept-loss" in refused.stderr, refused.stderr
        refused = home.adopt("--from", behind.name)
        assert refused.returncode == 1 and f"these are the settings of {home.name}" in refused.stderr, refused.stderr
        adopted = home.adopt("--from", home.name)
        assert adopted.returncode == 0, adopted.stderr
        assert f"start {home.name} first" in adopted.stdout

        home.start()
        cluster.home()
        for node in cluster.nodes:
            if node is not home:
                node.start()
                assert any("copied a node" in line for line in node.output)
        all_have(cluster, cluster.nodes, 200)
        write(cluster, 200, 300)
        all_have(cluster, cluster.nodes, 300)
        # A restart finds its own cluster again.
        behind.restart()
        all_have(cluster, [behind], 300)

        # Once more, and what only others have is given up.
        wait_until_alike(cluster)
        behind.kill()
        write(cluster, 300, 350)
        wait_until_alike(cluster)
        lose_etcd(cluster)
        ahead = [node for node in cluster.nodes if node is not behind]
        for node in ahead:
            with pytest.raises(RuntimeError, match="quartet cluster adopt"):
                node.start()
        refused = behind.adopt("--from", behind.name)
        assert refused.returncode == 1 and "adopt from that one, or say --accept-loss" in refused.stderr, refused.stderr
        adopted = behind.adopt("--from", behind.name, "--accept-loss")
        assert adopted.returncode == 0, adopted.stderr
        behind.start()
        for node in ahead:
            with pytest.raises(RuntimeError, match="alone has is not part of the cluster; empty the folder"):
                node.start()
            shutil.rmtree(node.data)
            node.start()
        all_have(cluster, cluster.nodes, 300)
        for node in cluster.nodes:
            assert cluster.at_one_home(lambda node=node: redis.Redis(port=node.port).exists("key:300", "key:349")) == 0
        write(cluster, 300, 310)
        all_have(cluster, cluster.nodes, 310)


def test_etcd_goes_back_in_time_and_a_new_log_begins_with_all_that_was_acknowledged():
    with Cluster() as cluster:
        write(cluster, 0, 50)
        wait_until_alike(cluster)
        stop_all(cluster)
        home = cluster.nodes[0]
        refused = home.adopt("--from", home.name)
        assert refused.returncode == 1 and "there is nothing to adopt" in refused.stderr, refused.stderr
        cluster.etcd.stop()
        yesterday = cluster.etcd.backed_up()
        cluster.etcd.start()
        for node in cluster.nodes:
            node.start()
        home = cluster.home()
        write(cluster, 50, 100)
        wait_until_alike(cluster)
        cluster.etcd.go_back_to(yesterday)
        cluster.etcd.start()
        for node in cluster.nodes:
            until(lambda node=node: any("`quartet cluster adopt`" in line for line in node.output), f"{node.name} has stopped by itself")
        stop_all(cluster)
        adopted = home.adopt("--from", home.name, "--json")
        assert adopted.returncode == 0 and '"from"' in adopted.stdout, adopted.stderr
        home.start()
        for node in cluster.nodes:
            if node is not home:
                node.start()
        all_have(cluster, cluster.nodes, 100)
        write(cluster, 100, 150)
        all_have(cluster, cluster.nodes, 150)
