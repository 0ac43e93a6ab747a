"""What the accounting of requests costs of the server's processor time. Two ways to ask:

    python3 benchmarks/accounting.py --shares --binary target/profiling/quartet [--seconds 6] [--out FILE]
    python3 benchmarks/accounting.py --binary target/dist/quartet [--rounds 12] [--requests 300000] [--out FILE]

The first samples the server (`perf record`) under `redis-benchmark` and under the pages of the news benchmark, and tells which share of the samples lies in what counts: counters,
histograms, the slow log, metering; and which in reading the clock, whatever for: expiry and turns between databases need it too. What the compiler put into other functions is found
by the lines of the source (`cargo build --profile profiling`, `addr2line`). The two together are the most that metrics can cost.

The second turns the histograms on and off in turns (CONFIG SET latency-tracking); counters of calls and of time have no switch, because Redis has none for them either. Both sides
run on one server, one after the other and again, so what else the machine does falls on both. It only ever adds, so the least of the rounds are compared.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from harness.server import Server

CELLS = [("GET", 1), ("SET", 1), ("GET", 16), ("SET", 16)]
PAGES = ["redis", "rest", "dynamodb", "fauna"]

# Source files and functions; what runs only when somebody asks for figures is in none of them under load.
COUNTING = re.compile(
    r"layer-redis/src/(observation/(counting|statistics|latency)|execution/slowlog)\.rs|server/src/observability/(durations|metrics|slow_requests|telemetry/\w+)\.rs|tenancy/src/meter\.rs"
    r"|\b(account|note_duration|note_latency|slow_command)\b"
)
CLOCK = re.compile(r"env/src/clock\.rs|/quanta-|clock_gettime|std/src/(sys/)?time|\[vdso\]")


def redis_cli(port: int, *words: str) -> None:
    subprocess.run(["redis-cli", "-p", str(port), *words], check=True, capture_output=True)


def microseconds_each(server: Server, command: str, pipeline: int, requests: int) -> float:
    before = server.cpu_seconds()
    load = ["redis-benchmark", "-p", str(server.port), "-n", str(requests), "-c", "20", "-P", str(pipeline), "-r", "100000", "-t", command.lower(), "-q"]
    subprocess.run(load, check=True, capture_output=True)
    return (server.cpu_seconds() - before) * 1e6 / requests


def serving(binary: str, listener: str) -> Server:
    """A server with data in memory that listens for one protocol."""
    return Server(data="memory", target="quartet", listeners=[listener], program=binary)


class Samples:
    """Where a process was when it was looked at, by the chain of source lines that the compiler made one function of."""

    def __init__(self, pid: int, binary: str):
        self.pid, self.binary = pid, binary
        self.chains: dict[int, str] = {}
        executable = next(line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "r-xp" in line and line.endswith(str(Path(binary).resolve())))
        self.start, self.end = (int(bound, 16) for bound in executable[0].split("-"))
        self.offset = int(executable[2], 16)
        self.bias = self.address_of_offset()

    def address_of_offset(self) -> int:
        """What is added to an offset in the file to have the address that its debug information speaks of."""
        headers = subprocess.run(["readelf", "-lW", self.binary], check=True, capture_output=True, text=True).stdout
        for line in headers.splitlines():
            # Type, offset, virtual address, physical address, bytes in the file, bytes in memory, flags.
            words = line.split()
            if words[:1] == ["LOAD"] and "E" in words[6:-1]:
                return int(words[2], 16) - int(words[1], 16)
        raise SystemExit(f"no segment of {self.binary} holds its code")

    def resolve(self, addresses: list[int]) -> None:
        asked = "\n".join(hex(address) for address in addresses)
        told = subprocess.run(["addr2line", "-afiC", "-e", self.binary], input=asked, check=True, capture_output=True, text=True).stdout
        for block in re.split(r"^(?=0x[0-9a-f]{16}$)", told, flags=re.MULTILINE):
            if block:
                head, _, chain = block.partition("\n")
                self.chains[int(head, 16)] = chain

    def shares(self, recorded: str) -> dict:
        script = subprocess.run(["perf", "script", "-i", recorded, "-F", "ip,sym,dso"], check=True, capture_output=True, text=True).stdout
        places = Counter()
        for line in script.splitlines():
            if line.strip():
                word, _, rest = line.strip().partition(" ")
                address = int(word, 16)
                inside = self.start <= address < self.end
                places[(address - self.start + self.offset + self.bias) if inside else rest] += 1
        self.resolve([place for place in places if isinstance(place, int) and place not in self.chains])
        kinds = Counter()
        for place, samples in places.items():
            chain = self.chains[place] if isinstance(place, int) else place
            kinds["counting" if COUNTING.search(chain) else "clock" if CLOCK.search(chain) else "else"] += samples
        return {"samples": sum(kinds.values()), **{kind: kinds[kind] / sum(kinds.values()) for kind in ("counting", "clock")}}


def sampled(server, binary: str, load: list[str], seconds: float) -> dict:
    """The shares of `seconds` of a load that is given after it has begun."""
    samples = Samples(server.pid, binary)
    running = subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with tempfile.NamedTemporaryFile(suffix=".data") as recorded:
            subprocess.run(["sleep", "1"], check=True)
            subprocess.run(["perf", "record", "-q", "-F", "4000", "-p", str(server.pid), "-o", recorded.name, "--", "sleep", str(seconds)], check=True, stderr=subprocess.DEVNULL)
            if running.poll() is not None:
                raise SystemExit(f"the load ended before it was sampled: {load}")
            return samples.shares(recorded.name)
    finally:
        running.terminate()
        running.wait()


def measure_shares(binary: str, seconds: float) -> list[dict]:
    told = []
    for name, pipeline in CELLS:
        with serving(binary, "redis") as server:
            load = ["redis-benchmark", "-p", str(server.port), "-n", "1000000000", "-c", "20", "-P", str(pipeline), "-r", "100000", "-t", name.lower(), "-q"]
            told.append({"cell": f"{name}, pipeline of {pipeline}", **sampled(server, binary, load, seconds)})
        tell(told[-1])
    for protocol in PAGES:
        with serving(binary, "http" if protocol == "rest" else protocol) as server:
            port = {"redis": server.port, "rest": server.http_port, "dynamodb": server.dynamodb_port, "fauna": server.fauna_port}[protocol]
            target = f"{protocol}://{'secret@' if protocol == 'fauna' else ''}127.0.0.1:{port}"
            load = [binary, "bench", "news", "--target", target, "--parallelism", "10", "--seconds", "600", "--keep-scores"]
            told.append({"cell": f"news page, {protocol}", **sampled(server, binary, load, seconds)})
        tell(told[-1])
    return told


def tell(cell: dict) -> None:
    print(f"{cell['cell']}: counting {100 * cell['counting']:.2f} %, clock {100 * cell['clock']:.2f} %, of {cell['samples']} samples", flush=True)


def measure_switch(binary: str, rounds: int, all_requests: int) -> list[dict]:
    told = []
    with serving(binary, "redis") as server:
        for name, pipeline in CELLS:
            requests = all_requests // (1 if pipeline > 1 else 4)
            sides = {"yes": [], "no": []}
            for index in range(rounds):
                for side in ("yes", "no") if index % 2 else ("no", "yes"):
                    redis_cli(server.port, "config", "set", "latency-tracking", side)
                    sides[side].append(microseconds_each(server, name, pipeline, requests))
            on, without = (min(sides[side]) for side in ("yes", "no"))
            told.append({"command": name, "pipeline": pipeline, "on_us": on, "off_us": without, "rounds": sides})
            print(f"{name} pipeline {pipeline}: {on:.3f} us with histograms, {without:.3f} us without, {100 * (on / without - 1):+.1f} %", flush=True)
    return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/dist/quartet")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=300_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.shares:
        settings, cells = {"seconds": given.seconds}, measure_shares(given.binary, given.seconds)
    else:
        settings, cells = {"rounds": given.rounds, "requests": given.requests}, measure_switch(given.binary, given.rounds, given.requests)
    if given.out:
        given.out.write_text(json.dumps({"load": os.getloadavg(), **settings, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
