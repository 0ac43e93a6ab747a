"""node-redis' tests of search, JSON and vector sets (mocha), a package at a time.

`RE_CLUSTER` is how the suite uses a server that runs already instead of containers. The version by which tests skip themselves is its own default, 8.10.
The checkout has its packages (`npm ci`). It leaves clusters out by itself.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ioredis import parse
from outcome import Outcome, checked, run_program

TITLE = "node-redis, search, JSON and vector sets"
ABOUT = "node-redis 6.2 (2a92b2e), `packages/search`, `packages/json` and the vector sets of `packages/client`, thirty seconds a test"
PORT = 0
OPTIONS: dict[str, list[str]] = {"quartet": []}
# The original's own default.
SETTINGS = {"search-on-timeout": "return"}
FILES = {
    "search": "packages/search/lib/**/*.spec.ts",
    "json": "packages/json/lib/**/*.spec.ts",
    "vector_sets": "packages/client/lib/commands/V*.spec.ts",
}
UNITS = list(FILES)


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    command = ["npx", "mocha", "-r", "tsx", "--exit", "--reporter", "json-stream", "--timeout", "30000", FILES[unit]]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as endpoints:
        json.dump({"standalone": {"tls": False, "endpoints": [f"redis://127.0.0.1:{port}"]}}, endpoints)
        endpoints.flush()
        text, ended = run_program(command, suite, {"RE_CLUSTER": "true", "REDIS_ENDPOINTS_CONFIG_PATH": endpoints.name})
    return checked(parse(text), text, ended), text
