"""Pytest fixtures over `Server`: one server for a module's tests, FLUSHALL between tests."""

from __future__ import annotations

import os
import time

import pytest
import redis
from _pytest.runner import runtestprotocol

from .resp import Connection
from .server import TARGET, Server
from .target import OVER_A_CLUSTER, TRIES_MAX, client_server, running

SHARED = ("_session_server", "keyvalue_server")
TERM_CHANGED = pytest.StashKey[bool]()


def version_of(server: Server) -> tuple[int, ...]:
    with Connection(server.port) as connection:
        for line in connection.do("INFO", "server").splitlines():
            if line.startswith("redis_version:"):
                return tuple(int(part) for part in line.split(":")[1].split(".")[:2])
    raise RuntimeError("INFO server names no redis_version")


@pytest.fixture(scope="session")
def _session_server():
    server = client_server()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def server(_session_server, request):
    """The shared server, emptied. A test which kills it gets a `fresh_server` instead."""
    skip_unless_target_has(request, _session_server)
    if not _session_server.alive():
        _session_server.start()
    with Connection(_session_server.port) as connection:
        connection.do("FLUSHALL")
        # The server notices by and by that the clients of the test before have gone.
        deadline = time.monotonic() + 60
        while "blocked_clients:0\r" not in connection.do("INFO", "clients"):
            assert time.monotonic() < deadline, "a client of the test before still waits"
            time.sleep(0.002)
    yield _session_server
    assert _session_server.alive(), "the server ended during this test"


@pytest.fixture
def fresh_server(request):
    """A server of this test's own, durable at once."""
    server = Server(durability="always").start()
    skip_unless_target_has(request, server)
    yield server
    server.close()


def skip_unless_target_has(request, server: Server) -> None:
    if TARGET != "redis":
        return
    if request.node.get_closest_marker("quartet_only"):
        pytest.skip("Quartet only")
    if marker := request.node.get_closest_marker("newer"):
        wanted = tuple(int(part) for part in marker.args[0].split("."))
        if version_of(server) < wanted:
            pytest.skip(f"newer than this Redis: {marker.args[0]}")


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request) -> int:
    return request.param


@pytest.fixture
def connect(server, protocol):
    """Opens raw connections; all are closed after the test."""
    opened = []

    def open_one(**options) -> Connection:
        opened.append(Connection(server.port, options.pop("protocol", protocol), **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def raw(connect) -> Connection:
    return connect()


@pytest.fixture
def r(server, protocol):
    """redis-py as an application uses it."""
    client = redis.Redis(port=server.port, protocol=protocol, decode_responses=True, socket_timeout=60)
    yield client
    client.close()


def pytest_collection_modifyitems(config, items):
    """Over a cluster only clients of the server that all tests share are tested; with CLUSTER_SAMPLE=N each Nth of those that are not slow."""
    if not OVER_A_CLUSTER:
        return
    left_out = {"starts servers of its own": [item for item in items if not set(SHARED) & set(item.fixturenames)]}
    for item in items:
        if marker := item.get_closest_marker("alone"):
            left_out.setdefault(marker.args[0], []).append(item)
    for reason, those in left_out.items():
        print(f"{len(those)} tests left out: {reason}")
    gone = {item for those in left_out.values() for item in those}
    kept = [item for item in items if item not in gone]
    if sample := int(os.environ.get("CLUSTER_SAMPLE", 0)):
        kept = [item for item in kept if not item.get_closest_marker("slow")][::sample]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and (served := running()) and served.has_moved():
        item.session.stash[TERM_CHANGED] = True
    return report


def pytest_runtest_protocol(item, nextitem):
    """Runs a test again that failed while another node became home: connections end then, as they must."""
    if not OVER_A_CLUSTER:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(TRIES_MAX):
        item.session.stash[TERM_CHANGED] = False
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not item.session.stash[TERM_CHANGED]:
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
