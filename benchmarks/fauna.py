#!/usr/bin/env python3
"""Quartet's Fauna layer beside what was published and measured of FaunaDB.

    cargo build --profile dist -p quartet && benchmarks/fauna.py --seconds 5 --out OUT

Each cell starts a server of its own with `--durability always`, runs `quartet bench` against it `--rounds` times, and keeps the
median. FaunaDB can no longer be run by everybody, so the other side of the table is written down here: what its vendor published,
and the server CPU per operation of its last open build, measured once on two cores. Writes results.json and report.md.
"""

import argparse
import json
import selectors
import socket
import statistics
import time
from pathlib import Path

from redis import OUT, QUARTET, Server, bench, figures, run_parts

# Server CPU microseconds an operation of FaunaDB's last open build, by cell and workers.
ORIGINAL_CPU = {
    ("product read", 100): 324, ("product read", 1): 1436,
    ("product insert", 100): 1003, ("product insert", 1): 9684,
    ("product overwrite", 100): 993, ("product overwrite", 1): 5914,
    ("product update", 100): 918, ("product update", 1): 2735,
    ("news page", 100): 1776, ("news page", 1): 3052,
    ("calvin", 100): 2063, ("calvin", 1): 4780,
}
# At least so many times less.
CPU_FACTOR = 20
# Operations per second that FaunaDB's vendor published, on the hardware that docs name; of YCSB the largest machines.
PUBLISHED = {
    ("product read", 1): 84, ("product read", 10): 684, ("product read", 100): 1015,
    ("product insert", 1): 5, ("product insert", 10): 51, ("product insert", 100): 496,
    ("product overwrite", 1): 5, ("product overwrite", 10): 55, ("product overwrite", 100): 499,
    ("product update", 1): 3, ("product update", 10): 41, ("product update", 100): 222,
    ("ycsb A", 300): 5200, ("ycsb A", 1000): 9927, ("ycsb A", 2000): 12757, ("ycsb A", 4000): 15578,
    ("ycsb B", 300): 17492, ("ycsb B", 1000): 26556, ("ycsb B", 2000): 29241, ("ycsb B", 4000): 30830,
    ("ycsb C", 300): 27205, ("ycsb C", 1000): 37077, ("ycsb C", 2000): 39255, ("ycsb C", 4000): 39532,
    ("calvin", 100): 3330, ("calvin", 300): 3330,
}
# Most microseconds at a percentile.
LATENCY_BARS = {
    ("product read", 1): ("p50_us", 660), ("product insert", 1): ("p50_us", 1000),
    ("product overwrite", 1): ("p50_us", 1000), ("product update", 1): ("p50_us", 1000),
    ("news top ten", 100): ("p99_us", 5000),
}
STREAMS_BAR_MS = 100


class FaunaServer(Server):
    greeting = b"GET /ping HTTP/1.1\r\nhost: localhost\r\n\r\n", b"HTTP/1.1 200"

    def __init__(self):
        super().__init__("quartet", "always")

    def command(self):
        return [str(QUARTET), "serve", "--dev", "--data", self.directory, "--durability", self.mode,
                "--listen-fauna", f"127.0.0.1:{self.port}", "--listen-redis", "off", "--listen-keyvalue", "off", "--listen-http", "off",
                "--listen-dynamodb", "off"]

    def url(self, db=0):
        return f"fauna://secret@127.0.0.1:{self.port}"


def cell(settings, name, workers, workload, *options):
    """One row: the median of the rounds' figures."""
    rounds = []
    # Loading, connecting and clearing take seconds; a cell that hangs must not hold up the run.
    timeout = 2 * settings.seconds + 120
    for _ in range(settings.rounds):
        server = FaunaServer()
        try:
            measured = bench(server, workload, "--parallelism", str(workers), "--seconds", str(settings.seconds), *options,
                             timeout=timeout)
            rounds.append(figures(measured[0]))
        finally:
            server.stop()
    row = {"cell": name, "workers": workers, "rounds": rounds}
    for field in rounds[0]:
        row[field] = statistics.median(one[field] for one in rounds)
    print(line(row), flush=True)
    return row


def product(settings):
    return [cell(settings, f"product {test}", workers, "product", "--tests", test)
            for test in ("read", "insert", "overwrite", "update") for workers in (1, 10, 100)]


def news(settings):
    """The CPU of the published way has ten updates in it; that of the page alone is what the original's stands beside."""
    return [cell(settings, name, workers, "news", *options)
            for name, options in (("news top ten", ()), ("news page", ("--keep-scores",))) for workers in (1, 10, 100)]


def ycsb(settings):
    clients = {"a": (1, 10, 100, 300, 1000, 2000, 4000), "b": (1, 10, 100, 300, 1000, 2000, 4000),
               "c": (1, 10, 100, 300, 1000, 2000, 4000), "d": (1, 100), "e": (1, 100), "f": (1, 100)}
    return [cell(settings, f"ycsb {workload.upper()}", workers, "ycsb", "--workloads", workload)
            for workload, counts in clients.items() for workers in counts]


def calvin(settings):
    return [cell(settings, "calvin", workers, "calvin") for workers in (1, 10, 100, 300)]


def bars(row):
    """What is asked of a row: text and whether it is met."""
    key, asked = (row["cell"], row["workers"]), []
    if key in ORIGINAL_CPU:
        factor = ORIGINAL_CPU[key] / row["cpu_us"]
        asked.append((f"CPU {factor:.0f}x less (bar {CPU_FACTOR}x)", factor >= CPU_FACTOR))
    if key in PUBLISHED:
        asked.append((f"{row['per_second'] / PUBLISHED[key]:.1f}x the published rate", row["per_second"] >= PUBLISHED[key]))
    if key in LATENCY_BARS:
        field, most = LATENCY_BARS[key]
        asked.append((f"{field[:3]} at most {most} µs", row[field] <= most))
    return asked


def line(row):
    key = (row["cell"], row["workers"])
    number = lambda value: "" if value is None else f"{value:,}"
    asked = "; ".join(("" if met else "**short:** ") + text for text, met in bars(row))
    return (f"| {row['cell']} | {row['workers']} | {row['per_second']:,.0f} | {number(PUBLISHED.get(key))} | {row['p50_us']:,.0f} "
            f"| {row['p99_us']:,.0f} | {row['cpu_us']:.1f} | {number(ORIGINAL_CPU.get(key))} | {asked} |")


class Http:
    """One connection; replies are read whole."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, path, query):
        body = json.dumps(query).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\nx-faunadb-api-version: 4\r\ncontent-length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body)

    def ask(self, query):
        self.send("/", query)
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += self.socket.recv(65536)
        head, body = reply.split(b"\r\n\r\n", 1)
        length = next(int(text.split(b":")[1]) for text in head.lower().split(b"\r\n") if text.startswith(b"content-length:"))
        while len(body) < length:
            body += self.socket.recv(65536)
        return body


def write_to(number):
    reference = {"ref": {"collection": "watched"}, "id": "1"}
    return reference, {"object": {"data": {"object": {"number": number}}}}


def deliver(writer, selector, streams, number):
    """Writes once; seconds from sending the write until the last stream has its event."""
    reference, params = write_to(number)
    mark = b'"number":%d' % number
    started = time.perf_counter()
    writer.send("/", {"update": reference, "params": params})
    waiting = set(streams)
    while waiting:
        for key, _ in selector.select(10):
            stream = key.data
            stream["received"] += stream["socket"].recv(65536)
            if mark in stream["received"]:
                stream["received"] = b""
                waiting.discard(stream["number"])
    seconds = time.perf_counter() - started
    writer.socket.recv(65536)
    return seconds


def open_streams(settings):
    """Many streams of one document: how long an event takes to all of them, and what it costs the server."""
    server = FaunaServer()
    try:
        writer = Http(server.port)
        writer.ask({"create_collection": {"object": {"name": "watched"}}})
        reference, params = write_to(0)
        writer.ask({"create": reference, "params": params})
        selector, streams = selectors.DefaultSelector(), {}
        for number in range(settings.streams):
            stream = Http(server.port)
            stream.send("/stream", reference)
            streams[number] = {"number": number, "socket": stream.socket, "received": b""}
            while b'"start"' not in streams[number]["received"]:
                streams[number]["received"] += stream.socket.recv(65536)
            selector.register(stream.socket, selectors.EVENT_READ, streams[number])
        before = server.cpu_seconds()
        seconds = [deliver(writer, selector, streams, number) for number in range(1, settings.events + 1)]
        cpu = (server.cpu_seconds() - before) / settings.events / settings.streams * 1e6
    finally:
        server.stop()
    milliseconds = sorted(second * 1e3 for second in seconds)
    result = {"streams": settings.streams, "events": settings.events, "median_ms": statistics.median(milliseconds),
              "max_ms": milliseconds[-1], "cpu_us_per_delivery": cpu}
    print(result, flush=True)
    return result


def report(results):
    lines = [f"# Quartet beside FaunaDB\n\n{results['machine']}, shared with the load generator; `--durability always`; commit "
             f"{results['commit']}; {results['date']}. Command: `{results['command']}`. Each figure is the median of "
             f"{results['rounds']} rounds. Published: by the vendor of FaunaDB, on other hardware (see the pages that `quartet bench "
             "--report` writes). Original: the server CPU of FaunaDB's last open build on two cores.\n"]
    for title in ("product", "news", "calvin", "ycsb"):
        if title in results:
            lines.append(f"\n## {title}\n\n| cell | workers | per second | published | p50 µs | p99 µs | server CPU µs | original CPU µs | bars |\n"
                         "|---|---|---|---|---|---|---|---|---|\n" + "\n".join(line(row) for row in results[title]) + "\n")
    if "streams" in results:
        streams = results["streams"]
        lines.append(f"\n## Open streams\n\n{streams['streams']} streams of one document, {streams['events']} writes one after the other. "
                     f"From sending a write until the last stream has its event: median {streams['median_ms']:.1f} ms, at most "
                     f"{streams['max_ms']:.1f} ms (bar {STREAMS_BAR_MS} ms). Server CPU: {streams['cpu_us_per_delivery']:.1f} µs a delivery.\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--only", default="product,news,calvin,ycsb,streams")
    parser.add_argument("--out", type=Path, default=OUT / "fauna")
    settings = parser.parse_args()
    parts = {"product": product, "news": news, "calvin": calvin, "ycsb": ycsb, "streams": open_streams}
    run_parts(settings, parts, report)


if __name__ == "__main__":
    main()
