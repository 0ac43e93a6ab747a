#!/usr/bin/env python3
"""Moving a Redis that is written to: how many keys a second, and does anything differ at the cut-over?

    cargo build --profile dist -p quartet && benchmarks/import.py --keys 1000000 --out OUT

A redis-server is filled with keys; while `quartet import redis --follow` copies it, a writer goes on with transactions of a counter
and a key of its own. Shown is the time until the target has everything that was there at the beginning, and what the import says of
the cut-over: every key of both sides is compared, and none may differ. The writer must lose nothing that was acknowledged.
"""

import argparse
import json
import random
import subprocess
import threading
import time
from pathlib import Path

import redis as beside_redis
from harness.resp import Connection

ROOT = Path(__file__).resolve().parents[1]
VALUE_BYTES = 64
WRITTEN_KEYS = 10_000


class Client(Connection):
    def fill(self, keys, at_once=1000):
        for start in range(0, keys, at_once):
            numbers = range(start, min(keys, start + at_once))
            self.pipeline(*(("SET", f"key:{number}", f"{number:0{VALUE_BYTES}}") for number in numbers))


def write_until_refused(port, acknowledged):
    client, choice, number = Client(port), random.Random(1), 0
    while True:
        number += 1
        key = f"written:{choice.randrange(WRITTEN_KEYS)}"
        for words in (("MULTI",), ("INCR", "total"), ("SET", key, number)):
            client.do(*words)
        if not isinstance(client.do("EXEC"), list):
            return
        acknowledged[key] = number


def measure(keys, binary):
    beside_redis.QUARTET = Path(binary)
    source, target = beside_redis.Server("redis", "off"), beside_redis.Server("quartet", "always")
    try:
        here, there = Client(source.port), Client(target.port)
        here.fill(keys)
        here.do("CONFIG", "SET", "repl-diskless-sync-delay", 0, "repl-backlog-size", 1 << 30, "client-output-buffer-limit", "replica 0 0 0")
        acknowledged = {}
        writer = threading.Thread(target=write_until_refused, args=(source.port, acknowledged))
        writer.start()
        command = [binary, "import", "redis", "--from", f"redis://127.0.0.1:{source.port}", "--to", f"redis://127.0.0.1:{target.port}", "--follow"]
        started = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        # Its own note says when the first copy is whole: the number of keys does not, because the writer makes some.
        while "following" not in (there.do("GET", "quartet:import") or "") and process.poll() is None:
            time.sleep(0.005)
        seconds = time.monotonic() - started
        output, _ = process.communicate("cut over\n")
        writer.join()
        lost = sum(1 for key, number in acknowledged.items() if int(there.do("GET", key) or 0) != number)
        return {
            "keys": keys,
            "seconds": round(seconds, 2),
            "keys_per_second": round(keys / seconds),
            "acknowledged_while_copied": int(there.do("GET", "total") or 0),
            "lost": lost,
            "code": process.returncode,
            "said": output.strip().splitlines(),
        }
    finally:
        source.kill()
        target.kill()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keys", type=int, default=1_000_000)
    arguments.add_argument("--binary", default=str(ROOT / "target/dist/quartet"))
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    result = measure(given.keys, given.binary)
    print(json.dumps(result, indent=2))
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "import.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
