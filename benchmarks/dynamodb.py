#!/usr/bin/env python3
"""Quartet beside DynamoDB Local and dynalite: the same workloads, machine and load generator, in turn.

    benchmarks/dynamodb.py --out benchmarks/2026-11-21-2core-dynamodb

Every request is signed; Quartet verifies the signatures, the others do not. Each cell runs every server in turn, `--rounds`
times; a ratio is the median of its rounds' ratios. Writes results.json and report.md. The peers are fetched by Maven and npm into
target/benchmarks. Needs java, mvn, node and npm on PATH, and a built target/dist/quartet. All servers listen on loopback only
and are stopped at the end.
"""

import argparse
import hashlib
import hmac
import http.client
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from redis import OUT, QUARTET, ROOT, Server, figures, run_parts

PEERS = ROOT / "target" / "benchmarks" / "dynamodb"
LOCAL_VERSION, DYNALITE_VERSION = "2.6.1", "3.2.2"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>benchmarks</groupId>
  <artifactId>dynamodb-local</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.amazonaws</groupId>
      <artifactId>DynamoDBLocal</artifactId>
      <version>{LOCAL_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
KEY, SECRET, REGION = "bench", "bench", "us-east-1"
# Which servers keep their data where. DynamoDB Local and dynalite do not sync what they write; Quartet does.
SERVERS = {"memory": ("quartet", "local", "dynalite"), "disk": ("quartet", "local")}
TITLES = {"quartet": "Quartet", "local": "DynamoDB Local", "dynalite": "dynalite"}


def fetch_peers():
    libraries, dynalite = PEERS / "local" / "lib", PEERS / "dynalite"
    if not (libraries / f"DynamoDBLocal-{LOCAL_VERSION}.jar").exists():
        libraries.parent.mkdir(parents=True, exist_ok=True)
        (libraries.parent / "pom.xml").write_text(POM)
        copy = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
        subprocess.run(copy, cwd=libraries.parent, check=True)
    if not (dynalite / "node_modules" / "dynalite").exists():
        dynalite.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(dynalite),
                        f"dynalite@{DYNALITE_VERSION}"], check=True)


class HttpServer(Server):
    """A server with an empty database; `mode` is memory or disk."""

    greeting = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 "

    def started_in(self):
        # DynamoDB Local leaves a file where it is started.
        return self.directory

    def command(self):
        if self.name == "local":
            where = ["-inMemory"] if self.mode == "memory" else ["-dbPath", self.directory]
            libraries = PEERS / "local" / "lib"
            return ["java", f"-Dsqlite4java.library.path={libraries}", "-cp", f"{libraries}/*",
                    "com.amazonaws.services.dynamodbv2.local.main.ServerRunner", "-port", str(self.port), "-sharedDb", *where]
        if self.name == "dynalite":
            return ["node", str(PEERS / "dynalite" / "node_modules" / "dynalite" / "cli.js"), "--port", str(self.port),
                    "--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0"]
        durability = {"memory": "none", "disk": "always"}[self.mode]
        return [str(QUARTET), "serve", "--data", self.directory, "--durability", durability,
                "--listen-dynamodb", f"127.0.0.1:{self.port}", "--dynamodb-access-keys", f"{KEY}:{SECRET}",
                "--listen-redis", "off", "--listen-fauna", "off", "--listen-keyvalue", "off", "--listen-http", "off"]

    def url(self):
        return f"dynamodb://{KEY}:{SECRET}@127.0.0.1:{self.port}/{REGION}"


class Client:
    """Signed requests on one connection."""

    def __init__(self, server):
        self.host = f"127.0.0.1:{server.port}"
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def ask(self, operation, request):
        body = json.dumps(request).encode()
        date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers = {"host": self.host, "x-amz-date": date, "x-amz-target": f"DynamoDB_20120810.{operation}"}
        signed = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"POST\n/\n\n{lines}\n{signed}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{date[:8]}/{REGION}/dynamodb/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = b"AWS4" + SECRET.encode()
        for part in (*scope.split("/"), to_sign):
            key = hmac.digest(key, part.encode(), "sha256")
        authorization = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={signed}, Signature={key.hex()}"
        headers |= {"content-type": "application/x-amz-json-1.0", "authorization": authorization}
        self.connection.request("POST", "/", body, headers)
        response = self.connection.getresponse()
        reply = response.read()
        if response.status != 200:
            raise SystemExit(f"{operation}: {response.status} {reply[:500]}")
        return json.loads(reply)


def bench(server, workload, *options):
    """One run of `quartet bench`; returns its cells."""
    with tempfile.TemporaryDirectory() as report:
        command = [str(QUARTET), "bench", workload, "--target", server.url(), "--flush", "--report", report,
                   "--server-pid", str(server.process.pid), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads((Path(report) / f"{workload}.json").read_text())["cells"]


def in_turn(servers, rounds, measure):
    """Runs `measure(server)` on every server in turn; returns the rounds of each."""
    result = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            result[server.name].append(measure(server))
    return result


def ratio(rounds, peer, field):
    pairs = zip(rounds["quartet"], rounds[peer])
    ratios = [ours[field] / theirs[field] for ours, theirs in pairs if ours[field] is not None and theirs[field]]
    return statistics.median(ratios) if ratios else None


# What is run: the row's name, and the options of `quartet bench`. The page is read without the ten writes that otherwise follow it.
ROWS = [*((f"product {test}", "product", ["--tests", test]) for test in ("read", "insert", "update")),
        ("news top ten", "news", ["--keep-scores"])]


def product(settings):
    """All servers of a mode are started once, warmed up and run on: some compile as they go. Each run clears its tables."""
    rows = []
    for mode, names in SERVERS.items():
        servers = [HttpServer(name, mode) for name in names]
        try:
            for server in servers:
                print(f"warming up {TITLES[server.name]}, {mode}", flush=True)
                bench(server, "product", "--parallelism", "10", "--seconds", str(settings.seconds))
            for name, workload, options in ROWS:
                for workers in (1, 10, 100):
                    options_of_run = [*options, "--parallelism", str(workers), "--seconds", str(settings.seconds)]
                    measure = lambda server: figures(bench(server, workload, *options_of_run)[0])
                    rows.append(row(name, mode, workers, in_turn(servers, settings.rounds, measure)))
        finally:
            for server in servers:
                server.stop()
    return rows


def row(name, mode, workers, rounds):
    peers = [peer for peer in rounds if peer != "quartet"]
    result = {"cell": name, "mode": mode, "workers": workers, "rounds": rounds,
              "ratios": {peer: {field: ratio(rounds, peer, field) for field in ("per_second", "p99_us", "cpu_us")} for peer in peers}}
    print(line(result), flush=True)
    return result


def line(result):
    show = lambda value, digits: "-" if value is None else f"{value:.{digits}f}"

    def cells(field, digits):
        medians = []
        for rounds in result["rounds"].values():
            values = [cell[field] for cell in rounds if cell[field] is not None]
            medians.append(show(statistics.median(values) if values else None, digits))
        ratios = " / ".join(show(ratios[field], 2) for ratios in result["ratios"].values())
        return f"{' / '.join(medians)} | **{ratios}**"
    return (f"| {result['cell']} | {result['mode']} | {result['workers']} | {cells('per_second', 0)} | {cells('p99_us', 0)} "
            f"| {cells('cpu_us', 1)} |")


def make_table(client):
    attribute = lambda name, kind: {"AttributeName": name, "AttributeType": kind}
    key = lambda name, kind: {"AttributeName": name, "KeyType": kind}
    client.ask("CreateTable", {"TableName": "pages", "BillingMode": "PAY_PER_REQUEST",
                               "AttributeDefinitions": [attribute("p", "S"), attribute("r", "N")],
                               "KeySchema": [key("p", "HASH"), key("r", "RANGE")]})
    while client.ask("DescribeTable", {"TableName": "pages"})["Table"]["TableStatus"] != "ACTIVE":
        time.sleep(0.05)


def fill(server, items, partitions):
    """`items` items of about 100 bytes, spread over so many partitions."""
    def part(start, end):
        client = Client(server)
        for first in range(start, end, 25):
            puts = [{"PutRequest": {"Item": {"p": {"S": f"partition {number % partitions}"}, "r": {"N": str(number)}, "text": {"S": "x" * 64}}}}
                    for number in range(first, min(first + 25, end))]
            if client.ask("BatchWriteItem", {"RequestItems": {"pages": puts}})["UnprocessedItems"]:
                raise SystemExit("not everything was written")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(part, range(0, items, items // 4), range(items // 4, items + 1, items // 4)))


def pages(server, operation, request):
    """Reads page by page to the end; returns the seconds each page took, and the number of items."""
    client, seconds, items = Client(server), [], 0
    while True:
        started = time.perf_counter()
        reply = client.ask(operation, {"TableName": "pages", **request})
        seconds.append(time.perf_counter() - started)
        items += reply["Count"]
        if "LastEvaluatedKey" not in reply:
            return seconds, items
        request["ExclusiveStartKey"] = reply["LastEvaluatedKey"]


def paged(server, reads, expected):
    """Figures of reading to the end; a page at the end must not take longer than one at the beginning."""
    before, started = server.cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(len(reads)) as pool:
        results = list(pool.map(lambda read: pages(server, *read), reads))
    items, elapsed = sum(items for _, items in results), time.perf_counter() - started
    if items != expected:
        raise SystemExit(f"{server.name}: {items} items instead of {expected}")
    # The last page may be a short one, unless it is the only one.
    middle = lambda part: statistics.median(seconds for whole, _ in results for seconds in part(whole[:-1] or whole))
    first = middle(lambda whole: whole[:max(1, len(whole) // 5)])
    last = middle(lambda whole: whole[-max(1, len(whole) // 5):])
    return {"items": items, "items_per_second": items / elapsed, "cpu_us_per_item": (server.cpu_seconds() - before) / items * 1e6,
            "first_pages_ms": first * 1000, "last_pages_ms": last * 1000}


def paging(settings):
    result = {}
    for name in SERVERS["memory"]:
        server = HttpServer(name, "memory")
        try:
            make_table(Client(server))
            fill(server, settings.partition, 1)
            condition = {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "partition 0"}}}
            result[f"{TITLES[name]}, Query of a partition"] = paged(server, [("Query", condition)], settings.partition)
            if name == "quartet":
                fill(server, settings.items, 1000)
                segments = [("Scan", {"Segment": number, "TotalSegments": 4}) for number in range(4)]
                # The items of the Query above lie in partitions of this too.
                expected = settings.items + settings.partition - len(range(0, settings.partition, 1000))
                result[f"{TITLES[name]}, Scan in 4 segments"] = paged(server, segments, expected)
        finally:
            server.stop()
        print({cell: value for cell, value in result.items() if cell.startswith(TITLES[name])}, flush=True)
    return result


def memory_and_start(settings):
    result = {}
    for mode, names in SERVERS.items():
        for name in names:
            server = HttpServer(name, mode)
            time.sleep(1)
            idle = server.resident_bytes()
            server.kill()
            seconds = statistics.median(restart(server) for _ in range(settings.rounds + 2))
            result[f"{TITLES[name]}, {mode}"] = {"idle_bytes": idle, "start_seconds": seconds}
            shutil.rmtree(server.directory, ignore_errors=True)
            print(name, mode, result[f"{TITLES[name]}, {mode}"], flush=True)
    return result


def restart(server):
    seconds = server.start()
    server.kill()
    return seconds


def report(results):
    lines = [f"# Quartet beside DynamoDB Local and dynalite\n\n{results['machine']}; DynamoDB Local {LOCAL_VERSION}, dynalite {DYNALITE_VERSION}; "
             f"commit {results['commit']}; {results['date']}.\nCommand: `{results['command']}`. Every request is signed, and verified by Quartet "
             f"alone. `memory`: Quartet `none`, DynamoDB Local `-inMemory`, dynalite; `disk`: Quartet `always`, DynamoDB Local `-dbPath`, which "
             f"does not sync. Ratios are Quartet to each of the others, the median of {results['rounds']} paired rounds.\n"]
    if "product" in results:
        lines.append("\n## product and news\n\n| cell | mode | workers | per second, Quartet / Local / dynalite | ratios | p99 µs | ratios "
                     "| server CPU µs an operation | ratios |\n|---|---|---|---|---|---|---|---|---|\n")
        lines.append("\n".join(line(cell) for cell in results["product"]) + "\n")
    if "paging" in results:
        lines.append("\n## Page by page\n\n| what | items | items a second | server CPU µs an item | first pages ms | last pages ms |\n|---|---|---|---|---|---|\n")
        for name, cell in results["paging"].items():
            lines.append(f"| {name} | {cell['items']} | {cell['items_per_second']:.0f} | {cell['cpu_us_per_item']:.2f} "
                         f"| {cell['first_pages_ms']:.1f} | {cell['last_pages_ms']:.1f} |\n")
    if "memory_and_start" in results:
        lines.append("\n## Memory and start\n\n| server | idle MB | start to first reply ms |\n|---|---|---|\n")
        for name, cell in results["memory_and_start"].items():
            lines.append(f"| {name} | {cell['idle_bytes'] / 1e6:.1f} | {cell['start_seconds'] * 1000:.0f} |\n")
    return "".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--partition", type=int, default=100_000, help="items of the partition that is queried page by page")
    parser.add_argument("--items", type=int, default=1_000_000, help="items of the table that is scanned")
    parser.add_argument("--only", default="memory_and_start,product,paging")
    parser.add_argument("--out", type=Path, default=OUT / "dynamodb")
    settings = parser.parse_args()
    fetch_peers()
    parts = {"product": product, "paging": paging, "memory_and_start": memory_and_start}
    run_parts(settings, parts, report)


if __name__ == "__main__":
    main()
