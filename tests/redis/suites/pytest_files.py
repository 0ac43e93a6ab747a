"""Suites that pytest runs, a file at a time: the command, and what became of each test.

    tests/test_commands.py::TestRedisCommands::test_auth PASSED      and FAILED, ERROR, SKIPPED; in the end `FAILED … - reason`

The checkout has a `.venv` with pytest and pytest-timeout.
"""

from __future__ import annotations

import re
from pathlib import Path

from outcome import Outcome, checked, run_program

# A folder of its own: some suites here have the name of the package that they run.
PLUGIN = Path(__file__).with_name("plugin")
COMMAND = [".venv/bin/python", "-m", "pytest", "-v", "-rfE", "--tb=short", "-p", "no:cacheprovider", "--timeout=120"]
LINE = re.compile(r"(tests\S*?\.py::.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")
FAILURE = re.compile(r"(?:FAILED|ERROR) (tests\S*?\.py::.*?) - (.*)$")


def run_file(suite: Path, file: str, options: list[str], environment: dict[str, str] | None = None) -> tuple[Outcome, str]:
    text, ended = run_program([*COMMAND, *options, file], suite, {"COLUMNS": "300"} | (environment or {}))
    return checked(parse(text), text, ended), text


def run_file_with_stand_ins(suite: Path, file: str, port: int, options: list[str], environment: dict[str, str]) -> tuple[Outcome, str]:
    """With `plugin/stand_ins` instead of containers, downloaded models and the server's version."""
    own = {"PYTHONPATH": str(PLUGIN), "SUITE_SERVER_PORT": str(port), "SUITE_SERVER_VERSION": "8.10.0"}
    return run_file(suite, file, ["-p", "stand_ins", *options], own | environment)


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
