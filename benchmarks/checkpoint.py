#!/usr/bin/env python3
"""How much later are writes while a checkpoint is written, and how much more memory does it take?

    cargo build --profile dist -p quartet && benchmarks/checkpoint.py --gigabytes 2 --out OUT

Fills the server with values of 1 KB, then overwrites keys at random through a few connections, each waiting for every reply
(`--durability interval`, and `always` in a second run), at first without and then beside a checkpoint. What is shown is how long a
write took, and the most resident memory, against the data's.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from harness.resp import Connection, encode
from harness.server import Server
from harness.threads import Threads

VALUE_BYTES = 1000
BATCH = 1000


def name(number):
    return b"key:%012d" % number


def fill(port, keys):
    connection = Connection(port)
    for first in range(0, keys, BATCH):
        numbers = range(first, min(first + BATCH, keys))
        connection.pipeline(*((b"SET", name(number), os.urandom(VALUE_BYTES // 2).hex()) for number in numbers))


def is_saving(connection):
    return "rdb_bgsave_in_progress:1" in connection.do("INFO", "persistence")


class Writers(Threads):
    """Connections that overwrite, a pipeline of a few keys at a time, and note how long each took."""

    def __init__(self, port, count, pipeline, keys):
        super().__init__(count)
        self.port, self.pipeline, self.keys = port, pipeline, keys
        self.latencies, self.written = [], 0

    def begin(self, number):
        return Connection(self.port), random.Random(number)

    def work(self, made):
        connection, choose = made
        request = b"".join(encode(b"SET", name(choose.randrange(self.keys)), b"v" * VALUE_BYTES) for _ in range(self.pipeline))
        began = time.perf_counter()
        connection.send_bytes(request)
        for _ in range(self.pipeline):
            connection.read()
        self.latencies.append(time.perf_counter() - began)
        self.written += self.pipeline


def milliseconds(latencies, share):
    ordered = sorted(latencies)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 2)


def figures(writers, seconds):
    return {
        "seconds": round(seconds, 1),
        "writes_per_second": round(writers.written / seconds),
        **{label: milliseconds(writers.latencies, share) for label, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p99.9_ms", 0.999), ("max_ms", 1))},
    }


def measure(arguments, durability):
    keys = int(arguments.gigabytes * 1e9) // VALUE_BYTES
    with (
        tempfile.TemporaryDirectory(dir=arguments.data) as data,
        Server(durability, data, "quartet", listeners=["redis"], program=arguments.binary) as server,
    ):
        fill(server.port, keys)
        connection = Connection(server.port)
        while is_saving(connection):
            time.sleep(0.2)
        before = server.rss_bytes()
        with Writers(server.port, arguments.connections, arguments.pipeline, keys) as writers:
            time.sleep(arguments.seconds)
        beside_nothing = figures(writers, arguments.seconds)
        while is_saving(connection):
            time.sleep(0.2)
        most, began = server.rss_bytes(), time.monotonic()
        with Writers(server.port, arguments.connections, arguments.pipeline, keys) as writers:
            connection.do("BGSAVE")
            while True:
                time.sleep(0.05)
                most = max(most, server.rss_bytes())
                if not is_saving(connection) and time.monotonic() > began + 0.5:
                    break
        beside_checkpoint = figures(writers, time.monotonic() - began)
    return {
        "durability": durability,
        "data_bytes": keys * VALUE_BYTES,
        "resident_bytes_before": before,
        "resident_bytes_most": most,
        "without a checkpoint": beside_nothing,
        "beside a checkpoint": beside_checkpoint,
    }


def report(results):
    lines = ["| durability | | writes/s | p50 ms | p99 ms | p99.9 ms | max ms | resident |", "|---|---|---|---|---|---|---|---|"]
    for result in results:
        for beside, memory in (("without a checkpoint", "resident_bytes_before"), ("beside a checkpoint", "resident_bytes_most")):
            row = result[beside]
            columns = [result["durability"], f"{beside}, {row['seconds']} s", row["writes_per_second"]]
            columns += [row[label] for label in ("p50_ms", "p99_ms", "p99.9_ms", "max_ms")]
            lines.append("| " + " | ".join(map(str, columns)) + f" | {result[memory] / 1e9:.2f} GB |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/dist/quartet")
    parser.add_argument("--data", help="directory for the server's data")
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--pipeline", type=int, default=16)
    parser.add_argument("--durability", nargs="+", default=["interval", "always"])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = [measure(arguments, durability) for durability in arguments.durability]
    text = report(results)
    print(text)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "checkpoint.json").write_text(json.dumps(results, indent=2) + "\n")
        (arguments.out / "checkpoint.md").write_text(text)


if __name__ == "__main__":
    main()
