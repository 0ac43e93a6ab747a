"""The modules for Testcontainers, as far as they go without a container engine: what they ask for, and what they make of the answer.

The module for Go has tests of its own; its dependencies take minutes to compile, so they run where TESTCONTAINERS_GO is set.
"""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from harness.installed import run
from harness.server import ROOT, binary

MODULES = ROOT / "packaging" / "testcontainers"
HERE = ROOT / "tests" / "packages"


@pytest.fixture
def python_module(monkeypatch):
    """With the engine's client replaced, which the library asks for its version as soon as a container is described."""
    monkeypatch.syspath_prepend(MODULES / "python")
    monkeypatch.setattr("testcontainers.core.container.DockerClient", lambda **_: None)
    import quartet_testcontainers

    return quartet_testcontainers


def test_python(python_module, monkeypatch):
    container = python_module.QuartetContainer()
    assert [int(port) for port in container.ports] == [6379, 8080, 8000, 8443, 4500]
    assert container._command == "serve --data memory"
    assert container.env == {"QUARTET_DYNAMODB_ACCESS_KEYS": "quartet:quartet-secret"}
    container.key = python_module.root_key("root key, shown this once: qk_1\nready\n")
    monkeypatch.setattr(container, "get_container_host_ip", lambda: "127.0.0.1")
    monkeypatch.setattr(container, "get_exposed_port", lambda port: port + 10_000)
    assert container.redis_url() == "redis://:qk_1@127.0.0.1:16379"
    assert container.rest_url() == "http://127.0.0.1:18080"
    assert container.dynamodb_url() == "http://127.0.0.1:18000"
    assert container.fauna_url() == "http://127.0.0.1:18443"
    assert container.cluster() == "quartet:qk_1@127.0.0.1:14500"


def test_node():
    folder = HERE / "testcontainers-node"
    told = run(["node", folder / "configuration.cjs", MODULES / "node"], NODE_PATH=str(folder / "node_modules"))
    assert told == "as expected\n"


def test_java(tmp_path):
    jars = ROOT / "target" / "test" / "testcontainers-jars"
    names = [line.split()[1] for line in (HERE / "java" / "jars.sha256").read_text().splitlines()]
    path = ":".join(str(jars / name) for name in names)
    sources = [*(MODULES / "java").rglob("*.java"), HERE / "java" / "Configuration.java"]
    run(["javac", "--release", "17", "-d", tmp_path, "-cp", path, *sources])
    assert "as expected" in run(["java", "-cp", f"{tmp_path}:{path}", "Configuration"])


@pytest.mark.skipif("TESTCONTAINERS_GO" not in os.environ, reason="compiles for minutes")
def test_go():
    run(["go", "test", "-C", MODULES / "go", "-count=1", "./..."])


def test_the_key_is_where_the_modules_look_for_it(python_module):
    """They run a server as the image does, without --dev, and read its output."""
    command = [binary(), "serve", "--data", "memory", *(f"--listen-{name}=off" for name in ("http", "dynamodb", "fauna", "keyvalue"))]
    server = subprocess.Popen([*command, "--listen-redis", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output = "".join(iter(lambda: server.stdout.readline().replace("ready\n", ""), ""))
    server.kill()
    server.wait()
    assert re.fullmatch(r"\S{16,}", python_module.root_key(output))
