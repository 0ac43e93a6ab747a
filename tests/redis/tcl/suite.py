"""Runs one unit of Redis' own TCL suite against a server, and reads what became of each test.

    [ok]: NAME (3 ms)             passed
    [err]: NAME in tests/unit/…   failed; the lines after it say how
    [ignore]: NAME: REASON        left out by its tags, for every server alike
    [exception]: …                the run itself ended; what followed never ran

The suite is used from a private copy, because it wants the redis tools in its own `src`, and because before each block
it sends FUNCTION FLUSH, which would end every unit on a server without functions: in the copy an error there is ignored.
Nothing else of it is changed. `--durable` makes the suite go on after an unexpected error.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

TOOLS = ["redis-cli", "redis-benchmark", "redis-server"]
UNIT_SECONDS_MAX = 900
# The suite's own processes talk over a port of the 32 below this one. It looks for a free one, but two runs at once could find the
# same. All of them are below 32768, from where the system takes ports for connections.
BASE_PORT = 20032 + os.getpid() % 390 * 32
LINE = re.compile(r"\[(\w+)\]: (.*)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Outcome:
    """`passed` and `failed` keep the order of the run; a failed test carries what the suite said about it."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    ignored: int = 0


def copy_of(checkout: Path, folder: Path) -> Path:
    for part in ["tests", "utils"]:
        shutil.copytree(checkout / part, folder / part, symlinks=True)
    shutil.copy(checkout / "runtest", folder / "runtest")
    (folder / "src").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (folder / "src" / tool).symlink_to(found)
    start = folder / "tests" / "support" / "server.tcl"
    text = start.read_text()
    start.write_text(text.replace("    r function flush\n", "    catch {r function flush}\n"))
    for unit in ["acl", "acl-v2"]:
        # Left out of external mode for the servers of their own further down, which the mode leaves out by itself.
        path = folder / "tests" / "unit" / f"{unit}.tcl"
        path.write_text(path.read_text().replace("external:skip", "", 1))
    return folder


def run_unit(suite: Path, unit: str, port: int, tags: str, skipped: list[str]) -> tuple[Outcome, str]:
    """The outcome, and the raw output for whoever wants to look closer. Tests called as in `skipped` are not run."""
    names = suite / "skipped-tests"
    names.write_text("".join(f"{name}\n" for name in skipped))
    command = ["./runtest", "--host", "127.0.0.1", "--port", str(port), "--baseport", str(BASE_PORT)]
    command += ["--durable", "--tags", tags, "--skipfile", str(names), "--single", unit]
    process = subprocess.Popen(
        command, cwd=suite, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = process.communicate(timeout=UNIT_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\n[exception]: no end after {UNIT_SECONDS_MAX} seconds\n".encode()
    text = COLOUR.sub("", output.decode("utf-8", "replace"))
    return parse(text), text


def parse(text: str) -> Outcome:
    outcome = Outcome()
    told: list[str] = []
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            told.append(line)
            continue
        told = []
        kind, rest = found.groups()
        if kind == "ok":
            outcome.passed.append(distinct(re.sub(r" \(\d+ ms\)$", "", rest), outcome))
        elif kind in ("err", "exception"):
            outcome.failed[distinct(failed_name(kind, rest), outcome)] = told
        elif kind == "ignore":
            outcome.ignored += 1
    if not (outcome.passed or outcome.failed or outcome.ignored or "[skip]: " in text):
        raise RuntimeError(f"the suite did not run:\n{text}")
    outcome.failed = {name: "\n".join(lines).split("\n!!! WARNING")[0].strip() for name, lines in outcome.failed.items()}
    return outcome


def failed_name(kind: str, rest: str) -> str:
    if kind == "exception":
        return f"(the run ended: {rest[:80]})"
    if found := re.match(r"(.*) in tests/\S+\.tcl$", rest):
        return found.group(1)
    return f"(outside a test: {rest[:80]})"


def distinct(name: str, outcome: Outcome) -> str:
    """Some tests run several times under one name; the second is `NAME (2)`."""
    seen = 1
    numbered = name
    while numbered in outcome.failed or numbered in outcome.passed:
        seen += 1
        numbered = f"{name} ({seen})"
    return numbered
