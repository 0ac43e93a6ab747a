"""The examples in `examples/`, against one server: each language's clients of each layer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.installed import CLIENTS, run
from harness.server import ROOT, Server, binary

EXAMPLES = ROOT / "examples"
NODE_PATH = ":".join(str(ROOT / "tests" / layer / "node" / "node_modules") for layer in ("redis", "dynamodb", "fauna"))


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    """The variables that clients read, as `quartet-server` has them."""
    server = Server().start()
    cluster = tmp_path_factory.mktemp("cluster") / "fdb.cluster"
    cluster.write_text(f"quartet:dev@127.0.0.1:{server.keyvalue_port}\n")
    yield {
        "REDIS_URL": f"redis://127.0.0.1:{server.port}",
        "UPSTASH_REDIS_REST_URL": f"http://127.0.0.1:{server.http_port}",
        "UPSTASH_REDIS_REST_TOKEN": "dev",
        "AWS_ENDPOINT_URL_DYNAMODB": f"http://127.0.0.1:{server.dynamodb_port}",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "FAUNA_ENDPOINT": f"http://127.0.0.1:{server.fauna_port}",
        "FAUNA_SECRET": "secret",
        "FDB_CLUSTER_FILE": str(cluster),
    }
    server.close()


def test_python(variables):
    library = str(Path(binary()).parent)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "python"]
    assert "5 passed" in run(command, PYTHONPATH=CLIENTS, LD_LIBRARY_PATH=library, **variables)


def test_seats(variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "seats"]
    assert "6 passed" in run(command, PYTHONPATH=CLIENTS, LD_LIBRARY_PATH=str(Path(binary()).parent), **variables)


def test_shop(variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "shop"]
    assert "7 passed" in run(command, PYTHONPATH=CLIENTS, NODE_PATH=NODE_PATH, **variables)


def test_payments(variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "payments"]
    assert "3 passed" in run(command, PYTHONPATH=CLIENTS, **variables)


def test_agent(variables):
    python = ROOT / "target" / "examples-agent-venv" / "bin" / "python"
    told = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "agent"], LANGSMITH_TRACING="false", **variables)
    assert "5 passed" in told


def test_node(variables):
    # Beside the file there is nothing to import from, so the clients are lent to it.
    told = run(["node", "--test", "--test-reporter=tap", EXAMPLES / "node" / "clients.test.mjs"], NODE_PATH=NODE_PATH, **variables)
    assert "# pass 4" in told


def test_go(variables):
    run(["go", "test", "-C", EXAMPLES / "go", "-count=1", "./..."], **variables)


def test_java(variables, tmp_path):
    jars = ROOT / "target" / "test" / "examples-jars"
    path = ":".join(str(jars / line.split()[1]) for line in (EXAMPLES / "java" / "jars.sha256").read_text().splitlines())
    run(["javac", "--release", "17", "-d", tmp_path, "-cp", path, EXAMPLES / "java" / "Clients.java"])
    assert "4 passed" in run(["java", "-cp", f"{tmp_path}:{path}", "Clients"], **variables)
