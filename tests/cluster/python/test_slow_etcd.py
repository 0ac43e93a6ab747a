"""etcd that is slow, or has no quorum: nodes go on at its pace, or say at once that they cannot."""

from __future__ import annotations

import threading
import time
import urllib.error

import botocore.exceptions
import pytest
import redis
from harness import dynamodb
from harness.cluster import Cluster, until
from harness.slow_etcd import SlowWay

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]

# A request that cannot be confirmed is refused by then; the machine may be busy with other things.
REFUSED_WITHIN_SECONDS = 3 + 2


def write_for(node, seconds: float, connections: int = 6) -> int:
    """Writes that were acknowledged."""
    acknowledged = [0] * connections
    over = time.monotonic() + seconds

    def write(number: int) -> None:
        client = redis.Redis(port=node.port, socket_timeout=60, retry=None)
        while time.monotonic() < over:
            try:
                client.incr(f"counter:{number}")
                acknowledged[number] += 1
            except redis.RedisError:
                time.sleep(0.1)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(acknowledged)


def test_a_slow_etcd_is_followed_and_its_home_stays():
    """An answer was given up after half a second: where etcd took 700 ms none ever came, and homes were deposed one after the other."""
    cluster = Cluster()
    way = SlowWay(cluster.etcd.clients)
    slow = ",".join(way.endpoints)
    for node in cluster.nodes:
        node.options[node.options.index("--log") + 1] = f"etcd://{slow}/test"
    with cluster:
        home = cluster.home()
        way.seconds = 0.75
        # The nodes learn how long it takes.
        write_for(home, 6)
        home = cluster.home()
        before = home.metrics()
        acknowledged = write_for(home, 12)
        after = home.metrics()
        # Six connections, each behind an append that has just begun: about 48.
        assert acknowledged >= 16
        assert after["quartet_depositions_total"] == before["quartet_depositions_total"] and cluster.home() is home
        assert after["quartet_sequencer_answer_seconds"] >= 0.5
        assert after["quartet_sequencer_uncertain_after_seconds"] >= 1.5
    way.close()


def test_without_a_quorum_health_answers_and_requests_are_refused():
    """All of them waited for as long as etcd had none: an orchestrator would have killed the home, and a SET took 28 s."""
    with Cluster() as cluster:
        home = cluster.home()
        client = redis.Redis(port=home.port, decode_responses=True, socket_timeout=60, retry=None)
        client.set("key", "before")
        for member in (0, 1):
            cluster.etcd.pause(member)
        try:
            began = time.monotonic()
            with pytest.raises(redis.RedisError):
                client.set("key", "waits")
            assert time.monotonic() - began < REFUSED_WITHIN_SECONDS
            until(lambda: home.metrics(timeout=2)["quartet_home_is_suspended"] == 1, "the home is suspended", 10)
            for path in ("/healthz", "/metrics", "/admin/v1/cluster"):
                for node in cluster.nodes if path != "/admin/v1/cluster" else [home]:
                    assert node.ask(path, timeout=2), (node.name, path)
            for node in cluster.nodes:
                with pytest.raises(urllib.error.HTTPError, match="503"):
                    node.ask("/readyz", timeout=5)
            assert home.command("status").returncode == 0

            began = time.monotonic()
            for act in (lambda one: one.get("key"), lambda one: one.set("key", "refused")):
                with redis.Redis(port=home.port, socket_timeout=60, retry=None) as one, pytest.raises(redis.RedisError):
                    act(one)
            for write in (False, True):
                with pytest.raises(urllib.error.HTTPError, match="50[03]"):
                    home.ask("/", ["SET", "key", "refused"] if write else ["GET", "key"], timeout=60)
            client = dynamodb.connect(home)
            with pytest.raises(botocore.exceptions.ClientError, match="50[03]|Internal|Unavailable"):
                client.list_tables()
            assert time.monotonic() - began < REFUSED_WITHIN_SECONDS
        finally:
            for member in (0, 1):
                cluster.etcd.go_on(member)
        found = cluster.at_one_home(lambda: redis.Redis(port=cluster.home().port, decode_responses=True).get("key"))
        # What waited may have been appended.
        assert found in ("before", "waits")
        assert cluster.at_one_home(lambda: redis.Redis(port=cluster.home().port).set("key", "after"))

