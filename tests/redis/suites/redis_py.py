"""redis-py's own suite (pytest), a file at a time, over RESP2 and RESP3: `resp3/test_commands`.

    tests/test_commands.py::TestRedisCommands::test_auth PASSED      and FAILED, ERROR, SKIPPED; in the end `FAILED … - reason`

What needs a cluster, a sentinel, a replica, TLS or modules is left out. The versions that tests ask for are compared with what
INFO of each server says, so the servers skip different tests. The checkout has a `.venv` with its `dev_requirements.txt` and pytest-timeout.
"""

from __future__ import annotations

import re
from pathlib import Path

from outcome import Outcome, checked, run_program

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
LINE = re.compile(r"(?:tests/\S+?\.py::)(.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")
FAILURE = re.compile(r"(?:FAILED|ERROR) tests/\S+?\.py::(.*?) - (.*)$")


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    protocol, file = unit.split("/", 1)
    # RedisJSON is served here without being a module, so its file is judged though the mark of modules is on it.
    markers = MARKERS if file.endswith("test_json") else f"{MARKERS} and not redismod"
    url = f"redis://localhost:{port}/0"
    command = [".venv/bin/python", "-m", "pytest", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider", "--timeout=120", "--capture=fd"]
    command += [f"--redis-url={url}", f"--redis-mod-url={url}", f"--protocol={protocol[-1]}", "-m", markers]
    command += ["-k", "not Sentinel and not SSL", f"tests/{file}.py"]
    text, ended = run_program(command, suite, {"COLUMNS": "300"})
    return checked(parse(text), text, ended), text


def parse(text: str) -> Outcome:
    outcome = Outcome()
    told = dict(found.groups() for line in text.splitlines() if (found := FAILURE.match(line)))
    for line in text.splitlines():
        if not (found := LINE.match(line)):
            continue
        name, became = found.groups()
        if became in ("PASSED", "XPASS"):
            outcome.add_passed(name)
        elif became in ("FAILED", "ERROR"):
            outcome.add_failed(name, told.get(name, ""))
        else:
            outcome.ignored += 1
    return outcome
