"""Golden scripts: `testdata/*.txt`, command then outcome.

    # name of the case            a case starts with an empty database
    # needs 7.4                   newer than Redis 7.0
    > SET k "a b"                 the command, quoted as in redis-cli
    OK                            its outcome, types told apart (see `render`)
    > ~ SMEMBERS s                elements in any order: sorted before comparing
    > ~2 HGETALL h                name and value pairs in any order
    3: {...}                      the outcome under RESP3, where it differs
    /-ERR .*/                     a regular expression over the outcome
    B> BLPOP k 1                  on a second connection, named B
    B<                            what arrives there unasked: a message

`pytest --rewrite` replaces outcomes by observed ones, except matching expressions.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.resp import Connection, NilArray, Push, ReplyError, Set, Simple, Verbatim
from harness.server import TARGET

FOLDER = Path(__file__).parent.parent / "testdata"
COMMAND = re.compile(r"^([A-Z]?)(?:> (?:(~2?) )?(.*)|<)$")
# What is left of 100 seconds is told as 100 for half a second. A case in which as much has passed is begun again, if it differs.
SECONDS_UNSEEN, TRIES = 0.4, 20
ESCAPES = {"\\": "\\", '"': '"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass
class Step:
    connection: str
    order: str | None
    arguments: list[str]
    source: str
    outcome: dict[int, str] = field(default_factory=dict)


@dataclass
class Case:
    file: Path
    name: str
    needs: str | None
    steps: list[Step] = field(default_factory=list)


def quote(text: str) -> str:
    out = []
    for character in text:
        if character in ESCAPES:
            out.append("\\" + ESCAPES[character].lstrip("\\") if character in '\\"' else ESCAPES[character])
        elif character.isprintable() and not 0xDC80 <= ord(character) <= 0xDCFF:
            out.append(character)
        else:
            out.extend(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
    return '"' + "".join(out) + '"'


def render(value) -> str:
    if isinstance(value, Simple):
        return str(value)
    if isinstance(value, ReplyError):
        return "-" + value
    if isinstance(value, Verbatim):
        return "=" + quote(value)
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "nil"
    if isinstance(value, NilArray):
        return "nil[]"
    if isinstance(value, bool):
        return "#t" if value else "#f"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return "," + repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{render(key)}: {render(item)}" for key, item in value.items()) + "}"
    before = "~" if isinstance(value, Set) else ">" if isinstance(value, Push) else ""
    return before + "[" + " ".join(render(item) for item in value) + "]"


def sort(value, order: str | None):
    """Puts an unordered reply into one order; other replies stay as they are."""
    if order is None:
        return value
    if isinstance(value, dict):
        return dict(sorted(value.items()))
    if not isinstance(value, list):
        return value
    if order == "~2" and value and not isinstance(value[0], list):
        pairs = sorted(zip(value[::2], value[1::2]))
        return type(value)(item for pair in pairs for item in pair)
    return type(value)(sorted(value, key=render))


def words(text: str) -> list[str]:
    found, at = [], 0
    pattern = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))')
    while match := pattern.match(text, at):
        at = match.end()
        found.append(match[2] if match[1] is None else unescape(match[1]))
    return found


def unescape(text: str) -> str:
    def one(match):
        if match[1]:
            return bytes([int(match[1], 16)]).decode("utf-8", "surrogateescape")
        return {"n": "\n", "r": "\r", "t": "\t"}.get(match[2], match[2])

    return re.sub(r"\\(?:x([0-9a-fA-F]{2})|(.))", one, text)


def read_cases(path: Path) -> list[Case]:
    cases: list[Case] = []
    for line in path.read_text().splitlines():
        if line.startswith("# needs "):
            cases[-1].needs = line[8:].strip()
        elif line.startswith("# "):
            cases.append(Case(path, line[2:].strip(), None))
        elif match := COMMAND.match(line):
            cases[-1].steps.append(Step(match[1], match[2], words(match[3] or ""), line))
        elif line.startswith("3: "):
            cases[-1].steps[-1].outcome[3] = line[3:]
        elif line.strip():
            cases[-1].steps[-1].outcome[2] = line
    return cases


def matches(expected: str, observed: str) -> bool:
    if len(expected) > 1 and expected.startswith("/") and expected.endswith("/"):
        return re.fullmatch(expected[1:-1], observed, re.S) is not None
    return expected == observed


def run(case: Case, port: int, protocol: int) -> list[str]:
    connections: dict[str, Connection] = {}
    observed = []
    try:
        for step in case.steps:
            if step.connection not in connections:
                connections[step.connection] = Connection(port, protocol)
            connection = connections[step.connection]
            value = connection.do(*step.arguments) if step.arguments else connection.read()
            observed.append(render(sort(value, step.order)))
    finally:
        for connection in connections.values():
            connection.close()
    return observed


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read_cases(path)]


def parameter(case: Case):
    marks = [pytest.mark.newer(case.needs)] if case.needs else []
    return pytest.param(case, id=f"{case.file.stem}-{case.name.replace(' ', '_')}", marks=marks)


@pytest.mark.parametrize("case", [parameter(case) for case in CASES])
def test_script(case: Case, server, protocol, request):
    for _ in range(TRIES):
        began = time.monotonic()
        observed = run(case, server.port, protocol)
        if request.config.getoption("--rewrite"):
            record(case, protocol, observed)
            return
        wrong = differences(case, protocol, observed)
        if not wrong or time.monotonic() - began < SECONDS_UNSEEN:
            break
        with Connection(server.port) as connection:
            connection.do("FLUSHALL")
    assert not wrong, "\n" + "\n".join(wrong)


def differences(case: Case, protocol: int, observed: list[str]) -> list[str]:
    wrong = []
    for step, outcome in zip(case.steps, observed):
        expected = step.outcome.get(protocol, step.outcome.get(2, "(no outcome written)"))
        if not matches(expected, outcome):
            wrong.append(f"{step.source}\n  expected {expected}\n  observed {outcome}")
    return wrong


def record(case: Case, protocol: int, observed: list[str]) -> None:
    for step, outcome in zip(case.steps, observed):
        expected = step.outcome.get(protocol, step.outcome.get(2))
        if expected is None or not matches(expected, outcome):
            step.outcome[protocol] = outcome


@pytest.fixture(scope="module", autouse=True)
def rewrite(request):
    yield
    if not request.config.getoption("--rewrite"):
        return
    for path in {case.file for case in CASES}:
        path.write_text(rewritten(path, [case for case in CASES if case.file == path]))


def rewritten(path: Path, cases: list[Case]) -> str:
    steps = iter([step for case in cases for step in case.steps])
    lines = []
    for line in path.read_text().splitlines():
        if COMMAND.match(line):
            step = next(steps)
            lines.append(line)
            lines.append(step.outcome.get(2, ""))
            if step.outcome.get(3, step.outcome.get(2)) != step.outcome.get(2):
                lines.append("3: " + step.outcome[3])
        elif line.startswith("#") or not line.strip():
            lines.append(line)
    return "\n".join(lines) + "\n"


def test_the_scripts_are_found():
    assert len(CASES) > 100
    assert all(step.outcome for case in CASES for step in case.steps), "a command without an outcome"


@pytest.mark.skipif(TARGET != "redis", reason="a check of the runner itself, made once")
def test_a_wrong_outcome_is_noticed(server, protocol):
    observed = run(Case(FOLDER, "", None, [Step("", None, ["SET", "k", "v"], "")]), server.port, protocol)
    assert not matches("QUEUED", observed[0]) and matches("/O./", observed[0])
