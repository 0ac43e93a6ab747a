"""redis-py's tests of search and of vector sets, a file at a time, over RESP2 and RESP3: `resp3/test_search`.

INFO says 7.4, for which the suite leaves out most of what is tested here, so `stand_ins` sets the version that its conditions read.
The checkout is that of `redis_py`, with the `.venv` that it wants.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome, checked, run_program
from redis_py import parse

TITLE = "redis-py, search and vector sets"
ABOUT = "redis-py 8.1 (34817ce), taken for a server of version 8.10"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
FILES = ["test_search", "test_asyncio/test_search", "test_vsets", "test_asyncio/test_vsets"]
UNITS = [f"resp{protocol}/{file}" for protocol in (2, 3) for file in FILES]
MARKERS = "not onlycluster and not fixed_client and not ssl and not replica"


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    protocol, file = unit.split("/", 1)
    url = f"redis://localhost:{port}/0"
    command = [".venv/bin/python", "-m", "pytest", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "stand_ins", "--timeout=120"]
    command += [f"--redis-url={url}", f"--redis-mod-url={url}", f"--protocol={protocol[-1]}", "-m", MARKERS]
    command += ["-k", "not Sentinel and not SSL", f"tests/{file}.py"]
    environment = {"COLUMNS": "300", "PYTHONPATH": str(Path(__file__).parent), "SUITE_SERVER_VERSION": "8.10.0"}
    text, ended = run_program(command, suite, environment)
    return checked(parse(text), text, ended), text
