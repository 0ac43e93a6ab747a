"""Asks the original and Quartet the same, and counts what differs, by class.

`python differential.py [--seed N] [--schemas N] [--queries N] [--show N]`: for each schema new documents, and so many requests, each
in RESP2 and RESP3. Compared are totals, keys, their order, scores and numbers to 1e-6, texts, and that the same is refused. Hits of equal score stand in
the order of keys here and of writes there, so a run of equal ones is compared as a set. QUARTET_BIN is the program.

A difference belongs to a class if its request asks for what docs/search.md names as one; what is left is unexplained, and ends the run with 1.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis
from oracle import Oracle
from record import WORDS, free_port, random_query, random_text, random_word

BINARY = Path(os.environ.get("QUARTET_BIN", Path(__file__).resolve().parents[2] / "target/release/quartet"))
SCORERS = ["TFIDF", "TFIDF.DOCNORM", "BM25", "DISMAX", "DOCSCORE"]
TAGS = ["red", "Red", "light blue", "blue", "green", "red,blue", "x"]
FUNCTIONS = ["@n*2+1", "@n%3", "upper(@s)", "lower(@s)", "substr(@s,1,3)", "strlen(@s)", "format(\"%s-%s\",@s,@n)", "abs(@n)", "sqrt(@n)", "log(@n)",
             "floor(@n/2)", "ceil(@n/3)", "@n>2 && @n<9", "startswith(@s,\"ze\")", "contains(@s,\"a\")", "exists(@m)", "timefmt(@n*100000)",
             "year(@n*100000000)", "dayofyear(@n*1000000)", "hour(@n*10000)", "to_str(@n)", "to_number(\"12\")+@n", "split(@s,\"a\")", "@n==3||@n==7", "!@n"]  # fmt: skip
REDUCERS = ["COUNT 0", "SUM 1 @n", "MIN 1 @n", "MAX 1 @n", "COUNT_DISTINCT 1 @s", "COUNT_DISTINCTISH 1 @n", "STDDEV 1 @n",
            "TOLIST 1 @s", "FIRST_VALUE 3 @s BY @n", "FIRST_VALUE 4 @s BY @n DESC", "SUM 1 @m"]  # fmt: skip


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


def answered(connection: redis.Connection, command: list[str]) -> object:
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
    try:
        x, y = float(a), float(b)
    except (TypeError, ValueError):
        return False
    return abs(x - y) <= 1e-6 * max(1.0, abs(x), abs(y)) or (x != x and y != y)


def pairs(flat: list[object]) -> dict[object, object]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def hits(reply: object, command: list[str]) -> tuple[object, list[tuple[object, object, object]]]:
    """The total, and of each hit its key, score and fields."""
    if isinstance(reply, dict):
        found = [(hit[b"id"], hit.get(b"score"), hit.get(b"extra_attributes")) for hit in reply[b"results"]]
        return reply[b"total_results"], found
    with_score, with_content = "WITHSCORES" in command, "NOCONTENT" not in command
    width = 1 + with_score + with_content
    rows = [reply[at : at + width] for at in range(1, len(reply), width)]
    return reply[0], [(row[0], row[1] if with_score else None, pairs(row[-1]) if with_content else None) for row in rows]


def runs(found: list[tuple[object, object, object]], by_score: bool) -> list[list[tuple[object, object, object]]]:
    """Hits of equal score, together; all together if the order says nothing."""
    out: list[list[tuple[object, object, object]]] = []
    for hit in found:
        if out and (not by_score or near(out[-1][0][1], hit[1])):
            out[-1].append(hit)
        else:
            out.append([hit])
    return [sorted(run, key=lambda hit: hit[0]) for run in out]


def records(reply: object) -> list[object]:
    found = [row[b"extra_attributes"] for row in reply[b"results"]] if isinstance(reply, dict) else [pairs(row) for row in reply[1:]]
    # Lists of different values have no order, and RESP3 sends what RESP2 leaves out.
    plain = [{name: sorted(value, key=repr) if isinstance(value, list) else value for name, value in row.items() if value is not None} for row in found]
    return sorted(plain, key=lambda row: sorted((name, repr(value)) for name, value in row.items()))


def is_same(command: list[str], theirs: object, ours: object) -> bool:
    if isinstance(theirs, redis.ResponseError) or isinstance(ours, redis.ResponseError):
        return isinstance(theirs, redis.ResponseError) and isinstance(ours, redis.ResponseError)
    if command[0] == "FT.SEARCH":
        (total, theirs), (our_total, ours) = hits(theirs, command), hits(ours, command)
        by_score = "WITHSCORES" in command
        theirs, ours = (runs(found, by_score) for found in (theirs, ours))
        # In dialect 4 their total says how far they had come.
        is_total_same = total == our_total or command[-1] == "4"
        return is_total_same and near([[list(hit) for hit in run] for run in theirs], [[list(hit) for hit in run] for run in ours])
    if command[0] == "FT.AGGREGATE":
        return near(records(theirs), records(ours))
    if command[0] == "FT.SPELLCHECK":
        return near(proposals(theirs), proposals(ours))
    return near(theirs, ours)


def proposals(reply: object) -> dict[object, list[object]]:
    """Those of each word, without stems, sounds and synonyms, which the original has too; equal ones in no order."""
    if isinstance(reply, dict):
        by_word = {word: [(score, term) for pair in pairs for term, score in pair.items()] for word, pairs in reply[b"results"].items()}
    else:
        by_word = {word: [(score, term) for score, term in found] for _, word, found in reply}
    return {word: sorted([[float(score), term] for score, term in found if term[:1] not in b"+<~"]) for word, found in by_word.items()}


def group_of(command: list[str]) -> str | None:
    """The class of docs/search.md that a request belongs to."""
    query = command[2]
    if any(mark in query for mark in ("*", "%", "w'")) and query != "*":
        return "patterns"
    if "~" in query or "|" in query or "-" in query:
        return "alternatives, optional and negated parts"
    if "INKEYS" in command or "INFIELDS" in command:
        return "INKEYS and INFIELDS with stems"
    if "WITHSCORES" in command and " " in query.strip():
        return "distances of several words in TFIDF and BM25"
    if "HIGHLIGHT" in command or "SUMMARIZE" in command:
        return "words that only a stem finds, in HIGHLIGHT"
    return None


def request(choice: random.Random, keys: list[str]) -> list[str]:
    kind = choice.randrange(10)
    simple = choice.choice([random_word, lambda choice: "@t:" + random_word(choice), lambda choice: f"@n:[{choice.randrange(5)} {choice.randrange(4, 12)}]", lambda _: "*"])
    query = random_query(choice, 2) if choice.random() < 0.5 else simple(choice)
    dialect = ["DIALECT", choice.choice("234")]
    if kind < 4:
        return ["FT.SEARCH", "i", query, "NOCONTENT", "WITHSCORES", "SCORER", choice.choice(SCORERS), "LIMIT", "0", "1000", *dialect]
    if kind == 4:
        options = choice.choice([["VERBATIM"], ["INKEYS", "3", *choice.sample(keys, 3)], ["INFIELDS", "1", "t"], ["FILTER", "n", "1", "(7"], ["SLOP", "1"], ["INORDER"], ["NOSTOPWORDS"], ["EXPANDER", "SYNONYM"]])
        return ["FT.SEARCH", "i", query, "NOCONTENT", *options, "LIMIT", "0", "1000", *dialect]
    if kind == 5:
        shown = choice.choice([["HIGHLIGHT"], ["SUMMARIZE", "LEN", str(choice.randrange(8))], ["SUMMARIZE", "FRAGS", str(choice.randrange(4)), "LEN", "3", "HIGHLIGHT"]])
        return ["FT.SEARCH", "i", simple(choice), "RETURN", "1", choice.choice("tb"), *shown, "LIMIT", "0", "1000", *dialect]
    if kind == 6:
        applied = choice.choice(FUNCTIONS)
        return ["FT.AGGREGATE", "i", simple(choice), "LOAD", "3", "@n", "@s", "@m", "FILTER", "exists(@n)", "APPLY", applied, "AS", "r", "LIMIT", "0", "1000", *dialect]
    if kind == 7:
        reducers = [word for number, reducer in enumerate(choice.sample(REDUCERS, 2)) for word in ["REDUCE", *reducer.split(), "AS", f"r{number}"]]
        return ["FT.AGGREGATE", "i", simple(choice), "GROUPBY", "1", choice.choice(["@g", "@s"]), *reducers, "LIMIT", "0", "1000", *dialect]
    if kind == 8:
        return ["FT.EXPLAIN", "i", query, *dialect]
    word = random_word(choice)
    at = choice.randrange(len(word))
    return ["FT.SPELLCHECK", "i", word[:at] + choice.choice("aeq") + word[at + 1 :], "DISTANCE", choice.choice("12")]


def fill(choice: random.Random, connections: list[redis.Connection]) -> list[str]:
    sortable = choice.choice([[], ["SORTABLE"], ["SORTABLE", "UNF"]])
    schema = ["t", "TEXT", *choice.choice([[], ["WEIGHT", "2"], ["PHONETIC", "dm:en"]]), "b", "TEXT", *choice.choice([[], ["NOSTEM"], ["WEIGHT", "3"]])]
    schema += ["s", "TAG", *sortable, "g", "TAG", *choice.choice([[], ["CASESENSITIVE"]]), "n", "NUMERIC", "SORTABLE", "m", "NUMERIC", "SORTABLE"]
    options = choice.choice([[], ["STOPWORDS", "1", "foo"], ["SCORE", "0.5"], ["FILTER", "@n>1"]])
    commands = [["FLUSHALL"], ["FT.CREATE", "i", "ON", "HASH", "PREFIX", "1", "d:", *options, "SCHEMA", *schema]]
    if choice.random() < 0.3:
        commands.append(["FT.SYNUPDATE", "i", "g1", *choice.sample([word for word in WORDS if word.isascii()], 3)])
    keys = [f"d:{number:03}" for number in range(choice.choice([5, 30, 80]))]
    for key in keys:
        fields = ["t", random_text(choice), "b", random_text(choice), "s", choice.choice(WORDS), "g", choice.choice(TAGS), "n", choice.choice(["1", "2.5", "3", "7", "9"])]
        if choice.random() < 0.5:
            fields += ["m", str(choice.randrange(5))]
        commands.append(["HSET", key, *fields])
    for command in commands:
        for connection in connections:
            reply = answered(connection, command)
            assert not isinstance(reply, redis.ResponseError), (command, reply)
    return keys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemas", type=int, default=20)
    parser.add_argument("--queries", type=int, default=500, help="requests for each schema")
    parser.add_argument("--show", type=int, default=3, help="how many differences of each class are printed")
    arguments = parser.parse_args()
    choice = random.Random(arguments.seed)
    counts: collections.Counter[str] = collections.Counter()
    examples: dict[str, list[str]] = collections.defaultdict(list)
    port = free_port()
    with Oracle(free_port()) as oracle:
        quartet = Quartet(port)
        try:
            peers = {name: [redis.Connection(port=at, protocol=protocol) for protocol in (2, 3)] for name, at in (("theirs", oracle_port(oracle)), ("ours", port))}
            for _ in range(arguments.schemas):
                keys = fill(choice, [peers["theirs"][0], peers["ours"][0]])
                for _ in range(arguments.queries):
                    command = request(choice, keys)
                    for theirs, ours in zip(peers["theirs"], peers["ours"], strict=True):
                        expected, found = answered(theirs, command), answered(ours, command)
                        counts["asked"] += 1
                        if is_same(command, expected, found):
                            continue
                        name = group_of(command) or "unexplained"
                        counts[name] += 1
                        examples[name].append(f"{command}\n    theirs {expected!r:.600}\n    ours   {found!r:.600}")
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
