#!/usr/bin/env python3
"""How much later are writes while a checkpoint is written, and how much more memory does it take?

    cargo build --release && benchmarks/checkpoint.py --gigabytes 2 --out OUT

Fills the server with values of 1 KB, then overwrites keys at random through a few connections, each waiting for every reply
(`--durability interval`, and `always` in a second run), at first without and then beside a checkpoint. What is shown is how long a
write took, and the most resident memory, against the data's.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

VALUE_BYTES = 1000
BATCH = 1000


def encode(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2]
        return line[1:-2]

    def info(self, section):
        lines = self.send(b"INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def start(binary, data, durability):
    command = [binary, "serve", "--dev", "--data", data, "--durability", durability, "--listen-redis", "127.0.0.1:0"]
    for listener in ("http", "dynamodb", "fauna"):
        command += [f"--listen-{listener}", "off"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = 0
    for line in process.stdout:
        if line.startswith("redis"):
            port = int(line.rsplit(":", 1)[1])
        if line.strip() == "ready":
            return process, port
    raise SystemExit("the server did not start")


def name(number):
    return b"key:%012d" % number


def fill(port, keys):
    connection = Connection(port)
    for first in range(0, keys, BATCH):
        numbers = range(first, min(first + BATCH, keys))
        connection.socket.sendall(b"".join(encode(b"SET", name(number), os.urandom(VALUE_BYTES // 2).hex().encode()) for number in numbers))
        for _ in numbers:
            connection.reply()


def resident(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


class Writers:
    """Connections that overwrite, a pipeline of a few keys at a time, and note how long each took."""

    def __init__(self, port, count, pipeline, keys):
        self.stop, self.latencies, self.written = threading.Event(), [], 0
        self.threads = [threading.Thread(target=self.run, args=(port, pipeline, keys, seed)) for seed in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self, port, pipeline, keys, seed):
        connection, choose = Connection(port), random.Random(seed)
        value = b"v" * VALUE_BYTES
        while not self.stop.is_set():
            request = b"".join(encode(b"SET", name(choose.randrange(keys)), value) for _ in range(pipeline))
            began = time.perf_counter()
            connection.socket.sendall(request)
            for _ in range(pipeline):
                connection.reply()
            self.latencies.append(time.perf_counter() - began)
            self.written += pipeline


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
    with tempfile.TemporaryDirectory(dir=arguments.data) as data:
        process, port = start(arguments.binary, data, durability)
        try:
            fill(port, keys)
            connection = Connection(port)
            while connection.info(b"persistence")["rdb_bgsave_in_progress"] == "1":
                time.sleep(0.2)
            before = resident(process)
            with Writers(port, arguments.connections, arguments.pipeline, keys) as writers:
                time.sleep(arguments.seconds)
            beside_nothing = figures(writers, arguments.seconds)
            while connection.info(b"persistence")["rdb_bgsave_in_progress"] == "1":
                time.sleep(0.2)
            most, began = resident(process), time.monotonic()
            with Writers(port, arguments.connections, arguments.pipeline, keys) as writers:
                connection.send(b"BGSAVE")
                while True:
                    time.sleep(0.05)
                    most = max(most, resident(process))
                    if connection.info(b"persistence")["rdb_bgsave_in_progress"] == "0" and time.monotonic() > began + 0.5:
                        break
            beside_checkpoint = figures(writers, time.monotonic() - began)
        finally:
            process.terminate()
            process.wait()
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
    parser.add_argument("--binary", default="target/release/quartet")
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
