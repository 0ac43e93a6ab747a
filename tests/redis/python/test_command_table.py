"""The table of commands beside Redis': what COMMAND INFO, COMMAND DOCS and COMMAND GETKEYSANDFLAGS say, and what ACL makes of it.

Story: rows were written by hand and compared with nothing, so writers of streams lacked their key flags. `%W~` users could not XADD,
`%R~` users could not XREADGROUP, and clients of a cluster found no key in MIGRATE, SORT, XREAD and GEORADIUS.

Redis 7.0.15 runs beside. Newer commands, and the names of arguments since 7.2, were recorded from Redis 8.2.3 in
`testdata/commands-8.2.table`; `python test_command_table.py PORT` records it anew from a server of that version. Every difference is
in `DIFFERENCES` with its reason, and one that is gone must leave the list.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pytest

from harness.resp import Connection
from harness.server import Server

RECORDED = Path(__file__).parents[1] / "testdata" / "commands-8.2.table"
ABSENT = "not in the table"

WAITS_IN_SCRIPTS = "7.4 lets scripts call it, without waiting"
OPTION_OF_7_2 = "an argument more since 7.2"
NEEDS_MEMORY = "as in 7.4: it is refused without memory, 8.2 lets it"
AS_IN_8_2 = "as in 8.2.3; 7.0 says otherwise"
TIPS_OF_8_2 = "acl|deluser acl|save acl|setuser client|setname config|resetstat config|rewrite latency|reset msetnx randomkey scan".split()
OURS = "subcommands of ours, or of versions that are not beside"
LATER_OPTIONS = "options of Redis 8.4 and Valkey too"

# (command, field): reason. The fields are those of `table`, and ABSENT. Not compared are summaries, complexities and notes, which
# are prose of each project's own, and the history of commands, which COMMAND DOCS leaves out here.
DIFFERENCES = {
    **{(name, "flags"): WAITS_IN_SCRIPTS for name in ("blmove", "blpop", "brpop", "brpoplpush", "bzpopmax", "bzpopmin")},
    **{(name, "arity"): OPTION_OF_7_2 for name in ("zrank", "zrevrank")},
    **{(name, "arity"): "7.4 accepts a request of one word, as PING" for name in ("command|getkeys", "command|getkeysandflags")},
    **{(name, "flags"): "refused in MULTI" for name in ("replicaof", "slaveof")},
    **{(name, "subcommands"): OURS for name in ("acl", "client", "cluster", "module", "script")},
    **{(name, "flags"): NEEDS_MEMORY for name in ("hexpire", "hexpireat", "hpexpire", "hpexpireat")},
    ("wait", "flags"): WAITS_IN_SCRIPTS,
    ("wait", "categories"): "in @blocking since 7.2",
    **{(name, "tips"): AS_IN_8_2 for name in TIPS_OF_8_2},
    **{(name, "flags"): AS_IN_8_2 for name in ("cluster|shards", "cluster|slots")},
    ("client|pause", "since"): "as 8.2 says; 2.9.50 was a development version",
    ("restore-asking", "flags"): "without slots there is nothing to ask for",
    **{(name, ABSENT): "modules are not loaded" for name in ("module|load", "module|loadex", "module|unload")},
    ("client|list", "arguments"): LATER_OPTIONS,
    ("geosearch", "arguments"): LATER_OPTIONS,
    ("geosearchstore", "arguments"): LATER_OPTIONS,
    ("set", "arguments"): LATER_OPTIONS,
    ("xreadgroup", "arguments"): LATER_OPTIONS,
    ("zscan", "arguments"): LATER_OPTIONS,
}
# Deprecated between 7.0 and 8.2, and compared with the later version.
DEPRECATED_LATER = ("psetex", "quit", "setex", "setnx")


def fields(flat: list) -> dict:
    return dict(zip(flat[::2], flat[1::2]))


def key_specification(flat: list) -> str:
    specification = fields(flat)
    begin, find = (fields(specification[name]) for name in ("begin_search", "find_keys"))
    parts = [" ".join(sorted(specification["flags"]))]
    parts += [" ".join(str(word) for word in (kind["type"], *kind["spec"])) for kind in (begin, find)]
    return ", ".join(parts)


def argument(flat: list) -> str:
    """In the notation of `arguments.txt`, but for the kinds, which are whole words."""
    a = fields(flat)
    text = f"{a['name']}:{a['type']}"
    text += "".join(f"={a[name]}" for name in ("token",) if name in a)
    text += "".join(mark for mark, flag in (("?", "optional"), ("*", "multiple"), ("+", "multiple_token")) if flag in a.get("flags", []))
    text += "".join(f"{mark}{a[name]}" for mark, name in (("#", "key_spec_index"), ("@", "since"), ("!", "deprecated_since")) if name in a)
    if a.get("display_text", a["name"]) != a["name"]:
        text += "~" + a["display_text"]
    return text + (f"({' '.join(map(argument, a['arguments']))})" if "arguments" in a else "")


def infos(connection: Connection) -> dict[str, dict[str, str]]:
    rows = {}

    def add(entry: list) -> None:
        name, arity, flags, first, last, step, categories, tips, keys, subcommands = entry
        rows[name] = {
            "arity": str(arity),
            "flags": " ".join(sorted(flags)),
            "simple keys": f"{first} {last} {step}",
            "categories": " ".join(sorted(categories)),
            "tips": " ".join(sorted(tips)),
            "keys": "; ".join(map(key_specification, keys)),
            "subcommands": " ".join(sorted(subcommand[0] for subcommand in subcommands)),
        }
        for subcommand in subcommands:
            add(subcommand)

    for entry in connection.do("COMMAND"):
        add(entry)
    return rows


def documents(connection: Connection) -> dict[str, dict]:
    found = {}

    def add(flat: list) -> None:
        for name, document in fields(flat).items():
            found[name] = fields(document)
            add(found[name].get("subcommands", []))

    add(connection.do("COMMAND", "DOCS"))
    return found


def table(port: int) -> dict[str, dict[str, str]]:
    with Connection(port) as connection:
        rows, docs = infos(connection), documents(connection)
    for name, document in docs.items():
        for field in ("group", "since", "deprecated_since", "replaced_by"):
            rows[name][field] = document.get(field, "")
        rows[name]["doc flags"] = " ".join(document.get("doc_flags", []))
        rows[name]["arguments"] = " ".join(map(argument, document.get("arguments", [])))
    return rows


def differences(ours: dict, theirs: dict) -> dict[tuple[str, str], str]:
    found = {}
    for name, row in theirs.items():
        if name not in ours:
            found[name, ABSENT] = ""
            continue
        found.update({(name, field): f"{ours[name][field]!r}, Redis {text!r}" for field, text in row.items() if ours[name][field] != text})
    return found


def recorded() -> dict[str, dict[str, str]]:
    rows = {}
    for line in RECORDED.read_text().splitlines():
        if not line.startswith("#"):
            name, *parts = line.split(" | ")
            rows[name] = dict(part.split(": ", 1) for part in parts)
    return rows


@pytest.fixture(scope="module")
def redis_server():
    server = Server(target="redis").start()
    yield server
    server.close()


@pytest.mark.quartet_only
def test_the_table_says_what_redis_says(server, redis_server):
    ours, theirs = table(server.port), table(redis_server.port)
    for row in theirs.values():
        # Arguments have other names since 7.2.
        del row["arguments"]
    for name in DEPRECATED_LATER:
        for field in ("deprecated_since", "replaced_by", "doc flags"):
            del theirs[name][field]
    found = {**differences(ours, theirs), **differences(ours, recorded())}
    unnamed = {key: text for key, text in found.items() if key not in DIFFERENCES}
    assert not unnamed, "\n".join(f"{name} {field}: {text}" for (name, field), text in unnamed.items())
    assert set(DIFFERENCES) <= set(found), set(DIFFERENCES) - set(found)


# Generated calls: each command with its required arguments, and again with each optional argument and each alternative.

VALUES = {"integer": "1", "double": "1", "string": "word", "pattern": "p*", "unix-time": "4102444800"}


class Call:
    def __init__(self, chosen: list):
        self.chosen = chosen
        self.keys = 0

    def words(self, arguments: list) -> list[str]:
        return [word for flat in arguments for word in self.one(fields(flat))]

    def one(self, a: dict) -> list[str]:
        flags = a.get("flags", [])
        if "optional" in flags and a["name"] not in self.chosen:
            return []
        token = [a["token"]] if a.get("token") else []
        times = 2 if "multiple" in flags else 1
        if "multiple_token" in flags:
            return [word for _ in range(times) for word in token + self.value(a)]
        return token + [word for _ in range(times) for word in self.value(a)]

    def value(self, a: dict) -> list[str]:
        kind = a["type"]
        if kind == "key":
            self.keys += 1
            return [f"key{self.keys}"]
        if kind == "oneof":
            parts = [fields(part) for part in a["arguments"]]
            return self.one(next((part for part in parts if part["name"] in self.chosen), parts[0]))
        if kind == "block":
            return self.words(a["arguments"])
        if kind == "pure-token":
            return []
        if a["name"] == "numkeys":
            return ["2"]
        return [VALUES[kind]]


def choices(arguments: list) -> list[str]:
    """Names of arguments that may be there or not."""
    names = []
    for flat in arguments:
        a = fields(flat)
        if "optional" in a.get("flags", []):
            names.append(a["name"])
        parts = a.get("arguments", [])
        names += [fields(part)["name"] for part in parts if a["type"] == "oneof"]
        names += choices(parts)
    return names


def has_keys(row: dict[str, str]) -> bool:
    return row["keys"] != "" and "not_key" not in row["keys"]


def calls(docs: dict[str, dict], rows: dict[str, dict[str, str]]) -> list[list[str]]:
    """Returns the calls of every command with keys, each once."""
    made = {}
    for name, document in docs.items():
        arguments = document.get("arguments", [])
        if not has_keys(rows[name]) or (name, ABSENT) in DIFFERENCES:
            continue
        names = choices(arguments)
        for chosen in [[], *([one] for one in names), *([one, other] for one in names for other in names if one != other)]:
            words = name.split("|") + Call(chosen).words(arguments)
            made[tuple(words)] = words
    return list(made.values())


GRANTS = ["", "%R~", "%W~"]


@pytest.mark.quartet_only
@pytest.mark.timeout(300)
def test_key_permissions_are_judged_as_in_redis(server, redis_server):
    with Connection(redis_server.port) as theirs:
        made = calls(documents(theirs), infos(theirs))
    judged = set()
    with Connection(server.port) as ours, Connection(redis_server.port) as theirs:
        both = (ours, theirs)
        users = [Connection(other.port) for other in (server, redis_server)]
        for connection, user in zip(both, users):
            connection.do("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all")
            user.do("AUTH", "u", "x")
        for words in made:
            said = [connection.do("COMMAND", "GETKEYSANDFLAGS", *words) for connection in both]
            assert said[0] == said[1], words
            keys = [key for key, _ in said[1]] if isinstance(said[1], list) else []
            if keys:
                judged.add(words[0])
            for key in dict.fromkeys(keys):
                others = [f"~{other}" for other in dict.fromkeys(keys) if other != key]
                for grant in GRANTS:
                    rules = ["resetkeys", *others, *([grant + key] if grant else [])]
                    ran = []
                    for connection, user in zip(both, users):
                        connection.do("ACL", "SETUSER", "u", *rules)
                        answers = user.pipeline(["MULTI"], words, ["DISCARD"])
                        ran.append((connection.do("ACL", "DRYRUN", "u", *words), answers[1]))
                    assert ran[0] == ran[1], (words, rules)
        for connection, user in zip(both, users):
            user.close()
            connection.do("ACL", "DELUSER", "u")
    with Connection(redis_server.port) as theirs:
        rows = infos(theirs)
    with_keys = {name.split("|")[0] for name, row in rows.items() if has_keys(row) and (name, ABSENT) not in DIFFERENCES}
    assert judged == with_keys


def record(port: int) -> None:
    with_7_0 = Server(target="redis").start()
    try:
        older = table(with_7_0.port)
    finally:
        with_7_0.close()
    lines = ["# Recorded from Redis 8.2.3: everything about commands that 7.0.15 lacks, and the arguments of the others."]
    for name, row in sorted(table(port).items()):
        # Vector sets are a module's.
        if name.islower() and (name not in older or row["arguments"]):
            chosen = row if name not in older else {"arguments": row["arguments"]}
            lines.append(" | ".join([name, *(f"{field}: {text}" for field, text in chosen.items())]))
    RECORDED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record(int(sys.argv[1]))
