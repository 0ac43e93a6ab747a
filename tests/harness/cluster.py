"""Several nodes of one cluster on loopback, over three members of etcd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

from harness.etcd import Etcd
from harness.server import Server, binary, free_port

HOME_SECONDS_MAX = 30.0


def until(holds, what: str, seconds_max: float = 60.0):
    """What `holds` returns, once that is something."""
    deadline = time.monotonic() + seconds_max
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds_max} s: {what}"
        time.sleep(0.1)
    return found


class Node(Server):
    def __init__(self, cluster: "Cluster", name: str, **options):
        self.name = name
        self.node_port, self.sentinel_port = free_port(), free_port()
        own = ["--log", cluster.etcd.log(), "--node-name", name, "--node-listen", f"127.0.0.1:{self.node_port}"]
        own += ["--listen-sentinel", f"127.0.0.1:{self.sentinel_port}"]
        super().__init__("always", options=[*own, *cluster.options], fixed_port=free_port(), **options)

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """`quartet cluster` at this node."""
        command = [binary(), "cluster", "--server", f"127.0.0.1:{self.http_port}", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def status(self) -> dict:
        return json.loads(self.command("status", "--json").stdout)

    def adopt(self, *words: str) -> subprocess.CompletedProcess:
        """`quartet cluster adopt` with this node's settings, while it does not run."""
        command = [binary(), "cluster", "adopt", "--dev", "--data", self.data, *self.options, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def metrics(self) -> dict[str, float]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/metrics", headers={"Authorization": "Bearer dev"})
        lines = urllib.request.urlopen(request, timeout=5).read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def is_home(self) -> bool:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/healthz/home", timeout=2).status == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Cluster:
    def __init__(self, nodes: int = 3, options: Sequence[str] = ()):
        self.options = options
        self.etcd = Etcd()
        self.nodes = [Node(self, f"node-{number}") for number in range(nodes)]

    def __enter__(self) -> "Cluster":
        try:
            self.etcd.start()
            for node in self.nodes:
                node.start()
            self.home()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def home(self) -> Node:
        """The node that is home, once one is."""
        deadline = time.monotonic() + HOME_SECONDS_MAX
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node.alive() and node.is_home():
                    return node
            time.sleep(0.02)
        raise TimeoutError("no node is home:\n" + "\n".join("".join(node.output[-20:]) for node in self.nodes))

    def term(self) -> int:
        """The newest term that any node knows."""
        terms = [0]
        for node in self.nodes:
            try:
                terms.append(int(node.metrics()["quartet_term"]))
            except OSError:
                continue
        return max(terms)

    def at_one_home(self, act):
        """Acts again if another term has begun meanwhile. On a loaded machine a home may be silent for a second, and one that
        is deposed closes its connections; a connection that closes without that is a fault."""
        while True:
            term = self.term()
            try:
                return act()
            except Exception:
                if self.term() == term:
                    raise

    def others(self) -> list[Node]:
        home = self.home()
        return [node for node in self.nodes if node is not home]

    def close(self) -> None:
        for node in self.nodes:
            if node.alive():
                node.go_on()
            node.close()
        self.etcd.close()
