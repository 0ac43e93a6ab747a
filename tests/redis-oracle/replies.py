"""Compares two replies to one request: totals, keys, their order, scores and numbers to 1e-6, texts, and that both are refusals.

Hits of equal score stand in the order of keys at Quartet and of writes at the original, so a run of equal hits is compared as a
set, and of a run that a page cuts only the length.
"""

from __future__ import annotations

import math

import redis

Command = list[str | bytes]
Hit = tuple[bytes, object, object, object]


def is_error(reply: object) -> bool:
    return isinstance(reply, redis.ResponseError)


def near(a: object, b: object) -> bool:
    """Equal, numbers to 1e-6, also those that are sent as text."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[name], b[name]) for name in a)
    if a == b:
        return True
    if isinstance(a, bytes) and isinstance(b, bytes) and {a[:1], b[:1]} <= {b"#", b"$"}:
        # Values to sort by. The original marks a number that it has read from the key as text.
        a, b = a[1:], b[1:]
    try:
        x, y = float(a), float(b)
    except (TypeError, ValueError):
        return False
    return math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-6) or (x != x and y != y)


def pairs(flat: list[object]) -> dict[object, object]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def hits(reply: object, command: Command) -> tuple[int, list[Hit]]:
    """The total, and of each hit its key, score, value that it was sorted by, and fields."""
    if isinstance(reply, dict):
        found = [(hit[b"id"], hit.get(b"score"), hit.get(b"sortkey"), hit.get(b"extra_attributes")) for hit in reply[b"results"]]
        return reply[b"total_results"], found
    parts = ["WITHSCORES" in command, "WITHSORTKEYS" in command, "NOCONTENT" not in command and not returns_nothing(command)]
    width = 1 + sum(parts)
    found = []
    for at in range(1, len(reply), width):
        rest = iter(reply[at + 1 : at + width])
        score, sort_key, fields = (next(rest) if is_there else None for is_there in parts)
        found.append((reply[at], score, sort_key, None if fields is None else pairs(fields)))
    return reply[0], found


def returns_nothing(command: Command) -> bool:
    return "RETURN" in command and command[command.index("RETURN") + 1] == "0"


def column(command: Command) -> int | None:
    """The part of a hit that the order of the answer follows, if it is shown."""
    if "SORTBY" in command:
        return 2 if "WITHSORTKEYS" in command else None
    return 1 if "WITHSCORES" in command else None


def runs(found: list[Hit], command: Command) -> list[list[Hit]]:
    """Hits of equal score or value, together; all together if the order is not shown."""
    by = column(command)
    out: list[list[Hit]] = []
    for hit in found:
        if out and (by is None or near(out[-1][0][by], hit[by])):
            out[-1].append(hit)
        else:
            out.append([hit])
    return [sorted(run, key=lambda hit: hit[0]) for run in out]


def page(command: Command) -> tuple[int, int]:
    given = list(command)
    if "RETURN" in given:
        # A count that was changed may take the LIMIT for a field's name.
        at = given.index("RETURN")
        del given[at : at + 2 + int(given[at + 1])]
    at = given.index("LIMIT") if "LIMIT" in given else None
    return (0, 10) if at is None else (int(given[at + 1]), int(given[at + 2]))


def are_same_hits(command: Command, theirs: object, ours: object) -> bool:
    (total, theirs), (our_total, ours) = hits(theirs, command), hits(ours, command)
    if total != our_total or len(theirs) != len(ours):
        return False
    their_runs, our_runs = runs(theirs, command), runs(ours, command)
    offset, count = page(command)
    is_cut = [False] * len(their_runs)
    if their_runs and offset > 0:
        is_cut[0] = True
    if their_runs and offset + count < total:
        is_cut[-1] = True
    by = column(command)
    if len(their_runs) != len(our_runs):
        return False
    for cut, their_run, our_run in zip(is_cut, their_runs, our_runs, strict=True):
        if cut:
            if len(their_run) != len(our_run) or by is not None and not near(their_run[0][by], our_run[0][by]):
                return False
        elif not near([list(hit) for hit in their_run], [list(hit) for hit in our_run]):
            return False
    return True


def records(reply: object) -> list[dict[bytes, object]]:
    """The records of an aggregation, without scores."""
    if isinstance(reply, dict):
        found = [row[b"extra_attributes"] for row in reply[b"results"]]
    else:
        found = [pairs(row) for row in reply[1:] if isinstance(row, list)]
    # Lists of different values have no order, and RESP3 sends what RESP2 leaves out.
    return [{name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in row.items() if value is not None} for row in found]


def in_no_order(rows: list[dict[bytes, object]]) -> list[dict[bytes, object]]:
    return sorted(rows, key=lambda row: sorted((name, rounded(value)) for name, value in row.items()))


def rounded(value: object) -> str:
    """As text that two values which are near share, but for those on the edge between two."""
    try:
        return f"{float(value):.5g}"
    except (TypeError, ValueError):
        return repr(value)


def sort_names(command: Command) -> list[bytes]:
    """What the last SORTBY of an aggregation sorts by."""
    at = len(command) - 1 - command[::-1].index("SORTBY")
    given = command[at + 2 : at + 2 + int(command[at + 1])]
    return [name[1:].encode() for name in given if name.startswith("@")]


def are_same_records(command: Command, theirs: object, ours: object) -> bool:
    theirs, ours = records(theirs), records(ours)
    if len(theirs) != len(ours):
        return False
    if "SORTBY" in command:
        for name in sort_names(command):
            if not near([row.get(name) for row in theirs], [row.get(name) for row in ours]):
                return False
        if "MAX" in command or page(command) != (0, 1000):
            # Which of equal records a page's end cuts off is left open.
            return True
    elif "LIMIT" in command and page(command) != (0, 1000):
        return True
    return near(in_no_order(theirs), in_no_order(ours))


def proposals(reply: object) -> dict[object, list[object]]:
    """Those of each word, without stems, sounds and synonyms, which the original has too; equal ones in no order."""
    if isinstance(reply, dict):
        by_word = {word: [(score, term) for pair in pairs for term, score in pair.items()] for word, pairs in reply[b"results"].items()}
    else:
        by_word = {word: [(score, term) for score, term in found] for _, word, found in reply}
    return {word: sorted([[float(score), term] for score, term in found if term[:1] not in b"+<~"]) for word, found in by_word.items()}


def is_same(command: Command, theirs: object, ours: object) -> bool:
    if is_error(theirs) or is_error(ours):
        return is_error(theirs) and is_error(ours)
    if theirs == ours:
        return True
    try:
        if command[0] == "FT.SEARCH":
            return are_same_hits(command, theirs, ours)
        if command[0] == "FT.AGGREGATE" and "WITHSCORES" not in command:
            return are_same_records(command, theirs, ours)
        if command[0] == "FT.SPELLCHECK":
            return near(proposals(theirs), proposals(ours))
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        # A request that was changed at random may answer in another form than its words say.
        return near(theirs, ours)
    if command[0] == "FT.SYNDUMP" and isinstance(theirs, list):
        return pairs(theirs) == pairs(ours)
    if command[0] in ("FT.TAGVALS", "FT.DICTDUMP"):
        return sorted(theirs) == sorted(ours)
    return near(theirs, ours)
