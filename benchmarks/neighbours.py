#!/usr/bin/env python3
"""A quiet tenant beside a noisy one: how much later are its replies?

    cargo build --profile dist -p quartet && benchmarks/neighbours.py --seconds 10 --out OUT

The quiet tenant asks for a key, waits a millisecond, and asks again; what is shown is how long a reply took. Beside it, in a
logical database of its own, the noisy one hammers with pipelines, with ranges of a long list, or with scripts that loop. For
comparison both also share one database, where nothing protects one from the other. Generators are processes of their own and
take a part of the machine: `idle server` shows how late the quiet tenant is when they burn as much without asking the server.
"""

import argparse
import json
import multiprocessing
import socket
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

import redis as beside_redis
from harness.resp import encode

LIST_ELEMENTS = 50_000
SCRIPT = b"local n = 0 for i = 1, 300000 do n = n + i % 7 end return n"


class Server(beside_redis.Server):
    """Quartet with its HTTP listener, for the admin API."""

    def __init__(self):
        self.http_port = beside_redis.free_port()
        super().__init__("quartet", "interval")

    def command(self):
        command = super().command()
        command[command.index("--listen-http") + 1] = f"127.0.0.1:{self.http_port}"
        return command

    def listens_for_http(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.http_port)) == 0

    def create(self, name):
        """Makes a database; returns its token."""
        url = f"http://127.0.0.1:{self.http_port}/admin/v1/databases"
        body = json.dumps({"name": name, "durability": "interval"}).encode()
        request = urllib.request.Request(url, data=body, headers={"Authorization": "Bearer dev"})
        # The server answers PING a moment before it listens here.
        while not self.listens_for_http():
            time.sleep(0.01)
        with urllib.request.urlopen(request) as reply:
            return json.loads(reply.read())["credentials"]["token"].encode()


def connect(port, token):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if token:
        connection.sendall(encode(b"AUTH", token))
        assert connection.recv(64) == b"+OK\r\n"
    return connection


def quiet(port, token, seconds, latencies):
    connection = connect(port, token)
    connection.sendall(encode(b"SET", b"quiet", b"value"))
    assert connection.recv(64) == b"+OK\r\n"
    request = encode(b"GET", b"quiet")
    end = time.perf_counter() + seconds
    times = []
    while (started := time.perf_counter()) < end:
        connection.sendall(request)
        assert connection.recv(64).startswith(b"$5")
        times.append((time.perf_counter() - started) * 1e6)
        time.sleep(0.001)
    latencies.put(times)


def drain(connection, replies):
    """Reads until so many lines that end a reply to SET have come."""
    seen = 0
    while seen < replies:
        seen += connection.recv(1 << 16).count(b"+OK")


def pipelines(port, token, stop, ready):
    connection = connect(port, token)
    batch = b"".join(encode(b"SET", b"noisy:%d" % number, b"v" * 100) for number in range(1000))
    ready.release()
    while not stop.is_set():
        connection.sendall(batch)
        drain(connection, 1000)


def ranges(port, token, stop, ready):
    connection = connect(port, token)
    key = b"noisy:list:%d" % multiprocessing.current_process().pid
    request = encode(b"LRANGE", key, b"0", b"-1")
    connection.sendall(encode(b"RPUSH", key, *[b"element"] * LIST_ELEMENTS))
    connection.recv(64)
    reply_bytes = len(b"*%d\r\n" % LIST_ELEMENTS) + LIST_ELEMENTS * len(b"$7\r\nelement\r\n")
    ready.release()
    while not stop.is_set():
        connection.sendall(request)
        left = reply_bytes
        while left > 0:
            left -= len(connection.recv(1 << 18))


def scripts(port, token, stop, ready):
    connection = connect(port, token)
    ready.release()
    while not stop.is_set():
        connection.sendall(encode(b"EVAL", SCRIPT, b"0"))
        connection.recv(1 << 12)


def burn(_port, _token, stop, ready):
    ready.release()
    while not stop.is_set():
        sum(range(10_000))


NOISES = {"pipelines of 1000 SET": pipelines, "LRANGE of 50,000": ranges, "scripts of some ms": scripts}


def measure(server, tokens, noise, connections, seconds):
    """Latencies of the quiet tenant in microseconds, sorted."""
    quiet_token, noisy_token = tokens
    stop, latencies, ready = multiprocessing.Event(), multiprocessing.Queue(), multiprocessing.Semaphore(0)
    make = lambda: multiprocessing.Process(target=noise, args=(server.port, noisy_token, stop, ready))
    noisy = [make() for _ in range(connections)] if noise else []
    for process in noisy:
        process.start()
    for _ in noisy:
        ready.acquire(timeout=60)
    time.sleep(0.5)
    asking = multiprocessing.Process(target=quiet, args=(server.port, quiet_token, seconds, latencies))
    asking.start()
    times = latencies.get(timeout=seconds + 60)
    stop.set()
    for process in [asking, *noisy]:
        process.join(10)
        if process.is_alive():
            process.terminate()
    return sorted(times)


def figures(times):
    return {"requests": len(times), "p50_us": times[len(times) // 2], "p99_us": times[len(times) * 99 // 100], "max_us": times[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    server = Server()
    try:
        apart = (server.create("quiet"), server.create("noisy"))
        together = (None, None)
        cells = [("alone", apart, None), ("idle server, machine as busy", apart, burn)]
        for name, noise in NOISES.items():
            cells += [(f"{name}, other database", apart, noise), (f"{name}, same database", together, noise)]
        rounds = {name: [] for name, *_ in cells}
        for _ in range(settings.rounds):
            for name, tokens, noise in cells:
                rounds[name].append(figures(measure(server, tokens, noise, settings.connections, settings.seconds)))
                print(name, rounds[name][-1], flush=True)
    finally:
        server.stop()
    lines = ["| beside | p50 µs | p99 µs | worst µs |", "| --- | --- | --- | --- |"]
    for name, taken in rounds.items():
        middle = lambda field: f"{statistics.median(one[field] for one in taken):.0f}"
        lines.append(f"| {name} | {middle('p50_us')} | {middle('p99_us')} | {middle('max_us')} |")
    report = "\n".join(lines)
    print(report)
    if settings.out:
        settings.out.mkdir(parents=True, exist_ok=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=beside_redis.ROOT).stdout.strip()
        result = {"commit": commit, "settings": {key: str(value) for key, value in vars(settings).items()}, "rounds": rounds}
        (settings.out / "neighbours.json").write_text(json.dumps(result, indent=1) + "\n")
        (settings.out / "neighbours.md").write_text(report + "\n")


if __name__ == "__main__":
    main()
