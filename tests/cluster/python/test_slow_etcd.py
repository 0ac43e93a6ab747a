"""etcd that is slow, or has no quorum: nodes go on at its pace, or say at once that they cannot."""

from __future__ import annotations

import base64
import http.client
import json
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

# Seconds that etcd takes for an answer.
DELAYS = (0.15, 0.5, 2.0)
# At least so many appends for each put of one client of etcd itself.
SHARE = 0.5
# Connections that write.
CONNECTIONS = 6
# A request that cannot be confirmed is refused by then; the machine may be busy with other things.
REFUSED_WITHIN_SECONDS = 3 + 2


def connected(node, connections: int = CONNECTIONS) -> list[redis.Redis]:
    """Clients that have a connection each: what a client asks first, of itself and one after the other, waits for etcd as well."""
    clients = [redis.Redis(port=node.port, socket_timeout=60, retry=None) for _ in range(connections)]
    threads = [threading.Thread(target=client.ping) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients


def write_for(clients: list[redis.Redis], seconds: float) -> int:
    """Writes that were acknowledged."""
    acknowledged = [0] * len(clients)
    over = time.monotonic() + seconds

    def write(number: int) -> None:
        client = clients[number]
        while time.monotonic() < over:
            try:
                client.incr(f"counter:{number}")
                acknowledged[number] += 1
            except redis.RedisError:
                time.sleep(0.1)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(acknowledged)


class BarePuts:
    """One client of etcd on the same way, which puts one value after the other."""

    def __init__(self, way: SlowWay):
        self.way, self.took = way, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> "BarePuts":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        self.thread.join()

    def _run(self) -> None:
        host, port = self.way.endpoints[0].rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        body = json.dumps({"key": base64.b64encode(b"bare").decode(), "value": base64.b64encode(bytes(100)).decode()})
        while not self.over.is_set():
            began = time.monotonic()
            connection.request("POST", "/v3/kv/put", body)
            assert connection.getresponse().read()
            self.took.append(time.monotonic() - began)
        connection.close()

    def p50(self) -> float:
        return sorted(self.took)[len(self.took) // 2]


def test_a_slow_etcd_is_followed_and_its_home_stays():
    """An answer was given up after half a second: where etcd took 700 ms none ever came, and homes were deposed one after the other.

    Six connections got 17, 2.4 and 0 acknowledgements a second at 154, 426 and 719 ms. Now there are about as many appends as one client of
    etcd itself makes puts, and each has what came while the one before was under way: half of the connections.

    At 2 s there were a third as many at times: a connection to etcd whose pong took more than two seconds was given up, with the append
    under way on it.
    """
    cluster = Cluster()
    way = SlowWay(cluster.etcd.clients)
    slow = ",".join(way.endpoints)
    for node in cluster.nodes:
        node.options[node.options.index("--log") + 1] = f"etcd://{slow}/test"
    with cluster:
        for delay in DELAYS:
            way.seconds = delay
            # The nodes learn how long it takes.
            write_for(connected(cluster.home()), 2 + 5 * delay)
            home = cluster.home()
            clients = connected(home)
            before, began = home.metrics(), time.monotonic()
            with BarePuts(way) as bare:
                acknowledged = write_for(clients, max(5, 9 * delay))
            after, lasted = home.metrics(), time.monotonic() - began
            figures = {name: after[name] - before[name] for name in ("quartet_appends_total", "quartet_depositions_total")}
            appends = figures["quartet_appends_total"]
            print(
                f"bare put p50 {bare.p50() * 1000:.0f} ms, {len(bare.took) / lasted:.2f} a second; {appends / lasted:.2f} appends a second, "
                f"{acknowledged / appends:.1f} writes each, {acknowledged / lasted:.1f} acknowledgements a second", flush=True
            )
            assert appends >= SHARE * len(bare.took) and acknowledged >= 1.5 * appends, delay
            assert figures["quartet_depositions_total"] == 0 and cluster.home() is home
            assert after["quartet_sequencer_answer_seconds"] >= delay * 0.6
            assert after["quartet_sequencer_uncertain_after_seconds"] >= max(1, delay * 1.8)
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

