"""Clients of four protocols that never try again: whatever they fail at, they report."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Sequence

import redis

from . import dynamodb, fauna
from .cluster import Cluster, Node, until

TABLE = "unnoticed"


def all_run(cluster: Cluster) -> None:
    """A node that has just started is fit once the home has heard of it."""
    until(lambda: shows_running(cluster.home()) == len(cluster.nodes), "all nodes are known to run")


def shows_running(node: Node) -> int:
    try:
        return sum(one["is_running"] for one in node.status()["nodes"])
    except OSError:
        return 0


class Clients:
    """`connections` for each protocol, at `nodes`, and as many lists whose elements are popped by waiting clients.

    A client asks once each `pause` seconds. When `nodes` changes, it connects to one of the new ones before its next request.
    """

    def __init__(self, nodes: Sequence[Node], connections: int = 2, pause: float = 0.02):
        self.nodes, self.all_nodes = list(nodes), list(nodes)
        self.connections, self.pause = connections, pause
        self.over = threading.Event()
        self.failures: list[str] = []
        self.answered = 0
        # The longest answer of a request that does not wait by itself, and whose.
        self.longest: tuple[float, str] = (0.0, "")
        self.counted: dict[str, int] = {}
        self.pushed: list[int] = []
        self.popped: list[int] = []
        # The node of each client's request.
        self.places: dict[str, Node] = {}
        self.lock = threading.Lock()
        self.threads: list[threading.Thread] = []

    def prepare(self) -> None:
        client = dynamodb.connect(self.nodes[0])
        key, attributes = [{"AttributeName": "id", "KeyType": "HASH"}], [{"AttributeName": "id", "AttributeType": "S"}]
        client.create_table(TableName=TABLE, KeySchema=key, AttributeDefinitions=attributes, BillingMode="PAY_PER_REQUEST")

    def __enter__(self) -> "Clients":
        self.prepare()
        kinds = {"redis": redis_client, "rest": rest_client, "dynamodb": dynamodb_client, "fauna": fauna_client}
        for number in range(self.connections):
            for kind, connect in kinds.items():
                self._run(f"{kind}-{number}", connect)
            self.threads.append(threading.Thread(target=self._push, args=(f"list-{number}",), daemon=True))
            self.threads.append(threading.Thread(target=self._pop, args=(f"list-{number}",), daemon=True))
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(60)

    def leave(self, node: Node) -> None:
        """No client is at the node afterwards, nor comes there before `nodes` has it again."""
        self.nodes = [other for other in self.all_nodes if other is not node]
        until(lambda: node not in list(self.places.values()), "all clients have left the node")

    def _run(self, name: str, connect: Callable) -> None:
        def ask() -> None:
            node, act, count = None, None, 0
            while not self.over.is_set():
                wanted = self.places[name] = self._node(name)
                began = time.monotonic()
                try:
                    if node is not wanted:
                        node, act = wanted, connect(wanted, name)
                        began = time.monotonic()
                    act()
                    count += 1
                except Exception as failure:  # noqa: BLE001
                    self._note_failure(name, node or wanted, failure)
                    node = None
                self._note(time.monotonic() - began, name)
                time.sleep(self.pause)
            self.counted[name] = count

        self.threads.append(threading.Thread(target=ask, daemon=True))

    def _node(self, name: str) -> Node:
        nodes = self.nodes
        return nodes[hash(name) % len(nodes)]

    def _note_failure(self, name: str, node: Node, failure: Exception) -> None:
        with self.lock:
            self.failures.append(f"{name} at {node.name}: {type(failure).__name__}: {str(failure)[:300]}")

    def _note(self, seconds: float, name: str) -> None:
        with self.lock:
            self.answered += 1
            self.longest = max(self.longest, (seconds, name))

    def _push(self, name: str) -> None:
        self._talk(f"push-{name}", lambda client: client.lpush(name, self._next()))

    def _next(self) -> int:
        with self.lock:
            self.pushed.append(len(self.pushed))
            return self.pushed[-1]

    def _pop(self, name: str) -> None:
        def pop(client: redis.Redis) -> None:
            popped = client.blpop(name, timeout=5)
            if popped is not None:
                with self.lock:
                    self.popped.append(int(popped[1]))

        self._talk(f"pop-{name}", pop, pause=0.0, waits=True)

    def _talk(self, name: str, act: Callable[[redis.Redis], None], pause: float | None = None, waits: bool = False) -> None:
        node = client = None
        while not self.over.is_set():
            wanted = self.places[name] = self._node(name)
            began = time.monotonic()
            try:
                if node is not wanted:
                    node, client = wanted, redis.Redis(port=wanted.port, socket_timeout=60, retry=None)
                act(client)
            except Exception as failure:  # noqa: BLE001
                self._note_failure(name, wanted, failure)
                node = None
            if not waits:
                self._note(time.monotonic() - began, name)
            time.sleep(self.pause if pause is None else pause)

    def nothing_is_lost(self, home: Node, seconds_max: float) -> None:
        """Every element that was pushed was given once, or is there; every request that was answered has counted once."""
        assert not self.failures, (self.failures[:10], self.silences())
        assert sorted([*self.popped, *self.left(home)]) == self.pushed
        redis_client, table = redis.Redis(port=home.port), dynamodb.connect(home)
        for name, count in self.counted.items():
            if name.startswith(("redis", "rest")):
                assert int(redis_client.get(f"count:{name}")) == count, name
            if name.startswith("dynamodb"):
                assert int(table.get_item(TableName=TABLE, Key={"id": {"S": name}}, ConsistentRead=True)["Item"]["n"]["N"]) == count, name
        assert self.longest[0] <= seconds_max, self.longest
        print(f"{self.answered} requests, longest {self.longest[0] * 1000:.0f} ms ({self.longest[1]}), {len(self.popped)} elements popped")

    def silences(self) -> list[str]:
        """What the nodes said of homes that were not heard: on a loaded machine a change may be unplanned."""
        return [f"{node.name}: {line.strip()}" for node in self.all_nodes for line in node.output if "the home is silent" in line]

    def left(self, node: Node) -> list[int]:
        """What is in the lists still."""
        client = redis.Redis(port=node.port, socket_timeout=60)
        return [int(one) for number in range(self.connections) for one in client.lrange(f"list-{number}", 0, -1)]


def redis_client(node: Node, name: str) -> Callable[[], None]:
    client = redis.Redis(port=node.port, socket_timeout=60, retry=None)
    client.ping()
    return lambda: client.incr(f"count:{name}")


def rest_client(node: Node, name: str) -> Callable[[], None]:
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=60)

    def ask() -> None:
        connection.request("POST", "/", json.dumps(["INCR", f"count:{name}"]), {"Authorization": "Bearer dev"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {text!r}")

    return ask


def dynamodb_client(node: Node, name: str) -> Callable[[], None]:
    client = dynamodb.connect(node)
    update = {"Key": {"id": {"S": name}}, "UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    return lambda: client.update_item(TableName=TABLE, **update)


def fauna_client(node: Node, name: str) -> Callable[[], None]:
    from faunadb import query

    client = fauna.connect(node)
    return lambda: client.query(query.add(1, 2))
