#!/usr/bin/env python3
"""What storage costs, each row beside what it is measured against, both sides in one run.

    cargo build --profile dist -p quartet
    apt-get install librocksdb-dev
    benchmarks/storage.py --out benchmarks/DATE-MACHINE-storage
    benchmarks/storage.py --row open --gigabytes 0.1          # one row, at another size

| row | what it measures, and the bar |
| --- | --- |
| engines | Product read and overwrite with 1, 10 and 100 workers, data in the cache: ssd / memory, >= 0.9 and >= 0.8 |
| beyond | random reads and 90/10 with 5 GB of data and 512 MiB of memory (a cgroup; needs root): the ssd engine's store / RocksDB without its log, >= 1.0 |
| open | start to the first reply with 5 GB of data: ssd < 200 ms; memory: bytes per second loaded, >= 300 MB/s (of the values; for small rows, of the checkpoint's file, beside it of keys and values) |
| overwrite | steady random overwriting for 10 minutes: no second without progress, p99.9 <= 20 ms over the disk's own, bytes on disk / live <= 2.5, and < 1.3 after deleting 90% |
| beside | p99 of reads beside a checkpoint, a flush and a backup / the same when idle, <= 3 |
| load | data of ten times the memory, written as fast as clients can (load.py; cgroups need root): nothing refused, every row right, no second without progress, and 0.8 of the pace of the flush |
| backup | a backup and a restore of 1 GB: >= 100 MB/s and >= 150 MB/s, or the disk's own; the foreground keeps >= 70% |

Sizes are --gigabytes times those of the table divided by 5: 5 is the table itself. Figures are medians of --rounds, sides taking turns. Each
row is kept with the machine's load when it began and ended: beside other work, times say little, and only what both sides met alike counts.
The row `beyond` fills both sides in key order and without a limit of memory; what is measured is limited. Flushes of random writes are in its figures only if enough gathers
meanwhile: with few writes a second, `--seconds 90 --buffer-mebibytes 1`.
"""

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import load as loading
from harness import resp
from harness.server import ROOT, Server
from harness.threads import Threads
from tables import report, row

VALUE_BYTES = 1000
BATCH = 500


class Connection(resp.Connection):
    """A connection that waits as long as a reply takes, and has good ones only."""

    def __init__(self, port):
        super().__init__(port, timeout_seconds=None)

    def read(self):
        reply = super().read()
        if isinstance(reply, resp.ReplyError):
            raise RuntimeError(f"the server answers {reply!r}")
        return reply


class Served(Server):
    # A memory engine of many gigabytes opens and ends in minutes.
    ready_seconds_max = stop_seconds_max = 900.0

    def __init__(self, arguments, data, engine, *options, durability="interval"):
        super().__init__(durability, data, "quartet", ["--engine", engine, *options], listeners=["redis", "http"], program=arguments.binary)

    def start(self):
        self.began = time.monotonic()
        return super().start()


def name(number):
    return b"key:%012d" % number


def fill(port, keys):
    connection = Connection(port)
    block = os.urandom(1 << 20)
    choose = random.Random(1)
    for first in range(0, keys, BATCH):
        numbers = range(first, min(first + BATCH, keys))
        parts = []
        for number in numbers:
            start = choose.randrange(len(block) - VALUE_BYTES)
            parts.append((b"SET", name(number), block[start : start + VALUE_BYTES]))
        connection.pipeline(*parts)


def fill_small(port, keys):
    """Keys of 16 bytes and values of 8 to 100. Answers how many bytes they are together."""
    connection, block, choose, total = Connection(port), os.urandom(1 << 20), random.Random(1), 0
    for first in range(0, keys, BATCH):
        words = [b"MSET"]
        for number in range(first, min(first + BATCH, keys)):
            start = choose.randrange(len(block) - 100)
            words += [b"%016d" % number, block[start : start + choose.randrange(8, 101)]]
        total += sum(map(len, words)) - len(words[0])
        connection.do(*words)
    return total


def bytes_on_disk(data, kind):
    """Of the tree's files (`base`), or of the log's (`log`), which is kept for readers up to a bound of its own."""
    total = 0
    for file in Path(data).glob(f"{kind}*"):
        # A file may go while they are counted.
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_blocks * 512
    return total


def percentile(latencies, share):
    ordered = sorted(latencies)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0


class Clients(Threads):
    """Connections that read or overwrite at random, one request at a time, and note how long each took and when it ended."""

    def __init__(self, port, count, keys, command):
        super().__init__(count)
        self.port, self.keys, self.command = port, keys, command
        self.done = []

    def begin(self, number):
        return Connection(self.port), random.Random(number), os.urandom(VALUE_BYTES)

    def work(self, made):
        connection, choose, value = made
        key = name(choose.randrange(self.keys))
        began = time.perf_counter()
        connection.do(b"GET", key) if self.command == "GET" else connection.do(b"SET", key, value)
        ended = time.perf_counter()
        self.done.append((ended, ended - began))

    @property
    def latencies(self):
        return [took for _, took in self.done]


def keys_of(gigabytes):
    return max(1000, int(gigabytes * 1e9) // VALUE_BYTES)


# ---- the rows


def engines(arguments, scratch):
    """`quartet bench product` against both engines, which take turns."""
    found = {}
    for round_number in range(arguments.rounds):
        for engine in ("memory", "ssd"):
            with tempfile.TemporaryDirectory(dir=scratch) as data, Served(arguments, data, engine, durability="always") as server:
                report = Path(scratch) / f"{engine}-{round_number}"
                command = [arguments.binary, "bench", "product", "--target", f"redis://127.0.0.1:{server.port}", "--parallelism", "1,10,100"]
                command += ["--seconds", str(max(1, int(arguments.seconds))), "--report", str(report)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            (results,) = (json.loads(file.read_text()) for file in report.rglob("*.json"))
            for cell in results["cells"]:
                found.setdefault((cell["test"], cell["parallelism"]), {}).setdefault(engine, []).append(cell["requests_per_second"])
    rows = []
    for (test, workers), sides in sorted(found.items()):
        bar = {"read": 0.9, "overwrite": 0.8}.get(test)
        ssd, memory = statistics.median(sides["ssd"]), statistics.median(sides["memory"])
        rows.append(row(f"Product {test}, {workers} workers, requests/s", round(ssd), round(memory), ssd / memory, bar, "at least"))
    return rows


def cgroup_of_memory():
    """Where groups are made, and the file that limits one: of version 2, or of version 1, by which of their files are there."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return root, "memory.max"
    if (root / "memory" / "memory.limit_in_bytes").exists():
        return root / "memory", "memory.limit_in_bytes"
    raise OSError("there is no hierarchy for memory")


@contextlib.contextmanager
def limited(mebibytes):
    """A cgroup with so much memory; yields what to put before a command."""
    try:
        root, limit = cgroup_of_memory()
        group = root / f"quartet-storage-{os.getpid()}"
        group.mkdir()
    except OSError as error:
        print(f"no cgroup can be made ({error}): memory is not limited", file=sys.stderr)
        yield [], False
        return
    try:
        # A file that is not the kernel's would limit nothing: it is never made.
        with open(group / limit, "r+") as file:
            file.write(str(mebibytes << 20))
        with contextlib.suppress(OSError), open(group / "memory.swap.max", "r+") as file:
            file.write("0")
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"], True
    finally:
        group.rmdir()


def bench_program(package, name):
    """The path of a program of a crate's `benches/`, built if need be."""
    command = ["cargo", "bench", "--quiet", "-p", package, "--bench", name, "--no-run", "--message-format", "json"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    paths = [json.loads(line).get("executable") for line in built.splitlines()]
    return next(path for path in reversed(paths) if path)


def beyond(arguments, scratch):
    rocksdb = ROOT / "target" / "benchmarks" / "rocksdb"
    rocksdb.parent.mkdir(parents=True, exist_ok=True)
    compiled = subprocess.run(["cc", "-O2", str(ROOT / "benchmarks" / "rocksdb.c"), "-lrocksdb", "-o", str(rocksdb)])
    if compiled.returncode:
        raise SystemExit("benchmarks/rocksdb.c needs librocksdb-dev")
    memory_mebibytes = max(64, int(512 * arguments.gigabytes / 5))
    sides = {"ssd": bench_program("quartet-store", "beyond_memory"), "rocksdb": str(rocksdb)}
    cache = memory_mebibytes // 4
    found = {side: {} for side in sides}

    def run(prefix, side, seconds, buffer):
        command = [*prefix, sides[side], os.path.join(scratch, side), *map(str, (arguments.gigabytes, cache, seconds, buffer))]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in told.splitlines():
            figure, per_second = line.rsplit(" ", 1)
            found[side].setdefault(figure, []).append(float(per_second))

    for side in sides:
        os.makedirs(os.path.join(scratch, side), exist_ok=True)
        run([], side, 0, memory_mebibytes)
    with limited(memory_mebibytes) as (prefix, is_limited):
        for _ in range(arguments.rounds):
            for side in sides:
                forget_pages(os.path.join(scratch, side))
                run(prefix, side, arguments.seconds, arguments.buffer_mebibytes or memory_mebibytes // 8)
    memory = f"{memory_mebibytes} MiB" if is_limited else "no limit"
    flushes = min(found["ssd"]["90/10, flushes"])
    return [
        row(f"{figure} of {arguments.gigabytes} GB, {memory}, ops/s", round(ours), round(theirs), ours / theirs, 1.0 if figure != "fill" else None, "at least")
        for figure in ("fill", "reads", "90/10")
        for ours, theirs in [(statistics.median(found["ssd"][figure]), statistics.median(found["rocksdb"][figure]))]
    ] + [row("flushes of the ssd engine within each 90/10", round(flushes), "", flushes, 1, "at least")]


def forget_pages(directory):
    """Takes the directory's files out of the system's cache; those of others stay."""
    for file in Path(directory).iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def opening(arguments, scratch):
    rows = []
    for engine in ("ssd", "memory"):
        keys = keys_of(arguments.gigabytes)
        data = tempfile.mkdtemp(dir=scratch)
        with Served(arguments, data, engine) as server:
            fill(server.port, keys)
            Connection(server.port).do(b"SAVE")
        seconds = []
        for _ in range(arguments.rounds):
            forget_pages(data)
            with Served(arguments, data, engine) as server:
                Connection(server.port).do(b"GET", name(keys // 2))
                seconds.append(time.monotonic() - server.began)
        took = statistics.median(seconds)
        shutil.rmtree(data)
        if engine == "ssd":
            rows.append(row(f"open {arguments.gigabytes} GB with ssd, ms to the first reply", round(took * 1000), "", took * 1000, 200, "at most"))
        else:
            rows.append(row(f"open {arguments.gigabytes} GB with memory, MB/s loaded", round(keys * VALUE_BYTES / took / 1e6), "", keys * VALUE_BYTES / took / 1e6, 300, "at least"))
    return [*rows, opening_small_rows(arguments, scratch)]


def opening_small_rows(arguments, scratch):
    """A fifth of the size: rows of this size take several times their bytes of memory."""
    gigabytes = arguments.gigabytes / 5
    data, keys = tempfile.mkdtemp(dir=scratch), max(1000, int(gigabytes * 1e9) // (16 + 54))
    with Served(arguments, data, "memory") as server:
        known = fill_small(server.port, keys)
        Connection(server.port).do(b"SAVE")
    (checkpoint,) = (file.stat().st_size for file in Path(data).glob("checkpoint-*"))
    seconds = []
    for _ in range(arguments.rounds):
        forget_pages(data)
        with Served(arguments, data, "memory") as server:
            Connection(server.port).do(b"GET", b"%016d" % (keys // 2))
            seconds.append(time.monotonic() - server.began)
    shutil.rmtree(data)
    took = statistics.median(seconds) * 1e6
    return row(f"open {gigabytes} GB of small rows with memory, MB/s of the checkpoint (beside: of keys and values)", round(checkpoint / took), round(known / took), checkpoint / took, 300, "at least")


def disk_p999_ms(scratch, seconds):
    """The disk's own: synced writes of a block."""
    file, latencies, ends = os.open(os.path.join(scratch, "probe"), os.O_CREAT | os.O_WRONLY), [], time.monotonic() + seconds
    while time.monotonic() < ends:
        began = time.perf_counter()
        os.pwrite(file, b"x" * 4096, 0)
        os.fdatasync(file)
        latencies.append(time.perf_counter() - began)
    os.close(file)
    return percentile(latencies, 0.999)


def overwrite(arguments, scratch):
    keys = keys_of(arguments.gigabytes / 5)
    live = keys * (VALUE_BYTES + 16)
    seconds = arguments.overwrite_seconds
    own = disk_p999_ms(scratch, min(10, seconds))
    data = tempfile.mkdtemp(dir=scratch)
    with Served(arguments, data, "ssd", durability="always") as server:
        fill(server.port, keys)
        most = 0
        with Clients(server.port, 4, keys, "SET") as writers:
            began = time.perf_counter()
            while time.perf_counter() - began < seconds:
                time.sleep(min(1, seconds / 10))
                most = max(most, bytes_on_disk(data, "base"))
        counts = {}
        for ended, _ in writers.done:
            counts[int(ended - began)] = counts.get(int(ended - began), 0) + 1
        empty = sum(1 for second in range(int(seconds)) if second not in counts)
        connection = Connection(server.port)
        kept = keys // 10
        for first in range(kept, keys, BATCH):
            connection.do(b"DEL", *(name(number) for number in range(first, min(first + BATCH, keys))))
        left, log, deadline = 0, bytes_on_disk(data, "log") / live, time.monotonic() + 180
        while time.monotonic() < deadline:
            connection.do(b"SAVE")
            left = bytes_on_disk(data, "base") / (live * kept / keys)
            if left < 1.3:
                break
            time.sleep(1)
    shutil.rmtree(data)
    slow = percentile(writers.latencies, 0.999)
    return [
        row(f"overwriting for {seconds} s, seconds without progress", empty, "", empty, 0, "at most"),
        row("overwriting, p99.9 ms", round(slow, 2), round(own, 2), slow - own, 20, "at most"),
        row("overwriting, bytes of the tree on disk / live (beside: the log)", round(most / live, 2), round(log, 2), most / live, 2.5, "at most"),
        row("after deleting 90%, bytes of the tree on disk / live", round(left, 2), "", left, 1.3, "at most"),
    ]


def beside(arguments, scratch):
    rows = []
    keys = keys_of(arguments.gigabytes / 5)
    jobs = [("memory", "checkpoint", save), ("ssd", "flush", save), ("ssd", "backup", backup)]
    for engine, job, work in jobs:
        with tempfile.TemporaryDirectory(dir=scratch) as data, tempfile.TemporaryDirectory(dir=scratch) as target, Served(arguments, data, engine) as server:
            if work is backup and not can(arguments, "backup"):
                continue
            fill(server.port, keys)
            Connection(server.port).do(b"SAVE")
            with Clients(server.port, 4, keys, "GET") as idle:
                time.sleep(arguments.seconds)
            fill(server.port, keys // 2)
            with Clients(server.port, 4, keys, "GET") as busy:
                work(arguments, server, target)
            ours, theirs = percentile(busy.latencies, 0.99), percentile(idle.latencies, 0.99)
            rows.append(row(f"p99 of reads beside a {job}, {engine}, ms", round(ours, 3), round(theirs, 3), ours / theirs, 3, "at most"))
    return rows


def save(arguments, server, target):
    Connection(server.port).do(b"SAVE")


def can(arguments, command):
    return subprocess.run([arguments.binary, command, "--help"], capture_output=True).returncode == 0


def backup(arguments, server, target):
    command = [arguments.binary, "backup", "--server", f"127.0.0.1:{server.http_port}", "--key", "dev", "--to", os.path.join(target, "backup")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def backups(arguments, scratch):
    if not can(arguments, "backup") or not can(arguments, "restore"):
        print("this binary has no backup: the row is left out", file=sys.stderr)
        return []
    keys = keys_of(arguments.gigabytes / 5)
    megabytes = keys * VALUE_BYTES / 1e6
    own, taken, kept, restored = [], [], [], []
    with tempfile.TemporaryDirectory(dir=scratch) as data, Served(arguments, data, "ssd") as server:
        fill(server.port, keys)
        Connection(server.port).do(b"SAVE")
        for _ in range(arguments.rounds):
            own.append(disk_megabytes_per_second(scratch, int(megabytes)))
            with tempfile.TemporaryDirectory(dir=scratch) as target:
                with Clients(server.port, 4, keys, "GET") as alone:
                    time.sleep(arguments.seconds)
                with Clients(server.port, 4, keys, "GET") as busy:
                    began = time.monotonic()
                    backup(arguments, server, target)
                    took = time.monotonic() - began
                taken.append(megabytes / took)
                kept.append((len(busy.done) / took) / (len(alone.done) / arguments.seconds))
                began = time.monotonic()
                command = [arguments.binary, "restore", "--from", os.path.join(target, "backup"), "--data", os.path.join(target, "restored"), "--engine", "ssd"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                restored.append(megabytes / (time.monotonic() - began))
    own, taken, kept, restored = (statistics.median(figures) for figures in (own, taken, kept, restored))
    return [
        row(f"backup of {megabytes:.0f} MB, MB/s (beside: the disk's own)", round(taken), round(own), taken, round(min(100, own)), "at least"),
        row("foreground beside a backup / alone", round(kept, 2), "", kept, 0.7, "at least"),
        row("restore, MB/s (beside: the disk's own)", round(restored), round(own), restored, round(min(150, own)), "at least"),
    ]


def disk_megabytes_per_second(scratch, megabytes):
    """The disk's own: files as large as a backup's parts, written and synced one after the other."""
    part, began = os.urandom(16 << 20), time.monotonic()
    count = max(1, (megabytes * 1_000_000) // len(part))
    for number in range(count):
        descriptor = os.open(os.path.join(scratch, f"probe-{number}"), os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, part)
        os.fsync(descriptor)
        os.close(descriptor)
    took = time.monotonic() - began
    for number in range(count):
        os.unlink(os.path.join(scratch, f"probe-{number}"))
    return count * len(part) / 1e6 / took


def loaded(arguments, scratch):
    return loading.load(arguments, scratch, row, limited)


ROWS = {"engines": engines, "beyond": beyond, "open": opening, "overwrite": overwrite, "beside": beside, "backup": backups, "load": loaded}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/dist/quartet"))
    parser.add_argument("--row", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--buffer-mebibytes", type=int, help="of writes that gather before the row `beyond` flushes them; an eighth of the memory if not given")
    parser.add_argument("--overwrite-seconds", type=float, default=600)
    parser.add_argument("--load-mebibytes", type=int, nargs="+", default=[128, 256, 512, 2048], help="budgets of the row `load`")
    parser.add_argument("--load-factor", type=float, default=10, help="megabytes of its data for each mebibyte of budget")
    parser.add_argument("--load-seconds", type=float, default=1e9, help="after which a cell of the row `load` writes no more")
    parser.add_argument("--load-layers", nargs="+", choices=loading.LAYERS, default=list(loading.LAYERS))
    parser.add_argument("--load-clients", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--load-beside", nargs="+", choices=("nothing", "backup", "snapshot"), default=["nothing", "backup", "snapshot"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", help="a directory on the disk that is measured")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for chosen in arguments.row:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as scratch:
            before = os.getloadavg()[0]
            measured = ROWS[chosen](arguments, scratch)
            load = [round(before, 1), round(os.getloadavg()[0], 1)]
            rows += [{**one, "load": load} for one in measured]
        print(report(rows), flush=True)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        machine = {"cpus": os.cpu_count(), "system": platform.platform()}
        kept = {"command": sys.argv, "commit": commit, "machine": machine, "rows": rows}
        (arguments.out / "storage.json").write_text(json.dumps(kept, indent=2) + "\n")
        (arguments.out / "storage.md").write_text(report(rows))


if __name__ == "__main__":
    main()
