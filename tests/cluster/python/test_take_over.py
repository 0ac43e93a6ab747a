"""Three nodes over three members of etcd: the home is killed or stands still, and nothing acknowledged is lost."""

import threading
import time

import pytest
import redis
from harness.cluster import Cluster


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def connect(node):
    return redis.Redis(port=node.fixed_port, decode_responses=True, socket_timeout=10, retry=None)


class Writers:
    """Each adds one number after the other to a set of its own at the node it is given, and keeps those that were acknowledged."""

    def __init__(self, nodes, count=50):
        self.acknowledged = [[] for _ in range(count)]
        self.uncertain = [set() for _ in range(count)]
        self.times = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(nodes[number % len(nodes)], number)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, node, number):
        client, value = connect(node), 0
        while not self.over.is_set():
            value += 1
            try:
                client.sadd(f"writer:{number}", value)
                self.acknowledged[number].append(value)
                self.times.append(time.monotonic())
            except (redis.RedisError, OSError):
                self.uncertain[number].add(value)
                time.sleep(0.02)

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def wait_for(self, more):
        target = sum(map(len, self.acknowledged)) + more
        deadline = time.monotonic() + 60
        while sum(map(len, self.acknowledged)) < target:
            assert time.monotonic() < deadline, "no write is acknowledged"
            time.sleep(0.01)

    def longest_gap_after(self, moment):
        times = [moment, *sorted(at for at in self.times if at > moment)]
        return max(later - earlier for earlier, later in zip(times, times[1:]))

    def verify(self, node):
        client = connect(node)
        for number, acknowledged in enumerate(self.acknowledged):
            kept = {int(value) for value in client.smembers(f"writer:{number}")}
            assert set(acknowledged) <= kept, f"writer {number} lost {sorted(set(acknowledged) - kept)[:10]}"
            assert kept <= set(acknowledged) | self.uncertain[number]


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
            gap = writers.longest_gap_after(killed)
            print(f"writes resumed after {gap:.2f} s")
            assert gap < 5
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
        deadline = time.monotonic() + 20
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
