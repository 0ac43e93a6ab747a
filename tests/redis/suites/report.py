"""Compares the outcomes of two servers unit by unit, explains each difference, and prints that as Markdown.

The bar is Redis: a test which Redis passes and Quartet does not is a difference, and needs a line in `exceptions/SUITE.txt`
with its reason (`unit | * | reason` covers a whole unit). A difference without a line, or a line without
its difference, is a fault of the run: so the list can neither hide a regression nor outlive its reason.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from outcome import Outcome

NOT_RUN = "was not reached"


@dataclass
class Unit:
    name: str
    redis: Outcome | None
    quartet: Outcome

    def with_another_run(self, other: Unit) -> Unit:
        redis = self.redis.with_another_run(other.redis) if self.redis and other.redis else self.redis
        return Unit(self.name, redis, self.quartet.with_another_run(other.quartet))

    def differences(self) -> dict[str, str]:
        """Tests which Redis passes and Quartet does not, with what the suite said; without a Redis, all that failed."""
        found = dict(self.quartet.failed)
        if self.redis:
            found = {name: told for name, told in found.items() if name not in self.redis.failed}
            known = {*self.quartet.passed, *found}
            found |= {name: NOT_RUN for name in self.redis.passed if name not in known}
        return found


class Exceptions:
    def __init__(self, path: Path):
        self.reasons: dict[tuple[str, str], str] = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split(" | ", 2)]
            if len(parts) != 3 or (parts[0], parts[1]) in self.reasons:
                raise SystemExit(f"{path.name}:{number}: wanted one `unit | test name | reason`: {line}")
            self.reasons[parts[0], parts[1]] = parts[2]

    def reason(self, unit: str, test: str) -> str | None:
        return self.reasons.get((unit, test)) or self.reasons.get((unit, "*"))

    def explain(self, unit: Unit) -> bool:
        return all(self.reason(unit.name, test) for test in unit.differences())

    def tests(self, unit: str) -> list[str]:
        return [test for name, test in self.reasons if name == unit and test != "*"]

    def stale(self, unit: Unit) -> list[str]:
        differences = unit.differences()
        listed = [test for name, test in self.reasons if name == unit.name]
        return [test for test in listed if (not differences if test == "*" else test in unit.quartet.passed)]


def faults(units: list[Unit], exceptions: Exceptions) -> list[str]:
    found = []
    for unit in units:
        for test, told in unit.differences().items():
            if not exceptions.reason(unit.name, test):
                found.append(f"{unit.name}: {test}: no reason is listed\n{indented(told)}")
        found += [f"{unit.name}: {test}: listed as an exception, but does not fail" for test in exceptions.stale(unit)]
    return found


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[:12])


COLUMNS_MAX = 100
COLUMNS = ["unit", "Redis passed", "Quartet passed", "differences", "left out", "run on"]


@dataclass
class Report:
    """What is told of each unit: its row of the table, and the lines of its section, if it has one."""

    rows: dict[str, list[str]]
    sections: dict[str, list[str]]

    @staticmethod
    def read(text: str) -> "Report":
        """A report as `markdown` wrote it, so that a run of a few units can replace what it says of them."""
        table, *sections = text.rstrip("\n").split("\n\n### ")
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| ")]
        rows = {row[0]: row for row in cells[2:] if row[0] != "**all**"}
        by_name = [section.partition("\n\n") for section in sections]
        return Report(rows, {name: lines.splitlines() for name, _, lines in by_name})

    def add(self, unit: Unit, exceptions: Exceptions, day: str) -> None:
        self.rows[unit.name] = [*row(unit), day]
        self.sections.pop(unit.name, None)
        if differences := unit.differences():
            self.sections[unit.name] = explained(unit.name, differences, exceptions)

    def markdown(self, heading: list[str]) -> str:
        rows = self.rows.values()
        total = [str(sum(int(cells[column]) for cells in rows if cells[column] != "-")) for column in range(1, 5)]
        lines = [*wrapped(heading), "", f"| {' | '.join(COLUMNS)} |", "| --- | ---: | ---: | ---: | ---: | --- |"]
        lines += [f"| {' | '.join(cells)} |" for cells in [*rows, ["**all**", *total, ""]]]
        for name in self.rows:
            if name in self.sections:
                lines += ["", f"### {name}", "", *wrapped(self.sections[name])]
        return "\n".join(lines) + "\n"


def wrapped(lines: list[str]) -> list[str]:
    """Each line on as many as the pages' width asks for; those below the first of a list's item are indented."""
    found = []
    for line in lines:
        indent = "  " if line.startswith(("- ", "  ")) else ""
        parts = textwrap.wrap(line, COLUMNS_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True)
        found += parts or [""]
    return found


def row(unit: Unit) -> list[str]:
    redis = str(len(unit.redis.passed)) if unit.redis else "-"
    return [unit.name, redis, str(len(unit.quartet.passed)), str(len(unit.differences())), str(unit.quartet.ignored)]


def explained(unit: str, differences: dict[str, str], exceptions: Exceptions) -> list[str]:
    """One line a reason where a whole unit has one, else one line a test."""
    reasons = {test: exceptions.reason(unit, test) or "**not explained**" for test in differences}
    whole = exceptions.reasons.get((unit, "*"))
    listed = [f"- `{test}`: {reason}" for test, reason in reasons.items() if reason != whole]
    if count := Counter(reasons.values())[whole]:
        listed.append(f"- {count} tests: {whole}")
    return listed
