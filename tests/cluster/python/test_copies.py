"""A node is added while writes go on, and a node is made home by an operator's request."""

import contextlib
import json
import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
import redis
from harness.cluster import Cluster, Node, until
from harness.server import free_port
from harness.writers import Writers


def wait_until_known(cluster, name):
    """Each node reads the members by itself, once a second. One that is configured is named also while it does not run."""

    def knows(node):
        shown = json.loads(node.command("nodes", "--json").stdout or "{}").get("nodes", [])
        return any(one["name"] == name and one.get("is_running") is not False for one in shown)

    for node in cluster.nodes:
        until(lambda node=node: knows(node), f"{node.name} knows {name}")


def is_home(cluster, node):
    """An operator makes it home, by way of another; on a loaded machine a home may have gone meanwhile, and the request is refused."""
    until(lambda: cluster.others()[0].command("hand-over", node.name).returncode == 0 or node.is_home(), f"{node.name} is home")


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
            is_home(cluster, added)
            writers.wait_for(500)
        finally:
            writers.end()
        writers.verify(added)

        def is_shown():
            is_home(cluster, added)
            shown = cluster.nodes[0].status()
            assert shown["home"] == "added" and {node["name"] for node in shown["nodes"]} == {"node-0", "node-1", "node-2", "added"}
            assert "added" in added.command("nodes").stdout and "home" in added.command("status").stdout

        cluster.at_one_home(is_shown)


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
        is_home(cluster, lost)
        writers.verify(lost)


class Gate:
    """Passes on what other nodes say to one. A copy that goes through is held up behind its first mebibyte while `holds` is set; `cut` ends it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        self.node_port = 0
        self.holds, self.is_held, self.cut = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                caller = self.listener.accept()[0]
                threading.Thread(target=self.converse, args=(caller,), daemon=True).start()

    def converse(self, caller):
        with contextlib.suppress(OSError), caller, socket.create_connection(("127.0.0.1", self.node_port)) as node:
            line = b""
            while not line.endswith(b"\n"):
                line += caller.recv(1)
            node.sendall(line)
            threading.Thread(target=self.pass_on, args=(caller, node), daemon=True).start()
            self.pass_on(node, caller, limit=1 << 20 if line.endswith(b" copy 0\n") else None)

    def pass_on(self, source, target, limit=None):
        passed = 0
        with contextlib.suppress(OSError):
            while received := source.recv(65536):
                if limit is not None and passed > limit and self.holds.is_set():
                    self.is_held.set()
                    while self.holds.is_set() and not self.cut.is_set():
                        time.sleep(0.02)
                    if self.cut.is_set():
                        for end in (source, target):
                            # Closing alone would not: another thread waits for it.
                            end.shutdown(socket.SHUT_RDWR)
                        return
                target.sendall(received)
                passed += len(received)
            target.shutdown(socket.SHUT_WR)


def test_a_node_whose_copy_is_cut_off_goes_on_or_begins_anew():
    cluster = Cluster()
    gates = [Gate() for _ in cluster.nodes]
    for gate, node in zip(gates, cluster.nodes):
        gate.node_port = node.node_port
        node.options = [*node.options, "--node-advertise", f"127.0.0.1:{gate.port}"]
    with cluster:
        home, lost = cluster.home(), cluster.others()[-1]
        client = redis.Redis(port=home.port)
        values = {f"key:{number}": os.urandom(100_000) for number in range(30)}
        for key, value in values.items():
            cluster.at_one_home(lambda key=key, value=value: client.set(key, value))

        def has_everything(node):
            until(lambda: node.command("hand-over", node.name).returncode == 0 or node.is_home(), f"{node.name} is home")
            reader = redis.Redis(port=node.port)
            return all(reader.get(key) == value for key, value in values.items())

        # A network that is silent for a while.
        lost.kill()
        shutil.rmtree(lost.data)
        for gate in gates:
            gate.holds.set()
        starting = threading.Thread(target=lost.start)
        starting.start()
        until(lambda: any(gate.is_held.is_set() for gate in gates), "the copy is held up")
        for gate in gates:
            gate.holds.clear()
        starting.join(60)
        assert not starting.is_alive()
        until(lost.alive, f"{lost.name} runs")
        wait_until_known(cluster, lost.name)
        assert cluster.at_one_home(lambda: has_everything(lost))

        # One that breaks.
        for gate in gates:
            gate.is_held.clear()
            gate.cut.set()
            gate.holds.set()
        lost = cluster.others()[-1]
        lost.kill()
        shutil.rmtree(lost.data)
        with pytest.raises(RuntimeError, match="copying node-"):
            lost.start()
        assert any(gate.is_held.is_set() for gate in gates)

        # And what the next start has copied when it is killed is not opened by the one behind it.
        for gate in gates:
            gate.cut.clear()
            gate.is_held.clear()

        def start():
            with contextlib.suppress(RuntimeError):
                lost.start()

        starting = threading.Thread(target=start)
        starting.start()
        until(lambda: any(gate.is_held.is_set() for gate in gates), "the copy is held up")
        lost.kill()
        starting.join(60)
        for gate in gates:
            gate.holds.clear()
        lost.start()
        assert any("copied a node" in line for line in lost.output)
        wait_until_known(cluster, lost.name)
        assert cluster.at_one_home(lambda: has_everything(lost))

        # A node whose state differed says so at its next start, which copies.
        lost = cluster.others()[-1]
        lost.stop()
        (Path(lost.data) / "needs-copy").write_text("the state differs\n")
        lost.start()
        assert any("copied a node" in line for line in lost.output)
        assert lost.metrics()["quartet_state_hash_mismatches_total"] == 1
        lost.restart()
        assert lost.metrics()["quartet_state_hash_mismatches_total"] == 0
