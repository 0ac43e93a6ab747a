"""redis-py's own suite (pytest), a file at a time, over RESP2 and RESP3: `resp3/test_commands`.

What needs a cluster, a sentinel, a replica, TLS or modules is left out. The versions that tests ask for are compared with what
INFO of each server says, so the servers skip different tests. The checkout has a `.venv` with its `dev_requirements.txt` and pytest-timeout.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file

TITLE = "redis-py"
ABOUT = "redis-py 8.1 (34817ce), without what needs a cluster, a sentinel, a replica, TLS or modules"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": [], "redis": ["--enable-debug-command", "yes"]}
FILES = """
test_commands test_pipeline test_pubsub test_scripting test_lock test_function test_monitor test_hash test_encoding test_connection
test_connection_pool test_client test_connect test_cache test_multiprocessing test_keyspace_notifications test_legacy_responses_arg
test_max_connections_error test_himport_integration test_json
test_asyncio/test_commands test_asyncio/test_pipeline test_asyncio/test_pubsub test_asyncio/test_scripting test_asyncio/test_lock
test_asyncio/test_monitor test_asyncio/test_hash test_asyncio/test_encoding test_asyncio/test_connection
test_asyncio/test_connection_pool test_asyncio/test_client test_asyncio/test_connect test_asyncio/test_cwe_404
test_asyncio/test_keyspace_notifications test_asyncio/test_himport_integration test_asyncio/test_json
""".split()
UNITS = [f"resp{protocol}/{file}" for protocol in (2, 3) for file in FILES]

MARKERS = "not onlycluster and not fixed_client and not ssl and not replica"


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    file = unit.split("/", 1)[1]
    # RedisJSON is served here without being a module, so its file is judged though the mark of modules is on it.
    markers = MARKERS if file.endswith("test_json") else f"{MARKERS} and not redismod"
    return run_file(suite, f"tests/{file}.py", options(unit, port, markers))


def options(unit: str, port: int, markers: str) -> list[str]:
    url = f"redis://localhost:{port}/0"
    told = ["--capture=fd", f"--redis-url={url}", f"--redis-mod-url={url}", f"--protocol={unit[len('resp')]}", "-m", markers]
    return [*told, "-k", "not Sentinel and not SSL"]
