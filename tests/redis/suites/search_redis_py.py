"""redis-py's tests of search and of vector sets, a file at a time, over RESP2 and RESP3: `resp3/test_search`.

INFO says 7.4, for which the suite leaves out most of what is tested here, so `stand_ins` sets the version that its conditions read.
The checkout is that of `redis_py`, with the `.venv` that it wants.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file_with_stand_ins
from redis_py import MARKERS, options

TITLE = "redis-py, search and vector sets"
ABOUT = "redis-py 8.1 (34817ce), taken for a server of version 8.10"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
# The original's default, which tests take for granted.
SETTINGS = {"search-on-timeout": "return"}
FILES = ["test_search", "test_asyncio/test_search", "test_vsets", "test_asyncio/test_vsets"]
UNITS = [f"resp{protocol}/{file}" for protocol in (2, 3) for file in FILES]


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    return run_file_with_stand_ins(suite, f"tests/{unit.split('/', 1)[1]}.py", port, options(unit, port, MARKERS), {})
