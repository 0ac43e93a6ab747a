#!/usr/bin/env python3
"""Quartet beside Redis, on one machine, in one go.

    cargo build --profile dist -p quartet && benchmarks/redis.py --seconds 5 --out OUT

Each cell runs Redis and Quartet in turn, `--rounds` times, with the same load generator; a cell's ratio is the median of the
rounds' ratios, so that a machine whose speed drifts does not decide it. Writes results.json and report.md. Needs redis-server and
redis-benchmark on PATH, and a built target/dist/quartet. REDIS_SERVER names another peer, such as valkey-server, and REDIS_OPTIONS what it is given, such as "--io-threads 2". Both servers
listen on loopback only and are stopped at the end. With `--before OLD/quartet` an older build of Quartet stands where Redis does.
"""

import argparse
import csv
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from families import CELLS
from harness.server import free_port
from tables import commit, machine

QUARTET = Path(os.environ.get("QUARTET_BIN", ROOT / "target" / "dist" / "quartet"))
PEER = os.environ.get("REDIS_SERVER", "redis-server")
PEER_OPTIONS = os.environ.get("REDIS_OPTIONS", "").split()
# An older build of Quartet, in place of Redis.
BEFORE = None
# Where a run without `--out` leaves its report.
OUT = ROOT / "target" / "benchmarks"
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server on a data directory of its own; `mode` is always, interval or off (no persistence)."""

    # A first request, and how its reply begins.
    greeting = b"PING\r\n", b"+PONG"

    def __init__(self, name, mode, data=None):
        self.name, self.mode = name, mode
        self.directory = data or tempfile.mkdtemp(prefix=f"bench-{name}-")
        self.port = free_port()
        self.start()

    def command(self):
        if self.name == "redis" and not BEFORE:
            fsync = {"always": "always", "interval": "everysec"}.get(self.mode)
            persistence = ["--appendonly", "yes", "--appendfsync", fsync] if fsync else ["--appendonly", "no"]
            return [PEER, "--port", str(self.port), "--dir", self.directory, "--save", "", *persistence, *PEER_OPTIONS]
        durability = {"always": "always", "interval": "interval"}.get(self.mode, "none")
        binary = BEFORE if self.name == "redis" else QUARTET
        return [str(binary), "serve", "--dev", "--data", self.directory, "--durability", durability,
                "--connections-max", "11000", "--listen-redis", f"127.0.0.1:{self.port}", "--listen-http", "off",
                "--listen-dynamodb", "off", "--listen-fauna", "off", "--listen-keyvalue", "off"]

    def started_in(self):
        """The folder that the process is started in; `None`: this one."""
        return None

    def start(self):
        """Starts the process and waits for its first reply. Returns how long that took, in seconds."""
        started = time.perf_counter()
        self.process = subprocess.Popen(self.command(), cwd=self.started_in(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
                    connection.sendall(self.greeting[0])
                    if connection.recv(64).startswith(self.greeting[1]):
                        return time.perf_counter() - started
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}")
            time.sleep(0.001)

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident_bytes(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def url(self, db=0):
        return f"redis://127.0.0.1:{self.port}/{db}"

    def cli(self, *words):
        run = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True, check=True)
        return run.stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def bench(server, workload, *options, db=0, timeout=None):
    """One run of `quartet bench`; returns its cells."""
    with tempfile.TemporaryDirectory() as report:
        command = [str(QUARTET), "bench", workload, "--target", server.url(db), "--flush", "--report", report,
                   "--server-pid", str(server.process.pid), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=timeout)
        return json.loads((Path(report) / f"{workload}.json").read_text())["cells"]


def figures(cell):
    latency = cell["latency_us"]
    p50 = next(point["latency_us"] for point in latency["percentiles"] if point["percentile"] == 0.5)
    return {"per_second": cell["requests_per_second"], "p50_us": p50, "p99_us": latency["p99"],
            "cpu_us": cell["server_cpu_us_per_request"], "errors": cell["errors"]}


def in_turn(mode, rounds, measure):
    """Runs `measure(server)` on both sides in turn; returns the rounds of each."""
    servers = [Server("redis", mode), Server("quartet", mode)]
    try:
        result = {server.name: [] for server in servers}
        for _ in range(rounds):
            for server in servers:
                result[server.name].append(measure(server))
        return result
    finally:
        for server in servers:
            server.stop()


def ratio(rounds, field):
    pairs = zip(rounds["quartet"], rounds["redis"])
    ratios = [ours[field] / theirs[field] for ours, theirs in pairs if ours[field] is not None and theirs[field]]
    return statistics.median(ratios) if ratios else None


def median(rounds, name, field):
    values = [cell[field] for cell in rounds[name] if cell[field] is not None]
    return statistics.median(values) if values else None


def product(settings):
    rows = []
    for mode in ("interval", "always"):
        for test in ("read", "insert", "overwrite", "update"):
            for workers in (1, 10, 100):
                options = ["--tests", test, "--parallelism", str(workers), "--seconds", str(settings.seconds)]
                measure = lambda server: figures(bench(server, "product", *options)[0])
                rows.append(row(f"product {test}", mode, workers, in_turn(mode, settings.rounds, measure)))
    for workers in (1, 10, 100):
        options = ["--parallelism", str(workers), "--seconds", str(settings.seconds)]
        measure = lambda server: figures(bench(server, "news", *options)[0])
        rows.append(row("news top ten", "interval", workers, in_turn("interval", settings.rounds, measure)))
    return rows


def row(name, mode, workers, rounds):
    result = {"cell": name, "mode": mode, "workers": workers, "rounds": rounds,
              "ratios": {field: ratio(rounds, field) for field in ("per_second", "p99_us", "cpu_us")}}
    print(line(result), flush=True)
    return result


def line(result):
    show = lambda value, digits=2: "-" if value is None else f"{value:.{digits}f}"
    rounds, ratios = result["rounds"], result["ratios"]
    both = lambda field, digits: " / ".join(show(median(rounds, name, field), digits) for name in ("redis", "quartet"))
    return (f"| {result['cell']} | {result['mode']} | {result['workers']} | {both('per_second', 0)} | **{show(ratios['per_second'])}** "
            f"| {both('p99_us', 0)} | {show(ratios['p99_us'])} | {both('cpu_us', 1)} | {show(ratios['cpu_us'])} |")


# What redis-benchmark's tests are run on: the test that fills their key, which redis-benchmark does not run by itself (or, for LRANGE, not apart).
FILLED_BY = {"lpop": "lpush", "rpop": "rpush", "spop": "sadd", "zpopmin": "zadd", "lrange_100": "lpush", "lrange_300": "lpush"}
TESTS = ("set", "get", "incr", "lpush", "rpush", "lpop", "rpop", "sadd", "hset", "spop", "zadd", "zpopmin", "lrange_100", "lrange_300", "mset")


def redis_benchmark(settings):
    """`-t` with each of its names, `-c 50`, with and without pipelining."""
    rows = []
    for pipeline, requests in ((1, settings.requests), (16, settings.requests * 8)):
        for test in settings.tests.split(","):
            measure = lambda server: redis_benchmark_test(server, test, pipeline, requests // 8 if "range" in test else requests)
            rows.append(row(f"redis-benchmark {test} -P {pipeline}", "interval", 50, in_turn("interval", settings.rounds, measure)))
    return rows


def redis_benchmark_test(server, test, pipeline, requests):
    command = ["redis-benchmark", "-p", str(server.port), "-c", "50", "--csv"]
    server.cli("FLUSHALL")
    if test in FILLED_BY:
        fill = [*command, "-P", "16", "-n", str(requests), "-r", str(requests), "-t", FILLED_BY[test]]
        subprocess.run(fill, stdout=subprocess.DEVNULL, check=True)
    what = ["lrange", "mylist", "0", str(int(test[7:]) - 1)] if "range" in test else ["-t", test]
    before = server.cpu_seconds()
    output = subprocess.run([*command, "-P", str(pipeline), "-n", str(requests), *what], capture_output=True, text=True, check=True).stdout
    cell = list(csv.DictReader(output.splitlines()))[-1]
    cpu = (server.cpu_seconds() - before) / requests * 1e6
    return {"per_second": float(cell["rps"]), "p99_us": float(cell["p99_latency_ms"]) * 1000,
            "p50_us": float(cell["p50_latency_ms"]) * 1000, "cpu_us": cpu, "errors": 0}


def families(settings):
    """Streams, messages, scripts, queues, places, and many connections."""
    rows = []
    for name, clients, measure in CELLS:
        rounds = in_turn("interval", settings.rounds, lambda server: measure(server, settings.requests))
        rows.append(row(name, "interval", clients, rounds))
    return rows


def reads_beside_writes(settings):
    """p50 of HGETALL at 10 readers, alone and beside 10 writers, under `always`."""
    options = ["--parallelism", "10", "--seconds", str(settings.seconds)]

    def measure(server):
        alone = figures(bench(server, "product", "--tests", "read", *options)[0])
        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(bench, server, "product", "--tests", "overwrite", *options, db=1)
            reading = pool.submit(bench, server, "product", "--tests", "read", *options)
            beside = figures(reading.result()[0])
            writes = figures(writing.result()[0])
        return {"alone_p50_us": alone["p50_us"], "beside_p50_us": beside["p50_us"],
                "factor": beside["p50_us"] / alone["p50_us"], "writes_per_second": writes["per_second"]}
    result = in_turn("always", settings.rounds, measure)
    for name, rounds in result.items():
        print(name, rounds, flush=True)
    return result


def fill(server, keys, value_bytes):
    """`keys` keys of 16 bytes with distinct values of `value_bytes`."""
    value = b"v" * value_bytes
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        stream = connection.makefile("rb")
        for start in range(0, keys, 1000):
            batch = b"".join(b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n$%d\r\n%s\r\n" % (index, value_bytes, value)
                             for index in range(start, min(start + 1000, keys)))
            connection.sendall(batch)
            for _ in range(start, min(start + 1000, keys)):
                if not stream.readline().startswith(b"+OK"):
                    raise SystemExit("a SET failed")


def memory_and_start(settings):
    result = {}
    for name in ("redis", "quartet"):
        server = Server(name, "interval")
        idle = server.resident_bytes()
        fill(server, settings.keys, 64)
        time.sleep(2)
        used = server.resident_bytes()
        if name == "quartet":
            server.cli("SAVE")
        else:
            server.cli("BGREWRITEAOF")
            while "aof_rewrite_in_progress:1" in server.cli("INFO", "persistence"):
                time.sleep(0.1)
        # A hundred megabytes of log behind the checkpoint.
        fill(server, 100_000, 1000)
        time.sleep(2)
        server.process.terminate()
        server.process.wait()
        seconds = server.start()
        keys = server.cli("DBSIZE")
        result[name] = {"idle_bytes": idle, "bytes_per_key": (used - idle) / settings.keys,
                        "restart_seconds": seconds, "keys_after_restart": int(re.sub(r"\D", "", keys))}
        server.stop()
        empty = Server(name, "interval")
        empty.kill()
        result[name]["start_empty_seconds"] = empty.start()
        empty.stop()
        print(name, result[name], flush=True)
    return result


def report(results):
    head = ("| cell | mode | workers | per second, Redis / Quartet | ratio | p99 µs, Redis / Quartet | ratio "
            "| server CPU µs a command, Redis / Quartet | ratio |\n|---|---|---|---|---|---|---|---|---|\n")
    peer = "an older build" if results["before"] else "Redis"
    head = head.replace("Redis", peer)
    lines = [f"# Quartet beside {peer}\n\n{results['machine']}; {results['redis']}; commit {results['commit']}; {results['date']}.\n"
             f"Command: `{results['command']}`. Ratios are Quartet / {peer}, the median of {results['rounds']} paired rounds.\n"]
    for title in ("product", "redis_benchmark", "families"):
        if title in results:
            lines.append(f"\n## {title.replace('_', '-')}\n\n" + head + "\n".join(line(cell) for cell in results[title]) + "\n")
    if "reads_beside_writes" in results:
        lines.append("\n## Reads beside writes, `always`\n\n| server | readers alone p50 µs | beside 10 writers p50 µs | factor | writes per second |\n|---|---|---|---|---|\n")
        for name, rounds in results["reads_beside_writes"].items():
            middle = lambda field: statistics.median(cell[field] for cell in rounds)
            lines.append(f"| {name} | {middle('alone_p50_us'):.0f} | {middle('beside_p50_us'):.0f} | **{middle('factor'):.2f}** | {middle('writes_per_second'):.0f} |\n")
    if "memory_and_start" in results:
        lines.append("\n## Memory and start\n\n| server | idle MB | bytes a key | start empty ms | start with the data s |\n|---|---|---|---|---|\n")
        for name, cell in results["memory_and_start"].items():
            lines.append(f"| {name} | {cell['idle_bytes'] / 1e6:.1f} | {cell['bytes_per_key']:.0f} | {cell['start_empty_seconds'] * 1000:.0f} | {cell['restart_seconds']:.2f} |\n")
    return "".join(lines)


def run_parts(settings, parts, report, **more):
    """Runs the parts that `--only` names, and writes results and report after each, so that a run cut short leaves what it has. Prints the report."""
    results = {"machine": machine(), **more, "commit": commit(), "date": time.strftime("%Y-%m-%d"), "rounds": settings.rounds,
               "command": " ".join([f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])}
    settings.out.mkdir(parents=True, exist_ok=True)
    for name in settings.only.split(","):
        results[name] = parts[name](settings)
        (settings.out / "results.json").write_text(json.dumps(results, indent=1))
        (settings.out / "report.md").write_text(report(results))
    print((settings.out / "report.md").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=200_000, help="redis-benchmark requests without pipelining")
    parser.add_argument("--tests", default=",".join(TESTS), help="the tests of redis-benchmark")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--only", default="product,redis_benchmark,families,reads_beside_writes,memory_and_start")
    parser.add_argument("--out", type=Path, default=OUT / "redis")
    parser.add_argument("--before", help="an older build of quartet, in place of Redis")
    settings = parser.parse_args()
    global BEFORE
    BEFORE = settings.before
    parts = {"product": product, "redis_benchmark": redis_benchmark, "families": families,
             "reads_beside_writes": reads_beside_writes,
             "memory_and_start": memory_and_start}
    version = subprocess.run([settings.before or PEER, "--version"], capture_output=True, text=True).stdout.strip()
    run_parts(settings, parts, report, redis=" ".join([version, *PEER_OPTIONS]), before=bool(settings.before))


if __name__ == "__main__":
    main()
