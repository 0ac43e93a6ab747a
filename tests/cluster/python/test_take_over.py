"""Three nodes over three members of etcd: the home is killed or stands still, and nothing acknowledged is lost."""

import time

import pytest
from harness.cluster import Cluster
from harness.writers import Writers, connect


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def test_every_node_leads_to_the_home(cluster):
    clients = [connect(node) for node in cluster.nodes]
    for number, client in enumerate(clients):
        assert client.set(f"key:{number}", number)
    for client in clients:
        assert client.mget([f"key:{number}" for number in range(len(clients))]) == ["0", "1", "2"]


def test_a_home_that_is_killed_loses_nothing(cluster):
    writers = Writers(cluster.nodes)
    try:
        for _ in range(3):
            writers.wait_for(500)
            home, killed = cluster.home(), time.monotonic()
            home.kill()
            writers.wait_for(500)
            print(f"writes resumed after {writers.longest_gap_after(killed):.2f} s")
            home.start()
    finally:
        writers.end()
    for node in cluster.nodes:
        writers.verify(node)


def test_a_home_that_stands_still_loses_nothing_and_follows_afterwards(cluster):
    writers = Writers(cluster.nodes)
    try:
        writers.wait_for(500)
        home = cluster.home()
        others = [node for node in cluster.nodes if node is not home]
        home.pause()
        deadline = time.monotonic() + 60
        while not any(node.is_home() for node in others):
            assert time.monotonic() < deadline, "no other node takes over"
            time.sleep(0.02)
        time.sleep(0.5)
        home.go_on()
        writers.wait_for(500)
    finally:
        writers.end()
    for node in cluster.nodes:
        writers.verify(node)


def test_writes_go_on_when_the_leader_of_etcd_is_killed(cluster):
    writers = Writers(cluster.nodes)
    try:
        writers.wait_for(500)
        cluster.etcd.kill(cluster.etcd.leader())
        writers.wait_for(500)
    finally:
        writers.end()
    writers.verify(cluster.home())
