"""`python -m fauna.invariants [--seconds S] [--rounds N] [--seed X]`: invariants of FaunaDB's layer under SIGKILL.

    work for a moment -> kill -> start on the same data -> verify -> work ...

All workloads run at once against one server over HTTP. What a reply, a page or a stream shows is checked at once or, with
the history, after the recovery. A request without an answer may have happened or not.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter

from harness.server import Server

from . import checks
from .client import Client, Gone, Refused
from .workloads import ALL, Workload


def repeat(workload: Workload, step, port: int, seed: int, stop: threading.Event) -> None:
    chance = random.Random(seed)
    try:
        with Client(port) as client:
            while not stop.is_set():
                step(client, chance)
                workload.checked["steps"] += 1
    except Gone:
        pass
    except Refused as refused:
        workload.faults.append(f"refused: {refused}")
    except Exception as problem:
        workload.faults.append(f"unexpected: {problem!r}")


def follow(workload: Workload, stream, port: int) -> None:
    try:
        with Client(port, timeout_seconds=120) as client:
            stream(client)
    except Exception as problem:
        workload.faults.append(f"unexpected: {problem!r}")


def one_round(server: Server, workloads: list[Workload], round: int, chance: random.Random) -> None:
    with Client(server.fauna_port) as client:
        for workload in workloads:
            workload.begin(client, round)
    stop, threads = threading.Event(), []
    for workload in workloads:
        for stream in workload.streams():
            threads.append(threading.Thread(target=follow, args=(workload, stream, server.fauna_port), daemon=True))
        for step in workload.steps():
            work = (workload, step, server.fauna_port, chance.randrange(1 << 30), stop)
            threads.append(threading.Thread(target=repeat, args=work, daemon=True))
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.5, 2.0))
    if not server.alive():
        workloads[0].faults.append("the server ended by itself:\n" + "".join(server.output[-40:]))
        return
    server.kill()
    stop.set()
    for thread in threads:
        thread.join(120)
    server.start()
    with Client(server.fauna_port) as client:
        for workload in workloads:
            workload.verify(client)


def main() -> int:
    options = argparse.ArgumentParser(prog="fauna.invariants")
    options.add_argument("--seconds", type=float, default=40.0, help="begin no round after this time")
    options.add_argument("--rounds", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    checks.self_check()
    print(f"invariants: seed {options.seed}", flush=True)
    chance, started, rounds = random.Random(options.seed), time.monotonic(), 0
    server = Server(durability="always").start()
    with Client(server.fauna_port) as client:
        workloads = [kind(client) for kind in ALL]
    faults: list[str] = []
    try:
        while rounds < options.rounds and time.monotonic() - started < options.seconds and not faults:
            rounds += 1
            one_round(server, workloads, rounds, chance)
            faults = [fault for workload in workloads for fault in workload.faults]
    finally:
        server.own_data = server.own_data and not faults
        server.close()
    for workload in workloads:
        print(f"  {type(workload).__name__.lower()}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(workload.checked.items())))
    kinds = Counter(fault.split(":")[0] for fault in faults)
    steps = sum(workload.checked["steps"] for workload in workloads)
    print(f"invariants: {rounds} kills, {steps} steps, {len(faults)} faults {dict(kinds) or ''}")
    for fault in faults[:20]:
        print("  " + fault[:600])
    if faults:
        print(f"  seed {options.seed}; the data is kept in {server.data}")
    return 1 if faults or steps == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
