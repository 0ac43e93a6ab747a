"""The home of the first partition and the home of another do not reach each other, and both reach etcd; then a home of the first is cut off
from etcd alone, and another node takes its place.

    python -m cluster.split

Each node is on a machine of its own (`harness.network`), so this process has to be alone in namespaces of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import redis

from harness import certificates
from harness.cluster import ROOT_KEY, Cluster
from harness.network import Network, alone, own_folder
from harness.server import ROOT, binary

PARTITIONS = 3
COMES_WITHIN = 60.0
FAILURES = (OSError, redis.RedisError)

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
                    id = hashlib.sha256(wanted.encode()).hexdigest()[:16]
                    self.tell(self.nodes[names.index(home)], status["cluster"], f"hand-over {one['partition']} {id}")
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


def a_home_that_does_not_know(world: World) -> None:
    """It is home no more and cannot learn it: nobody is refused by way of it."""
    database, old = world.database_in(2), world.cluster.home()
    machine = world.nodes_machines[world.nodes.index(old)]
    world.network.cut([*((machine, member) for member in world.members), *((member, machine) for member in world.members)])
    home = until(lambda: next((node for node in world.nodes if node is not old and node.is_home()), None), "another home")
    until(lambda: admin(home, "delete", database["name"], "--yes") is not None, "it is deleted")
    token = database["credentials"]["token"]
    try:
        with redis.Redis(old.host, old.port, username=database["name"], password=token, socket_timeout=4, retry=None) as client:
            client.ping()
        raise AssertionError("a database that is gone lets somebody in")
    except redis.AuthenticationError as error:
        raise AssertionError("refused by way of a home that is none") from error
    except FAILURES:
        pass
    with socket.create_connection((old.host, int(old.keyvalue_address.rsplit(":", 1)[1])), 4) as client:
        client.settimeout(4)
        client.sendall(wire.greeting(token.encode()))
        try:
            answer = client.recv(100)
        except OSError:
            answer = b""
        # The old home passes the connection on to the home of the database's partition. Only a home of the first partition
        # refuses a credential, so a refusal is that node's own where it is home of both.
        homes = {one["partition"]: one["home"] for one in json.loads(home.ask("/admin/v1/cluster"))["homes"]}
        may_refuse = homes[2] == home.name
        assert answer == b"" or may_refuse and b"unknown credential" in answer, answer
    world.network.heal()


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
