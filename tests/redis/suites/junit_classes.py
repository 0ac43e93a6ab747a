"""Suites that JUnit runs: the command, and what became of each test.

The checkout is compiled, and has `classpath.txt` and `junit-platform-console-standalone.jar` of its version of JUnit's platform:

    mvn -DskipTests test-compile dependency:build-classpath -Dmdep.outputFile=classpath.txt
"""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from outcome import Outcome, checked, run_program


def run_selected(suite: Path, selected: list[str], environment: dict[str, str]) -> tuple[Outcome, str]:
    """`selected` are `--select-class=…` and `--select-package=…`."""
    # The runner comes last: it brings matchers of its own, which are older.
    classes = f"target/test-classes:target/classes:{(suite / 'classpath.txt').read_text().strip()}:junit-platform-console-standalone.jar"
    with tempfile.TemporaryDirectory() as folder:
        command = ["java", "-cp", classes, "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary"]
        command += ["--reports-dir", folder, "--include-classname=.*(IT|Tests?)$", *selected]
        text, ended = run_program(command, suite, environment)
        report = Path(folder, "TEST-junit-jupiter.xml")
        outcome = parse(report) if report.exists() else Outcome()
    return checked(outcome, text, ended), text


def parse(report: Path) -> Outcome:
    outcome = Outcome()
    for test in ElementTree.parse(report).iter("testcase"):
        name = f"{test.get('classname').rpartition('.')[2]} {test.get('name')}"
        failures = [*test.findall("failure"), *test.findall("error")]
        if failures:
            outcome.add_failed(name, failures[0].text or "")
        elif test.find("skipped") is not None:
            outcome.ignored += 1
        else:
            outcome.add_passed(name)
    return outcome
