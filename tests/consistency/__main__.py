"""Runs transactions of six kinds while the server is killed again and again, and judges what their clients saw.

    python -m consistency [--seconds N] [--seed N]

The judge is tried first on histories whose anomalies are known. The last line has the figures.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable

from harness.server import Server, free_port

from . import known
from .clients import Workload, report
from .judge import OK
from .workloads import ALL

CLIENTS = 3
SECONDS_BETWEEN_KILLS = 4.0
# Transactions of each kind that must commit, and how long a slow machine has for them.
COMMITTED_MIN = 100
SECONDS_MAX = 240.0


def kill_now_and_then(server: Server, up: threading.Event, seconds: float, is_enough: Callable[[], bool]) -> int:
    """For so many seconds, and on until enough has happened."""
    began, kills = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds or not is_enough() and passed < SECONDS_MAX:
        left = seconds - passed
        time.sleep(min(SECONDS_BETWEEN_KILLS, left) if left > 0 else SECONDS_BETWEEN_KILLS)
        up.clear()
        server.kill()
        server.start()
        up.set()
        kills += 1
    # What the last kill left is read once more.
    time.sleep(0.5)
    return kills


def main() -> int:
    options = argparse.ArgumentParser(prog="consistency")
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    count, wrong = known.check()
    if wrong:
        print("the judge is wrong", *wrong, sep="\n")
        return 1
    server, up = Server(durability="always"), threading.Event()
    # The library of the key-value layer keeps to one.
    server.keyvalue_address = f"127.0.0.1:{free_port()}"
    server.start()
    workloads = [Workload(name, [server], up) for name in ALL]
    up.set()
    seeds = [chosen.seed * 1000 + number for number in range(CLIENTS)]
    threads = [threading.Thread(target=workload.client, args=(seed,), daemon=True) for workload in workloads for seed in seeds]
    for thread in threads:
        thread.start()

    def is_enough() -> bool:
        return all(sum(one.outcome == OK for one in list(workload.history)) >= COMMITTED_MIN for workload in workloads)

    kills = kill_now_and_then(server, up, chosen.seconds, is_enough)
    for workload in workloads:
        workload.stop.set()
    for thread in threads:
        thread.join(60)
    server.close()
    is_good = report(workloads)
    total = sum(len(workload.history) for workload in workloads)
    print(f"{total} transactions under {kills} kills, judge tried on {count} histories: {'no anomaly' if is_good else 'ANOMALIES'}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
