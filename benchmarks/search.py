#!/usr/bin/env python3
"""What searches cost, each row beside Redis with its query engine, both sides in one run.

    cargo build --release
    benchmarks/search.py --out OUT

The original is Redis 8.2 with the query engine of Redis Stack 7.4 (tests/redis-oracle fetches both from PyPI), with an append-only file
that is synced each second; Quartet serves with `--durability interval`. One Python process is the client of both. Sides take turns, --rounds
times; a figure is the median of its rounds, a ratio that of their ratios. CPU is user and system time of the server's process. Before a query
is timed, both sides have to answer the same totals.

| row | what it measures, and the bar |
| --- | --- |
| ingest | hashes of 60 words, two TAG and two NUMERIC fields, in pipelines of 100, into an index: rate >= 0.7, CPU a document <= 1.5; memory a document |
| filters | TAG, NUMERIC and both, LIMIT 0 10, with 1 and 10 connections: rate >= 1.0 |
| text | one word ranked, two words, a phrase, a prefix, a fuzzy word: rate >= 1.0 |
| total | how many are in a range that holds half of them (LIMIT 0 0): rate >= 3 |
| groups | GROUPBY 1,000 groups, COUNT, SORTBY, the top 10: rate >= 1.5 |
| exact | KNN 10 over a flat index of --vectors vectors of 384: rate >= 1.3 |
| beside | HSET while there is an index with another prefix: CPU over that without any, <= 1.03; Quartet alone |
| writers | p99 of SET while long aggregations run one after the other, over that with none: <= 2; Quartet alone |
| start | from the start of a killed process to the first right search: <= 0.25 |

A connection has one request outstanding; ten connections send together and wait for all ten.
"""

import argparse
import json
import os
import random
import socket
import statistics
import struct
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A program here is called as the client library of Redis is, which comes first.
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "redis-oracle"), sys.path.pop(0)]

from harness import resp
from harness.server import Server
from oracle import Oracle
from tables import commit, machine, report, row

VOCABULARY = 20_000
WORDS = 60
BATCH = 100
DIMENSIONS = 384
QUERY_MILLISECONDS_MAX = 5_000
# How often the hashes beside an index are written over in a round.
PASSES = 10
# What a reply may take before the run is given up.
REPLY_SECONDS_MAX = 120.0


# ---- both sides


class Side:
    def __init__(self, name):
        self.name = name
        self.server = self.make()
        self.connections = []

    def make(self):
        raise NotImplementedError

    def connection(self, number=0):
        while len(self.connections) <= number:
            self.connections.append(resp.Connection(self.port, timeout_seconds=REPLY_SECONDS_MAX))
        return self.connections[number]

    def do(self, *words):
        return good(self.connection().do(*words))

    def cpu_seconds(self):
        # The clock of another process' CPU, in Linux' numbering: /proc has it in hundredths of a second only.
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def resident_bytes(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def process(self):
        return self.server.process

    def kill(self):
        for connection in self.connections:
            connection.close()
        self.connections = []
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.server.close()


class Ours(Side):
    def make(self):
        return Server("interval", listeners=["redis"], program=os.environ.get("QUARTET_BIN", str(ROOT / "target/release/quartet"))).start()

    @property
    def port(self):
        return self.server.port

    def start(self):
        self.server.start()


class Theirs(Side):
    def make(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        return Oracle(self.port, "--appendonly", "yes", "--appendfsync", "everysec")

    def start(self):
        self.server.start()


def good(reply):
    if isinstance(reply, resp.ReplyError):
        raise RuntimeError(f"the server answers {reply!r}")
    return reply


# ---- what is stored and asked


def word(rank):
    """Words of four to seven letters, one for each rank; a frequent one is not a prefix of all others."""
    letters, number = "", rank * 7919 + 104_729
    while number:
        number, digit = divmod(number, 21)
        letters += "bcdfghjklmnpqrstvwxyz"[digit] + "aeiou"[(number + digit) % 5]
    return letters[:7]


class Corpus:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.words = [word(rank) for rank in range(VOCABULARY)]
        total, self.weights = 0.0, []
        for rank in range(VOCABULARY):
            total += 1 / (rank + 1)
            self.weights.append(total)

    def text(self):
        return " ".join(self.chance.choices(self.words, cum_weights=self.weights, k=WORDS))

    def document(self, number):
        fields = ["body", self.text(), "brand", f"brand{self.chance.randrange(1000)}", "color", f"color{self.chance.randrange(10)}"]
        return ["HSET", f"doc:{number:07d}", *fields, "price", self.chance.randrange(10_000), "year", self.chance.randrange(1980, 2027)]

    def vector(self):
        return struct.pack(f"<{DIMENSIONS}f", *(self.chance.gauss(0, 1) for _ in range(DIMENSIONS)))


SCHEMA = ["body", "TEXT", "brand", "TAG", "color", "TAG", "price", "NUMERIC", "year", "NUMERIC"]


def create(side):
    side.do("FT.CREATE", "docs", "PREFIX", 1, "doc:", "SCHEMA", *SCHEMA)


def fill(side, commands):
    """Sends commands in pipelines. Answers the seconds it took, of the clock and of the server's CPU."""
    encoded = [b"".join(resp.encode(*command) for command in commands[at : at + BATCH]) for at in range(0, len(commands), BATCH)]
    connection, began, cpu = side.connection(), time.perf_counter(), side.cpu_seconds()
    for block in encoded:
        connection.send_bytes(block)
        for _ in range(block.count(b"\r\nHSET\r\n")):
            good(connection.read())
    return time.perf_counter() - began, side.cpu_seconds() - cpu


def search(query, *more):
    return ["FT.SEARCH", "docs", query, *(more or ("LIMIT", 0, 10)), "TIMEOUT", QUERY_MILLISECONDS_MAX]


def measured(side, requests, connections, seconds):
    """Requests per second, CPU microseconds a request, and p99 in milliseconds. `requests` are taken in turn."""
    encoded, opened = [resp.encode(*request) for request in requests], [side.connection(number) for number in range(connections)]
    done, latencies, began, cpu = 0, [], time.perf_counter(), side.cpu_seconds()
    while time.perf_counter() - began < seconds:
        sent = time.perf_counter()
        for connection in opened:
            connection.send_bytes(encoded[done % len(encoded)])
            done += 1
        for connection in opened:
            good(connection.read())
        latencies.append(time.perf_counter() - sent)
    took = time.perf_counter() - began
    latencies.sort()
    return done / took, (side.cpu_seconds() - cpu) / done * 1e6, latencies[int(len(latencies) * 0.99)] * 1e3


def beside(arguments, sides, what, requests, bar, connections=(1,), totals=True):
    """A query on both sides in turn; one row for each number of connections."""
    for request in requests[:10] if totals else []:
        found = [side.do(*request)[0] for side in sides]
        if found[0] != found[1]:
            raise RuntimeError(f"{request}: {found}")
    rows = []
    for count in connections:
        rounds = [[measured(side, requests, count, arguments.seconds) for side in sides] for _ in range(arguments.rounds)]
        ours, theirs = ([statistics.median(figures[at][part] for figures in rounds) for part in range(3)] for at in range(2))
        ratio = statistics.median(ours[0] / theirs[0] for ours, theirs in rounds)
        rows.append(
            row(
                f"{what}, {count} connection{'s' * (count > 1)}: requests/s (CPU us each; p99 ms)",
                "{:,.0f} ({:.0f}; {:.2f})".format(*ours),
                "{:,.0f} ({:.0f}; {:.2f})".format(*theirs),
                ratio,
                bar,
                "at least",
            )
        )
    return rows


# ---- the rows


def ingest(arguments, sides):
    corpus, found = Corpus(1), []
    documents = [corpus.document(number) for number in range(arguments.documents)]
    for side in sides:
        create(side)
        empty = side.resident_bytes()
        took, cpu = fill(side, documents)
        found.append((arguments.documents / took, cpu / arguments.documents * 1e6, (side.resident_bytes() - empty) / arguments.documents))
    ours, theirs = found
    return [
        row("documents/s, pipelines of 100", f"{ours[0]:,.0f}", f"{theirs[0]:,.0f}", ours[0] / theirs[0], 0.7, "at least"),
        row("CPU us a document", f"{ours[1]:.0f}", f"{theirs[1]:.0f}", ours[1] / theirs[1], 1.5, "at most"),
        row("memory of a document, its hash included, bytes", f"{ours[2]:,.0f}", f"{theirs[2]:,.0f}", ours[2] / theirs[2], None, "at most"),
    ]


def filters(arguments, sides):
    chance = random.Random(2)
    prices = [(low, low + 500) for low in (chance.randrange(9500) for _ in range(100))]
    queries = {
        "TAG": ["@brand:{brand%d}" % chance.randrange(1000) for _ in range(100)],
        "NUMERIC": ["@price:[%d %d]" % price for price in prices],
        "TAG and NUMERIC": ["@color:{color%d} @price:[%d %d]" % (chance.randrange(10), *price) for price in prices],
    }
    return [one for name, list_ in queries.items() for one in beside(arguments, sides, name, [search(query) for query in list_], 1.0, (1, 10))]


def text(arguments, sides):
    chance, words = random.Random(3), Corpus(1).words
    some = [words[chance.randrange(20, 2000)] for _ in range(200)]
    phrases = [sides[0].do("HGET", f"doc:{chance.randrange(arguments.documents):07d}", "body").split()[:2] for _ in range(50)]
    queries = {
        "one word ranked": some[:100],
        "two words": [f"{a} {b}" for a, b in zip(some[:100], some[100:])],
        "a phrase": ['"%s"' % " ".join(pair) for pair in phrases],
        "a prefix": [f"{one[:4]}*" for one in some[:100]],
        "a fuzzy word": [f"%{one}%" for one in some[:100]],
    }
    return [one for name, list_ in queries.items() for one in beside(arguments, sides, name, [search(query) for query in list_], 1.0)]


def total(arguments, sides):
    ranges = [search(f"@price:[{low} {low + 5000}]", "LIMIT", 0, 0) for low in range(0, 5000, 100)]
    return beside(arguments, sides, "total of half of them", ranges, 3)


def groups(arguments, sides):
    request = ["FT.AGGREGATE", "docs", "*", "GROUPBY", 1, "@brand", "REDUCE", "COUNT", 0, "AS", "n", "SORTBY", 2, "@n", "DESC", "MAX", 10]
    return beside(arguments, sides, "1,000 groups, top 10", [[*request, "TIMEOUT", QUERY_MILLISECONDS_MAX]], 1.5, totals=False)


def exact(arguments, sides):
    corpus = Corpus(4)
    vectors = [["HSET", f"vec:{number}", "v", corpus.vector()] for number in range(arguments.vectors)]
    requests = [
        ["FT.SEARCH", "vectors", "*=>[KNN 10 @v $q]", "PARAMS", 2, "q", corpus.vector(), "SORTBY", "__v_score", "NOCONTENT", "DIALECT", 2]
        for _ in range(20)
    ]
    for side in sides:
        options = ["TYPE", "FLOAT32", "DIM", DIMENSIONS, "DISTANCE_METRIC", "L2"]
        side.do("FT.CREATE", "vectors", "PREFIX", 1, "vec:", "SCHEMA", "v", "VECTOR", "FLAT", len(options), *options)
        fill(side, vectors)
    found = [[side.do(*request)[1:] for request in requests[:5]] for side in sides]
    if found[0] != found[1]:
        raise RuntimeError("the sides find other neighbours")
    return beside(arguments, sides, f"KNN 10 of {arguments.vectors:,}", requests, 1.3)


def beside_writes(arguments, sides):
    """Sides of one server: a database without an index, and one with an index over another prefix, in turn."""
    ours, figures = sides[0], {"none": [], "other": []}
    corpus = Corpus(5)
    hashes = [["HSET", f"plain:{number}", *corpus.document(number)[2:]] for number in range(20_000)]
    for _ in range(max(3, arguments.rounds)):
        for name in figures:
            ours.do("FLUSHALL")
            if name == "other":
                create(ours)
            # Freeing what was there before is not counted, nor is the first time, in which the tree grows.
            fill(ours, hashes)
            figures[name].append(sum(fill(ours, hashes)[1] for _ in range(PASSES)) / PASSES)
    ratio = statistics.median(other / none for none, other in zip(figures["none"], figures["other"]))
    none, other = (statistics.median(figures[name]) / len(hashes) * 1e6 for name in figures)
    what = "CPU us of HSET beside an index with another prefix (beside: without one)"
    return [row(what, f"{other:.1f}", f"{none:.1f}", ratio, 1.03, "at most")]


def writers(arguments, sides):
    """A writer of one server, alone and beside somebody who aggregates all documents again and again, in turn."""
    ours, figures = sides[0], {"alone": [], "beside": []}
    steps = ["LOAD", 1, "@body", "APPLY", "upper(@body)", "AS", "u", "GROUPBY", 2, "@brand", "@price", "REDUCE", "COUNT_DISTINCT", 1, "@u", "AS", "n"]
    aggregation = ["FT.AGGREGATE", "docs", "*", *steps, "LIMIT", 0, 1, "TIMEOUT", 60_000]
    sets = [["SET", f"plain:{number}", "v" * 64] for number in range(1000)]
    times, failures, stops = [], [], threading.Event()

    def aggregate():
        connection = resp.Connection(ours.port, timeout_seconds=REPLY_SECONDS_MAX)
        try:
            while not stops.is_set():
                began = time.perf_counter()
                good(connection.do(*aggregation))
                times.append(time.perf_counter() - began)
        except (OSError, RuntimeError) as failure:
            failures.append(failure)
        finally:
            connection.close()

    for _ in range(arguments.rounds):
        figures["alone"].append(measured(ours, sets, 1, arguments.seconds))
        stops.clear()
        thread = threading.Thread(target=aggregate)
        thread.start()
        try:
            figures["beside"].append(measured(ours, sets, 1, max(5, arguments.seconds)))
        finally:
            stops.set()
            thread.join()
        if failures:
            raise failures[0]
    ratio = statistics.median(beside[2] / alone[2] for alone, beside in zip(figures["alone"], figures["beside"]))
    alone, beside = (statistics.median(part[2] for part in figures[name]) for name in figures)
    what = f"p99 of SET in ms beside aggregations of {statistics.median(times):.1f} s (beside: without)"
    return [row(what, f"{beside:.2f}", f"{alone:.2f}", ratio, 2, "at most")]


def start(arguments, sides):
    query, found, times = search("@price:[0 5000]", "LIMIT", 0, 0), [], []
    for side in sides:
        expected = side.do(*query)[0]
        # Both have written everything down.
        time.sleep(2.5)
        side.kill()
        began = time.perf_counter()
        side.start()
        while side.connection().do(*query)[:1] != [expected]:
            if time.perf_counter() - began > 600:
                raise RuntimeError(f"{side.name} never finds what it found before")
            time.sleep(0.01)
        times.append(time.perf_counter() - began)
    return [row(f"{arguments.documents:,} documents, start to the first right search, s", f"{times[0]:.2f}", f"{times[1]:.2f}", times[0] / times[1], 0.25, "at most")]


ROWS = {
    "ingest": ingest,
    "filters": filters,
    "text": text,
    "total": total,
    "groups": groups,
    "writers": writers,
    "start": start,
    "exact": exact,
    "beside": beside_writes,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", nargs="+", choices=ROWS, default=list(ROWS), help="`ingest` is always measured")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each side in a round")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "benchmarks" / "search")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sides, rows = [Ours("quartet"), Theirs("redis")], []
    try:
        for name in [name for name in ROWS if name in {"ingest", *arguments.row}]:
            before = os.getloadavg()[0]
            measured_rows = ROWS[name](arguments, sides)
            rows += [{**one, "load": [round(before, 1), round(os.getloadavg()[0], 1)]} for one in measured_rows]
            print(report(rows[-len(measured_rows) :]), flush=True)
            command = " ".join(["benchmarks/search.py", *sys.argv[1:]])
            result = {"machine": machine(), "commit": commit(), "date": time.strftime("%Y-%m-%d"), "command": command, "rows": rows}
            (arguments.out / "search.json").write_text(json.dumps(result, indent=1) + "\n")
            (arguments.out / "search.md").write_text(report(rows))
    finally:
        for side in sides:
            side.close()


if __name__ == "__main__":
    main()
