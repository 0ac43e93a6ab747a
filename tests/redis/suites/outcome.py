"""What became of each test of one unit, and running the program that tells it.

A suite names its tests as it likes, some several times: the second of a name is `NAME (2)`, so that two servers can be compared.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

UNIT_SECONDS_MAX = 900
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Outcome:
    """`passed` and `failed` keep the order of the run; a failed test carries what the suite said about it."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    ignored: int = 0

    def distinct(self, name: str) -> str:
        seen = 1
        numbered = name
        while numbered in self.failed or numbered in self.passed:
            seen += 1
            numbered = f"{name} ({seen})"
        return numbered

    def add_passed(self, name: str) -> None:
        self.passed.append(self.distinct(name))

    def add_failed(self, name: str, told: str) -> None:
        self.failed[self.distinct(name)] = told

    def with_another_run(self, other: Outcome) -> Outcome:
        """A test that passes once passes: the other time was the machine's."""
        passed = self.passed + [name for name in other.passed if name not in self.passed]
        failed = {name: told for name, told in (self.failed | other.failed).items() if name not in passed}
        return Outcome(passed, failed, self.ignored)


def run_program(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> tuple[str, bool]:
    """All that the program wrote, without colours, and whether it ended by itself within the time for a unit."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | (environment or {}),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    ended = True
    try:
        output, _ = process.communicate(timeout=UNIT_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        ended = False
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return COLOUR.sub("", output.decode("utf-8", "replace")), ended


def checked(outcome: Outcome, text: str, ended: bool) -> Outcome:
    if not ended:
        outcome.add_failed(f"(no end after {UNIT_SECONDS_MAX} seconds)", text[-2000:])
    elif not (outcome.passed or outcome.failed or outcome.ignored):
        outcome.add_failed("(the suite did not run)", text[-2000:])
    return outcome
