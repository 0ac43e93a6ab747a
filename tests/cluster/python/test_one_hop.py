"""What is passed on takes one hop, and a client can tell what was not executed from what may have been."""

import json
import socket
import threading
import urllib.error
import urllib.request

import pytest
from harness.cluster import Cluster, until


@pytest.fixture
def cluster():
    with Cluster() as cluster:
        yield cluster


def test_a_node_that_is_not_home_takes_nothing_that_was_passed_on(cluster):
    """A node that still believes another to be home passes a client on to it, and no further."""
    id = cluster.home().status()["cluster"]

    def answer(node):
        with socket.create_connection(("127.0.0.1", node.node_port), 10) as link:
            link.sendall(f"quartet 1 {id} forward redis 127.0.0.1:9\n".encode())
            link.settimeout(10)
            return link.makefile("rb").readline()

    def only_the_home_takes_it():
        for node in cluster.nodes:
            expected = b"ok\n" if node is cluster.home() else b"no not home\n"
            assert answer(node) == expected, node.name

    cluster.at_one_home(only_the_home_takes_it)


def test_a_home_that_goes_while_it_executes_leaves_the_outcome_unknown(cluster):
    home, asked = cluster.home(), cluster.others()[0]
    answers = []

    def execute():
        body = json.dumps(["EVAL", "redis.call('SET', 'begun', '1') while true do end", "0"]).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{asked.http_port}", data=body, headers={"Authorization": "Bearer dev"})
        try:
            answer = urllib.request.urlopen(request, timeout=120)
        except urllib.error.HTTPError as error:
            answer = error
        answers.append((answer.status, answer.read().decode()))

    used = home.cpu_seconds()
    thread = threading.Thread(target=execute)
    thread.start()
    until(lambda: home.cpu_seconds() > used + 1, "the script runs")
    home.kill()
    thread.join(60)
    assert not thread.is_alive()
    status, text = answers[0]
    assert status == 504 and "may have been executed" in text
