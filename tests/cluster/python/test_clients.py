"""Clients of every layer at nodes that are not home, and what they see when no node is."""

import contextlib
import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest
import redis
from harness import certificates, dynamodb
from harness.cluster import ROOT_KEY, Cluster, until
from harness.resp import Connection
from harness.server import binary, free_port


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        yield cluster


def ask(port, path, body=None, timeout=60):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, headers={"Authorization": "Bearer dev"})
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        answer = error
    return answer.status, answer.read().decode()


def test_rest_is_answered_everywhere(cluster):
    def is_set(number, node):
        assert ask(node.http_port, f"/set/rest:{number}/{number}") == (200, '{"result":"OK"}')

    def are_read(node):
        body = json.dumps([["MGET", "rest:0", "rest:1", "rest:2"]]).encode()
        status, text = ask(node.http_port, "/pipeline", body)
        assert (status, json.loads(text)) == (200, [{"result": ["0", "1", "2"]}])

    for number, node in enumerate(cluster.nodes):
        cluster.at_one_home(partial(is_set, number, node))
    for node in cluster.nodes:
        cluster.at_one_home(partial(are_read, node))


def test_dynamodb_is_answered_everywhere(cluster):
    clients = [dynamodb.connect(node) for node in cluster.nodes]
    key = [{"AttributeName": "id", "KeyType": "HASH"}]
    attributes = [{"AttributeName": "id", "AttributeType": "S"}]

    def make_table():
        """Once, though it is asked again when another home has answered."""
        with contextlib.suppress(clients[0].exceptions.ResourceInUseException):
            clients[0].create_table(TableName="table", KeySchema=key, AttributeDefinitions=attributes, BillingMode="PAY_PER_REQUEST")

    cluster.at_one_home(make_table)
    for number, client in enumerate(clients):
        cluster.at_one_home(partial(client.put_item, TableName="table", Item={"id": {"S": str(number)}}))
    for client in clients:
        found = cluster.at_one_home(partial(client.scan, TableName="table", ConsistentRead=True))
        assert found["Count"] == len(clients)


def test_fauna_is_answered_everywhere(cluster):
    def query(node, expression):
        request = urllib.request.Request(
            f"http://127.0.0.1:{node.fauna_port}/", data=json.dumps(expression).encode(), headers={"Authorization": "Bearer secret"}
        )
        return json.load(urllib.request.urlopen(request, timeout=60))["resource"]

    def make(node, name, how):
        """Once, though it is asked again when another home has answered."""
        cluster.at_one_home(partial(query, node, {"if": {"exists": name}, "then": 1, "else": how}))

    make(cluster.nodes[0], {"collection": "things"}, {"create_collection": {"object": {"name": "things"}}})
    for number, node in enumerate(cluster.nodes):
        thing = {"ref": {"collection": "things"}, "id": str(number)}
        make(node, thing, {"create": thing, "params": {"object": {"data": {"object": {}}}}})
    for node in cluster.nodes:
        assert cluster.at_one_home(partial(query, node, {"count": {"documents": {"collection": "things"}}})) == len(cluster.nodes)


def test_keys_with_values_are_answered_everywhere(cluster, tmp_path):
    def shell(node, commands):
        file = tmp_path / f"{node.name}.cluster"
        file.write_text(f"quartet:dev@127.0.0.1:{node.keyvalue_port}\n")
        command = [binary(), "kv", "-C", str(file), "--timeout", "60", "--exec", commands]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    for number, node in enumerate(cluster.nodes):
        cluster.at_one_home(partial(shell, node, f"writemode on; set key{number} value"))
    for node in cluster.nodes:
        told = cluster.at_one_home(partial(shell, node, "getrangekeys key kez"))
        assert all(f"key{number}" in told for number in range(len(cluster.nodes))), told


def test_a_client_that_is_passed_on_hears_that_there_is_no_place(cluster):
    """The node took the home's refusal for a missing home, and said that three seconds later."""

    def is_refused_in_the_words_of_redis():
        home, other = cluster.home(), cluster.others()[0]
        with Connection(home.port) as operator:
            assert operator.do("CONFIG", "SET", "maxclients", 1) == "OK"
            try:
                with Connection(other.port) as refused:
                    assert refused.read_to_close() == b"-ERR max number of clients reached\r\n"
            finally:
                operator.do("CONFIG", "SET", "maxclients", 10_000)

    cluster.at_one_home(is_refused_in_the_words_of_redis)


def test_a_client_that_is_passed_on_may_end_its_side_first(cluster):
    def reads_to_the_end():
        with Connection(cluster.others()[0].port) as client:
            client.send("PING")
            client.send("QUIT")
            client.socket.shutdown(socket.SHUT_WR)
            assert client.read_to_close() == b"+PONG\r\n+OK\r\n"

    cluster.at_one_home(reads_to_the_end)


def test_a_client_that_the_home_ends_is_ended_whatever_it_does(cluster):
    """The connection stayed half open at both nodes while the client kept its side open."""

    def goes():
        home, other = cluster.home(), cluster.others()[0]
        with Connection(home.port) as operator, Connection(other.port) as victim:
            assert operator.do("CLIENT", "KILL", "ID", victim.do("CLIENT", "ID")) == 1
            assert victim.read_to_close() == b""
            deadline = time.monotonic() + 60
            while sockets_of(other, victim.socket.getsockname()[1]):
                assert time.monotonic() < deadline, "the node keeps the connection"
                time.sleep(0.05)

    cluster.at_one_home(goes)


def sockets_of(node, peer_port):
    """How many sockets of the node are connected to this port of loopback."""
    lines = Path(f"/proc/{node.pid}/net/tcp").read_text().splitlines()[1:]
    own = set()
    for file in Path(f"/proc/{node.pid}/fd").iterdir():
        # One may be closed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            own.add(os.readlink(file))
    fields = [line.split() for line in lines]
    return sum(f"socket:[{field[9]}]" in own for field in fields if int(field[2].rsplit(":")[1], 16) == peer_port)


def receive(connection):
    """Status and body of the next answer; asserts that the connection stays."""
    answer = connection.getresponse()
    text = answer.read().decode()
    assert connection.sock is not None, "the connection was closed"
    return answer.status, text


def test_a_connection_over_http_is_kept(cluster):
    """It was closed behind each answer."""
    headers = {"Authorization": "Bearer dev"}

    def is_kept():
        node = cluster.others()[0]
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=60)) as connection:
            for number in range(3):
                connection.request("GET", f"/set/kept/{number}", headers=headers)
                assert receive(connection) == (200, '{"result":"OK"}')
            # A body in chunks, one that is waited with, the node's own pages, and answers without a body.
            connection.request("POST", "/", body=iter([b'["SET","kept",', b'"4"]']), headers=headers, encode_chunked=True)
            assert receive(connection) == (200, '{"result":"OK"}')
            connection.request("POST", "/", body=b'["GET","kept"]', headers=headers | {"Expect": "100-continue"})
            assert receive(connection) == (200, '{"result":"4"}')
            connection.request("GET", "/healthz")
            assert receive(connection) == (200, "ok\n")
            connection.request("HEAD", "/get/kept", headers=headers)
            assert receive(connection)[1] == ""
            connection.request("GET", "/unknown/kept", headers=headers)
            assert receive(connection)[0] == 400
            # Requests that come together, the last of which says that it is.
            one = "GET /get/kept HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer dev\r\n"
            connection.sock.sendall((one + "\r\n" + one + "connection: close\r\n\r\n").encode())
            received = b"".join(iter(partial(connection.sock.recv, 65536), b""))
            assert received.count(b'{"result":"4"}') == 2 and received.lower().count(b"connection: close") == 1

    cluster.at_one_home(is_kept)


def test_a_client_over_http_that_ends_its_side_is_noticed_at_the_home(cluster):
    """The node that passed a subscription on did not look at the client while its answer was streamed: at the home the subscription of a client
    that had gone stayed for ever, with its connection, and PUBLISH counted it. A client that ends its side alone still gets its answers."""
    one = "POST /{} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer dev\r\naccept: {}\r\ncontent-length: 0\r\n\r\n"

    def subscribed(home) -> int:
        return int(redis.Redis(port=home.port).pubsub_numsub("ends")[0][1])

    def is_noticed():
        home, node = cluster.home(), cluster.others()[0]
        for closes in (True, False):
            with socket.create_connection(("127.0.0.1", node.http_port), 60) as client:
                client.sendall(one.format("subscribe/ends", "text/event-stream").encode())
                until(lambda: subscribed(home) == 1, "it is subscribed")
                if closes:
                    client.close()
                else:
                    client.shutdown(socket.SHUT_WR)
                until(lambda: subscribed(home) == 0, "it is noticed")
        with socket.create_connection(("127.0.0.1", node.http_port), 60) as client:
            # The second is there while the first is answered.
            client.sendall((one.format("set/ends/1", "*/*") + one.format("get/ends", "*/*")).encode())
            client.shutdown(socket.SHUT_WR)
            received = b"".join(iter(partial(client.recv, 65536), b""))
            assert received.count(b'{"result":"OK"}') == 1 and received.endswith(b'{"result":"1"}'), received

    cluster.at_one_home(is_noticed)


def test_a_client_of_http_0_is_answered_as_it_knows(cluster):
    def is_answered():
        with socket.create_connection(("127.0.0.1", cluster.others()[0].http_port), 60) as client:
            client.sendall(b"GET /set/old/1 HTTP/1.0\r\nauthorization: Bearer dev\r\n\r\n")
            received = b"".join(iter(partial(client.recv, 65536), b""))
        assert received.startswith(b"HTTP/1.1 200") and received.endswith(b'{"result":"OK"}')

    cluster.at_one_home(is_answered)


def test_a_kept_connection_follows_the_home_and_a_hand_over_is_answered_everywhere(cluster):
    """Asked at the successor or at the home, it had no answer though it was done."""
    headers = {"Authorization": "Bearer dev"}
    cluster.at_one_home(lambda: until(lambda: len(cluster.home().status()["nodes"]) == 3, "three nodes are known"))
    for asked in ("the successor", "another", "the home"):

        def is_answered(asked=asked):
            home, (successor, another) = cluster.home(), cluster.others()
            node = {"the home": home, "the successor": successor, "another": another}[asked]
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", another.http_port, timeout=60)) as kept:
                kept.request("GET", "/set/kept/1", headers=headers)
                assert receive(kept) == (200, '{"result":"OK"}')
                body = json.dumps({"to": successor.name}).encode()
                handed.append(node)
                status, text = ask(node.http_port, "/admin/v1/cluster/hand-over", body)
                if status == 409 and cluster.term() != term:
                    return False
                assert (status, text) == (204, ""), asked
                until(successor.is_home, f"{successor.name} is home")
                kept.request("GET", "/get/kept", headers=headers)
                assert receive(kept) == (200, '{"result":"1"}')
            return True

        # On a loaded machine another node may become home by itself.
        for _ in range(5):
            term, handed = cluster.term(), []
            try:
                if is_answered():
                    break
            except (AssertionError, OSError):
                if cluster.term() <= term + len(handed):
                    raise
        else:
            raise AssertionError("the home moved each time")


def test_each_node_says_what_it_is(cluster):
    def each_says_it():
        home = cluster.home()
        for node in cluster.nodes:
            assert ask(node.http_port, "/healthz")[0] == 200
            # A node that has just heard of the home is ready a moment later.
            until(lambda node=node: ask(node.http_port, "/readyz")[0] == 200, f"{node.name} is ready")
            assert ask(node.http_port, "/healthz/home")[0] == (200 if node is home else 503)

    cluster.at_one_home(each_says_it)


def test_each_listener_is_shown_as_clients_reach_it(tmp_path):
    """The sentinel's line had a key that it refuses, and with TLS others had the scheme of clear text."""
    made = certificates.make(tmp_path)
    options = ["--cluster-allow-one-node", "--cluster-nodes", "1", "--listen-redis-tls", f"127.0.0.1:{free_port()}"]
    options += ["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]
    alone = Cluster(nodes=1, options=options)
    node = alone.nodes[0]
    node.root_key = ROOT_KEY
    try:
        alone.etcd.start()
        node.start()
        shown = dict(line.split(maxsplit=1) for line in node.output if re.match(r"[a-z]+ +[a-z]+://", line))
        assert shown["redis"].startswith("redis://default:<root key>@127.0.0.1:")
        assert shown["rediss"].startswith("rediss://default:<root key>@127.0.0.1:")
        assert all(shown[name].startswith("https://") for name in ("dynamodb", "fauna", "http"))
        assert shown["sentinel"].strip() == f"redis://127.0.0.1:{node.sentinel_port}"

        def is_answered():
            """A node that becomes home just now closes what it had taken before."""
            with contextlib.suppress(redis.ConnectionError):
                return redis.Redis.from_url(shown["sentinel"].strip(), retry=None).ping()

        until(is_answered, "the sentinel answers who shows nothing")
    finally:
        alone.close()


REPLICATION = [
    *(f"quartet_{name}" for name in ("term", "home", "log_applied", "log_synced", "lag_records", "lag_seconds", "append_seconds")),
    *(f"quartet_{name}_total" for name in ("appends", "append_bytes", "confirmations", "unknown_answers", "take_overs", "depositions")),
    *(f"quartet_{name}_total" for name in ("roll_backs", "state_hashes", "state_hash_mismatches")),
    *(f"quartet_log_{name}" for name in ("window_bytes", "trimmed_below")),
]


def test_each_node_shows_its_part_in_the_log(cluster):
    def each_shows_it():
        home = cluster.home()
        assert redis.Redis(port=home.port, retry=None).set("counted", 1)
        for node in cluster.nodes:
            shown = node.metrics()
            assert set(REPLICATION) <= shown.keys()
            is_home = float(node is home)
            assert (shown["quartet_home"], shown["quartet_term"]) == (is_home, home.metrics()["quartet_term"])
            if node is home:
                assert shown["quartet_appends_total"] > 0 and shown["quartet_append_bytes_total"] > 0
                assert (shown["quartet_lag_records"], shown["quartet_lag_seconds"]) == (0, 0)

    cluster.at_one_home(each_shows_it)


def test_without_a_home_nothing_is_executed_and_clients_are_told_so(cluster):
    """All of etcd is gone: the home is uncertain, and refuses what would write before it executes."""
    home = cluster.home()
    other, third = (node for node in cluster.nodes if node is not home)
    third.kill()
    # Etcd first: the node that is left would take over otherwise.
    for member in range(3):
        cluster.etcd.kill(member)
    home.kill()
    assert ask(other.http_port, "/healthz")[0] == 200

    def is_told():
        """It may have become home by itself just before, and was not sure of that."""
        status, text = ask(other.http_port, "/set/never/1")
        return status == 503 and "no node is home" in text

    until(is_told, "a client is told that no node is home")
    with pytest.raises(redis.RedisError):
        redis.Redis(port=other.fixed_port, socket_timeout=60, retry=None).set("never", 1)


def test_a_node_that_starts_waits_for_etcd(cluster):
    """It ended after half a second. Of etcd there is nothing left, by the test before."""
    waiting, stopped = [node for node in cluster.nodes if not node.alive()]
    waiting.ready_seconds_max = stopped.ready_seconds_max = 120
    starting = []

    def start(node):
        # One of them is stopped before it is ready.
        with contextlib.suppress(RuntimeError):
            node.start()

    for node in (waiting, stopped):
        node.fixed_http_port = free_port()
        starting.append(threading.Thread(target=start, args=(node,)))
        starting[-1].start()

    def says_so(node):
        with contextlib.suppress(OSError):
            status, text = ask(node.fixed_http_port, "/healthz")
            return status == 200 and text.startswith("ok: waiting for etcd at ") and text.endswith(", which does not answer\n")

    for node in (waiting, stopped):
        until(partial(says_so, node), f"{node.name} says what it waits for")
    for path in ("/readyz", "/healthz/home", "/get/key"):
        status, text = ask(waiting.fixed_http_port, path)
        assert status == 503 and text.startswith("waiting for etcd at "), text
    assert stopped.stop() == 0
    assert waiting.alive()

    for member in range(3):
        cluster.etcd.run(member)
    for thread in starting:
        thread.join(120)
        assert not thread.is_alive()
    said = [line for line in waiting.output if "waiting for etcd" in line]
    assert len(said) == 1, said
    assert cluster.home().alive() and ask(waiting.http_port, "/healthz")[0] == 200
    stopped.start()
