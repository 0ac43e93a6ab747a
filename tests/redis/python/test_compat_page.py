"""docs/compat/redis.md names every command that the server has, and no other, as served.

`pytest --rewrite` brings the table up to date: a new command is entered as served in full, an old note stays.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from harness.resp import Connection

PAGE = Path(__file__).parents[3] / "docs" / "compat" / "redis.md"
ROW = re.compile(r"^\| `([^`]+)` \| (yes|partly|no) \| (.*?) ?\|$", re.MULTILINE)
START, END = "<!-- commands: start -->\n", "<!-- commands: end -->\n"
HEAD = "| command | served | difference |\n| --- | --- | --- |\n"


def served(connection) -> dict[str, str]:
    """Name as a user writes it (`CONFIG GET`), and its family."""
    documents = connection.do("COMMAND", "DOCS")
    families = {}
    for name, document in zip(documents[::2], documents[1::2]):
        fields = dict(zip(document[::2], document[1::2]))
        for full_name in [name, *fields.get("subcommands", [])[::2]]:
            families[full_name.replace("|", " ").upper()] = fields["group"]
    return families


def table(families: dict[str, str], rows: dict[str, tuple[str, str]], unserved_families: dict[str, str]) -> str:
    by_family = defaultdict(list)
    for name, family in families.items():
        note = rows.get(name, ("yes", ""))[1] if rows.get(name, ("yes",))[0] != "no" else ""
        by_family[family].append((name, "partly" if note else "yes", note))
    for name, (status, note) in rows.items():
        if status == "no" and name not in families:
            by_family[unserved_families[name]].append((name, status, note))
    lines = []
    for family in sorted(by_family):
        lines.append(f"\n### {family}\n\n{HEAD}")
        lines.extend(f"| `{name}` | {status} | {note} |\n" for name, status, note in sorted(by_family[family]))
    return "".join(lines)


def family_of_rows(section: str) -> dict[str, str]:
    families, family = {}, ""
    for line in section.splitlines():
        if line.startswith("### "):
            family = line[4:]
        elif match := ROW.match(line):
            families[match[1]] = family
    return families


@pytest.mark.quartet_only
def test_the_page_lists_the_commands_of_the_server(server, request):
    text = PAGE.read_text()
    before, rest = text.split(START)
    section, after = rest.split(END)
    rows = {name: (status, note) for name, status, note in ROW.findall(section)}
    with Connection(server.port) as connection:
        families = served(connection)
    if request.config.getoption("--rewrite"):
        PAGE.write_text(before + START + table(families, rows, family_of_rows(section)) + "\n" + END + after)
        return
    listed = {name for name, (status, _) in rows.items() if status != "no"}
    assert listed == set(families), "run this test with --rewrite and review the page"
    assert all((status == "yes") == (note == "") for status, note in rows.values()), "a difference has a note; 'yes' has none"
