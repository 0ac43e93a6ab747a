"""Redis' own TCL suite in its external mode, one unit at a time.

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
from pathlib import Path

from outcome import Outcome, checked, run_program

TITLE = "Redis' own TCL suite"
ABOUT = "the suite of Redis 7.0.15 against a running server, `--tags \"-slow\"`"
PORT = 0
OPTIONS = {
    "quartet": [],
    "redis": ["--enable-debug-command", "yes", "--enable-protected-configs", "yes", "--enable-module-command", "yes"],
}
UNITS = """
unit/type/string unit/type/incr unit/type/list unit/type/list-2 unit/type/list-3 unit/type/set unit/type/zset unit/type/hash
unit/type/stream unit/type/stream-cgroups
unit/geo unit/sort unit/scan unit/keyspace unit/expire unit/multi unit/protocol unit/bitops unit/bitfield unit/hyperloglog unit/other unit/auth
unit/scripting unit/functions unit/dump
unit/introspection unit/introspection-2 unit/slowlog unit/info unit/info-command unit/quit unit/lazyfree unit/pause unit/latency-monitor
unit/pubsub unit/pubsubshard unit/tracking unit/acl unit/acl-v2 unit/querybuf unit/replybufsize unit/violations unit/obuf-limits unit/limits unit/client-eviction
integration/redis-cli integration/redis-benchmark
""".split()

TOOLS = ["redis-cli", "redis-benchmark", "redis-server"]
# The suite's own processes talk over a port of the 32 below this one. It looks for a free one, but two runs at once could find the
# same. All of them are below 32768, from where the system takes ports for connections.
BASE_PORT = 20032 + os.getpid() % 390 * 32
LINE = re.compile(r"\[(\w+)\]: (.*)")


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


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    """The outcome, and the raw output for whoever wants to look closer. Tests called as in `skipped` are not run."""
    names = suite / "skipped-tests"
    names.write_text("".join(f"{name}\n" for name in skipped))
    command = ["./runtest", "--host", "127.0.0.1", "--port", str(port), "--baseport", str(BASE_PORT)]
    command += ["--durable", "--tags", "-slow", "--skipfile", str(names), "--single", unit]
    text, ended = run_program(command, suite)
    outcome = parse(text)
    return (outcome if "[skip]: " in text and ended else checked(outcome, text, ended)), text


def parse(text: str) -> Outcome:
    outcome = Outcome()
    told: list[str] = []
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            told.append(line)
            continue
        told = []
        kind, rest = found.groups()
        if kind == "ok":
            outcome.add_passed(re.sub(r" \(\d+ ms\)$", "", rest))
        elif kind in ("err", "exception"):
            name = outcome.distinct(failed_name(kind, rest))
            outcome.failed[name] = ""
            lines[name] = told
        elif kind == "ignore":
            outcome.ignored += 1
    outcome.failed = {name: "\n".join(lines[name]).split("\n!!! WARNING")[0].strip() for name in outcome.failed}
    return outcome


def failed_name(kind: str, rest: str) -> str:
    if kind == "exception":
        return f"(the run ended: {rest[:80]})"
    if found := re.match(r"(.*) in tests/\S+\.tcl$", rest):
        return found.group(1)
    return f"(outside a test: {rest[:80]})"
