"""Clocks that are off: what clients hold keeps its time over a hand-over, and operators are told."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import redis
from harness.cluster import Cluster, until

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

HOUR = 3600


@pytest.fixture
def clocks():
    """Three nodes whose clocks can be set."""
    folder = Path(tempfile.mkdtemp(prefix="quartet-clocks-"))
    cluster = Cluster()
    for node in cluster.nodes:
        node.clock_file = folder / f"clock-{node.name}"
        node.set_clock(0)
    with cluster:
        yield cluster
    shutil.rmtree(folder)


def ahead(node) -> float:
    return node.metrics()["quartet_clock_ahead_seconds"]


def handed_over(cluster, node) -> None:
    until(lambda: cluster.home().command("hand-over", node.name).returncode == 0 or node.is_home(), f"{node.name} is home")


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_deadline_is_the_same_at_the_next_home(clocks, seconds):
    """A home that was an hour fast gave EX 600 a TTL of 4,196 after a hand-over; one that was an hour slow lost the key. Nothing told."""
    home, other = clocks.home(), clocks.others()[0]
    until(lambda: abs(ahead(home)) < 1 and known(home), "the clocks are known")
    # Equal clocks are shown as equal: the delay of the asking is not theirs. It was 989 ms.
    shown = [one["clock_ahead_milliseconds"] for one in home.status()["nodes"]]
    assert all(abs(milliseconds) < 500 for milliseconds in shown), shown
    home.set_clock(seconds)
    until(lambda: abs(ahead(home) - seconds) < 5, f"{home.name} knows that it is off")
    assert abs(home.metrics()["quartet_clock_correction_seconds"] - seconds) < 5
    assert any("clock differs from those of most nodes" in line for line in home.output)
    if clocks.home() is not home:
        handed_over(clocks, home)

    def kept() -> None:
        client = redis.Redis(port=home.port, retry=None)
        client.set("key", "value", ex=600)
        assert 500 < client.ttl("key") <= 600
        assert abs(client.time()[0] - redis.Redis(port=other.port, retry=None).time()[0]) < 5

    clocks.at_one_home(kept)
    for node in home, other:
        nodes = {one["name"]: one["clock_ahead_milliseconds"] for one in until(lambda node=node: known(node), "the clocks are known")}
        assert abs(nodes[home.name] / 1000 - seconds) < 5 and abs(nodes[other.name]) < 1000, nodes
    handed_over(clocks, other)
    assert 400 < clocks.at_one_home(lambda: redis.Redis(port=other.port, retry=None).ttl("key")) <= 600
    home.set_clock(0)
    until(lambda: abs(ahead(home)) < 1 and home.metrics()["quartet_clock_correction_seconds"] == 0, f"{home.name} is right again")


def known(node) -> list | None:
    nodes = node.status()["nodes"]
    return nodes if len(nodes) == 3 and all(one.get("clock_ahead_milliseconds") is not None for one in nodes) else None
