#!/usr/bin/env python3
"""Redis over REST: Quartet beside a bridge of Node's in front of Redis.

    cargo build --profile dist -p quartet && npm ci --prefix tests/redis/node && benchmarks/rest.py --seconds 5

The load is that of `@upstash/redis`: POST /pipeline with a JSON array, Base64 asked for, keep-alive, a few requests at a time; half
SET, half GET of 100 bytes over 10,000 keys. The usual bridge, serverless-redis-http, is an Elixir application that no registry has
ready to run; what stands in for it here is the least that could do its work: node:http, JSON, and node-redis with one multiplexed
connection. Prints a table; commands per second are those inside the pipelines, and CPU is of the server, with the bridge and Redis
added up.
"""

import argparse
import http.client
import json
import random
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from redis import QUARTET, ROOT, TICKS, Server, free_port

KEYS = 10_000
VALUE = "x" * 100
BRIDGE = """
import http from "node:http";
import { createClient } from "redis";
const redis = await createClient({ socket: { host: "127.0.0.1", port: Number(process.argv[2]) } }).connect();
const encoded = (reply) => typeof reply === "string" && reply !== "OK" ? Buffer.from(reply).toString("base64") : reply;
const run = (words) => redis.sendCommand(words.map(String)).then((reply) => ({ result: encoded(reply) }), ({ message }) => ({ error: message }));
http.createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const results = await Promise.all(JSON.parse(Buffer.concat(parts)).map(run));
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(results));
}).listen(Number(process.argv[3]), "127.0.0.1", () => console.log("ready"));
"""


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Bridged:
    """Redis, and the bridge in front of it."""

    name = "bridge + redis"

    def __init__(self):
        self.redis = Server("redis", "interval")
        self.http_port = free_port()
        folder = ROOT / "tests" / "redis" / "node"
        command = ["node", "--input-type=module", "-e", BRIDGE, "bridge", str(self.redis.port), str(self.http_port)]
        self.bridge = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        if self.bridge.stdout.readline().strip() != "ready":
            raise SystemExit("the bridge did not start: npm ci --prefix tests/redis/node")

    def cpu(self):
        return cpu_seconds(self.redis.process.pid) + cpu_seconds(self.bridge.pid)

    def stop(self):
        self.bridge.terminate()
        self.bridge.wait()
        self.redis.stop()


class Direct:
    """Quartet, which needs nothing in front of it."""

    name = "quartet"

    def __init__(self):
        self.data = tempfile.TemporaryDirectory(prefix="bench-rest-")
        self.http_port = free_port()
        command = [str(QUARTET), "serve", "--dev", "--data", self.data.name, "--durability", "interval",
                   "--listen-http", f"127.0.0.1:{self.http_port}", "--listen-redis", "off", "--listen-dynamodb", "off",
                   "--listen-fauna", "off", "--listen-keyvalue", "off"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise SystemExit(f"quartet ended with {self.process.wait()}")

    def cpu(self):
        return cpu_seconds(self.process.pid)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.data.cleanup()


def body(length, source):
    commands = []
    for _ in range(length):
        key = f"key:{source.randrange(KEYS)}"
        commands.append(["SET", key, VALUE] if source.random() < 0.5 else ["GET", key])
    return json.dumps(commands)


def ask(port, length, until, seed, latencies):
    source = random.Random(seed)
    bodies = [body(length, source) for _ in range(64)]
    headers = {"content-type": "application/json", "authorization": "Bearer dev", "upstash-encoding": "base64"}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while time.perf_counter() < until:
        started = time.perf_counter()
        connection.request("POST", "/pipeline", source.choice(bodies), headers)
        response = connection.getresponse()
        answer = response.read()
        latencies.append(time.perf_counter() - started)
        if response.status != 200 or b'"error"' in answer:
            raise SystemExit(f"{response.status} {answer[:200]}")


def measure(server, length, clients, seconds):
    latencies, cpu = [], server.cpu()
    started = time.perf_counter()
    arguments = [(server.http_port, length, started + seconds, seed, latencies) for seed in range(clients)]
    threads = [threading.Thread(target=ask, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed, cpu, requests = time.perf_counter() - started, server.cpu() - cpu, len(latencies)
    latencies.sort()
    return {"requests": requests / elapsed, "p50_us": latencies[requests // 2] * 1e6, "p99_us": latencies[requests * 99 // 100] * 1e6,
            "cpu_us": cpu / (requests * length) * 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 10, 100])
    settings = parser.parse_args()
    print("| server | commands a request | requests/s | p50 us | p99 us | server CPU us a command |")
    print("| --- | --- | --- | --- | --- | --- |")
    servers = [Bridged(), Direct()]
    try:
        for length in settings.lengths:
            for server in servers:
                row = measure(server, length, settings.clients, settings.seconds)
                print(f"| {server.name} | {length} | {row['requests']:.0f} | {row['p50_us']:.0f} | {row['p99_us']:.0f} | {row['cpu_us']:.1f} |", flush=True)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
