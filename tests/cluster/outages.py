"""What clients see of a home that is stopped, stands still, or is cut off from all, or from etcd alone: how long until writes go on over
connections that were open, whether each promise of FaunaDB's driver settles, and where `/readyz` says that a request can be answered.

    python -m cluster.outages

Each node is on a machine of its own (`harness.network`), so this process has to be alone in namespaces of its own. It prints the figures
of docs/cluster.md. `OUTAGE_LONGEST` is the longest time in seconds that it accepts: a busy machine decides about it otherwise.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import redis
from harness import certificates
from harness.cluster import ROOT_KEY, Cluster, until
from harness.network import Network, alone, own_folder
from harness.server import ROOT
from harness.unnoticed import all_run

LONGEST = float(os.environ.get("OUTAGE_LONGEST", "30"))
FAILURES = (OSError, redis.RedisError, http.client.HTTPException)


class World:
    def __init__(self, folder: Path):
        self.network = Network()
        self.nodes_machines = [self.network.machine(f"node-{number}") for number in range(3)]
        self.members = [self.network.machine(f"member-{number}") for number in range(3)]
        machines = [*self.nodes_machines, *self.members]
        made = certificates.make(folder, [machine.address for machine in machines])
        self.cluster = Cluster(machines=machines, certificates=made, etcd_options=os.environ.get("OUTAGE_ETCD", "").split())
        # The member of etcd that was killed.
        self.leader = 0

    def machine(self, node):
        return self.nodes_machines[self.cluster.nodes.index(node)]

    def cut_off(self, node, others) -> None:
        own = self.machine(node)
        others = [other for other in others if other is not own]
        self.network.cut([*((own, other) for other in others), *((other, own) for other in others)])

    def close(self) -> None:
        self.cluster.close()
        self.network.close()


class Writer:
    """Writes by way of one node without a pause, and connects again whenever something fails: when was the newest acknowledgement?"""

    def __init__(self, node, protocol: str):
        self.node, self.protocol = node, protocol
        self.longest, self.acknowledged = 0.0, time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.over.is_set():
            with contextlib.suppress(*FAILURES):
                write = self._connect()
                while not self.over.is_set():
                    write()
                    now = time.monotonic()
                    self.longest, self.acknowledged = max(self.longest, now - self.acknowledged), now
                    time.sleep(0.005)
            time.sleep(0.02)

    def _connect(self):
        if self.protocol == "redis":
            client = redis.Redis(self.node.host, self.node.port, password=ROOT_KEY, socket_timeout=10, retry=None)
            return lambda: client.incr("count")
        connection = http.client.HTTPConnection(self.node.host, self.node.http_port, timeout=10)

        def post() -> None:
            connection.request("POST", "/", json.dumps(["INCR", "posted"]), {"Authorization": f"Bearer {ROOT_KEY}"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(answer.status)

        return post

    def close(self) -> None:
        self.over.set()
        self.thread.join(60)


def address(node) -> str:
    return f"{node.host}:{node.fauna_port}"


class Drivers:
    """FaunaDB's JavaScript driver, three clients at each node."""

    def __init__(self, nodes):
        # Of nodes that have ended: they are at other ports since.
        self.gone: set[str] = set()
        # Of nodes that were killed while clients sent to them, which the system resets then. No server can let the driver know: node:http2
        # ignores the error of a write, and takes the end that it reads next for the wish of its own side.
        self.reset_while_sending: set[str] = set()
        self._begin(nodes)

    def _begin(self, nodes) -> None:
        command = ["node", "settle.js", ROOT_KEY, *map(address, nodes)]
        self.process = subprocess.Popen(command, cwd=ROOT / "tests/fauna/node", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def said(self) -> list[dict]:
        self.process.stdin.write("say\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def all_go_on(self, what: str, without=None) -> None:
        """Each has an answer to a query that it sent from now on; at a node that is gone a failure. None is waited for at `without`."""
        before = self.said()
        left_out = {address(without) if without else "", *self.reset_while_sending}

        def each() -> bool:
            pairs = list(zip(before, self.said()))
            # The first to settle may have been sent before.
            counted = [("settled" if now["address"] in self.gone else "answered", then, now) for then, now in pairs if now["address"] not in left_out]
            return all(now[count] > then[count] + 1 for count, then, now in counted)

        try:
            until(each, what, LONGEST)
        except AssertionError as late:
            raise AssertionError(f"{what}: {self.said()}") from late

    def all_wait(self, node) -> None:
        """Each client of this node has sent a query, and waits for the answer."""
        until(lambda: all(one["waits"] > 0.3 for one in self.said() if one["address"] == address(node)), "clients wait")

    def renew(self, nodes) -> None:
        """Clients at the present ports."""
        self.close()
        self.gone.clear()
        self.reset_while_sending.clear()
        self._begin(nodes)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def another_home(world, old):
    return until(lambda: next((node for node in world.cluster.nodes if node is not old and node.alive() and node.is_home()), None), "another home")


@contextlib.contextmanager
def writing(world, without):
    """Writers at each node that survives, over Redis and REST."""
    writers = [Writer(node, protocol) for node in world.cluster.nodes if node is not without for protocol in ("redis", "rest")]
    try:
        time.sleep(2)
        for writer in writers:
            writer.longest = 0.0
        yield writers
    finally:
        for writer in writers:
            writer.close()


def resumes(writers, began: float, what: str) -> None:
    until(lambda: all(writer.acknowledged > began + 0.5 for writer in writers), f"{what}: writes go on")
    time.sleep(1)
    longest = max(writers, key=lambda writer: writer.longest)
    print(f"{what}: {longest.longest:.2f} s without an acknowledgement ({longest.protocol} at {longest.node.name})")
    assert longest.longest <= LONGEST, what


def is_ready(node) -> bool:
    try:
        return bool(node.ask("/readyz", timeout=5))
    except OSError:
        return False


def answers(node) -> bool:
    with contextlib.suppress(*FAILURES):
        client = redis.Redis(node.host, node.port, password=ROOT_KEY, socket_timeout=5, retry=None)
        client.incr("asked")
        return True
    return False


def a_cut_off_node_is_not_ready(world, drivers) -> None:
    """It had stayed ready: a load balancer went on sending it requests."""
    everyone = [*world.nodes_machines, *world.members]
    home = world.cluster.home()
    follower = next(node for node in world.cluster.nodes if node is not home)
    for node, others, what in [
        (follower, everyone, "a follower that is cut off from all"),
        (follower, world.nodes_machines, "a follower that is cut off from the nodes"),
        (follower, world.members, "a follower that is cut off from etcd"),
    ]:
        world.cut_off(node, others)
        until(lambda: is_ready(node) == answers(node), f"{what} says whether it answers")
        print(f"{what}: ready {is_ready(node)}")
        world.network.heal()
        until(lambda: is_ready(node) and answers(node), f"{what} is ready again")
    drivers.all_go_on("after the cuts of a follower")


def outages(world, drivers) -> None:
    everyone, etcd = [*world.nodes_machines, *world.members], world.cluster.etcd

    def stop(home) -> None:
        assert home.stop() == 0

    def kill_under_waiting_clients(home) -> None:
        home.pause()
        drivers.all_wait(home)
        home.kill()

    def kill_both(home) -> None:
        world.leader = etcd.leader()
        etcd.kill(world.leader)
        home.kill()

    def start_both(home) -> None:
        etcd.run(world.leader)
        home.start()

    runs_on, gone, reset_while_sending = None, drivers.gone, drivers.reset_while_sending
    for what, fail, mend, ends in [
        ("home stopped by SIGTERM", stop, lambda home: home.start(), gone),
        ("home killed", lambda home: home.kill(), lambda home: home.start(), reset_while_sending),
        ("home killed under waiting clients", kill_under_waiting_clients, lambda home: home.start(), gone),
        ("home and etcd's leader killed", kill_both, start_both, reset_while_sending),
        ("home standing still", lambda home: home.pause(), lambda home: home.go_on(), runs_on),
        ("home isolated", lambda home: world.cut_off(home, everyone), lambda _: world.network.heal(), runs_on),
        ("home cut off from etcd alone", lambda home: world.cut_off(home, world.members), lambda _: world.network.heal(), runs_on),
    ]:
        all_run(world.cluster)
        if gone or reset_while_sending:
            drivers.renew(world.cluster.nodes)
        home = world.cluster.home()
        with writing(world, home) as writers:
            drivers.all_go_on(f"{what}: before")
            if ends is not runs_on:
                ends.add(address(home))
            began = time.monotonic()
            fail(home)
            resumes(writers, began, what)
            another_home(world, home)
            # What passes nothing on while it stands still settles once it goes on.
            drivers.all_go_on(f"{what}: at the other nodes", without=home if ends is runs_on else None)
            if "cut" in what or "isolated" in what:
                until(lambda: is_ready(home) == answers(home), f"{what}: it says whether it answers")
                print(f"{what}: ready {is_ready(home)}")
        mend(home)
        until(lambda: is_ready(home), f"{what}: it is ready again")
        drivers.all_go_on(f"{what}: afterwards")


def main() -> int:
    alone("cluster.outages")
    with own_folder() as folder:
        world = World(folder)
        drivers = None
        try:
            with world.cluster:
                all_run(world.cluster)
                drivers = Drivers(world.cluster.nodes)
                outages(world, drivers)
                a_cut_off_node_is_not_ready(world, drivers)
        except BaseException:
            for node in world.cluster.nodes:
                print(f"---- {node.name}", *node.output[-40:], sep="\n")
            raise
        finally:
            if drivers:
                drivers.close()
            world.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
