"""What client tests talk to, by QUARTET_TEST_TARGET.

| target | |
| --- | --- |
| quartet (default), redis | one server (`harness.server`) |
| cluster | the home of three nodes over three members of etcd |
| follower | a node that is not home, which passes everything on |
"""

from __future__ import annotations

import sys

from .cluster import Cluster
from .server import TARGET, Server

OVER_A_CLUSTER = TARGET in ("cluster", "follower")
# How often a test is run that fails while another node becomes home.
TRIES_MAX = 4


class ClusterServer:
    """A node in place of a server. Addresses are those of the node that clients are given; process and memory are the home's."""

    target = TARGET

    def __init__(self):
        self.cluster = Cluster()

    def start(self) -> "ClusterServer":
        self.cluster.__enter__()
        self.node = self.cluster.home() if TARGET == "cluster" else self.cluster.others()[0]
        RUNNING.append(self)
        return self

    def close(self) -> None:
        self.cluster.close()
        if self in RUNNING:
            RUNNING.remove(self)

    def has_moved(self) -> bool:
        """A loaded machine may hold up a home for a second; then another node is home, connections end as they must, and a test that
        fails over that says nothing."""
        if found := self.cluster.has_moved():
            print("another node became home, or etcd did not answer", file=sys.stderr)
        return found

    def alive(self) -> bool:
        return all(node.alive() for node in self.cluster.nodes)

    @property
    def pid(self) -> int:
        return self.cluster.home().pid

    def cpu_seconds(self) -> float:
        return self.cluster.home().cpu_seconds()

    def rss_bytes(self) -> int:
        return self.cluster.home().rss_bytes()

    def anonymous_bytes(self) -> int:
        return self.cluster.home().anonymous_bytes()

    @property
    def keyvalue_address(self) -> str:
        return f"127.0.0.1:{self.keyvalue_port}"

    def __getattr__(self, name: str):
        return getattr(self.node, name)


RUNNING: list[ClusterServer] = []


def running() -> ClusterServer | None:
    return RUNNING[-1] if RUNNING else None


def client_server() -> Server | ClusterServer:
    """The server that tests share, not yet started."""
    return ClusterServer() if OVER_A_CLUSTER else Server()
