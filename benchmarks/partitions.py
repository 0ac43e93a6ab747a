#!/usr/bin/env python3
"""What several partitions cost, beside one with the same 16 databases.

    cargo build --profile dist -p quartet && benchmarks/partitions.py --gigabytes 1 --out OUT
    benchmarks/partitions.py --writes

The first fills both folders with values of 1 KB, starts the two servers in turn, after a kill and after a stop, and times each start
until the server is ready. The second (needs redis-benchmark) sends SETs with durability `always`, one connection to each database.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from harness.admin import Admin
from harness.resp import Connection
from harness.server import Server

VALUE_BYTES = 1000
BATCH = 1000
DATABASES = 16
WRITES = 4000


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


def syncs(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("quartet_log_syncs_total"))


def write(arguments, partitions, folder):
    """Writes and syncs a second, and the median of the databases' median latencies in milliseconds."""
    Path(folder).mkdir()
    options = ["--partitions", str(partitions)]
    server = Server("always", folder, "quartet", options=options, listeners=["redis", "http"], program=arguments.binary)
    try:
        server.start()
        admin = Admin(server)
        databases = [admin.create(f"database-{number}") for number in range(DATABASES)]
        load = f"redis-benchmark -p {server.port} -c 1 -n {WRITES} -r 100000 -d 100 -t set".split()
        before, begun = syncs(server), time.monotonic()
        running = [
            subprocess.Popen(
                [*load, "--user", made["name"], "-a", made["credentials"]["token"]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            for made in databases
        ]
        reports = [process.communicate()[0] for process in running]
        seconds = time.monotonic() - begun
        medians = [float(re.search(r"avg\s+min\s+p50.*\n\s+\S+\s+\S+\s+(\S+)", report)[1]) for report in reports]
        return DATABASES * WRITES / seconds, (syncs(server) - before) / seconds, statistics.median(medians)
    finally:
        server.close()


def writes(arguments, data):
    print("| partitions | writes/s | syncs/s | p50 ms |\n|---|---|---|---|")
    for number in range(arguments.rounds):
        for partitions in (1, arguments.partitions):
            rate, synced, p50 = write(arguments, partitions, f"{data}/writes-{partitions}-{number}")
            print(f"| {partitions} | {rate:.0f} | {synced:.0f} | {p50:.2f} |", flush=True)


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
    parser.add_argument("--binary", default="target/dist/quartet")
    parser.add_argument("--data", help="directory for the servers' data")
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=["memory", "ssd"], action="append", help="default: both")
    parser.add_argument("--writes", action="store_true", help="writes that are synced, and not starts")
    parser.add_argument("--out", default="target/partitions")
    arguments = parser.parse_args()
    if arguments.writes:
        with tempfile.TemporaryDirectory(dir=arguments.data) as data:
            return writes(arguments, data)
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
