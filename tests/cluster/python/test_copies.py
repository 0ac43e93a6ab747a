"""A node is added while writes go on, and a node is made home by an operator's request."""

import json
import shutil

from harness.cluster import Cluster, Node, until
from harness.writers import Writers


def wait_until_known(cluster, name):
    """Each node reads the members by itself, once a second."""
    for node in cluster.nodes:
        until(lambda node=node: f'"{name}"' in node.command("nodes", "--json").stdout, f"{node.name} knows {name}")


def test_a_node_that_is_added_copies_the_home_and_can_be_it():
    with Cluster() as cluster:
        writers = Writers(cluster.nodes, count=20)
        try:
            writers.wait_for(1000)
            added = Node(cluster, "added")
            cluster.nodes.append(added)
            added.start()
            assert any("copied a node" in line for line in added.output)
            writers.wait_for(500)
            wait_until_known(cluster, "added")
            handed = cluster.others()[0].command("hand-over", "added")
            assert handed.returncode == 0, handed.stderr
            assert cluster.home() is added
            writers.wait_for(500)
        finally:
            writers.end()
        writers.verify(added)
        shown = json.loads(cluster.nodes[0].command("status", "--json").stdout)
        assert shown["home"] == "added" and {node["name"] for node in shown["nodes"]} == {"node-0", "node-1", "node-2", "added"}
        assert "added" in added.command("nodes").stdout and "home" in added.command("status").stdout


def test_a_node_that_has_lost_its_disk_copies_the_home():
    with Cluster() as cluster:
        writers = Writers(cluster.nodes[:1], count=10)
        try:
            writers.wait_for(500)
            lost = cluster.others()[-1]
            lost.kill()
            shutil.rmtree(lost.data)
            writers.wait_for(500)
            lost.start()
            assert any("copied a node" in line for line in lost.output)
            writers.wait_for(200)
        finally:
            writers.end()
        wait_until_known(cluster, lost.name)
        assert cluster.home().command("hand-over", lost.name).returncode == 0
        writers.verify(lost)
