#!/usr/bin/env python3
"""Key-value transactions through libfdb_c.so, from one C program, beside what FoundationDB was measured to do.

    cargo build --profile dist -p quartet -p quartet-fdb-c
    benchmarks/keyvalue.py --out OUT
    benchmarks/keyvalue.py --row sustained --tests writes     # one row, one of its tests

| row | what it measures, and the bar |
| --- | --- |
| cells | reads, writes and 90/10 with 1, 20 and 200 transactions of ten operations under way: >= 1.5 times the original's rate, <= half of its server CPU, both scaled by a Redis GET in the same run |
| lone | transactions of one write, one under way, each durable: p50 <= 0.4 ms over the disk's own sync, <= 60 us of server CPU |
| depth | server CPU of a point read, a read of ten rows and a write in commits of ten, with --depths keys: grows no faster than log n |
| sustained | the ssd engine for --minutes, by the second: the last minute >= 80% of the first ten seconds |

With --older-library, cells are measured with that library too, in turn. CPU is the server process's own clock of it.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from harness.server import Server

UNDER_WAY = (1, 20, 200)
# FoundationDB 7.3.79 (one fdbserver, memory engine, the client on the same two cores), where a Redis GET took 6.5 us: operations a second, server CPU us.
ORIGINAL = {
    "reads": [(30_000, 12.7), (128_000, 5.0), (150_000, 6.6)],
    "writes": [(9_500, 50), (64_000, 11), (141_000, 7.2)],
    "mixed": [(8_800, 63), (57_000, 16), (99_000, 10)],
}
ORIGINAL_GET_US = 6.5
GETS = 300_000


class Served(Server):
    """A server for FoundationDB's clients with a directory of its own."""

    def __init__(self, arguments, engine, durability, *options):
        data = tempfile.mkdtemp(prefix="bench-keyvalue-", dir=arguments.scratch)
        super().__init__(durability, data, "quartet", ["--engine", engine, *options], listeners=["http", "keyvalue"], program=arguments.binary)
        self.own_data = True


class Program:
    """The C program, compiled here against the library's own header."""

    def __init__(self, arguments, library):
        self.library = Path(library).resolve().parent
        self.path = Path(arguments.scratch) / "keyvalue-program"
        include = ROOT / "crates/fdb-c/include"
        command = ["gcc", "-O2", "-I", include, ROOT / "benchmarks/keyvalue.c", "-L", self.library, "-lfdb_c", "-lpthread", "-o", self.path]
        subprocess.run(command, check=True)
        self.runs = 0

    def run(self, server, test, under_way, seconds, keys, value_bytes_max, each_second=False):
        command = [self.path, f"{server.data}/fdb.cluster", test, under_way, seconds, keys, value_bytes_max, int(each_second), self.runs]
        self.runs += 1
        environment = dict(os.environ, LD_LIBRARY_PATH=str(self.library))
        before = server.cpu_seconds()
        done = subprocess.run([str(part) for part in command], env=environment, check=True, capture_output=True, text=True)
        server_us = (server.cpu_seconds() - before) * 1e6
        if test == "load":
            return None
        *series, line = done.stdout.strip().splitlines()
        operations, seconds, client_seconds, refused, p50, p99 = (float(word) for word in line.split())
        measured = {
            "test": test,
            "under_way": under_way,
            "operations_a_second": round(operations / seconds),
            "server_us": round(server_us / operations, 3),
            "client_us": round(client_seconds * 1e6 / operations, 3),
            "transactions_refused": int(refused),
            "p50_us": p50,
            "p99_us": p99,
        }
        if each_second:
            measured["each_second"] = [int(word) for word in series[0].split()]
        return measured


def redis_get():
    """Server CPU of a GET with 100 connections and no pipeline, in microseconds."""
    with Server(target="redis") as server:
        before = server.cpu_seconds()
        command = ["redis-benchmark", "-p", str(server.port), "-t", "get", "-c", "100", "-n", str(GETS), "--csv"]
        subprocess.run(command, check=True, capture_output=True)
        return round((server.cpu_seconds() - before) * 1e6 / GETS, 2)


def sync_cost(folder):
    """The disk's own: the median milliseconds of a small append and its sync, and what CPU it takes in microseconds."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        took, cpu = [], time.process_time()
        for _ in range(100):
            began = time.monotonic()
            os.write(file.fileno(), bytes(500))
            os.fdatasync(file.fileno())
            took.append((time.monotonic() - began) * 1000)
        cpu = time.process_time() - cpu
    return round(statistics.median(took), 3), round(cpu / len(took) * 1e6, 1)


def cells(arguments):
    libraries = {"this": arguments.library}
    if arguments.older_library:
        libraries["older"] = arguments.older_library
    gets, rows = [redis_get()], []
    with Served(arguments, "memory", "always") as server:
        programs = {name: Program(arguments, library) for name, library in libraries.items()}
        programs["this"].run(server, "load", 1, 1, 100_000, 100)
        for test in arguments.tests:
            for under_way in UNDER_WAY:
                for _ in range(arguments.rounds):
                    for name, program in programs.items():
                        rows.append({"library": name, **program.run(server, test, under_way, arguments.seconds, 100_000, 100)})
        sync, _ = sync_cost(server.data)
    gets.append(redis_get())
    return {"redis_get_us": gets, "disk_sync_ms": sync, "cells": rows}


def best(rows, **wanted):
    matching = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return {
        "operations_a_second": max(row["operations_a_second"] for row in matching),
        "server_us": min(row["server_us"] for row in matching),
        "client_us": min(row["client_us"] for row in matching),
        "p50_us": min(row["p50_us"] for row in matching),
    }


def tell_cells(measured):
    scale = statistics.mean(measured["redis_get_us"]) / ORIGINAL_GET_US
    names = list(dict.fromkeys(row["library"] for row in measured["cells"]))
    print(f"\nA Redis GET took {measured['redis_get_us']} us, so the original is scaled by {scale:.2f}; the disk's own sync {measured['disk_sync_ms']} ms.\n")
    print("| test | under way | library | operations/s | bar | server us | bar | client us | p50 of a transaction, ms |\n|---|---|---|---|---|---|---|---|---|")
    for test in dict.fromkeys(row["test"] for row in measured["cells"]):
        for under_way, (rate, cpu) in zip(UNDER_WAY, ORIGINAL[test]):
            for name in names:
                cell = best(measured["cells"], test=test, under_way=under_way, library=name)
                print(
                    f"| {test} | {under_way} | {name} | {cell['operations_a_second']:,} | {1.5 * rate / scale:,.0f} "
                    f"| {cell['server_us']:.2f} | {cpu * scale / 2:.2f} | {cell['client_us']:.2f} | {cell['p50_us'] / 1000:.2f} |"
                )


def lone(arguments):
    rows = []
    with Served(arguments, "memory", "always") as server:
        program = Program(arguments, arguments.library)
        program.run(server, "load", 1, 1, 100_000, 100)
        for _ in range(arguments.rounds):
            sync, sync_us = sync_cost(server.data)
            row = program.run(server, "lone", 1, arguments.seconds, 100_000, 100)
            rows.append({"disk_sync_ms": sync, "disk_sync_us": sync_us, **row})
    return {"rows": rows}


def tell_lone(measured):
    print("\n| p50, ms | the disk's sync, ms | over it, ms | bar | server us | bar | of the sync alone, us |\n|---|---|---|---|---|---|---|")
    for row in measured["rows"]:
        p50, sync = row["p50_us"] / 1000, row["disk_sync_ms"]
        print(f"| {p50:.2f} | {sync:.2f} | {p50 - sync:.2f} | 0.40 | {row['server_us']:.1f} | 60 | {row['disk_sync_us']:.1f} |")


def depth(arguments):
    rows = []
    for keys in arguments.depths:
        with Served(arguments, arguments.depth_engine, "interval") as server:
            program = Program(arguments, arguments.library)
            program.run(server, "load", 1, 1, keys, 8)
            # It ends with a checkpoint. The one that the load has made due would be counted as cost of the first writes.
            server.stop()
            server.start()
            for test in ("reads", "ranges", "writes"):
                for _ in range(arguments.rounds):
                    rows.append({"keys": keys, **program.run(server, test, 20, arguments.seconds, keys, 8)})
            rows[-1]["resident_mb"] = server.rss_bytes() >> 20
    return {"engine": arguments.depth_engine, "rows": rows}


def tell_depth(measured):
    rows, depths = measured["rows"], list(dict.fromkeys(row["keys"] for row in measured["rows"]))
    first = depths[0]
    print("\n| operation | " + " | ".join(f"{keys:,} keys, server us" for keys in depths) + " | grows by | log n by |\n|---|" + "---|" * (len(depths) + 2))
    for test in ("reads", "ranges", "writes"):
        us = [best(rows, test=test, keys=keys)["server_us"] for keys in depths]
        print(f"| {test} | " + " | ".join(f"{value:.2f}" for value in us) + f" | {us[-1] / us[0]:.2f} | {math.log(depths[-1]) / math.log(first):.2f} |")


def sustained(arguments):
    rows = []
    for test in arguments.tests:
        if test == "reads":
            continue
        with Served(arguments, "ssd", "always") as server:
            program = Program(arguments, arguments.library)
            program.run(server, "load", 1, 1, arguments.sustained_keys, 100)
            row = program.run(server, test, 200, arguments.minutes * 60, arguments.sustained_keys, 100, each_second=True)
            rows.append({**row, "keys": arguments.sustained_keys})
    return {"rows": rows}


def tell_sustained(measured):
    print("\n| test | first 10 s | last minute | share | slowest second | operations in all |\n|---|---|---|---|---|---|")
    for row in measured["rows"]:
        each = row["each_second"]
        first, last = statistics.mean(each[:10]), statistics.mean(each[-60:])
        print(f"| {row['test']} | {first:,.0f}/s | {last:,.0f}/s | {last / first:.0%} | {min(each):,}/s | {sum(each):,} |")


ROWS = {"cells": (cells, tell_cells), "lone": (lone, tell_lone), "depth": (depth, tell_depth), "sustained": (sustained, tell_sustained)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=ROWS, help="which rows; all if not given")
    parser.add_argument("--tests", nargs="+", choices=ORIGINAL, default=list(ORIGINAL))
    parser.add_argument("--binary", default=str(ROOT / "target/dist/quartet"))
    parser.add_argument("--library", default=str(ROOT / "target/dist/libfdb_c.so"))
    parser.add_argument("--older-library", help="another libfdb_c.so, measured in turn")
    parser.add_argument("--seconds", type=int, default=3, help="of each cell")
    parser.add_argument("--rounds", type=int, default=2, help="of each cell; the best counts")
    parser.add_argument("--depths", type=int, nargs="+", default=[10_000, 1_000_000, 20_000_000])
    parser.add_argument("--depth-engine", choices=["memory", "ssd"], default="memory")
    parser.add_argument("--minutes", type=float, default=10, help="of each sustained test")
    parser.add_argument("--sustained-keys", type=int, default=1_000_000)
    parser.add_argument("--scratch", default=tempfile.gettempdir(), help="where data lies meanwhile")
    parser.add_argument("--out", type=Path, help="a folder for the measurements as JSON")
    return parser.parse_args()


def main():
    arguments = parse()
    for name in arguments.row or ROWS:
        measure, tell = ROWS[name]
        began = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        began["load_average_before"] = os.getloadavg()
        measured = {**began, **measure(arguments), "load_average_after": os.getloadavg()}
        tell(measured)
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n")


main()
