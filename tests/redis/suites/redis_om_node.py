"""redis-om-node's functional tests (vitest), a folder at a time. The checkout has its packages (`npm ci`)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from outcome import Outcome, checked, run_program

TITLE = "redis-om-node"
ABOUT = "redis-om-node 0.4 (fe1eea9), its functional tests"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = ["core", "search", "demo"]


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        # One file after the other: each flushes the server.
        command = ["npx", "vitest", "run", f"functional/{unit}", "--dir", "./spec", "--no-threads", "--reporter", "json"]
        text, ended = run_program([*command, "--outputFile", str(report)], suite)
        outcome = parse(json.loads(report.read_text())) if report.exists() else Outcome()
    return checked(outcome, text, ended), text


def parse(report: dict) -> Outcome:
    outcome = Outcome()
    for file in report["testResults"]:
        for test in file["assertionResults"]:
            name = " ".join([*(title for title in test["ancestorTitles"] if title), test["title"]])
            if test["status"] == "passed":
                outcome.add_passed(name)
            elif test["status"] == "failed":
                outcome.add_failed(name, "\n".join(test["failureMessages"]))
            else:
                outcome.ignored += 1
    return outcome
