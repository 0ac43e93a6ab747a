"""Asks the original and Quartet the same, and counts what differs, by class.

`python differential.py [--seed N] [--schemas N] [--queries N] [--show N]`: for each schema other documents, and so many requests, each
in RESP2 and RESP3. Compared are totals, keys, their order, scores and numbers to 1e-6, texts, and that the same is refused. Hits of equal score stand in
the order of keys here and of writes there, so a run of equal ones is compared as a set. QUARTET_BIN is the program.

A difference belongs to a class if its request asks for what docs/search.md names as one, and if no more differs than that class says: where scores
differ, keys and totals must not. What is left is unexplained, and ends the run with 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import redis
from oracle import Oracle
from record import WORDS, free_port, random_circle, random_place, random_query, random_text, random_word

BINARY = Path(os.environ.get("QUARTET_BIN", Path(__file__).resolve().parents[2] / "target/release/quartet"))
SCORERS = ["TFIDF", "TFIDF.DOCNORM", "BM25", "DISMAX", "DOCSCORE"]
TAGS = ["red", "Red", "light blue", "blue", "green", "red,blue", "x"]
FUNCTIONS = ["@n*2+1", "@n%3", "upper(@s)", "lower(@s)", "substr(@s,1,3)", "strlen(@s)", "format(\"%s-%s\",@s,@n)", "abs(@n)", "sqrt(@n)", "log(@n)",
             "floor(@n/2)", "ceil(@n/3)", "@n>2 && @n<9", "startswith(@s,\"ze\")", "contains(@s,\"a\")", "exists(@m)", "timefmt(@n*100000)",
             "year(@n*100000000)", "dayofyear(@n*1000000)", "hour(@n*10000)", "to_str(@n)", "to_number(\"12\")+@n", "split(@s,\"a\")", "@n==3||@n==7", "!@n"]  # fmt: skip
REDUCERS = ["COUNT 0", "SUM 1 @n", "MIN 1 @n", "MAX 1 @n", "COUNT_DISTINCT 1 @s", "COUNT_DISTINCTISH 1 @n", "STDDEV 1 @n",
            "TOLIST 1 @s", "FIRST_VALUE 3 @s BY @n", "FIRST_VALUE 4 @s BY @n DESC", "SUM 1 @m"]  # fmt: skip
DIMENSIONS = 4
ESTIMATE = "COUNT_DISTINCTISH"


class Quartet:
    def __init__(self, port: int):
        self.data = tempfile.TemporaryDirectory(prefix="quartet-differential-")
        command = [str(BINARY), "serve", "--data", self.data.name, "--dev", "--durability", "interval", "--listen-redis", f"127.0.0.1:{port}"]
        for other in ("http", "dynamodb", "fauna", "keyvalue"):
            command += [f"--listen-{other}", "off"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        client = redis.Redis(port=port)
        deadline = time.monotonic() + 60
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        client.close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.data.cleanup()


def answered(connection: redis.Connection, command: Command) -> object:
    connection.send_command(*command)
    try:
        return connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error


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


Command = list[str | bytes]
Hit = tuple[bytes, object, object, object]


def hits(reply: object, command: Command) -> tuple[int, list[Hit]]:
    """The total, and of each hit its key, score, value that it was sorted by, and fields."""
    if isinstance(reply, dict):
        found = [(hit[b"id"], hit.get(b"score"), hit.get(b"sortkey"), hit.get(b"extra_attributes")) for hit in reply[b"results"]]
        return reply[b"total_results"], found
    parts = ["WITHSCORES" in command, "WITHSORTKEYS" in command, "NOCONTENT" not in command]
    width = 1 + sum(parts)
    found = []
    for at in range(1, len(reply), width):
        rest = iter(reply[at + 1 : at + width])
        score, sort_key, fields = (next(rest) if is_there else None for is_there in parts)
        found.append((reply[at], score, sort_key, None if fields is None else pairs(fields)))
    return reply[0], found


def runs(found: list[Hit], command: Command) -> list[list[Hit]]:
    """Hits of equal score or value, together; all together if the order says nothing."""
    by = 2 if "WITHSORTKEYS" in command else 1
    is_ordered = "WITHSORTKEYS" in command or "WITHSCORES" in command
    out: list[list[Hit]] = []
    for hit in found:
        if out and (not is_ordered or near(out[-1][0][by], hit[by])):
            out[-1].append(hit)
        else:
            out.append([hit])
    return [sorted(run, key=lambda hit: hit[0]) for run in out]


def records(reply: object) -> list[dict[bytes, object]]:
    found = [row[b"extra_attributes"] for row in reply[b"results"]] if isinstance(reply, dict) else [pairs(row) for row in reply[1:]]
    # Lists of different values have no order, and RESP3 sends what RESP2 leaves out.
    return [{name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in row.items() if value is not None} for row in found]


def in_no_order(rows: list[dict[bytes, object]]) -> list[dict[bytes, object]]:
    return sorted(rows, key=lambda row: sorted((name, repr(value)) for name, value in row.items()))


def sorted_values(rows: list[dict[bytes, object]], command: Command) -> list[object]:
    name = command[command.index("SORTBY") + 2].removeprefix("@").encode()
    return [row.get(name) for row in rows]


def is_same(command: Command, theirs: object, ours: object) -> bool:
    if isinstance(theirs, redis.ResponseError) or isinstance(ours, redis.ResponseError):
        return isinstance(theirs, redis.ResponseError) and isinstance(ours, redis.ResponseError)
    if command[0] == "FT.SEARCH":
        (total, theirs), (our_total, ours) = hits(theirs, command), hits(ours, command)
        return total == our_total and near_hits(runs(theirs, command), runs(ours, command))
    if command[0] == "FT.AGGREGATE":
        theirs, ours = records(theirs), records(ours)
        if "SORTBY" in command:
            # Which of equal ones a page's end cuts off is left open.
            return len(theirs) == len(ours) and near(sorted_values(theirs, command), sorted_values(ours, command))
        return near(in_no_order(theirs), in_no_order(ours))
    if command[0] == "FT.SPELLCHECK":
        return near(proposals(theirs), proposals(ours))
    if command[0] == "FT.TAGVALS":
        return sorted(theirs) == sorted(ours)
    return near(theirs, ours)


def near_hits(theirs: list[list[Hit]], ours: list[list[Hit]]) -> bool:
    return near([[list(hit) for hit in run] for run in theirs], [[list(hit) for hit in run] for run in ours])


def proposals(reply: object) -> dict[object, list[object]]:
    """Those of each word, without stems, sounds and synonyms, which the original has too; equal ones in no order."""
    if isinstance(reply, dict):
        by_word = {word: [(score, term) for pair in pairs for term, score in pair.items()] for word, pairs in reply[b"results"].items()}
    else:
        by_word = {word: [(score, term) for score, term in found] for _, word, found in reply}
    return {word: sorted([[float(score), term] for score, term in found if term[:1] not in b"+<~"]) for word, found in by_word.items()}


# ---- What may differ


@dataclass
class Index:
    is_json: bool
    has_vectors: bool
    keys: list[str]


@dataclass
class Case:
    """A request whose answers differ, and what the index is."""

    command: Command
    theirs: object
    ours: object
    index: Index
    original: redis.Connection | None
    # The keys that are found one at a time, if they were recorded.
    right: list[str] | None = None

    def is_about(self, name: str) -> bool:
        return self.command[0] == name

    def has_answers(self) -> bool:
        return not isinstance(self.theirs, redis.ResponseError) and not isinstance(self.ours, redis.ResponseError)

    def pages(self) -> list[tuple[int, list[Hit]]]:
        return [hits(reply, self.command) for reply in (self.theirs, self.ours)]

    def tables(self) -> list[list[dict[bytes, object]]]:
        return [records(reply) for reply in (self.theirs, self.ours)]


def keys_are_same(case: Case) -> bool:
    """The same documents, with other scores and so in another order."""
    if not case.is_about("FT.SEARCH") or not case.has_answers():
        return False
    (total, theirs), (our_total, ours) = case.pages()
    return total == our_total and {hit[0] for hit in theirs} == {hit[0] for hit in ours}


def keys_are_there(case: Case) -> bool:
    """The same documents, whatever the totals say."""
    if not case.is_about("FT.SEARCH") or not case.has_answers():
        return False
    (_, theirs), (_, ours) = case.pages()
    return {hit[0] for hit in theirs} == {hit[0] for hit in ours}


def more_is_found(case: Case) -> bool:
    """The original finds what Quartet does, and more."""
    if not case.has_answers():
        return False
    if case.is_about("FT.SPELLCHECK"):
        theirs, ours = proposals(case.theirs), proposals(case.ours)
        return theirs.keys() == ours.keys() and all(any(near(one, other) for other in theirs[word]) for word, found in ours.items() for one in found)
    if not case.is_about("FT.SEARCH"):
        return False
    (_, theirs), (_, ours) = case.pages()
    return {hit[0] for hit in ours} <= {hit[0] for hit in theirs}


def less_is_found(case: Case) -> bool:
    """Quartet finds what the original does, and more."""
    if not case.is_about("FT.SEARCH") or not case.has_answers():
        return False
    (_, theirs), (_, ours) = case.pages()
    return {hit[0] for hit in theirs} <= {hit[0] for hit in ours}


def each_key_is_right(case: Case) -> bool:
    """Asked for one key at a time, the original finds what Quartet does."""
    if not case.is_about("FT.SEARCH") or not case.has_answers() or "INKEYS" in case.command:
        return False
    right = case.right if case.original is None else keys_one_by_one(case.command, case.index, case.original)
    if right is None:
        return False
    total, ours = case.pages()[1]
    found = {hit[0].decode() for hit in ours}
    is_only_counted = "LIMIT 0 0" in " ".join(map(str, case.command))
    return total == len(right) if is_only_counted else found == set(right)


def keys_one_by_one(command: Command, index: Index, original: redis.Connection) -> list[str]:
    asked = [word for word in command[3:] if word not in ("WITHSCORES", "WITHSORTKEYS")]
    right = []
    for key in index.keys:
        reply = answered(original, [*command[:3], "INKEYS", "1", key, *asked])
        if isinstance(reply, redis.ResponseError):
            return []
        total = reply[b"total_results"] if isinstance(reply, dict) else reply[0]
        right += [key] * bool(total)
    return right


def all_but_order_total_and_absent(case: Case) -> bool:
    """The original's hits are Quartet's; those that it lacks have no value to be sorted by."""
    if not case.is_about("FT.SEARCH") or not case.has_answers():
        return False
    (_, theirs), (_, ours) = case.pages()
    known = {hit[0]: hit for hit in ours}
    is_lacking = len(theirs) < len(ours)
    lacked = known.keys() - {hit[0] for hit in theirs} if is_lacking else set()
    by_value = "WITHSORTKEYS" in case.command
    # It may not sort at all, and then shows no value for it either.
    is_near = all(hit[0] in known and near(hit[1], known[hit[0]][1]) and holds(known[hit[0]][3], hit[3]) for hit in theirs)
    return is_near and all(by_value and known[key][2] is None for key in lacked)


def holds(fields: dict[bytes, object] | None, others: dict[bytes, object] | None) -> bool:
    return near(fields, others) if not fields or not others else all(near(fields.get(name), value) for name, value in others.items())


def texts_are_same(case: Case) -> bool:
    """Other words are marked in the same texts."""
    if not keys_are_same(case):
        return False
    theirs, ours = ({key: {name: re.sub(b"</?b>", b"", text) for name, text in fields.items()} for key, _, _, fields in found} for _, found in case.pages())
    return theirs == ours


def all_but_estimates(case: Case) -> bool:
    if not case.has_answers():
        return False
    name = str(case.command[case.command.index(ESTIMATE) + 4]).encode()
    theirs, ours = (in_no_order([{known: value for known, value in row.items() if known != name} for row in table]) for table in case.tables())
    return near(theirs, ours)


def all_but_numbers_of_none(case: Case) -> bool:
    if not case.has_answers():
        return False
    of_none = (b"nan", b"inf", b"-inf")
    theirs, ours = (in_no_order([{name: b"0" if value in of_none else value for name, value in row.items()} for row in table]) for table in case.tables())
    return near(theirs, ours)


def as_many_records(case: Case) -> bool:
    """Or the original refuses to compute with them."""
    if not case.is_about("FT.AGGREGATE"):
        return False
    return isinstance(case.theirs, redis.ResponseError) or case.has_answers() and len({len(table) for table in case.tables()}) == 1


def has_pattern(case: Case) -> bool:
    query = case.command[2]
    return query != "*" and any(mark in query for mark in ("*", "%", "w'"))


def has_alternatives(case: Case) -> bool:
    """Written ones, or several words of which each stands for its stem too."""
    query = case.command[2]
    return any(mark in query for mark in "~|-") or " " in query.strip()


def scores_of_several(case: Case) -> bool:
    command = case.command
    return "WITHSCORES" in command and " " in command[2].strip() and "DISMAX" not in command and "DOCSCORE" not in command


def asks_for_order(case: Case) -> bool:
    return has("SLOP", "INORDER")(case) or any(attribute in case.command[2] for attribute in ("$slop", "$inorder"))


def has_parts_without_words(case: Case) -> bool:
    return has("FILTER")(case) or any(mark in case.command[2] for mark in ("~", "-", "@g:", "@n:"))


def has(*words: str) -> Callable[[Case], bool]:
    return lambda case: any(word in case.command for word in words)


def is_of_dialect(*dialects: str) -> Callable[[Case], bool]:
    return lambda case: case.command[-2] == "DIALECT" and case.command[-1] in dialects


# Names of docs/search.md's classes, what a request of the class has, and what must hold in spite of it.
CLASSES: list[tuple[str, Callable[[Case], bool], Callable[[Case], bool]]] = [
    ("scores of patterns", has_pattern, keys_are_same),
    ("scores of alternatives, optional and negated parts", has_alternatives, keys_are_same),
    ("alternatives that 2.10 passes over", has_alternatives, each_key_is_right),
    ("order and distance beside parts that have no words", lambda case: asks_for_order(case) and has_parts_without_words(case), less_is_found),
    ("fuzzy words that stand for stems and sounds", lambda case: "%" in case.command[2], more_is_found),
    ("FT.SPELLCHECK of distance 2", lambda case: case.is_about("FT.SPELLCHECK") and case.command[-1] == "2", more_is_found),
    ("distances of several words in TFIDF and BM25", scores_of_several, keys_are_same),
    ("order, total and absent values in dialect 4", is_of_dialect("4"), all_but_order_total_and_absent),
    ("TFIDF of documents with vectors", lambda case: case.index.has_vectors and has("TFIDF")(case), keys_are_same),
    ("TFIDF of documents with vectors in dialect 4", lambda case: case.index.has_vectors and has("TFIDF")(case) and is_of_dialect("4")(case), keys_are_there),
    ("words that HIGHLIGHT marks", lambda case: has("HIGHLIGHT")(case) and not has("SUMMARIZE")(case), texts_are_same),
    ("fragments of SUMMARIZE", has("SUMMARIZE"), keys_are_same),
    ("estimates of COUNT_DISTINCTISH", has(ESTIMATE), all_but_estimates),
    ("reducers of no numbers", has("SUM", "MIN", "MAX"), all_but_numbers_of_none),
    ("several values of a path in dialect 3", lambda case: case.index.is_json and is_of_dialect("3", "4")(case), as_many_records),
]


def class_of(case: Case) -> str:
    for name, applies, holds in CLASSES:
        if applies(case) and holds(case):
            return name
    return "unexplained"


# ---- Requests


def vector(choice: random.Random) -> bytes:
    return struct.pack(f"<{DIMENSIONS}f", *(choice.uniform(-1, 1) for _ in range(DIMENSIONS)))


def request(choice: random.Random, index: Index) -> Command:
    kind = choice.randrange(14 if index.has_vectors else 13)
    simple = choice.choice([random_word, lambda choice: "@t:" + random_word(choice), lambda choice: f"@n:[{choice.randrange(5)} {choice.randrange(4, 12)}]", lambda _: "*"])
    query = random_query(choice, 2) if choice.random() < 0.5 else simple(choice)
    dialect = ["DIALECT", choice.choice("234")]
    whole = ["LIMIT", "0", "1000", *dialect]
    if kind < 4:
        return ["FT.SEARCH", "i", query, "NOCONTENT", "WITHSCORES", "SCORER", choice.choice(SCORERS), *whole]
    if kind == 4:
        options = choice.choice([["VERBATIM"], ["INKEYS", "3", *choice.sample(index.keys, 3)], ["INFIELDS", "1", "t"], ["FILTER", "n", "1", "(7"], ["SLOP", "1"], ["INORDER"], ["NOSTOPWORDS"], ["EXPANDER", "SYNONYM"]])
        return ["FT.SEARCH", "i", query, "NOCONTENT", *options, *whole]
    if kind == 5:
        shown = choice.choice([["HIGHLIGHT"], ["SUMMARIZE", "LEN", str(choice.randrange(8))], ["SUMMARIZE", "FRAGS", str(choice.randrange(4)), "LEN", "3", "HIGHLIGHT"]])
        return ["FT.SEARCH", "i", simple(choice), "RETURN", "1", choice.choice("tb"), *shown, *whole]
    if kind == 6:
        applied = choice.choice(FUNCTIONS)
        return ["FT.AGGREGATE", "i", simple(choice), "LOAD", "3", "@n", "@s", "@m", "FILTER", "exists(@n)", "APPLY", applied, "AS", "r", *whole]
    if kind == 7:
        reducers = [word for number, reducer in enumerate(choice.sample(REDUCERS, 2)) for word in ["REDUCE", *reducer.split(), "AS", f"r{number}"]]
        return ["FT.AGGREGATE", "i", simple(choice), "GROUPBY", "1", choice.choice(["@g", "@s"]), *reducers, *whole]
    if kind == 8:
        return ["FT.EXPLAIN", "i", query, *dialect]
    if kind == 9:
        word = random_word(choice)
        at = choice.randrange(len(word))
        return ["FT.SPELLCHECK", "i", word[:at] + choice.choice("aeq") + word[at + 1 :], "DISTANCE", choice.choice("12")]
    if kind == 10:
        by = ["SORTBY", choice.choice("snm"), choice.choice(["ASC", "DESC"])]
        returned = choice.choice([[], ["RETURN", "2", "n", "s"], ["RETURN", "3", "n", "AS", "number"], ["NOCONTENT"]])
        return ["FT.SEARCH", "i", simple(choice), *by, "WITHSORTKEYS", *returned, *whole]
    if kind == 11:
        return choice.choice([
            ["FT.SEARCH", "i", random_circle(choice), "NOCONTENT", *whole],
            ["FT.SEARCH", "i", f"({random_circle(choice)}|{simple(choice)})", "NOCONTENT", *whole],
            ["FT.SEARCH", "i", simple(choice), "NOCONTENT", "GEOFILTER", "l", *random_circle(choice)[4:-1].split(), *whole],
            ["FT.SEARCH", "i", query, "LIMIT", "0", "0", *dialect],
            ["FT.TAGVALS", "i", choice.choice("gsn")],
        ])  # fmt: skip
    if kind == 12:
        by = ["SORTBY", "2", choice.choice(["@n", "@s", "@m"]), choice.choice(["ASC", "DESC"]), *choice.choice([[], ["MAX", "3"], ["MAX", "100"]])]
        page = choice.choice([[], ["LIMIT", "2", "5"], ["LIMIT", "0", "20"]])
        return ["FT.AGGREGATE", "i", simple(choice), "LOAD", "3", "@n", "@s", "@m", *by, *page, *dialect]
    filtered = choice.choice(["*", simple(choice), f"({simple(choice)})", "(@g:{red})"])
    asked = choice.choice([f"{filtered}=>[KNN {choice.randrange(1, 7)} @v $q AS distance]", f"@v:[VECTOR_RANGE {choice.choice(['0.5', '1', '3'])} $q]=>{{$YIELD_DISTANCE_AS: distance}}"])
    order = choice.choice([[], ["SORTBY", "distance", "ASC", "WITHSORTKEYS"]])
    return ["FT.SEARCH", "i", asked, "PARAMS", "2", "q", vector(choice), "RETURN", "1", "distance", *order, *whole]


def random_words(choice: random.Random, has_sounds: bool) -> str:
    """With a word that counts: the score of a document without one is infinite at 2.10. Where words have sounds, none is so short
    that it has that of the word before it, as it has there."""
    text = ""
    while not set(re.findall(r"\w+", text)) - {"the", "of", "foo"}:
        text = random_text(choice)
    return re.sub(r"\b\w{1,2}\b", "words", text) if has_sounds else text


def definition(choice: random.Random) -> tuple[Index, list[Command]]:
    """An index, and the requests that make it and its documents."""
    is_json, has_vectors = choice.random() < 0.3, choice.random() < 0.5
    sortable = choice.choice([[], ["SORTABLE"], ["SORTABLE", "UNF"]])
    declared = {
        "t": ["TEXT", *choice.choice([[], ["WEIGHT", "2"], ["PHONETIC", "dm:en"]])],
        "b": ["TEXT", *choice.choice([[], ["WEIGHT", "3"]])],
        "s": ["TAG", *([] if is_json else sortable)],
        "g": ["TAG", *choice.choice([[], ["CASESENSITIVE"]])],
        "n": ["NUMERIC", "SORTABLE"],
        "m": ["NUMERIC", *choice.choice([[], ["SORTABLE"]])],
        "l": ["GEO"],
    }
    if has_vectors:
        declared["v"] = ["VECTOR", "FLAT", "6", "TYPE", "FLOAT32", "DIM", str(DIMENSIONS), "DISTANCE_METRIC", choice.choice(["L2", "COSINE", "IP"])]
    schema = [word for name, words in declared.items() for word in [*([f"$.{name}", "AS", name] if is_json else [name]), *words]]
    options = choice.choice([[], ["STOPWORDS", "1", "foo"], ["SCORE", "0.5"], ["FILTER", "@n>1"]])
    commands: list[Command] = [["FLUSHALL"], ["FT.CREATE", "i", "ON", "JSON" if is_json else "HASH", "PREFIX", "1", "d:", *options, "SCHEMA", *schema]]
    if choice.random() < 0.3:
        commands.append(["FT.SYNUPDATE", "i", "g1", *choice.sample([word for word in WORDS if word.isascii()], 3)])
    # A word of two letters has the sound of the one before it at the original.
    has_sounds = "PHONETIC" in declared["t"]
    keys = [f"d:{number:03}" for number in range(choice.choice([5, 30, 80]))]
    for key in keys:
        fields: dict[str, object] = {"t": random_words(choice, has_sounds), "b": random_text(choice), "s": choice.choice(WORDS), "g": choice.choice(TAGS), "n": choice.choice([1, 2.5, 3, 7, 9])}
        fields["l"] = ",".join(map(str, random_place(choice)))
        if choice.random() < 0.5:
            fields["m"] = choice.randrange(5)
        if has_vectors and choice.random() < 0.9:
            blob = vector(choice)
            # With few digits, as version 2.8 of the original's JSON reads more of them as another number.
            fields["v"] = [round(number, 3) for number in struct.unpack(f"<{DIMENSIONS}f", blob)] if is_json else blob
        if is_json:
            commands.append(["JSON.SET", key, "$", json.dumps(fields)])
        else:
            commands.append(["HSET", key, *(value if isinstance(value, bytes) else str(value) for pair in fields.items() for value in pair)])
    return Index(is_json, has_vectors, keys), commands


def fill(commands: list[Command], connections: list[redis.Connection]) -> None:
    for command in commands:
        for connection in connections:
            reply = answered(connection, command)
            assert not isinstance(reply, redis.ResponseError), (command, reply)


def let_take_long(connection: redis.Connection) -> None:
    """A busy machine changes no answer."""
    assert answered(connection, ["FT.CONFIG", "SET", "TIMEOUT", "0"]) == b"OK"


# ---- What the original answered, for a comparison without it


def plain(value: object) -> object:
    """As JSON can have it: bytes as text of as many letters, other texts, maps and errors marked."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case redis.ResponseError():
            return {"error": str(value)}
        case dict():
            return {"map": [[plain(name), plain(one)] for name, one in value.items()]}
        case list() | set() | tuple():
            return [plain(one) for one in value]
    return value


def from_plain(value: object) -> object:
    match value:
        case str():
            return value.encode("latin-1")
        case {"error": text}:
            return redis.ResponseError(text)
        case {"map": found}:
            return {from_plain(name): from_plain(one) for name, one in found}
        case list():
            return [from_plain(one) for one in value]
    return value


def record(seed: int, schemas: int, queries: int, path: Path) -> None:
    choice = random.Random(seed)
    with Oracle(free_port()) as oracle, path.open("w") as out:
        connections = [redis.Connection(port=oracle_port(oracle), protocol=protocol) for protocol in (2, 3)]
        let_take_long(connections[0])
        for _ in range(schemas):
            index, commands = definition(choice)
            fill(commands, connections[:1])
            made = {"index": vars(index), "commands": [[plain_word(word) for word in command] for command in commands]}
            out.write(json.dumps(made) + "\n")
            for _ in range(queries):
                command = request(choice, index)
                line: dict[str, object] = {"command": [plain_word(word) for word in command]}
                line["replies"] = [plain(answered(connection, command)) for connection in connections]
                if command[0] == "FT.SEARCH" and not isinstance(line["replies"][0], dict):
                    line["right"] = keys_one_by_one(command, index, connections[0])
                out.write(json.dumps(line) + "\n")


def plain_word(word: str | bytes) -> object:
    return word if isinstance(word, str) else {"bytes": word.decode("latin-1")}


def word_of(word: object) -> str | bytes:
    return word if isinstance(word, str) else word["bytes"].encode("latin-1")


def replay(path: Path, port: int) -> list[str]:
    """Asks Quartet what was recorded. Returns what is unexplained."""
    connections = [redis.Connection(port=port, protocol=protocol) for protocol in (2, 3)]
    let_take_long(connections[0])
    unexplained, index = [], None
    for line in map(json.loads, path.read_text().splitlines()):
        if "commands" in line:
            index = Index(**line["index"])
            fill([[word_of(word) for word in command] for command in line["commands"]], connections[:1])
            continue
        command = [word_of(word) for word in line["command"]]
        for connection, recorded in zip(connections, line["replies"], strict=True):
            theirs, ours = from_plain(recorded), answered(connection, command)
            if not is_same(command, theirs, ours) and class_of(Case(command, theirs, ours, index, None, line.get("right"))) == "unexplained":
                unexplained.append(f"{command}\n    theirs {theirs!r:.600}\n    ours   {ours!r:.600}")
    return unexplained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemas", type=int, default=20)
    parser.add_argument("--queries", type=int, default=500, help="requests for each schema")
    parser.add_argument("--show", type=int, default=3, help="how many differences of each class are printed")
    parser.add_argument("--record", type=Path, help="only records what the original answers")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.seed, arguments.schemas, arguments.queries, arguments.record)
        return 0
    choice = random.Random(arguments.seed)
    counts: collections.Counter[str] = collections.Counter()
    examples: dict[str, list[str]] = collections.defaultdict(list)
    port = free_port()
    with Oracle(free_port()) as oracle:
        quartet = Quartet(port)
        try:
            peers = {name: [redis.Connection(port=at, protocol=protocol) for protocol in (2, 3)] for name, at in (("theirs", oracle_port(oracle)), ("ours", port))}
            for connections in peers.values():
                let_take_long(connections[0])
            for schema in range(arguments.schemas):
                index, commands = definition(choice)
                fill(commands, [peers["theirs"][0], peers["ours"][0]])
                for _ in range(arguments.queries):
                    command = request(choice, index)
                    for theirs, ours in zip(peers["theirs"], peers["ours"], strict=True):
                        expected, found = answered(theirs, command), answered(ours, command)
                        counts["asked"] += 1
                        if is_same(command, expected, found):
                            continue
                        name = class_of(Case(command, expected, found, index, theirs))
                        counts[name] += 1
                        examples[name].append(f"schema {schema}: {command}\n    theirs {expected!r:.600}\n    ours   {found!r:.600}")
        finally:
            quartet.close()
    for name, count in counts.most_common():
        print(f"{count:8} {name}")
        for example in examples[name][: arguments.show]:
            print(f"  {example}")
    return int(counts["unexplained"] > 0)


def oracle_port(oracle: Oracle) -> int:
    return oracle.client.connection_pool.connection_kwargs["port"]


if __name__ == "__main__":
    sys.exit(main())
