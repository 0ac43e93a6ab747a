"""Transactions of more than 4 MiB: their bytes are in an object store, and every node has them."""

import json
import subprocess
import urllib.request
from functools import partial
from pathlib import Path

import pytest
import redis
from harness.cluster import Cluster, Node, until
from harness.object_store import object_store
from harness.server import Server, binary
from keyvalue.python import wire

MEGABYTE = 1_000_000
# No two parts of it are alike, as far as it is compressed.
LARGE = b"".join(b"%020d" % (number * 1_000_003) for number in range(MEGABYTE))
# As many as one commit of the key-value layer may have: 10,000,000 bytes with their keys.
PAIRS = [(wire.SET, b"key/%03d" % number, LARGE[number * 50_000 :][:99_000]) for number in range(100)]


def redis_of(node: Node) -> redis.Redis:
    return redis.Redis(port=node.port, socket_timeout=60, retry=None)


def fauna(node: Node, expression: object) -> object:
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.fauna_port}/", data=json.dumps(expression).encode(), headers={"Authorization": "Bearer secret"}
    )
    return json.load(urllib.request.urlopen(request, timeout=60))["resource"]


def write_documents(node: Node) -> None:
    """20 MB in one query: 25 documents of 800 kB. Once, if it is asked again."""
    text = LARGE[: MEGABYTE * 8 // 10].decode()
    create = {"create": {"collection": "large"}, "params": {"object": {"data": {"object": {"text": {"var": "text"}}}}}}
    each = {"foreach": {"lambda": "number", "expr": create}, "collection": list(range(25))}
    written = {"equals": [{"count": {"documents": {"collection": "large"}}}, 25]}
    fauna(node, {"let": [{"text": text}], "in": {"if": written, "then": 1, "else": {"do": [each, 1]}}})


def commit_pairs(node: Node) -> None:
    client = wire.Wire(f"127.0.0.1:{node.keyvalue_port}")
    error, _ = client.ask(wire.COMMIT, wire.commit(PAIRS))
    client.close()
    assert error == 0


def create_collection(node: Node) -> None:
    exists = {"exists": {"collection": "large"}}
    fauna(node, {"if": exists, "then": 1, "else": {"do": [{"create_collection": {"object": {"name": "large"}}}, 1]}})


def assert_all_is_here(node: Node) -> None:
    assert redis_of(node).get("large") == LARGE
    assert fauna(node, {"count": {"documents": {"collection": "large"}}}) == 25
    client = wire.Wire(f"127.0.0.1:{node.keyvalue_port}")
    version = client.version()
    for _, key, value in PAIRS[:: len(PAIRS) - 1]:
        error, body = client.ask(wire.GET, wire.get(version, key))
        assert error == 0 and body.endswith(value)
    client.close()


def answers(cluster: Cluster) -> bool | None:
    """Whether the object store answers the home. None: the home has gone meanwhile."""
    try:
        found = cluster.home().metrics().get("quartet_object_store_answers")
    except OSError:
        return None
    return found if found is None else found == 1


def make_home(cluster: Cluster, node: Node) -> None:
    def is_home() -> bool:
        try:
            if not node.is_home():
                node.hand_over()
        except OSError:
            return False
        return node.is_home()

    until(is_home, f"{node.name} is home")


def test_large_transactions_of_every_layer_outlive_their_home(monkeypatch):
    with object_store() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        store.client().create_bucket(Bucket="bucket")

        def names() -> list[str]:
            found = store.client().list_objects_v2(Bucket="bucket", Prefix="log/").get("Contents", [])
            return [entry["Key"] for entry in found if not entry["Key"].endswith("probe") and "/cluster-" not in entry["Key"]]

        with Cluster(options=["--cluster-store", "s3://bucket/log"]) as cluster:
            home = cluster.home()
            follower = cluster.others()[0]
            until(lambda: answers(cluster), "the object store answers")
            cluster.at_one_home(partial(create_collection, follower))
            cluster.at_one_home(partial(commit_pairs, follower))
            cluster.at_one_home(partial(write_documents, follower))
            assert cluster.at_one_home(lambda: redis_of(home).set("large", LARGE))
            home.kill()
            assert cluster.home() is not home
            for node in cluster.nodes:
                if node is not home:
                    make_home(cluster, node)
                    cluster.at_one_home(partial(assert_all_is_here, node))
            added = Node(cluster, "added")
            cluster.nodes.append(added)
            for node in (home, added):
                node.start()
                make_home(cluster, node)
                cluster.at_one_home(partial(assert_all_is_here, node))
            until(lambda: not names(), "objects go with their records")
            cluster.at_one_home(lambda: assert_all_is_here(cluster.home()))


def test_while_the_object_store_is_away_only_large_transactions_are_refused(tmp_path):
    place, away = Path(tmp_path, "store"), Path(tmp_path, "away")
    with Cluster(nodes=2, options=["--cluster-store", str(place), "--cluster-nodes", "2"]) as cluster:
        until(lambda: answers(cluster), "the object store answers")
        client = redis_of(cluster.home())
        assert cluster.at_one_home(lambda: client.set("large", LARGE))
        place.rename(away)
        until(lambda: answers(cluster) is False, "the object store is away")

        def is_refused():
            with pytest.raises(redis.ResponseError, match="maximum size"):
                client.set("larger", LARGE)

        cluster.at_one_home(is_refused)
        assert cluster.at_one_home(lambda: client.set("small", "goes on"))
        assert cluster.at_one_home(lambda: client.get("large")) == LARGE
        away.rename(place)
        until(lambda: answers(cluster), "the object store is back")
        assert cluster.at_one_home(lambda: client.set("larger", LARGE))

        other = Node(cluster, "other")
        cluster.nodes.append(other)
        without = [word for word in other.options if word not in ("--cluster-store", str(place))]
        for options, reason in ((["--cluster-store", str(away)], f"the cluster's is {place}"), ([], f"the cluster has {place}")):
            other.options = without + options
            with pytest.raises(RuntimeError, match=reason):
                other.start()


def test_a_cluster_of_one_node_trims_what_is_archived(tmp_path):
    options = ["--cluster-nodes", "1", "--cluster-allow-one-node", "--cluster-archive", str(tmp_path / "archive")]
    with Cluster(nodes=1, options=options) as cluster:
        node = cluster.home()
        client = redis_of(node)
        cluster.at_one_home(lambda: client.set("first", "kept"))
        had = node.metrics()["quartet_log_applied"]
        for number in range(100):
            cluster.at_one_home(lambda number=number: client.set(f"key:{number}", number))
        until(lambda: cluster.home().metrics()["quartet_log_trimmed_below"] > had, "etcd has dropped what is archived")

        # The place goes away: etcd drops nothing that was written since, and no other place is made there.
        archive, away = tmp_path / "archive", tmp_path / "away"
        archive.rename(away)
        had, said = cluster.home().metrics()["quartet_log_applied"], len(node.output)
        for number in range(100, 150):
            cluster.at_one_home(lambda number=number: client.set(f"key:{number}", number))
        until(lambda: sum("the archive is not kept" in line for line in node.output[said:]) >= 2, "it is looked for again")
        assert node.metrics()["quartet_log_trimmed_below"] <= had + 1 and not archive.exists()
        away.rename(archive)
        until(lambda: node.metrics()["quartet_log_trimmed_below"] > had + 1, "it is kept again")
        node.kill()
        node.start()
        cluster.home()
        until(lambda: cluster.at_one_home(partial(redis_of(node).get, "key:99")) == b"99", "the node is home again")
        client = redis_of(node)
        assert client.get("first") == b"kept"
        node.stop()
        restored = subprocess.run(
            [binary(), "restore", "--from", str(tmp_path / "archive"), "--data", str(tmp_path / "restored")], capture_output=True, text=True
        )
        assert restored.returncode == 0, restored.stderr
        with Server(data=str(tmp_path / "restored")) as server:
            assert redis.Redis(port=server.port).mget("key:99", "key:149") == [b"99", b"149"]
