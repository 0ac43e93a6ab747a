#!/usr/bin/env python3
"""What searches cost, each row beside Redis with its query engine, both sides in one run.

    cargo build --profile dist -p quartet
    benchmarks/search.py --out OUT

The original is Redis 8.2 with the query engine of Redis Stack 7.4 (tests/redis-oracle fetches both from PyPI), with an append-only file
that is synced each second; Quartet serves with `--durability interval`. One Python process is the client of both. Sides take turns, --rounds
times; a figure is the median of its rounds, a ratio that of their ratios. CPU is user and system time of the server's process. Before a query
is timed, both sides have to answer the same totals.

| row | what it measures, and the bar |
| --- | --- |
| ingest | hashes of 60 words, two TAG and two NUMERIC fields, in pipelines of 100, into an index: rate >= 0.7, CPU a document <= 1.5; memory a document |
| memory | the same hashes on new servers with the index and without: bytes of the index a document: <= 1.25 |
| filters | TAG, NUMERIC and both, LIMIT 0 10, with 1, 10 and 100 connections: rate >= 1.0 |
| places | GEO (a circle that holds about 1 % of them), and with TAG and NUMERIC, LIMIT 0 10, with 1, 10 and 100 connections: rate >= 1.0 |
| text | one word ranked, two words, a phrase, a prefix, a fuzzy word: rate >= 1.0 |
| total | how many are in a range that holds half of them (LIMIT 0 0): rate >= 3 |
| groups | GROUPBY 1,000 groups, COUNT, SORTBY, the top 10: rate >= 1.5 |
| busy | queries by two busy connections over those by one, of one side: >= 1.5 |
| exact | KNN 10 over a flat index of --vectors vectors of 384: rate >= 1.3 |
| graph | --graph vectors of 384 around a hundred centres in an HNSW index: the first 5,000 of HSET acknowledged, >= 5, all in the graph, >= 1.0; KNN 10 by rate, >= 1.0, with the part of the nearest that is found, behind filters too; memory of a hash with its vector, <= 1.0 |
| skewed | as many vectors of 100 without clusters, most of whose differences are in few directions, as those of words: KNN 10 as above |
| sets | the same vectors by VADD (Q8, NOQUANT): rate, memory of an element; VSIM by rate, >= 1.3, with the part that is found |
| ack | HSET of a vector over HSET of as many bytes beside no index, ten connections: p50 <= 1.3, p99 <= 2; Quartet alone |
| log | bytes of log of a document, until it is settled, over those of its hash alone: <= 4; rows with the index over those without, <= 3; Quartet alone |
| rest | SEARCH.QUERY of `@upstash/redis` over REST, over GET of the same client: >= 0.5; needs `npm ci` in --node |
| ssd | TAG and one word, on the ssd engine with a cgroup's memory a quarter of the data: p99 in ms, beside the engine with all memory; needs root |
| beside | HSET while there is an index with another prefix: CPU over that without any, <= 1.03; Quartet alone |
| writers | p99 of SET while long aggregations run one after the other, over that with none: <= 2; Quartet alone |
| build | p99 of SET and GET while an index over all documents is filled, over that with none: <= 3; Quartet alone |
| sketches | ADD, EXISTS and their like on filters of 1,000,000, by `redis-benchmark` with 50 connections, without and with pipelines of 16: rate >= 1.0, CPU <= 1.2; bytes of log of a call, <= 300 |
| series | TS.ADD, TS.RANGE with averages over 5,000 samples, TS.MRANGE over 1,000 series by label: rate >= 1.0; memory of a sample in series of 10,000, <= 1.2 |
| start | from the start of a killed process to the first right search, beside the original's from an RDB file: <= 0.25; on the ssd engine <= 0.05 and <= 1 s |

A connection has one request outstanding; several connections send together and wait for all. `--long` is 200,000 vectors of a graph and
four times the data on ssd.
"""

import argparse
import csv
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A program here is called as the client library of Redis is, which comes first.
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "redis-oracle"), sys.path.pop(0)]

from harness import resp
from harness.server import Server
from oracle import MODULES, OTHER_MODULES, Oracle
from storage import limited
from tables import commit, machine, report, row

VOCABULARY = 20_000
WORDS = 60
BATCH = 100
DIMENSIONS = 384
SKEWED_SIDE = 10
SKEWED_DIMENSIONS = SKEWED_SIDE * SKEWED_SIDE
QUERY_MILLISECONDS_MAX = 5_000
# How often the hashes beside an index are written over in a round.
PASSES = 10
# What a reply may take before the run is given up.
REPLY_SECONDS_MAX = 120.0
# Vectors that arrive at once, and how many are asked for.
BURST = 5_000
NEAREST = 10
# A server that has written nothing for so long has taken everything in.
QUIET_SECONDS = 1.5
SSD_MEBIBYTES = 192
# How many ask at once.
CONNECTIONS = (1, 10, 100)


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

    def counted_bytes(self):
        """`used_memory` of INFO."""
        return int(self.do("INFO", "memory").split("used_memory:")[1].split()[0])

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
    def __init__(self, name, options=(), prefix=()):
        self.options, self.prefix = options, prefix
        super().__init__(name)

    def make(self):
        program = os.environ.get("QUARTET_BIN", str(ROOT / "target/dist/quartet"))
        return Server("interval", options=self.options, prefix=self.prefix, listeners=["redis", "http"], program=program).start()

    @property
    def port(self):
        return self.server.port

    def metric(self, name):
        """The sum over all labels."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.server.http_port}/metrics", timeout=REPLY_SECONDS_MAX).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name)

    def settle(self):
        """Waits until all is taken in that waits for it. Answers when that was, of the clock."""
        known, since = None, time.perf_counter()
        while time.perf_counter() - since < QUIET_SECONDS:
            time.sleep(0.1)
            if (written := self.metric("quartet_log_epochs_total")) != known:
                known, since = written, time.perf_counter()
        return since

    def start(self):
        self.server.start()


class Theirs(Side):
    def __init__(self, name, modules=MODULES):
        self.modules = modules
        super().__init__(name)

    def make(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        return Oracle(self.port, "--appendonly", "yes", "--appendfsync", "everysec", modules=self.modules)

    def start(self):
        self.server.start()

    def settle(self):
        return time.perf_counter()


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


class Cloud:
    """Vectors around a hundred centres, as those of texts are."""

    def __init__(self, seed, of_centres=None):
        """Others around the same centres have another `seed` and its `of_centres`."""
        self.chance = random.Random(seed if of_centres is None else of_centres)
        self.centres = [[self.chance.gauss(0, 1) for _ in range(DIMENSIONS)] for _ in range(100)]
        if of_centres is not None:
            self.chance = random.Random(seed)

    def vector(self):
        gauss, centre = self.chance.gauss, self.chance.choice(self.centres)
        return struct.pack(f"<{DIMENSIONS}f", *(component + gauss(0, 0.7) for component in centre))


class Skewed:
    """Vectors without clusters, as those of words (GloVe): few directions have most of what differs, turned so that no component stands out."""

    def __init__(self, seed, of_turn=None):
        """Others in the same directions have another `seed` and its `of_turn`."""
        self.chance = random.Random(seed if of_turn is None else of_turn)
        self.turns = [self.turn(SKEWED_SIDE) for _ in range(2)]
        self.middle = [self.chance.gauss(0, 0.1) for _ in range(SKEWED_DIMENSIONS)]
        if of_turn is not None:
            self.chance = random.Random(seed)

    def turn(self, size):
        """Directions at right angles to each other, of length one."""
        found = []
        while len(found) < size:
            one = [self.chance.gauss(0, 1) for _ in range(size)]
            for other in found:
                along = sum(a * b for a, b in zip(one, other))
                one = [a - along * b for a, b in zip(one, other)]
            length = sum(a * a for a in one) ** 0.5
            found.append([a / length for a in one])
        return found

    def vector(self):
        gauss, size = self.chance.gauss, SKEWED_SIDE
        spread = [[gauss(0, 1) / (1 + size * i + j) ** 0.5 for j in range(size)] for i in range(size)]
        for turn in self.turns:
            turned = [[sum(a * b for a, b in zip(line, direction)) for direction in turn] for line in spread]
            spread = [list(column) for column in zip(*turned)]
        components = [component for line in spread for component in line]
        return struct.pack(f"<{SKEWED_DIMENSIONS}f", *(a + b for a, b in zip(components, self.middle)))


SCHEMA = ["body", "TEXT", "brand", "TAG", "color", "TAG", "price", "NUMERIC", "year", "NUMERIC"]


def create(side):
    side.do("FT.CREATE", "docs", "PREFIX", 1, "doc:", "SCHEMA", *SCHEMA)


def fill(side, commands):
    """Sends commands in pipelines. Answers the seconds it took, of the clock and of the server's CPU."""
    batches = [commands[at : at + BATCH] for at in range(0, len(commands), BATCH)]
    encoded = [b"".join(resp.encode(*command) for command in batch) for batch in batches]
    connection, began, cpu = side.connection(), time.perf_counter(), side.cpu_seconds()
    for batch, block in zip(batches, encoded):
        connection.send_bytes(block)
        for _ in batch:
            good(connection.read())
    return time.perf_counter() - began, side.cpu_seconds() - cpu


def pairs(reply):
    return zip(reply[::2], reply[1::2])


def search(query, *more):
    return ["FT.SEARCH", "docs", query, *(more or ("LIMIT", 0, 10)), "TIMEOUT", QUERY_MILLISECONDS_MAX]


def measured(side, requests, connections, seconds):
    """Requests per second, CPU microseconds a request, p99 and p50 in milliseconds. `requests` are taken in turn."""
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
    at = lambda part: latencies[int(len(latencies) * part)] * 1e3  # noqa: E731
    return done / took, (side.cpu_seconds() - cpu) / done * 1e6, at(0.99), at(0.5)


def beside(arguments, sides, what, requests, bar, connections=(1,), totals=True, of_theirs=None):
    """A query on both sides in turn; one row for each number of connections. `of_theirs` are the other side's requests, if they differ."""
    asked = [requests, of_theirs or requests]
    for request in requests[:10] if totals else []:
        found = [side.do(*request)[0] for side in sides]
        if found[0] != found[1]:
            raise RuntimeError(f"{request}: {found}")
    rows = []
    for count in connections:
        rounds = [[measured(*side, count, arguments.seconds) for side in zip(sides, asked)] for _ in range(arguments.rounds)]
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


def memory(arguments, sides):
    """The same hashes on new servers, with an index over them and without: the difference is the index."""
    found = []
    for make in (Ours, Theirs):
        taken = []
        for is_indexed in (False, True):
            side, corpus = make("memory"), Corpus(1)
            try:
                if is_indexed:
                    create(side)
                before = side.counted_bytes(), side.resident_bytes()
                for number in range(0, arguments.documents, 5_000):
                    fill(side, [corpus.document(number + at) for at in range(min(5_000, arguments.documents - number))])
                side.settle()
                taken.append((side.counted_bytes() - before[0], side.resident_bytes() - before[1]))
            finally:
                side.close()
        alone, indexed = taken
        found.append([(indexed[at] - alone[at]) / arguments.documents for at in range(2)])
    ours, theirs = found
    return [
        row("memory of an index as the server counts it, bytes a document", f"{ours[0]:,.0f}", f"{theirs[0]:,.0f}", ours[0] / theirs[0], 1.25, "at most"),
        row("memory of an index, of the process, bytes a document", f"{ours[1]:,.0f}", f"{theirs[1]:,.0f}", ours[1] / theirs[1], None, "at most"),
    ]


def filters(arguments, sides):
    chance = random.Random(2)
    prices = [(low, low + 500) for low in (chance.randrange(9500) for _ in range(100))]
    queries = {
        "TAG": ["@brand:{brand%d}" % chance.randrange(1000) for _ in range(100)],
        "NUMERIC": ["@price:[%d %d]" % price for price in prices],
        "TAG and NUMERIC": ["@color:{color%d} @price:[%d %d]" % (chance.randrange(10), *price) for price in prices],
    }
    return [one for name, list_ in queries.items() for one in beside(arguments, sides, name, [search(query) for query in list_], 1.0, CONNECTIONS)]


def places(arguments, sides):
    """Places over a square of ten degrees, in an index of their own."""
    chance = random.Random(12)
    places = lambda: (chance.uniform(0, 10), chance.uniform(40, 50))  # noqa: E731
    hashes = [
        ["HSET", f"place:{number}", "place", "%.6f,%.6f" % places(), "color", f"color{number % 10}", "price", chance.randrange(10_000)]
        for number in range(arguments.documents)
    ]
    for side in sides:
        side.do("FT.CREATE", "places", "PREFIX", 1, "place:", "SCHEMA", "place", "GEO", "color", "TAG", "price", "NUMERIC")
        fill(side, hashes)
        side.settle()
    circles = ["@place:[%.4f %.4f 52 km]" % places() for _ in range(100)]
    queries = {
        "GEO": circles,
        "GEO, TAG and NUMERIC": ["%s @color:{color%d} @price:[0 5000]" % (circle, chance.randrange(10)) for circle in circles],
    }
    rows = []
    for name, list_ in queries.items():
        requests = [["FT.SEARCH", "places", query, "LIMIT", 0, 10, "TIMEOUT", QUERY_MILLISECONDS_MAX] for query in list_]
        rows += beside(arguments, sides, name, requests, 1.0, CONNECTIONS)
    for side in sides:
        side.do("FT.DROPINDEX", "places", "DD")
        side.settle()
    return rows


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


def build(arguments, sides):
    """SET and GET in turn on one connection of one server, alone and while a second index over all documents is filled."""
    ours = sides[0]
    requests = [words for number in range(1000) for words in (["SET", f"plain:{number}", "v" * 64], ["GET", f"plain:{number}"])]
    alone = measured(ours, requests, 1, max(5, arguments.seconds))
    encoded, connection, latencies = [resp.encode(*request) for request in requests], ours.connection(), []
    began = looked = time.perf_counter()
    ours.do("FT.CREATE", "again", "PREFIX", 1, "doc:", "SCHEMA", *SCHEMA)
    while True:
        sent = time.perf_counter()
        connection.send_bytes(encoded[len(latencies) % len(encoded)])
        good(connection.read())
        now = time.perf_counter()
        latencies.append(now - sent)
        # Whether it goes on is asked ten times a second; what that takes is in no latency.
        if now - looked > 0.1:
            if dict(pairs(ours.do("FT.INFO", "again")))["indexing"] in (0, "0"):
                break
            looked = time.perf_counter()
        if now - began > 1800:
            raise RuntimeError("the index is never full")
    ours.do("FT.DROPINDEX", "again")
    p99 = sorted(latencies)[int(len(latencies) * 0.99)] * 1e3
    what = f"p99 of SET and GET in ms while {arguments.documents:,} keys are indexed in {now - began:.0f} s (beside: without)"
    return [row(what, f"{p99:.2f}", f"{alone[2]:.2f}", p99 / alone[2], 3, "at most")]


def start(arguments, sides):
    """The original begins from an RDB file, which it reads faster than commands; the ssd engine has the same documents as a third side."""
    query, times = search("@price:[0 5000]", "LIMIT", 0, 0), []
    theirs = sides[1]
    theirs.do("BGREWRITEAOF")
    while "aof_rewrite_in_progress:0" not in theirs.do("INFO", "persistence"):
        time.sleep(0.1)
    expected = theirs.do(*query)[0]
    ssd, corpus = Ours("ssd", options=["--engine", "ssd"]), Corpus(1)
    try:
        create(ssd)
        for number in range(0, arguments.documents, 5_000):
            fill(ssd, [corpus.document(number + at) for at in range(min(5_000, arguments.documents - number))])
        for side in (*sides, ssd):
            if side.do(*query)[0] != expected:
                raise RuntimeError(f"{side.name} does not find what the original finds")
            # All have written everything down.
            time.sleep(2.5)
            side.kill()
            began = time.perf_counter()
            side.start()
            while side.connection().do(*query)[:1] != [expected]:
                if time.perf_counter() - began > 600:
                    raise RuntimeError(f"{side.name} never finds what it found before")
                time.sleep(0.01)
            times.append(time.perf_counter() - began)
    finally:
        ssd.close()
    label = f"{arguments.documents:,} documents, start to the first right search, s"
    theirs_took = f"{times[1]:.2f}"
    return [
        row(label, f"{times[0]:.2f}", theirs_took, times[0] / times[1], 0.25, "at most"),
        row(f"{label}; ssd", f"{times[2]:.2f}", theirs_took, times[2] / times[1], 0.05, "at most"),
        row(f"{label}; ssd (judged: s)", f"{times[2]:.2f}", theirs_took, times[2], 1, "at most"),
    ]


def busy(arguments, sides):
    """One connection and two, each of a thread of its own, that ask what takes a server tens of milliseconds."""
    steps = ["GROUPBY", 1, "@brand", "REDUCE", "COUNT", 0, "AS", "n", "SORTBY", 2, "@n", "DESC", "MAX", 10, "TIMEOUT", QUERY_MILLISECONDS_MAX]
    request = resp.encode("FT.AGGREGATE", "docs", "*", *steps)

    def rate(side, count):
        done, ends = [0] * count, time.perf_counter() + max(2, arguments.seconds)

        def ask(number, connection):
            while time.perf_counter() < ends:
                connection.send_bytes(request)
                good(connection.read())
                done[number] += 1

        threads = [threading.Thread(target=ask, args=(number, side.connection(number))) for number in range(count)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (time.perf_counter() - began)

    ratios = []
    for side in sides:
        rounds = [(rate(side, 1), rate(side, 2)) for _ in range(arguments.rounds)]
        ratios.append(statistics.median(two / one for one, two in rounds))
    return [row("aggregations by two busy connections over one", f"{ratios[0]:.2f}", f"{ratios[1]:.2f}", ratios[0], 1.5, "at least")]


def nearest(name, condition, vector, *options):
    text = f"{condition}=>[KNN {NEAREST} @v $q{''.join(options)} AS d]"
    words = ["PARAMS", 2, "q", vector, "SORTBY", "d", "NOCONTENT", "LIMIT", 0, NEAREST, "DIALECT", 2, "TIMEOUT", QUERY_MILLISECONDS_MAX]
    return ["FT.SEARCH", name, text, *words]


def found_part(side, requests, truths, read):
    """The part of the nearest that is found."""
    parts = [len(set(read(side.do(*request))) & set(truth)) / max(1, len(truth)) for request, truth in zip(requests, truths)]
    return statistics.mean(parts)


def graph(arguments, sides):
    rows, figures = [], filled(arguments, sides, "graph", Cloud(6), DIMENSIONS)
    ours, theirs = figures
    rows.append(row(f"HSET of {BURST:,} vectors in pipelines, acknowledged/s", f"{ours[0]:,.0f}", f"{theirs[0]:,.0f}", ours[0] / theirs[0], 5, "at least"))
    what = f"{arguments.graph:,} vectors until all are in the graph, /s"
    rows.append(row(what, f"{ours[1]:,.0f}", f"{theirs[1]:,.0f}", ours[1] / theirs[1], 1.0, "at least"))
    rows.append(row("memory of a hash with its vector in a graph, bytes", f"{ours[2]:,.0f}", f"{theirs[2]:,.0f}", ours[2] / theirs[2], 1.0, "at most"))
    conditions = {"all": "*", "half of them": "@n:[0 499]", "5 %": "@n:[0 49]", "0.1 %": "@n:[0 0]"}
    return rows + neighbours(arguments, sides, "graph", Cloud(10, 6), DIMENSIONS, conditions)


def skewed(arguments, sides):
    filled(arguments, sides, "skewed", Skewed(9), SKEWED_DIMENSIONS)
    conditions = {"all": "*", "half of them": "@n:[0 499]"}
    return neighbours(arguments, sides, "skewed", Skewed(11, 9), SKEWED_DIMENSIONS, conditions)


def filled(arguments, sides, name, cloud, dimensions):
    """Fills an index of this name. Answers for each side how many a second are acknowledged and taken in, and bytes of each."""
    hashes = [["HSET", f"{name}:{number}", "v", cloud.vector(), "n", number % 1000] for number in range(arguments.graph)]
    figures = []
    for side in sides:
        create_vectors(side, name, name, "HNSW", dimensions)
        empty, began = side.resident_bytes(), time.perf_counter()
        burst, _ = fill(side, hashes[:BURST])
        fill(side, hashes[BURST:])
        figures.append((BURST / burst, len(hashes) / (side.settle() - began), (side.resident_bytes() - empty) / len(hashes)))
    return figures


def create_vectors(side, index, prefix, algorithm, dimensions):
    shape = ["TYPE", "FLOAT32", "DIM", dimensions, "DISTANCE_METRIC", "COSINE"]
    side.do("FT.CREATE", index, "PREFIX", 1, f"{prefix}:", "SCHEMA", "n", "NUMERIC", "v", "VECTOR", algorithm, len(shape), *shape)


def neighbours(arguments, sides, name, cloud, dimensions, conditions):
    rows, vectors = [], [cloud.vector() for _ in range(50)]
    # The exact answers, by an index that compares all vectors.
    exact = sides[0]
    create_vectors(exact, "exact", name, "FLAT", dimensions)
    exact.settle()
    truths = {key: [exact.do(*nearest("exact", text, vector))[1:] for vector in vectors] for key, text in conditions.items()}
    exact.do("FT.DROPINDEX", "exact")
    exact.settle()
    for key, text in conditions.items():
        requests = [nearest(name, text, vector) for vector in vectors]
        options = {"": requests}
        if key == "all":
            # As many as Quartet finds without saying anything.
            options[", EF_RUNTIME 40 there"] = [nearest(name, text, vector, " EF_RUNTIME 40") for vector in vectors]
        for option, of_theirs in options.items():
            parts = [found_part(side, asked, truths[key], lambda reply: reply[1:]) for side, asked in zip(sides, (requests, of_theirs))]
            kind = "graph" if name == "graph" else f"{name} graph"
            what = f"KNN {NEAREST} among {key} of a {kind} of {arguments.graph:,}{option} (found {parts[0]:.3f}, there {parts[1]:.3f})"
            rows += beside(arguments, sides, what, requests, 1.0, totals=False, of_theirs=of_theirs)
    return rows


def sets(arguments, sides):
    rows = []
    for form, bytes_bar in (("Q8", 1.1), ("NOQUANT", None)):
        cloud, figures = Cloud(7), []
        elements = [["VADD", form, "FP32", cloud.vector(), f"element:{number}", form] for number in range(arguments.graph)]
        vectors = [cloud.vector() for _ in range(50)]
        for side in sides:
            empty, began = side.resident_bytes(), time.perf_counter()
            burst, _ = fill(side, elements[:BURST])
            fill(side, elements[BURST:])
            figures.append((BURST / burst, len(elements) / (side.settle() - began), (side.resident_bytes() - empty) / len(elements)))
        ours, theirs = figures
        rows.append(row(f"VADD of {BURST:,} {form} in pipelines, acknowledged/s", f"{ours[0]:,.0f}", f"{theirs[0]:,.0f}", ours[0] / theirs[0], 5, "at least"))
        rows.append(row(f"VADD of {len(elements):,} {form}, /s", f"{ours[1]:,.0f}", f"{theirs[1]:,.0f}", ours[1] / theirs[1], 1.0, "at least"))
        rows.append(row(f"memory of an element, {form}, bytes", f"{ours[2]:,.0f}", f"{theirs[2]:,.0f}", ours[2] / theirs[2], bytes_bar, "at most"))
        requests = [["VSIM", form, "FP32", vector, "COUNT", NEAREST] for vector in vectors]
        truths = [[sides[0].do(*request, "TRUTH") for request in requests], [sides[1].do(*request, "TRUTH") for request in requests]]
        parts = [found_part(side, requests, truth, lambda reply: reply) for side, truth in zip(sides, truths)]
        what = f"VSIM {NEAREST} of {len(elements):,} {form} (found {parts[0]:.3f}, there {parts[1]:.3f})"
        rows += beside(arguments, sides, what, requests, 1.3, totals=False)
        for side in sides:
            side.do("DEL", form)
    return rows


def ack(arguments, sides):
    ours, cloud, figures = sides[0], Cloud(8), {"vec": [], "plain": []}
    shape = ["TYPE", "FLOAT32", "DIM", DIMENSIONS, "DISTANCE_METRIC", "COSINE"]
    ours.do("FT.CREATE", "acknowledged", "PREFIX", 1, "vec:", "SCHEMA", "v", "VECTOR", "HNSW", len(shape), *shape)
    blobs = [cloud.vector() for _ in range(1000)]
    for turn in range(max(3, arguments.rounds)):
        for name in figures:
            hashes = [["HSET", f"{name}:{turn}:{number}", "v", blob] for number, blob in enumerate(blobs)]
            figures[name].append(measured(ours, hashes, 10, arguments.seconds))
            ours.settle()
    rows = []
    for what, at, bar in (("p50", 3, 1.3), ("p99", 2, 2)):
        vector, plain = (statistics.median(part[at] for part in figures[name]) for name in ("vec", "plain"))
        ratio = statistics.median(one[at] / other[at] for one, other in zip(figures["vec"], figures["plain"]))
        rows.append(row(f"{what} of HSET of a vector in ms, ten at once (beside: the same bytes, no index)", f"{vector:.2f}", f"{plain:.2f}", ratio, bar, "at most"))
    ours.do("FT.DROPINDEX", "acknowledged", "DD")
    return rows


def log(arguments, sides):
    ours, corpus, count = sides[0], Corpus(9), min(arguments.documents, 20_000)
    hashes = [corpus.document(number) for number in range(count)]
    figures = {}
    for name in ("plain", "indexed"):
        ours.do("FLUSHALL")
        if name == "indexed":
            create(ours)
        ours.settle()
        before = ours.metric("quartet_log_bytes_total")
        fill(ours, hashes)
        ours.settle()
        figures[name] = (ours.metric("quartet_log_bytes_total") - before) / count
    index = ours.metric("quartet_search_index_bytes") / count
    plain, indexed = figures["plain"], figures["indexed"]
    return [
        row("log of a document in bytes, until it is settled (beside: its hash alone)", f"{indexed:,.0f}", f"{plain:,.0f}", indexed / plain, 4, "at most"),
        row("rows of a hash and its index in bytes (beside: its hash alone)", f"{plain + index:,.0f}", f"{plain:,.0f}", (plain + index) / plain, 3, "at most"),
    ]


UPSTASH = """
import { Redis, s } from "@upstash/redis";
const [url, milliseconds, turns] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
// A request of its own for each GET, as each search has.
const redis = new Redis({ url, token: "dev", enableTelemetry: false, enableAutoPipelining: false });
await redis.set("plain", "v".repeat(100));
const schema = s.object({ title: s.string(), price: s.number() });
const index = await redis.search.createIndex({ name: "items", dataType: "hash", prefix: "item:", schema });
for (let number = 0; number < 2000; number += 1)
  await redis.hset(`item:${number}`, { title: `word${number % 50} shoes`, price: number % 100 });
const kinds = {
  get: () => redis.get("plain"),
  search: (turn) => index.query({ filter: { title: { $eq: `word${turn % 50}` } }, limit: 10 }),
};
for (let turn = 0; turn < turns; turn += 1)
  for (const [name, ask] of Object.entries(kinds)) {
    const began = performance.now();
    let done = 0;
    const client = async () => { while (performance.now() - began < milliseconds) { await ask(done); done += 1; } };
    await Promise.all(Array.from({ length: 10 }, client));
    console.log(name, done / (performance.now() - began) * 1000);
  }
"""


def rest(arguments, sides):
    folder = arguments.node
    if not (folder / "node_modules" / "@upstash" / "redis").exists():
        print(f"no @upstash/redis in {folder}: npm ci --prefix {folder}", file=sys.stderr)
        return []
    with Server("interval", listeners=["redis", "http"], program=sides[0].server.program) as server:
        words = [f"http://127.0.0.1:{server.http_port}", str(arguments.seconds * 1000), str(arguments.rounds)]
        command = ["node", "--input-type=module", "-e", UPSTASH, "client", *words]
        shown = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    rates = {"get": [], "search": []}
    for name, rate in map(str.split, shown.splitlines()):
        rates[name].append(float(rate))
    search, get = (statistics.median(rates[name]) for name in ("search", "get"))
    ratio = statistics.median(one / other for one, other in zip(rates["search"], rates["get"]))
    return [row("SEARCH.QUERY of @upstash/redis, ten at once, requests/s (beside: its GET)", f"{search:,.0f}", f"{get:,.0f}", ratio, 0.5, "at least")]


def ssd(arguments, sides):
    """The same data twice: with all the memory of the machine, and in a cgroup with a quarter of the data's size."""
    mebibytes = SSD_MEBIBYTES * (4 if arguments.long else 1)
    figures, size = {}, 0
    with limited(mebibytes) as (prefix, is_limited):
        if not is_limited:
            return []
        for name, words in (("limited", prefix), ("all", [])):
            side, corpus, number = Ours("ssd", options=["--engine", "ssd"], prefix=words), Corpus(10), 0
            try:
                create(side)
                while (name == "limited" and size < 4 * mebibytes << 20) or (name == "all" and number < count):
                    fill(side, [corpus.document(number + at) for at in range(5_000)])
                    number += 5_000
                    size = int(side.metric("quartet_store_live_bytes"))
                count = number
                side.settle()
                chance, words = random.Random(11), corpus.words
                queries = {
                    "TAG": [search("@brand:{brand%d}" % chance.randrange(1000)) for _ in range(200)],
                    "one word": [search(words[chance.randrange(20, 2000)]) for _ in range(200)],
                }
                for what, requests in queries.items():
                    figures[name, what] = measured(side, requests, 1, max(5, arguments.seconds))
            finally:
                side.close()
    rows = []
    for what in ("TAG", "one word"):
        few, many = figures["limited", what][2], figures["all", what][2]
        label = f"{what} on ssd, {count:,} documents of {size >> 20} MiB with {mebibytes} MiB of memory, p99 in ms (beside: with all; judged: ms more)"
        rows.append(row(label, f"{few:.2f}", f"{many:.2f}", few - many, 20, "at most"))
    return rows


# What creates each sketch, and the requests on it.
SKETCHES = {
    "BF": (["BF.RESERVE", "BF", "0.001", 1_000_000], [["BF.ADD", "BF", "__rand_int__"], ["BF.EXISTS", "BF", "__rand_int__"]]),
    "CF": (["CF.RESERVE", "CF", 1_000_000], [["CF.ADD", "CF", "__rand_int__"]]),
    "CMS": (["CMS.INITBYDIM", "CMS", 100_000, 5], [["CMS.INCRBY", "CMS", "__rand_int__", 1]]),
    "TOPK": (["TOPK.RESERVE", "TOPK", 50, 20_000, 7, "0.9"], [["TOPK.ADD", "TOPK", "__rand_int__"]]),
    "TDIGEST": (["TDIGEST.CREATE", "TDIGEST", "COMPRESSION", 100], [["TDIGEST.ADD", "TDIGEST", "__rand_int__"]]),
}


def driven(side, request, pipeline, count):
    """`redis-benchmark` with 50 connections: requests per second, CPU microseconds of the server for each."""
    options = ["-p", side.port, "-c", 50, "-P", pipeline, "-n", count, "-r", 1_000_000, "--csv"]
    before = side.cpu_seconds()
    shown = subprocess.run(["redis-benchmark", *map(str, [*options, *request])], capture_output=True, text=True, check=True).stdout
    return float(list(csv.DictReader(shown.splitlines()))[-1]["rps"]), (side.cpu_seconds() - before) / count * 1e6


def in_turn(arguments, sides, what, drive, cpu_bar=None):
    """The rates of both sides, and their CPU if that has a bar."""
    rounds = [[drive(side) for side in sides] for _ in range(arguments.rounds)]
    rows = []
    for at, figure, bar, kind in ((0, "requests/s", 1.0, "at least"), (1, "CPU us each", cpu_bar, "at most"))[: 1 if cpu_bar is None else 2]:
        ours, theirs = (statistics.median(figures[side][at] for figures in rounds) for side in range(2))
        ratio = statistics.median(ours[at] / theirs[at] for ours, theirs in rounds)
        rows.append(row(f"{what}, {figure}", f"{ours:,.1f}", f"{theirs:,.1f}", ratio, bar, kind))
    return rows


def sketches(arguments, sides):
    rows, requests = [], int(20_000 * arguments.seconds)
    for reserve, calls in SKETCHES.values():
        for side in sides:
            side.do(*reserve)
        for call in calls:
            for pipeline in (1, 16):
                drive = lambda side: driven(side, call, pipeline, requests * pipeline // 2)  # noqa: B023
                rows += in_turn(arguments, sides, f"{call[0]}, pipelines of {pipeline}", drive, 1.2)
        ours, call = sides[0], calls[0]
        ours.settle()
        before = ours.metric("quartet_log_bytes_total")
        for number in range(1000):
            ours.do(*(number if word == "__rand_int__" else word for word in call))
        ours.settle()
        logged = (ours.metric("quartet_log_bytes_total") - before) / 1000
        rows.append(row(f"log of {call[0]}, one call at a time, bytes", f"{logged:,.0f}", "", logged, 300, "at most"))
    return rows


def series(arguments, sides):
    """The original's module needs the libraries of OpenSSL 1.1 in LD_LIBRARY_PATH."""
    theirs = Theirs("redis", OTHER_MODULES)
    try:
        return series_of(arguments, [sides[0], theirs])
    finally:
        theirs.close()


def series_of(arguments, sides):
    chance, count, long = random.Random(12), 1_000, 10_000
    rows, memory = [], []
    values = [round(chance.gauss(20, 5), 2) for _ in range(long)]
    for side in sides:
        for number in range(count):
            side.do("TS.CREATE", f"few:{number}", "LABELS", "kind", "few", "room", f"room{number % 10}")
        fill(side, [["TS.ADD", f"few:{number}", 1000 * step, values[step]] for step in range(50) for number in range(count)])
        before = side.counted_bytes()
        for number in range(20):
            side.do("TS.CREATE", f"many:{number}")
            samples = [[f"many:{number}", 1000 * step + chance.randrange(100), values[step]] for step in range(long)]
            fill(side, [["TS.MADD", *(word for sample in samples[at : at + 50] for word in sample)] for at in range(0, long, 50)])
        side.settle()
        memory.append((side.counted_bytes() - before) / (20 * long))
        side.do("TS.CREATE", "added")
    added = {side: 0 for side in sides}

    def add(side):
        samples = int(10_000 * arguments.seconds)
        start, added[side] = added[side], added[side] + samples
        took, cpu = fill(side, [["TS.ADD", "added", 1000 * (start + step), values[step % long]] for step in range(samples)])
        return samples / took, cpu / samples * 1e6

    rows += in_turn(arguments, sides, "TS.ADD, pipelines of 100", add, 1.2)
    average = ["TS.RANGE", "many:0", 0, 1000 * 5_000 - 1, "AGGREGATION", "avg", 60_000]
    by_label = ["TS.MRANGE", "-", "+", "AGGREGATION", "avg", 10_000, "FILTER", "kind=few"]
    for what, request in (("TS.RANGE with averages over 5,000", average), ("TS.MRANGE with averages over 1,000 series", by_label)):
        rows += in_turn(arguments, sides, what, lambda side: measured(side, [request], 1, arguments.seconds)[:2], 1.2)  # noqa: B023
    rows.append(row("memory of a sample in series of 10,000, bytes", f"{memory[0]:.2f}", f"{memory[1]:.2f}", memory[0] / memory[1], 1.2, "at most"))
    return rows


# These rows have data of their own; all others are over what `ingest` adds.
OF_THEIR_OWN = {"sketches", "series"}

ROWS = {
    "ingest": ingest,
    "memory": memory,
    "filters": filters,
    "places": places,
    "text": text,
    "total": total,
    "groups": groups,
    "busy": busy,
    "writers": writers,
    "build": build,
    "start": start,
    "exact": exact,
    "graph": graph,
    "skewed": skewed,
    "sets": sets,
    "ack": ack,
    "rest": rest,
    "ssd": ssd,
    "beside": beside_writes,
    "log": log,
    "sketches": sketches,
    "series": series,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", nargs="+", choices=ROWS, default=list(ROWS), help="with `ingest`, which most are over")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--graph", type=int, help="vectors of a graph: 10,000 unless it is said")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--node", type=Path, default=ROOT / "tests" / "redis" / "node", help="a folder with @upstash/redis in its node_modules")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each side in a round")
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "benchmarks" / "search")
    arguments = parser.parse_args()
    arguments.graph = arguments.graph or (200_000 if arguments.long else 10_000)
    arguments.out.mkdir(parents=True, exist_ok=True)
    sides, rows = [Ours("quartet"), Theirs("redis")], []
    try:
        names = set(arguments.row) if OF_THEIR_OWN.issuperset(arguments.row) else {"ingest", *arguments.row}
        for name in [name for name in ROWS if name in names]:
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
