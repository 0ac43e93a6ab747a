"""Suites of frameworks over search (pytest), a file at a time, with `stand_ins` instead of containers and downloaded models."""

from __future__ import annotations

import re
from pathlib import Path

from outcome import Outcome, checked, run_program

LINE = re.compile(r"(tests\S*?\.py::.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")
FAILURE = re.compile(r"(?:FAILED|ERROR) (tests\S*?\.py::.*?) - (.*)$")


def run_files(suite: Path, files: list[str], port: int, environment: dict[str, str]) -> tuple[Outcome, str]:
    command = [".venv/bin/python", "-m", "pytest", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider", "-p", "stand_ins", "--timeout=120", *files]
    inherited = {"COLUMNS": "300", "PYTHONPATH": str(Path(__file__).parent), "SUITE_SERVER_PORT": str(port), "SUITE_SERVER_VERSION": "8.10.0"}
    text, ended = run_program(command, suite, inherited | environment)
    return checked(parse(text), text, ended), text


def parse(text: str) -> Outcome:
    outcome = Outcome()
    told = dict(found.groups() for line in text.splitlines() if (found := FAILURE.match(line)))
    for line in text.splitlines():
        if not (found := LINE.match(line)):
            continue
        name, became = found.groups()
        shown = name.split("::", 1)[1]
        if became in ("PASSED", "XPASS"):
            outcome.add_passed(shown)
        elif became in ("FAILED", "ERROR"):
            outcome.add_failed(shown, told.get(name, ""))
        else:
            outcome.ignored += 1
    return outcome
