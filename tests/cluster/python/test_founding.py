"""A folder that holds data founds a cluster, and nothing that is acknowledged from then on is lost."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import redis
from harness.admin import Admin
from harness.cluster import Cluster, Node, until
from harness.server import Server, binary

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

BEFORE = 300


class Ledger:
    """Numbers at the end of a list of each database, one transaction each."""

    def __init__(self, databases: list[dict]):
        self.logins = [{}, *({"username": one["name"], "password": one["credentials"]["token"]} for one in databases)]
        self.count = 0

    def clients(self, node) -> list[redis.Redis]:
        return [redis.Redis(port=node.port, decode_responses=True, socket_timeout=60, retry=None, **login) for login in self.logins]

    def write(self, node, more: int) -> None:
        for client in self.clients(node):
            for number in range(self.count, self.count + more):
                client.rpush("ledger", number)
        self.count += more

    def check(self, node) -> None:
        for client in self.clients(node):
            found = [int(number) for number in client.lrange("ledger", 0, -1)]
            missing = sorted({*range(self.count)} - {*found})
            assert found == [*range(self.count)], f"{node.name} lacks {len(missing)} of {self.count}: {missing[:5]}"


@pytest.fixture
def folder():
    made = Path(tempfile.mkdtemp(prefix="quartet-founding-"))
    yield made
    shutil.rmtree(made)


def run(*words: str) -> None:
    done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def with_data(folder: Path, how: str, partitions: int) -> tuple[str, Ledger]:
    """A data folder of a server, its own or out of a backup, with some hundred records in each partition."""
    data = str(folder / "data")
    with Server("always", data=data, options=["--partitions", str(partitions)]) as server:
        ledger = Ledger([Admin(server).create(f"other-{number}") for number in range(1, partitions)])
        server.name = "the server"
        ledger.write(server, BEFORE)
        if how == "restored":
            run("backup", "--server", f"127.0.0.1:{server.http_port}", "--to", str(folder / "backup"))
        if how == "killed":
            server.kill()
    if how == "restored":
        data = str(folder / "restored")
        run("restore", "--from", str(folder / "backup"), "--data", data)
    return data, ledger


@pytest.mark.parametrize("how, partitions", [("restored", 1), ("killed", 1), ("stopped", 1), ("restored", 4)])
def test_a_folder_with_data_founds_a_cluster_that_loses_nothing(folder, how, partitions):
    """The cluster counted its records from 1, the folder's checkpoint and file log from behind the backup: the file log left out what came
    below that, and a restart lost it. The cluster's log now begins right behind the folder's last record."""
    data, ledger = with_data(folder, how, partitions)
    # The number of partitions is the folder's.
    with Cluster(folders=[data, None, None]) as cluster:
        first = cluster.nodes[0]
        assert any("founded a cluster with the data of this folder" in line for line in first.output)
        ledger.check(first)
        for node in (first, *cluster.nodes[1:]):
            cluster.at_one_home(lambda node=node: ledger.check(node))
        ledger.write(first, 50)
        first.kill()
        cluster.home()
        cluster.at_one_home(lambda: ledger.check(cluster.home()))
        first.start()
        for node in cluster.nodes:
            if not node.is_home():
                until(lambda node=node: is_handed_over(node), f"{node.name} is home")
            cluster.at_one_home(lambda node=node: ledger.check(node))
            cluster.at_one_home(lambda node=node: ledger.clients(node)[0].ping())
            ledger.write(node, 10)
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes:
            node.start()
        cluster.at_one_home(lambda: ledger.check(cluster.home()))


def is_handed_over(node: Node) -> bool:
    # Several partitions are served otherwise by then, and the answer may be lost.
    with contextlib.suppress(OSError):
        node.hand_over()
    return node.is_home()


def test_a_folder_with_data_does_not_join_a_cluster(folder):
    """One out of a backup was taken for an empty one, and served the cluster's writes without those that its checkpoint hid."""
    data, _ = with_data(folder, "restored", 1)
    with Cluster() as cluster:
        stranger = Node(cluster, "stranger", data=data)
        with pytest.raises(RuntimeError, match="holds data that is of no cluster, and etcd holds cluster .* an empty one joins"):
            stranger.start()
        # It was not counted among the nodes, and its data are as they were.
        assert "stranger" not in str(cluster.home().status())
    with Server("always", data=data) as server:
        assert redis.Redis(port=server.port).llen("ledger") == BEFORE


def test_a_nodes_folder_is_no_servers(folder):
    """It would go on beside the cluster."""
    data, _ = with_data(folder, "stopped", 1)
    with Cluster(nodes=2, options=["--cluster-nodes", "2"], folders=[data, None]) as cluster:
        cluster.home()
        cluster.nodes[0].kill()
        with pytest.raises(RuntimeError, match="belongs to a node of a cluster"):
            Server("always", data=data).start()
