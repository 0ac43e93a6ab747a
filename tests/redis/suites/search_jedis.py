"""Jedis' tests of search, JSON and vector sets (JUnit), some classes at a time, with a password as their own servers have one.

`junit_classes` says what the checkout has. The version by which tests skip themselves is 8.10 here, as INFO says 7.4.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from junit_classes import run_selected
from outcome import Outcome

TITLE = "Jedis, search, JSON and vector sets"
ABOUT = "Jedis 8 (9bcb5c6), without clusters, for a server of version 8.10"
PORT = 0
OPTIONS: dict[str, list[str]] = {"quartet": []}
PASSWORD = "foobared"
SETTINGS = {"requirepass": PASSWORD}

CLIENT = "redis.clients.jedis.commands.unified.client"
OBJECTS = "redis.clients.jedis.commands.commandobjects"
SELECTED = {
    "search": [f"--select-package={CLIENT}.search"],
    "json": [f"--select-package={CLIENT}.json"],
    "vector_sets": [
        "--select-class=redis.clients.jedis.commands.jedis.VectorSetCommandsTest",
        f"--select-class={CLIENT}.RedisClientVectorSetCommandsTest",
        f"--select-class={CLIENT}.RedisClientExtendedVectorSetCommandsTest",
    ],
    "command_objects": [
        f"--select-class={OBJECTS}.CommandObjectsJsonCommandsTest",
        f"--select-class={OBJECTS}.CommandObjectsSearchAndQueryCommandsTest",
    ],
    "pipelines": ["--select-class=redis.clients.jedis.modules.RedisModulesPipelineTest"],
}
UNITS = list(SELECTED)


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    endpoint = {"tls": False, "password": PASSWORD, "endpoints": [f"redis://127.0.0.1:{port}"]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as endpoints:
        json.dump({"standalone0": endpoint, "modules-docker": endpoint}, endpoints)
        endpoints.flush()
        environment = {"TEST_ENV_PROVIDER": "oss-source", "REDIS_ENDPOINTS_CONFIG_PATH": endpoints.name, "forceRedisServerVersion": "8.10.0"}
        return run_selected(suite, SELECTED[unit], environment)
