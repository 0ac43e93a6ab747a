"""What the accounting of commands costs: processor time of the server for each command, with its histograms on and off in turns.

    python3 benchmarks/accounting.py --binary target/release/quartet [--rounds 12] [--requests 300000] [--out FILE]

CONFIG SET latency-tracking turns the histograms off; counters of calls and of time have no switch, because Redis has none for them either. Both sides run on one
server, one after the other and again, so what else the machine does falls on both. It only ever adds, so the least of the rounds are compared. `redis-benchmark` makes the load.
"""

import argparse
import json
import os
import socket
import subprocess
from pathlib import Path

CELLS = [("GET", 1), ("SET", 1), ("GET", 16), ("SET", 16)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def cpu_seconds(pid: int) -> float:
    """Of all its threads, in nanoseconds where the kernel tells them."""
    schedule = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in schedule) / 1e9


def redis_cli(port: int, *words: str) -> None:
    subprocess.run(["redis-cli", "-p", str(port), *words], check=True, capture_output=True)


def microseconds_each(server, port: int, command: str, pipeline: int, requests: int) -> float:
    before = cpu_seconds(server.pid)
    load = ["redis-benchmark", "-p", str(port), "-n", str(requests), "-c", "20", "-P", str(pipeline), "-r", "100000", "-t", command.lower(), "-q"]
    subprocess.run(load, check=True, capture_output=True)
    return (cpu_seconds(server.pid) - before) * 1e6 / requests


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/release/quartet")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=300_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    port = free_port()
    off = [option for name in ("http", "dynamodb", "fauna", "keyvalue") for option in (f"--listen-{name}", "off")]
    command = [given.binary, "serve", "--dev", "--data", "memory", "--listen-redis", f"127.0.0.1:{port}", *off]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    told = []
    try:
        for line in server.stdout:
            if line.strip() == "ready":
                break
        for name, pipeline in CELLS:
            requests = given.requests // (1 if pipeline > 1 else 4)
            sides = {"yes": [], "no": []}
            for index in range(given.rounds):
                for side in ("yes", "no") if index % 2 else ("no", "yes"):
                    redis_cli(port, "config", "set", "latency-tracking", side)
                    sides[side].append(microseconds_each(server, port, name, pipeline, requests))
            on, without = (min(sides[side]) for side in ("yes", "no"))
            told.append({"command": name, "pipeline": pipeline, "on_us": on, "off_us": without, "rounds": sides})
            print(f"{name} pipeline {pipeline}: {on:.3f} us with histograms, {without:.3f} us without, {100 * (on / without - 1):+.1f} %")
    finally:
        server.terminate()
        server.wait()
    if given.out:
        given.out.write_text(json.dumps({"load": os.getloadavg(), "rounds": given.rounds, "requests": given.requests, "cells": told}, indent=1) + "\n")


if __name__ == "__main__":
    main()
