"""Nodes that get the next program one after the other, and the previous one again."""

from __future__ import annotations

import os
import time

import pytest
import redis
from harness.cluster import Cluster, until
from harness.server import binary, next_program
from harness.unnoticed import Clients, all_run

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(3600)]

PAUSE_SECONDS = float(os.environ.get("PLANNED_PAUSE", "0.03"))
LONGEST = float(os.environ.get("PLANNED_LONGEST", "30"))


def formats(home) -> list[tuple[int, int]]:
    """What each node writes, and the newest that it reads."""
    nodes = home.status()["nodes"]
    return sorted((one["formats"]["written"], one["formats"]["newest"]) for one in nodes if one["is_running"])


def change_program(cluster, clients, program: str) -> None:
    """The home is the last; each node is stopped by SIGTERM, once clients have left it."""
    home = cluster.home()
    for node in [*(node for node in cluster.nodes if node is not home), home]:
        clients.leave(node)
        # What they have asked may still be under way.
        time.sleep(2)
        assert node.stop() == 0, "".join(node.output[-20:])
        node.program = program
        node.start()
        all_run(cluster)
        clients.nodes = list(cluster.nodes)


def test_an_upgrade_and_its_way_back_are_not_noticed():
    """A node did not say which formats it reads, and a newer program would have written what the others could not read.

    The next program has formats that are one higher. Until an operator finishes the upgrade it writes those of the program before,
    in etcd, to other nodes and in its own folder: so each node may go back. Afterwards an earlier program is refused by name.
    """
    with Cluster() as cluster:
        all_run(cluster)
        with Clients(cluster.nodes, pause=PAUSE_SECONDS) as clients:
            change_program(cluster, clients, next_program())
            until(lambda: formats(cluster.home()) == [(1, 2)] * 3, "all have the next program, and write the format before")
            change_program(cluster, clients, binary())
            until(lambda: formats(cluster.home()) == [(1, 1)] * 3, "all have gone back")
            early = cluster.home().command("finish-upgrade")
            assert early.returncode != 0 and "every node writes format 1" in early.stderr, early

            change_program(cluster, clients, next_program())
            all_run(cluster)
            finished = cluster.home().command("finish-upgrade")
            assert finished.returncode == 0 and "all nodes write format 2" in finished.stdout, finished
            until(lambda: formats(cluster.home()) == [(2, 2)] * 3, "all write the next format")
            # What is written now is copied, followed and taken over.
            for node in list(cluster.nodes):
                node.hand_over()
                time.sleep(1)
        clients.nothing_is_lost(cluster.home(), LONGEST)

        node = cluster.others()[0]
        assert node.stop() == 0
        node.program = binary()
        with pytest.raises(RuntimeError):
            node.start()
        assert any("the cluster writes format 2" in line for line in node.output), "".join(node.output[-20:])
        node.program = next_program()
        node.start()
        all_run(cluster)


def test_an_upgrade_is_not_finished_while_a_node_has_the_program_before():
    with Cluster() as cluster:
        all_run(cluster)
        client = redis.Redis(port=cluster.home().port, retry=None)
        client.set("key", "value")
        first, second = cluster.others()
        for node in (first, second):
            assert node.stop() == 0
            node.program = next_program()
            node.start()
        all_run(cluster)
        early = cluster.home().command("finish-upgrade")
        assert early.returncode != 0 and "every node writes format 1" in early.stderr, early
        home = cluster.home()
        assert home.stop() == 0
        away = until(lambda: cluster.home(), "another is home").command("finish-upgrade")
        assert away.returncode != 0 and f"{home.name} does not run" in away.stderr, away
        # It has missed nothing that it cannot read.
        redis.Redis(port=cluster.home().port).set("key", "other")
        home.start()
        until(lambda: redis.Redis(port=home.port).get("key") == b"other", "it follows")
