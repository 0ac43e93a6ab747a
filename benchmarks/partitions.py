#!/usr/bin/env python3
"""How long does a folder of several partitions take to open, beside one with the same data in one partition?

    cargo build --release && benchmarks/partitions.py --gigabytes 1 --out OUT

Both folders hold the same 16 databases, with values of 1 KB. The two servers are started in turn, after a kill and after a stop, and
each start is timed until the server is ready.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from harness.admin import Admin
from harness.resp import Connection
from harness.server import Server

VALUE_BYTES = 1000
BATCH = 1000
DATABASES = 16


def fill(server, keys):
    admin = Admin(server)
    for number in range(DATABASES):
        made = admin.create(f"database-{number}")
        connection = Connection(server.port)
        connection.do("AUTH", made["name"], made["credentials"]["token"])
        for first in range(0, keys // DATABASES, BATCH):
            numbers = range(first, min(first + BATCH, keys // DATABASES))
            connection.pipeline(*((b"SET", b"key:%012d" % number, os.urandom(VALUE_BYTES // 2).hex()) for number in numbers))


def opening(server):
    begun = time.monotonic()
    server.start()
    return time.monotonic() - begun


def measure(arguments, engine, data):
    servers = {}
    for partitions in (1, arguments.partitions):
        options = ["--engine", engine, "--partitions", str(partitions)]
        folder = f"{data}/{engine}-{partitions}"
        servers[partitions] = Server("interval", folder, "quartet", options=options, listeners=["redis", "http"], program=arguments.binary)
        servers[partitions].ready_seconds_max = 3600
    rounds = {(ending, partitions): [] for ending in ("kill", "stop") for partitions in servers}
    try:
        for server in servers.values():
            Path(server.data).mkdir()
            server.start()
            fill(server, int(arguments.gigabytes * 1e9) // VALUE_BYTES)
            server.kill()
        for _ in range(arguments.rounds):
            for partitions, server in servers.items():
                rounds["kill", partitions].append(opening(server))
                server.stop()
                rounds["stop", partitions].append(opening(server))
                server.kill()
    finally:
        for server in servers.values():
            server.close()
    return [
        {"engine": engine, "ending": ending, "partitions": partitions, "seconds": [round(seconds, 3) for seconds in found]}
        for (ending, partitions), found in rounds.items()
    ]


def report(results):
    lines = ["| engine | after a | partitions | median s | over one |", "|---|---|---|---|---|"]
    one = {(row["engine"], row["ending"]): statistics.median(row["seconds"]) for row in results if row["partitions"] == 1}
    for row in results:
        median = statistics.median(row["seconds"])
        over_one = median / one[row["engine"], row["ending"]]
        lines.append(f"| {row['engine']} | {row['ending']} | {row['partitions']} | {median:.2f} | {over_one:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/quartet")
    parser.add_argument("--data", help="directory for the servers' data")
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=["memory", "ssd"], action="append", help="default: both")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    results = []
    for engine in arguments.engine or ["memory", "ssd"]:
        with tempfile.TemporaryDirectory(dir=arguments.data) as data:
            results += measure(arguments, engine, data)
        (out / "partitions.json").write_text(json.dumps(results, indent=2) + "\n")
        (out / "partitions.md").write_text(report(results))
    print(report(results))


if __name__ == "__main__":
    main()
