"""The home of the first partition and the home of another do not reach each other, and both reach etcd; then a home of the first is cut off
from etcd alone, and another node takes its place.

    python -m cluster.split

Each node is on a machine of its own (`harness.network`), so this process has to be alone in namespaces of its own.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import http.client
import importlib.util
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter as Counted
from pathlib import Path

import botocore.exceptions
import redis

from harness import certificates, dynamodb
from harness.cluster import ROOT_KEY, Cluster
from harness.network import Network, alone, own_folder
from harness.server import ROOT, binary

PARTITIONS = 3
COMES_WITHIN = 60.0
FAILURES = (OSError, redis.RedisError)
# How long whoever asks to be let in waits for an answer.
PATIENCE = 4
# How long they ask after the database is deleted, and how often at least.
ASKED_SECONDS = 6
ASKED_TIMES = 2
LET_IN, REFUSED, FAILED = "let in", "refused", "failed"

found = importlib.util.spec_from_file_location("keyvalue_wire", ROOT / "tests/keyvalue/python/wire.py")
wire = importlib.util.module_from_spec(found)
found.loader.exec_module(wire)


def until(holds, what: str):
    deadline = time.monotonic() + COMES_WITHIN
    while True:
        with contextlib.suppress(*FAILURES):
            if found := holds():
                return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {COMES_WITHIN:.0f} s: {what}")
        time.sleep(0.05)


def node_id(node) -> str:
    return hashlib.sha256(node.name.encode()).hexdigest()[:16]


def admin(node, *words: str) -> str:
    """OSError: the server refuses, or is not there."""
    command = [binary(), "admin", "--server", f"{node.host}:{node.http_port}", "--key", ROOT_KEY, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise OSError(done.stdout + done.stderr)
    return done.stdout


class World:
    def __init__(self, folder: Path):
        self.network = Network()
        self.nodes_machines = [self.network.machine(f"node-{number}") for number in range(PARTITIONS)]
        self.members = [self.network.machine(f"member-{number}") for number in range(3)]
        machines = [*self.nodes_machines, *self.members]
        self.made = certificates.make(folder, [machine.address for machine in machines])
        self.cluster = Cluster(PARTITIONS, ["--partitions", str(PARTITIONS)], machines=machines, certificates=self.made)
        self.nodes = self.cluster.nodes
        self.databases: dict[int, dict] = {}

    def status(self) -> dict:
        return json.loads(self.cluster.home().ask("/admin/v1/cluster"))

    def tell(self, node, cluster_id: str, verb: str) -> None:
        """Another node's word."""
        context = ssl.create_default_context(cafile=str(self.made.root))
        context.load_cert_chain(self.made.certificate, self.made.key)
        with socket.create_connection((node.host, node.node_port), 30) as plain, context.wrap_socket(plain, server_hostname=node.host) as link:
            link.sendall(f"quartet 1 {cluster_id} {verb}\n".encode())
            link.makefile("rb").read()

    def place_homes(self) -> None:
        """Partition P at node P, which the home of the first would do in steps of ten seconds."""
        names = [node.name for node in self.nodes]

        def are_placed() -> bool:
            status = self.status()
            for one in status["homes"]:
                wanted, home = names[one["partition"]], one["home"]
                if home in names and home != wanted:
                    heir = self.nodes[names.index(wanted)]
                    self.tell(self.nodes[names.index(home)], status["cluster"], f"hand-over {one['partition']} {node_id(heir)}")
                    return False
            return [one["home"] for one in status["homes"]] == names

        until(are_placed, "each partition's home is where it is to be")

    def database_in(self, partition: int) -> dict:
        def is_there() -> bool:
            if partition not in self.databases:
                made = json.loads(admin(self.cluster.home(), "create", f"database-{time.monotonic_ns()}"))
                self.databases.setdefault(made["partition"], made)
            return partition in self.databases

        until(is_there, f"a database in partition {partition}")
        return self.databases[partition]

    def close(self) -> None:
        self.cluster.close()
        self.network.close()


class Counter(threading.Thread):
    """Counts in a database by way of one node, and begins anew whenever something fails."""

    def __init__(self, node, database: dict):
        super().__init__(daemon=True)
        self.node, self.database = node, database
        self.acknowledged, self.attempts = 0, 0
        self.over = threading.Event()
        self.start()

    def connect(self) -> redis.Redis:
        credentials = self.database["credentials"]
        return redis.Redis(self.node.host, self.node.port, username=self.database["name"], password=credentials["token"], socket_timeout=5, retry=None)

    def run(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(*FAILURES), self.connect() as client:
                client.ping()
                while not self.over.is_set():
                    self.attempts += 1
                    client.incr("count")
                    self.acknowledged += 1
            time.sleep(0.02)

    def goes_on(self) -> None:
        seen = self.acknowledged
        until(lambda: self.acknowledged > seen + 10, "a client goes on")

    def end(self) -> None:
        self.over.set()
        self.join()
        with self.connect() as client:
            counted = int(client.get("count"))
        assert self.acknowledged <= counted <= self.attempts, (self.acknowledged, counted, self.attempts)


def two_homes_apart(world: World) -> None:
    """Whoever is home of the first becomes home of what it does not reach, and clients go on."""
    first, other = world.nodes_machines[:2]
    counters = [Counter(world.nodes[0], world.database_in(partition)) for partition in (1, 2)]
    for counter in counters:
        counter.goes_on()
    world.network.cut([(first, other), (other, first)])
    cut = time.monotonic()
    counters[1].goes_on()
    until(lambda: world.status()["homes"][1]["home"] != world.nodes[1].name, "another home")
    counters[0].goes_on()
    print(f"a client of the partition goes on after {time.monotonic() - cut:.1f} s")
    renewed = until(lambda: json.loads(admin(world.nodes[0], "renew-credentials", counters[0].database["name"])), "a change is taken")
    counters[0].database["credentials"] = renewed["credentials"]
    counters[0].goes_on()
    assert world.network.dropped() > 0
    world.network.heal()
    for counter in counters:
        counter.end()


def by_redis(node, database: dict, protocol: int = 2) -> str:
    options = {"username": database["name"], "password": database["credentials"]["token"], "protocol": protocol}
    try:
        with redis.Redis(node.host, node.port, socket_timeout=PATIENCE, retry=None, **options) as client:
            client.ping()
        return LET_IN
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError):
        return REFUSED


def by_http(node, port: int, method: str, path: str, authorization: str, body: str | None = None) -> str:
    connection = http.client.HTTPConnection(node.host, port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Authorization": authorization})
        status = connection.getresponse().status
    return LET_IN if status < 300 else REFUSED if status < 500 else FAILED


def by_rest(node, database: dict) -> str:
    return by_http(node, node.http_port, "GET", "/get/count", f"Bearer {database['credentials']['token']}")


def by_fauna(node, database: dict) -> str:
    secret = base64.b64encode(f"{database['credentials']['fauna_key']}:".encode()).decode()
    return by_http(node, node.fauna_port, "POST", "/", f"Basic {secret}", '{"now": null}')


def by_dynamodb(node, database: dict) -> str:
    credentials = database["credentials"]
    client = dynamodb.connect(node, key=(credentials["access_key_id"], credentials["secret_access_key"]), seconds=PATIENCE)
    try:
        client.list_tables()
        return LET_IN
    except botocore.exceptions.ClientError as error:
        return REFUSED if error.response["ResponseMetadata"]["HTTPStatusCode"] < 500 else FAILED


def by_keyvalue(node, database: dict) -> str:
    with socket.create_connection((node.host, int(node.keyvalue_address.rsplit(":", 1)[1])), PATIENCE) as client:
        client.settimeout(PATIENCE)
        client.sendall(wire.greeting(database["credentials"]["token"].encode()))
        answer = client.recv(100)
    return FAILED if not answer else REFUSED if b"unknown credential" in answer else LET_IN


DOORS = {
    "AUTH": by_redis,
    "HELLO": functools.partial(by_redis, protocol=3),
    "REST": by_rest,
    "Fauna": by_fauna,
    "DynamoDB": by_dynamodb,
    "key-value": by_keyvalue,
}


class Visitor(threading.Thread):
    """Asks to be let in at one door, again and again."""

    def __init__(self, door, node, database: dict):
        super().__init__(daemon=True)
        self.door, self.node, self.database = door, node, database
        self.outcomes: list[tuple[float, str]] = []
        self.over = threading.Event()

    def ask(self) -> str:
        with contextlib.suppress(*FAILURES, http.client.HTTPException, botocore.exceptions.BotoCoreError):
            return self.door(self.node, self.database)
        return FAILED

    def asked_since(self, since: float) -> int:
        return sum(began > since for began, _ in self.outcomes)

    def run(self) -> None:
        while not self.over.is_set():
            began = time.monotonic()
            self.outcomes.append((began, self.ask()))
            time.sleep(0.05)


def a_home_that_does_not_know(world: World) -> None:
    """It is cut off from etcd, and then from the next home: it believes to be home, is suspended, and learns from the third node that it
    is home no more. No door of it refuses anybody in any of these states, or lets in whoever is known no more.

    While it was suspended, REST answered 401 by what it still believed, and so did Fauna and DynamoDB; what the home of the database's
    partition had refused was passed on. The check passed all that, as a suspended home is none.
    """
    database, old, heir = world.database_in(2), world.cluster.home(), world.nodes[1]
    assert old is world.nodes[0]
    machines = dict(zip(world.nodes, world.nodes_machines, strict=True))
    until(lambda: by_redis(heir, database) == LET_IN, "it is let in")
    visitors = {name: Visitor(door, old, database) for name, door in DOORS.items()}
    for visitor in visitors.values():
        assert visitor.ask() == LET_IN, visitor.door
    world.network.cut([*((machines[old], member) for member in world.members), *((member, machines[old]) for member in world.members)])
    for visitor in visitors.values():
        visitor.start()

    def is_heir() -> bool:
        home = next((node for node in world.nodes[1:] if node.is_home()), None)
        if home not in (None, heir):
            cluster = json.loads(home.ask("/admin/v1/cluster"))["cluster"]
            world.tell(home, cluster, f"hand-over 0 {node_id(heir)}")
        return home is heir

    until(is_heir, "another home")
    # The third node is home of the database's partition, and of it alone.
    world.network.cut([(machines[old], machines[heir]), (machines[heir], machines[old])])
    until(lambda: admin(heir, "delete", database["name"], "--yes") is not None, "it is deleted")
    deleted = time.monotonic()
    for name, visitor in visitors.items():
        until(lambda visitor=visitor: visitor.asked_since(deleted) >= ASKED_TIMES, f"{name} is asked")
    time.sleep(max(0, deleted + ASKED_SECONDS - time.monotonic()))
    for visitor in visitors.values():
        visitor.over.set()
    for name, visitor in visitors.items():
        visitor.join()
        since = [outcome for began, outcome in visitor.outcomes if began > deleted]
        print(f"{name}: {Counted(outcome for _, outcome in visitor.outcomes)}, since it is deleted {Counted(since)}")
    for name, visitor in visitors.items():
        for began, outcome in visitor.outcomes:
            allowed = (FAILED,) if began > deleted else (FAILED, LET_IN)
            assert outcome in allowed, f"{name}: {outcome}, {began - deleted:+.2f} s after it was deleted"
    world.network.heal()
    for name, visitor in visitors.items():
        until(lambda visitor=visitor: visitor.ask() == REFUSED, f"{name} refuses")


def main() -> int:
    alone("cluster.split")
    with own_folder() as folder:
        world = World(folder)
        try:
            with world.cluster:
                world.place_homes()
                two_homes_apart(world)
                world.place_homes()
                a_home_that_does_not_know(world)
        except BaseException:
            for node in world.nodes:
                print(f"---- {node.name}", *node.output[-40:], sep="\n")
            raise
        finally:
            world.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
