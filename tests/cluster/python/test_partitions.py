"""A cluster of four partitions: each has a log, a term and a home of its own, and the homes are spread over the nodes."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import time

import pytest
import redis
from harness.admin import Admin, Refused
from harness.cluster import Cluster, until
from harness.server import ROOT, binary

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

PARTITIONS = 4

found = importlib.util.spec_from_file_location("moves", ROOT / "tests/tenancy/python/test_moves.py")
moves = importlib.util.module_from_spec(found)
found.loader.exec_module(moves)

FAILURES = (*moves.FAILURES, Refused)


@pytest.fixture
def cluster():
    """Nodes of both engines share the logs. Of two homes one keeps its rows in files at least."""
    cluster = Cluster(options=["--partitions", str(PARTITIONS)])
    for node in cluster.nodes[1:]:
        node.options += ["--engine", "ssd"]
    with cluster:
        yield cluster


def repeated(act, what: str):
    """What `act` returns, once no home has gone away meanwhile."""

    def once():
        try:
            return (act(),)
        except FAILURES:
            return None

    return until(once, what)[0]


def create(cluster, name: str) -> dict:
    """A database: under another name if it is not known whether the first attempt has made one."""
    attempts = iter(range(1000))
    return repeated(lambda: Admin(cluster.home()).create(f"{name}-{next(attempts)}"), f"{name} is made")


def partitions(node) -> list[dict]:
    return json.loads(node.ask("/admin/v1/partitions"))["partitions"]


def prepare(writer) -> None:
    """Its table or collection, which an attempt without an answer may have made."""

    def made():
        try:
            writer.prepare()
        except FAILURES as error:
            if not any(text in f"{type(error).__name__} {error}" for text in ("ResourceInUse", "exists")):
                raise
            if isinstance(writer, moves.DynamoDbWriter):
                writer.tables = (writer.server.dynamodb_port, writer.connect())
            else:
                writer.tree = (writer.server.fauna_port, moves.fauna.connect(writer.server, writer.credentials["fauna_key"]))

    if hasattr(writer, "prepare"):
        repeated(made, f"{type(writer).__name__} is prepared")


def homes(cluster) -> list[str | None]:
    """The name of each partition's home, by what the home of the first knows."""
    return [one["home"] for one in repeated(lambda: cluster.home().status(), "an answer")["homes"]]


def spread(cluster) -> list[str]:
    """The homes, once every node is one."""
    return until(lambda: (found := homes(cluster)) and len({*found} - {None}) == len(cluster.nodes) and found, "each node is a home", 120)


def named(cluster, name: str):
    return next(node for node in cluster.nodes if node.name == name)


def beside_first(cluster):
    """A node that is home of another partition than the first, and not of that."""
    first, *others = spread(cluster)
    return named(cluster, next(home for home in others if home != first))


def go_on(writers) -> None:
    seen = {writer: len(writer.acknowledged) for writer in writers}

    def late():
        return [writer for writer in writers if len(writer.acknowledged) <= seen[writer]]

    try:
        until(lambda: not late(), "everybody goes on")
    except AssertionError as error:
        raise AssertionError([(type(one).__name__, one.server.name, one.name, one.errors[-3:]) for one in late()]) from error


def check(node, partitions: int = PARTITIONS) -> list[str]:
    """Of a node that is stopped: every row of each partition is where it belongs. Returns each one's rows, version and hash."""
    checked = subprocess.run([binary(), "check", "--data", node.data], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("\nsound\n") == partitions, checked.stdout
    return [line for line in checked.stdout.splitlines() if line.startswith("state ")]


def applied(node) -> list[float]:
    """The last record of each partition that the node has."""
    return [value for name, value in node.metrics().items() if name.startswith("quartet_log_applied{")]


def check_alike(cluster, partitions: int = PARTITIONS) -> None:
    """Once nobody writes any more: all nodes have the same rows. They end with etcd, as one that is left would begin a term."""
    since, before = time.monotonic(), None

    def is_quiet() -> bool:
        nonlocal since, before
        found = repeated(lambda: [applied(node) for node in cluster.nodes], "an answer")
        if found != before or any(one != found[0] for one in found):
            since, before = time.monotonic(), found
        # The use of databases is written down each five seconds.
        return time.monotonic() - since > 7

    until(is_quiet, "all nodes have the same records", 120)
    cluster.etcd.stop()
    for node in cluster.nodes:
        node.kill()
    states = {node.name: check(node, partitions) for node in cluster.nodes}
    assert all(len(state) == partitions and state == states[cluster.nodes[0].name] for state in states.values()), states


def test_clients_of_all_layers_lose_nothing_in_any_partition(cluster):
    databases = [create(cluster, f"database-{number}") for number in range(PARTITIONS)]
    places = {database["name"]: repeated(lambda database=database: Admin(cluster.home()).show(database["name"])["partition"], "it is there") for database in databases}
    assert len(set(places.values())) > 1, places
    # All layers in one database, two in each other one: a shell for each key is much for a small machine.
    made = [(databases[0], make) for make in moves.WRITERS]
    made += [(database, make) for database in databases[1:] for make in (moves.RedisWriter, moves.DynamoDbWriter)]
    writers = [make(cluster.nodes[number % len(cluster.nodes)], database) for number, (database, make) in enumerate(made)]
    for writer in writers:
        prepare(writer)
        writer.begin()
    try:
        spread(cluster)
        go_on(writers)

        # A node is killed that is home of some: others are, and of the first partition nobody else.
        for home in (beside_first(cluster), cluster.home()):
            spread(cluster)
            home.kill()
            go_on([writer for writer in writers if writer.server is not home])
            until(lambda: home.name not in homes(cluster), "others are home")
            home.start()
            go_on(writers)

        # One stands still.
        home = beside_first(cluster)
        home.pause()
        try:
            go_on([writer for writer in writers if writer.server is not home])
        finally:
            home.go_on()
        go_on(writers)

        # It is killed while a database moves: that is in one place.
        moved = databases[0]["name"]
        target = (places[moved] + 1) % PARTITIONS
        home = cluster.home()
        repeated(lambda: Admin(cluster.home()).ask("POST", f"/{moved}/move", {"to": target}), "a move is begun")
        home.kill()
        go_on([writer for writer in writers if writer.server is not home])
        place = repeated(lambda: Admin(cluster.home()).show(moved)["partition"], "it is there")
        assert place in (places[moved], target)
        home.start()

        # It moves while everybody goes on.
        target = (place + 2) % PARTITIONS

        def has_moved():
            if Admin(cluster.home()).show(moved)["partition"] == target:
                return True
            # Refused while it is under way.
            Admin(cluster.home()).ask("POST", f"/{moved}/move", {"to": target})
            raise OSError("not yet")

        assert repeated(has_moved, "it has moved")
        go_on(writers)

        # A hand-over takes all along that the home has.
        spread(cluster)
        successor = cluster.others()[0]

        def is_home():
            if not successor.is_home():
                successor.hand_over()
            return successor.is_home()

        until(lambda: repeated(is_home, "an answer"), f"{successor.name} is home")
        go_on(writers)
    finally:
        for writer in writers:
            writer.end()
    print({type(writer).__name__: (len(writer.acknowledged), writer.errors[:1]) for writer in writers})
    for writer in writers:
        repeated(writer.verify, "it can be read")

    def is_shown():
        home = cluster.home()
        shown = partitions(home)
        told = home.status()["homes"]
        assert [one["partition"] for one in told] == list(range(PARTITIONS)), told
        return [one["home"] for one in shown] == [one["home"] for one in told] and all(one["term"] > 0 for one in shown)

    until(lambda: repeated(is_shown, "an answer"), "each partition's home is shown")
    check_alike(cluster)


def opens(node, database: dict, token: str) -> bool:
    """Whether this node lets somebody in by a token; answered by a home."""

    def is_let_in():
        try:
            with redis.Redis(port=node.port, username=database["name"], password=token, socket_timeout=30, retry=None) as client:
                return client.ping()
        except redis.AuthenticationError:
            return False

    return repeated(is_let_in, "it is answered")


def test_a_changed_credential_is_refused_at_every_node_once_the_change_is_answered(cluster):
    databases = [create(cluster, f"database-{number}") for number in range(2)]
    places = {repeated(lambda database=database: Admin(cluster.home()).show(database["name"])["partition"], "it is there") for database in databases}
    assert len(places) == 2, places
    tokens = {database["name"]: [database["credentials"]["token"]] for database in databases}

    def renew(database):
        renewed = repeated(lambda: Admin(cluster.home()).ask("POST", f"/{database['name']}/credentials"), "it has new credentials")
        tokens[database["name"]].append(renewed["credentials"]["token"])

    def check_tokens(nodes=cluster.nodes):
        for node in nodes:
            for database in databases:
                *old, newest = tokens[database["name"]]
                assert opens(node, database, newest), (node.name, database["name"])
                assert not any(opens(node, database, token) for token in old), (node.name, database["name"])

    spread(cluster)
    for database in databases:
        renew(database)
    check_tokens()
    renew(databases[0])
    home = cluster.home()
    home.kill()
    # What was answered before the kill holds at the next home.
    renew(databases[1])
    home.start()
    check_tokens()
    # The node that knows the old one is gone; whoever follows it knows the new one alone.
    home = beside_first(cluster)
    for database in databases:
        renew(database)
    home.kill()
    check_tokens([node for node in cluster.nodes if node is not home])
    home.start()
    # Nor does one that stood still while it changed.
    home = beside_first(cluster)
    home.pause()
    try:
        for database in databases:
            renew(database)
    finally:
        home.go_on()
    check_tokens()
    for node in cluster.nodes:
        assert node.stop() == 0
        check(node)


def test_the_number_of_partitions_is_the_clusters(cluster):
    database = create(cluster, "database")
    writer = moves.RedisWriter(cluster.nodes[0], database)
    writer.begin()
    try:
        go_on([writer])
        node = cluster.nodes[2]
        node.kill()
        at = node.options.index("--partitions")
        node.options[at + 1] = "8"
        with pytest.raises(RuntimeError, match="the cluster has 4, and keeps that number"):
            node.start()
        # One with an empty folder needs no option, and copies each.
        del node.options[at : at + 2]
        shutil.rmtree(node.data)
        repeated(node.start, "it has copied")
        go_on([writer])
        adopted = node.adopt("--from", node.name)
        assert adopted.returncode == 1, adopted
    finally:
        writer.end()
    repeated(writer.verify, "it can be read")

    needed = repeated(lambda: applied(cluster.home()), "an answer")
    assert len(needed) == PARTITIONS
    until(lambda: all(one <= other for one, other in zip(needed, repeated(lambda: applied(node), "an answer"))), "the copy follows")
    for node in cluster.nodes:
        assert node.stop() == 0
        check(node)


def test_a_home_whose_clock_is_set_back_goes_on(tmp_path):
    cluster = Cluster(options=["--partitions", "2"])
    for node in cluster.nodes:
        node.clock_file = tmp_path / node.name
        node.set_clock(0)
    with cluster:
        databases = [create(cluster, f"database-{number}") for number in range(2)]
        places = {repeated(lambda database=database: Admin(cluster.home()).show(database["name"])["partition"], "it is there") for database in databases}
        assert len(places) == 2, places
        # Signatures of DynamoDB are good for some minutes of the server's clock.
        writers = [make(cluster.nodes[0], database) for database in databases for make in (moves.RedisWriter, moves.FaunaWriter)]
        for writer in writers:
            prepare(writer)
            writer.begin()
        try:
            go_on(writers)
            home = cluster.home()
            home.set_clock(-3600)

            # libfaketime reads the file once a second. The node follows the clocks of the others at once.
            until(lambda: home.metrics()['quartet_clock_correction_seconds{partition="0"}'] < -1800, "its clock is back")
            go_on(writers)
            moved = databases[0]["name"]
            target = 1 - Admin(home).show(moved)["partition"]
            repeated(lambda: Admin(cluster.home()).ask("POST", f"/{moved}/move", {"to": target}), "a move is begun")
            until(lambda: repeated(lambda: Admin(cluster.home()).show(moved)["partition"] == target, "an answer"), "it has moved")
            go_on(writers)

            # The next home has an hour in which its clock is ahead of everything.
            successor = cluster.others()[0]

            def is_home():
                if not successor.is_home():
                    successor.hand_over()
                return successor.is_home()

            until(lambda: repeated(is_home, "an answer"), f"{successor.name} is home")
            go_on(writers)
            # And the one with the old clock is home again, behind all versions.
            successor = home
            until(lambda: repeated(is_home, "an answer"), f"{successor.name} is home again")
            go_on(writers)
        finally:
            for writer in writers:
                writer.end()
        for writer in writers:
            repeated(writer.verify, "it can be read")
        check_alike(cluster, 2)
