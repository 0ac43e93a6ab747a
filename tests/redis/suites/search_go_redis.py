"""go-redis' tests of search and of vector sets (ginkgo), a file at a time, as `go_redis` runs the others.

The version by which tests skip themselves is 8.10 here, as INFO says 7.4, for which the suite leaves most of these tests out.
"""

from __future__ import annotations

import json
from pathlib import Path

from go_redis import PORT, copy_of, parse
from outcome import UNIT_SECONDS_MAX, Outcome, checked, run_program

TITLE = "go-redis, search and vector sets"
ABOUT = "go-redis 9 (216593c), taken for a server of version 8.10"
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = ["search", "search_aliaslist_integration", "vectorset_commands_integration"]

__all__ = ["ABOUT", "OPTIONS", "PORT", "TITLE", "UNITS", "copy_of", "run_unit"]


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    report = suite / "report.json"
    report.unlink(missing_ok=True)
    command = [str(suite / "go-redis.test"), "-test.run", "^TestGinkgoSuite$", "-test.timeout", "0", "--ginkgo.no-color"]
    command += ["--ginkgo.timeout", f"{UNIT_SECONDS_MAX - 60}s", "--ginkgo.grace-period", "10s", "--ginkgo.seed", "1"]
    command += ["--ginkgo.json-report", str(report), "--ginkgo.focus-file", f"/{unit}_test.go$"]
    environment = {"RE_CLUSTER": "true", "RCE_DOCKER": "false", "REDIS_PORT": str(port), "REDIS_VERSION": "8.10"}
    text, ended = run_program(command, suite / "checkout", environment)
    outcome = parse(json.loads(report.read_text())) if report.exists() else Outcome()
    return checked(outcome, text, ended), text
