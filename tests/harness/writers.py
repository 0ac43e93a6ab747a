"""Writers of a cluster, and what was acknowledged to them."""

import threading
import time

import redis


def connect(node, seconds=10):
    return redis.Redis(port=node.fixed_port, decode_responses=True, socket_timeout=seconds, retry=None)


def read(node, key):
    """The members of a set, once a home is there and this node leads to it: it may be copying the home just now."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return connect(node, seconds=60).smembers(key)
        except redis.RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


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
        for number, acknowledged in enumerate(self.acknowledged):
            kept = {int(value) for value in read(node, f"writer:{number}")}
            assert set(acknowledged) <= kept, f"writer {number} lost {sorted(set(acknowledged) - kept)[:10]}"
            assert kept <= set(acknowledged) | self.uncertain[number]
