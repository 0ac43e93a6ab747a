"""What `quartet cluster status` says is so."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
import redis
from harness.cluster import Cluster, until

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

NODE_LINE = re.compile(r"^node-\d +(home, commits|follows) +applied \d+ +on disk \d+ +behind \d+ records, \d+ ms  clock [+-]\d+ ms  \d+ MiB free$", re.M)


def test_the_status_of_a_cluster_is_whole():
    """It said `partition 0term 1`, `applied null` and nothing of etcd, of the disks, or of what the home does."""
    with Cluster(options=["--partitions", "2"]) as cluster:
        home = cluster.home()
        # Never nulls, from the first answer on.
        first = home.command("status")
        assert first.returncode == 0 and "null" not in first.stdout, first.stdout + first.stderr

        def is_whole() -> str:
            shown = cluster.others()[0].command("status").stdout
            is_known = len(NODE_LINE.findall(shown)) == 3 and "home, commits" in shown and len(re.findall(r"^etcd .* 3\.\d+\.\d+ .* MiB", shown, re.M)) == 3
            return shown if is_known and "leader" in shown else ""

        shown = until(is_whole, "the status is whole")
        assert re.search(r"^partition 0 +term \d+ +home node-\d$", shown, re.M), shown
        assert re.search(r"^records in etcd: \d+ of 256 MiB, 0 %$", shown, re.M), shown
        metrics = home.metrics()
        budgets = [value for name, value in metrics.items() if name.startswith("quartet_log_budget_bytes")]
        assert budgets == [128 << 20] * 2 and all(value == 0 for name, value in metrics.items() if name.startswith("quartet_home_is_uncertain"))


def test_a_node_that_is_behind_is_shown_so():
    """One that heard nothing of the log said that it lacked nothing."""
    with Cluster() as cluster:
        home, behind = cluster.home(), cluster.others()[0]
        until(lambda: sum(one["is_running"] for one in home.status()["nodes"]) == 3, "all nodes are known")
        behind.pause()
        client = redis.Redis(port=home.port, retry=None)

        def lag() -> int:
            with contextlib.suppress(OSError):
                return next(one.get("lag_records", 0) for one in home.status()["nodes"] if one["name"] == behind.name)
            return 0

        def is_behind() -> bool:
            for number in range(10):
                client.set("key", number)
            return lag() > 10

        # Its lease lasts for ten seconds.
        until(is_behind, f"{behind.name} is shown to be behind", 9)
        behind.go_on()
        until(lambda: lag() == 0 and behind.alive(), f"{behind.name} has caught up")


def test_status_does_not_wait_for_etcd():
    with Cluster() as cluster:
        home = cluster.home()
        cluster.etcd.stop()
        until(lambda: condition(home) in ("suspended", "uncertain"), "the home says what it does")
        began = time.monotonic()
        shown = home.command("status").stdout
        assert time.monotonic() - began < 10, "it hung"
        until(lambda: home.command("status").stdout.count("does not answer") == 3, "etcd is shown to be away")
        assert home.name in shown


def condition(home) -> str:
    with contextlib.suppress(OSError):
        return next((one.get("condition") for one in home.status()["nodes"] if one["name"] == home.name), "")
    return ""
