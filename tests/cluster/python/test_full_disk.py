"""A home whose disk has no room gives itself up to a node that has."""

from __future__ import annotations

import os
import time

import pytest
import redis
from harness import small_disk
from harness.cluster import Cluster, until
from harness.unnoticed import all_run

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

DISK_MEGABYTES = 192
# Logs in small pieces, so that a full disk is soon noticed.
OPTIONS = ["--log-segment-bytes", "2097152", "--log-retention-bytes", "33554432"]


def is_written(node, key: str, value: str) -> bool:
    try:
        return bool(redis.Redis(port=node.port, retry=None, socket_timeout=10).set(key, value))
    except redis.RedisError:
        return False


def test_a_home_without_room_hands_over_to_a_node_that_has():
    """All writes stopped until a person acted, while `/readyz` and `/healthz/home` answered 200."""
    if missing := small_disk.why_not():
        pytest.skip(missing)
    with small_disk.SmallDisk(DISK_MEGABYTES) as disk, Cluster(options=OPTIONS, folders=[str(disk.path / "data"), None, None]) as cluster:
        small = cluster.nodes[0]
        all_run(cluster)
        if not small.is_home():
            small.hand_over()
        until(small.is_home, "the node with the small disk is home")
        assert is_written(small, "before", "written")
        filling = disk.fill()
        began = time.monotonic()
        acknowledged: list[str] = []

        def others_write() -> bool:
            # Random values, so that they take room.
            for node in cluster.nodes[1:]:
                key = f"key-{len(acknowledged)}"
                if is_written(node, key, os.urandom(200_000).hex()):
                    acknowledged.append(key)
            return not small.is_home() and any(node.is_home() for node in cluster.nodes[1:])

        until(others_write, "another node is home")
        other = cluster.home()
        assert other is not small and is_written(other, "after", "written")
        print(f"another node is home {time.monotonic() - began:.1f} s after the disk was full")
        # It takes no home back while it has no room, and says so.
        nodes = {node["name"]: node for node in other.status()["nodes"]}
        assert not nodes[small.name]["has_room"], nodes

        filling.unlink()
        until(lambda: is_written(small, "through", "written"), "it passes requests on")
        client = redis.Redis(port=cluster.home().port)
        assert all(client.exists(key) for key in ["before", "after", *acknowledged])
        until(lambda: {node["name"]: node for node in cluster.home().status()["nodes"]}[small.name]["has_room"], "it has room again")
