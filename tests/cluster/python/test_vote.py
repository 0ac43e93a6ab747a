"""A node whose state is not the others': they decide by the majority of their hashes, and it copies one of them."""

from __future__ import annotations

import contextlib
import threading

import pytest
import redis
from harness.cluster import Cluster, Node, until
from harness.server import binary, falsified_program

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

# Nodes compare their states each half a minute, and this page's promise is a minute.
NAMED_WITHIN_SECONDS = 60.0
MISMATCHES = "quartet_state_hash_mismatches_total"


class Watch:
    """Whether a node was ever home, or answered as one."""

    def __init__(self, node: Node):
        self.node, self.was_home = node, False
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        self.thread.join()

    def _run(self) -> None:
        while not self.over.wait(0.05):
            self.was_home |= self.node.is_home()


def described(cluster: Cluster, node: Node) -> dict:
    """As the others have it in their status; empty while there is none."""
    with contextlib.suppress(OSError):
        return next(one for one in cluster.home().status()["nodes"] if one["name"] == node.name)
    return {}


def falsify(node: Node) -> None:
    """From its opening on a row of its state is another, as on a machine with damaged memory."""
    node.program = falsified_program()
    node.start()
    # Whoever starts it again starts the program that is released.
    node.program = binary()


def write(cluster: Cluster, value: int) -> None:
    cluster.at_one_home(lambda: redis.Redis(port=cluster.home().port, retry=None).set("key", value))


def is_alike(cluster: Cluster, since: dict[str, float]) -> bool:
    """Every node has compared its state once more, and none differs any longer."""
    with contextlib.suppress(OSError):
        nodes = [node.metrics(timeout=5) for node in cluster.nodes]
        compared = all(metrics["quartet_state_hashes_total"] > since.get(node.name, 0) for node, metrics in zip(cluster.nodes, nodes))
        return compared and all(one.get("condition") in ("follows", "commits") for one in cluster.home().status()["nodes"])
    return False


def has_copied(node: Node) -> bool:
    """A home refuses while the hash of the third node is missing, and the node ends: whoever keeps it running starts it again."""
    if not node.alive():
        with contextlib.suppress(RuntimeError):
            node.start()
    return any("copied a node" in line for line in node.output)


@pytest.mark.parametrize("falsified", ["a follower", "the home"])
def test_the_minority_is_named_and_never_served_and_copies(falsified):
    """Only the simulation had a node with another state: that its log, its metrics and its status name it was not seen on one. A request to make
    it home right after its start was accepted, since it had compared nothing yet."""
    with Cluster() as cluster:
        write(cluster, 1)
        victim = cluster.home() if falsified == "the home" else cluster.others()[0]
        victim.stop()
        write(cluster, 2)
        falsify(victim)
        with Watch(victim) as watch:
            with pytest.raises(OSError) as refused:
                victim.hand_over()
            # Held, so that nobody starts it again before its log was read.
            with victim.starting:
                until(victim.needs_copy, "it has ended for a copy", NAMED_WITHIN_SECONDS)
                log = "".join(victim.output)
            assert "its state is not that of most nodes" in log and "Differs" in log, log[-2000:]
        assert not watch.was_home, refused
        until(lambda: has_copied(victim), "it has copied")
        until(lambda: described(cluster, victim).get("state_mismatches", 0) > 0, "the others' status names it", 10)
        assert victim.metrics()[MISMATCHES] > 0
        assert all(node.metrics()[MISMATCHES] == 0 for node in cluster.nodes if node is not victim)
        write(cluster, 3)
        since = {node.name: node.metrics()["quartet_state_hashes_total"] for node in cluster.nodes}
        until(lambda: is_alike(cluster, since), "all have compared again", 90)
        victim.hand_over()
        until(victim.is_home, "it may be home again")
        assert cluster.at_one_home(lambda: redis.Redis(port=victim.port, retry=None).get("key")) == b"3"
