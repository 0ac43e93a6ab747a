"""Homes at several nodes, with what clients and operators notice of them, and what may happen to them."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import subprocess
import time
import urllib.request

import pytest
import redis
from harness import small_disk
from harness.admin import Admin, Refused
from harness.cluster import Cluster, until
from harness.server import binary

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]

PARTITIONS = 3
# Logs in small pieces, so that a full disk is soon noticed.
OPTIONS = ["--partitions", str(PARTITIONS), "--log-segment-bytes", "2097152", "--log-retention-bytes", "33554432"]
DISK_MEGABYTES = 192
BIG_BYTES = 1 << 20
FAILURES = (OSError, AssertionError, redis.RedisError, Refused)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Partition P is homed at node P. The last node has a small disk of its own."""
    reason = small_disk.why_not()
    if reason:
        pytest.skip(reason)
    with small_disk.SmallDisk(DISK_MEGABYTES) as disk:
        settings = tmp_path_factory.mktemp("settings") / "quartet.toml"
        settings.write_text(settings_with(100))
        folders = [None, None, str(disk.path / "data")]
        with Cluster(options=[*OPTIONS, "--config", str(settings)], folders=folders) as cluster:
            cluster.settings, cluster.disk = settings, disk
            yield cluster


@pytest.fixture(autouse=True)
def spread(cluster):
    place_homes(cluster)


def settings_with(slowlog: int) -> str:
    return f"[redis]\nslowlog-max-len = {slowlog}\n"


def homes(cluster) -> list[str | None]:
    return [one["home"] for one in repeated(lambda: cluster.home().status(), "an answer")["homes"]]


def repeated(act, what: str):
    """What `act` returns, once no home has gone away meanwhile."""

    def once():
        try:
            return (act(),)
        except FAILURES:
            return None

    return until(once, what)[0]


def place_homes(cluster) -> None:
    """Does at once what the home of the first partition would do in steps of ten seconds."""
    names = [node.name for node in cluster.nodes]

    def are_placed() -> bool:
        status = repeated(lambda: cluster.home().status(), "an answer")
        for one in status["homes"]:
            wanted, home = names[one["partition"]], one["home"]
            if home in names and home != wanted:
                asked = f"hand-over {one['partition']} {node_id(wanted)}"
                tell(cluster.nodes[names.index(home)], status["cluster"], asked)
                return False
        return [one["home"] for one in status["homes"]] == names

    until(are_placed, "each partition's home is where it is to be")
    # Each serves.
    for partition in range(PARTITIONS):
        database_in(cluster, partition)


def node_id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def tell(node, cluster_id: str, verb: str) -> None:
    """Another node's word."""
    try:
        with socket.create_connection(("127.0.0.1", node.node_port), 30) as link:
            link.sendall(f"quartet 1 {cluster_id} {verb}\n".encode())
            link.makefile("rb").read()
    except OSError:
        pass


def database_in(cluster, partition: int) -> dict:
    """A database whose home answers, made when it is asked for first."""
    made = cluster.__dict__.setdefault("made", {})

    def make():
        while partition not in made:
            database = Admin(cluster.home()).create(f"database-{time.monotonic_ns()}")
            made.setdefault(Admin(cluster.home()).show(database["name"])["partition"], database)
        with client_of(cluster.home(), made[partition]) as client:
            client.ping()
        return made[partition]

    return repeated(make, f"a database in partition {partition}")


def client_of(node, database: dict) -> redis.Redis:
    return redis.Redis(port=node.port, username=database["name"], password=database["credentials"]["token"], socket_timeout=30, retry=None)


def request_of(node, database: dict, path: str, method: str = "GET", token: str | None = None) -> urllib.request.Request:
    headers = {"Authorization": f"Bearer {token or database['credentials']['token']}"}
    return urllib.request.Request(f"http://127.0.0.1:{node.http_port}{path}", headers=headers, method=method)


def test_a_head_has_the_length_of_the_body_wherever_it_is_asked(cluster):
    for partition in range(PARTITIONS):
        database = database_in(cluster, partition)
        with client_of(cluster.nodes[0], database) as client:
            client.set("key", "x" * 1000)
        for node in cluster.nodes:

            def ask(node=node, database=database):
                with urllib.request.urlopen(request_of(node, database, "/get/key"), timeout=30) as whole:
                    length = len(whole.read())
                with urllib.request.urlopen(request_of(node, database, "/get/key", "HEAD"), timeout=30) as head:
                    assert head.read() == b""
                    return length, int(head.headers["content-length"])

            length, told = repeated(ask, "an answer")
            assert length > 1000 and told == length, (partition, node.name)


def test_each_home_shows_the_requests_that_it_answers(cluster):
    for partition in range(PARTITIONS):
        database = database_in(cluster, partition)

        def asked(database=database):
            with urllib.request.urlopen(request_of(cluster.nodes[0], database, "/get/key"), timeout=30) as answer:
                return answer.read()

        repeated(asked, "an answer")
        label = "" if partition == 0 else f'partition="{partition}",'
        metrics = cluster.nodes[partition].metrics()
        assert metrics[f'quartet_request_duration_seconds_count{{{label}layer="rest",operation="command"}}'] > 0
        name = database["name"]
        assert metrics[f'quartet_database_request_seconds_count{{{label}database="{name}"}}'] > 0
        # Whoever is no operator is not told names.
        with urllib.request.urlopen(f"http://127.0.0.1:{cluster.nodes[partition].http_port}/metrics", timeout=30) as page:
            assert name not in page.read().decode()


def test_parameters_of_redis_change_at_a_node_that_is_not_home(cluster):
    number = int(time.monotonic() * 10) % 1000 + 200
    cluster.settings.write_text(settings_with(number))
    for node in cluster.nodes:
        node.process.send_signal(signal.SIGHUP)
        until(lambda node=node: any("slowlog-max-len has changed" in line for line in node.output), f"{node.name} has read it")
        assert not any("stayed as it was" in line for line in node.output), node.output
    # Every node has it once it is home.
    for node in cluster.nodes[1:]:

        def is_home(node=node):
            if not node.is_home():
                node.hand_over()
            return node.is_home()

        until(lambda: repeated(is_home, "an answer"), f"{node.name} is home")
        with redis.Redis(port=node.port, socket_timeout=30) as client:
            assert client.config_get("slowlog-max-len") == {"slowlog-max-len": str(number)}


def test_a_home_without_room_takes_a_change_and_loses_nothing(cluster):
    """Its partition refuses writes, and what is decided about its databases holds all the same: it is small, and has room of its own."""
    database = database_in(cluster, 2)
    with client_of(cluster.nodes[0], database) as client:
        client.set("before", "there")
    filling = cluster.disk.fill()
    written = []

    def is_refused() -> bool:
        with client_of(cluster.nodes[0], database) as client:
            while True:
                try:
                    client.set(f"key-{len(written)}", "x" * 100_000)
                except redis.ResponseError as error:
                    return "No space left" in str(error)
                written.append(f"key-{len(written)}")

    def read(found: dict, *names: str) -> list:
        with client_of(cluster.nodes[0], found) as client:
            return client.mget(names)

    try:
        assert repeated(is_refused, "the log has no room")
        was = {**database}
        renewed = repeated(lambda: Admin(cluster.home()).ask("POST", f"/{database['name']}/credentials"), "a change is taken")
        database["credentials"] = renewed["credentials"]
        assert repeated(lambda: read(database, "before"), "it is read") == [b"there"]
        assert repeated(lambda: opens(cluster.nodes[0], was), "it is answered") is False
        # Others are not held up.
        with client_of(cluster.nodes[0], database_in(cluster, 1)) as client:
            assert client.set("meanwhile", "written")
    finally:
        filling.unlink()

    def write():
        with client_of(cluster.nodes[0], database) as client:
            return client.set("behind", "written")

    repeated(write, "there is room")
    # A home that has never been without room has it all.
    repeated(lambda: tell(cluster.nodes[2], cluster.home().status()["cluster"], f"hand-over 2 {node_id(cluster.nodes[1].name)}"), "an answer")
    until(lambda: homes(cluster)[2] == cluster.nodes[1].name, "another home")
    found = repeated(lambda: read(database, "before", "behind", *written), "it is read")
    assert found == [b"there", b"written", *[b"x" * 100_000] * len(written)]


def opens(node, database: dict) -> bool:
    """Whether its token lets somebody in."""
    try:
        with client_of(node, database) as client:
            return client.ping()
    except redis.AuthenticationError:
        return False


def test_a_client_that_reads_slowly_holds_nobody_up(cluster):
    """Its answer waits for it whole, once at each of the two nodes at most, and others go on."""
    database, home, clients = database_in(cluster, 1), cluster.nodes[0], 4
    values = 16
    with client_of(home, database) as client:
        client.delete("list")
        for _ in range(values):
            client.rpush("list", "x" * BIG_BYTES)
    before = home.anonymous_bytes()
    request = f"GET /lrange/list/0/-1 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {database['credentials']['token']}\r\n\r\n".encode()
    sockets = [socket.create_connection(("127.0.0.1", home.http_port), 30) for _ in range(clients)]
    try:
        for one in sockets:
            one.sendall(request)
            # The head has come, so the answer has.
            assert one.recv(12) == b"HTTP/1.1 200"
        for partition in range(PARTITIONS):
            with client_of(home, database_in(cluster, partition)) as client:
                assert all(client.incr("count") > 0 for _ in range(100))
        taken = home.anonymous_bytes() - before
        assert taken < 4 * clients * values * BIG_BYTES, taken
        for one in sockets:
            answer = one.makefile("rb")
            lengths = [int(line.split(b":")[1]) for line in iter(answer.readline, b"\r\n") if line.lower().startswith(b"content-length")]
            body = answer.read(lengths[0])
            assert len(json.loads(body)["result"]) == values
    finally:
        for one in sockets:
            one.close()


def test_a_move_is_carried_out_though_the_homes_are_apart(cluster):
    """The last one: the homes stay together for a while."""
    database = database_in(cluster, 2)
    name = database["name"]
    with client_of(cluster.nodes[0], database) as client:
        client.set("moved", "along")
    words = [binary(), "admin", "--server", f"127.0.0.1:{cluster.home().http_port}", "move", name, "--to", "1"]
    moved = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert repeated(lambda: Admin(cluster.home()).show(name)["partition"], "it is there") == 1

    def read():
        with client_of(cluster.home(), database) as client:
            return client.get("moved")

    assert repeated(read, "it is read") == b"along"
