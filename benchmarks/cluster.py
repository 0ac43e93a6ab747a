#!/usr/bin/env python3
"""What several nodes cost, each row beside what it is measured against, both sides in one run.

    cargo build --profile dist -p quartet
    benchmarks/cluster.py --out OUT                                   # half an hour
    benchmarks/cluster.py --row sustained --sustained-seconds 600 --out OUT
    benchmarks/cluster.py --row added --gigabytes 2 --out OUT

Three members of etcd, three nodes and the clients share this machine. Bare etcd is asked by the same client library, by `measure` of
quartet-log-etcd. Sides take turns, --rounds times; a figure is the median of its rounds, a ratio that of their ratios.

| row | what it measures, and the bar |
| --- | --- |
| write | p50 of SET at the home with one connection / of a bare put of as many bytes as the record has, <= 1.5 |
| pipelined | redis-benchmark -P 16 -c 50 -d 100 -t set at the home / bare puts of 1 KiB, per second, >= 30 |
| read | p50 of GET at the home with one connection / of etcd's linearizable read, <= 2.0 |
| reads | GET at the home with 100 connections / at a server with a file log, per second, >= 0.4; linearizable reads per reply, <= 0.05 |
| home | from kill -9 of the home to the next acknowledged write, --kills times: p99 <= 3 s |
| both | the same for the home and etcd's leader at once, --both-kills times: p99 <= 4.5 s |
| leader | kill -9 of etcd's leader: until writes go on, minus the same for bare puts: median <= 0.5 s |
| sustained | 5 MB/s of values written for --sustained-seconds: etcd's files <= 700 MB, its members' memory <= 1.5 GB, longest time without an acknowledgement <= 2 s |
| capacity | CPU of each process for a strict read at a node that is not home, 8 and 100 waiting: the home <= 1 us, etcd's members together <= 5 us; p50 of one <= 1.2 of a read at the home. Also as `--part capacity` |
| added | a node is added beside 2 MB/s of writes and --gigabytes of data: it catches up, and writes keep >= 0.5 of their rate |

Rows that were measured earlier stay in OUT/cluster.json, each with its commit, date, command and the machine's load when it began and ended.
"""

import argparse
import csv
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from capacity import capacity
from harness import resp
from harness.cluster import Cluster, Node
from harness.server import ROOT, Server
from storage import bench_program, percentile
from tables import commit, machine, report, row

# As long as a client waits for a reply: longer than any bar.
REPLY_SECONDS_MAX = 30
VALUE_BYTES = 1000
BATCH = 50


# ---- one side's figures


def metrics(server):
    request = urllib.request.Request(f"http://127.0.0.1:{server.http_port}/metrics", headers={"Authorization": "Bearer dev"})
    text = urllib.request.urlopen(request, timeout=30).read().decode()
    return {name: float(value) for name, value in re.findall(r"^(quartet_\w+) (\S+)$", text, re.MULTILINE)}


class Bare:
    """etcd without the log, by the log's own client."""

    def __init__(self, arguments, etcd):
        self.command = [arguments.measure or bench_program("quartet-log-etcd", "measure"), etcd.endpoints]

    def latencies(self, *words):
        """Seconds that each request took; one is outstanding at a time."""
        run = subprocess.run([*self.command, *map(str, words)], capture_output=True, text=True, check=True)
        return [int(line) / 1e6 for line in run.stdout.split()]


def redis_benchmark(port, *words):
    command = ["redis-benchmark", "-p", str(port), "--csv", "-r", "100000", "-d", "100", *map(str, words)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = list(csv.DictReader(output.splitlines()))[-1]
    return {"per_second": float(found["rps"]), "p50_ms": float(found["p50_latency_ms"])}


def medians(rounds):
    """Of both sides, and of the ratio of ours to the other's, over rounds of (ours, other)."""
    ratio = statistics.median(ours / other for ours, other in rounds)
    ours, other = (statistics.median(side) for side in zip(*rounds))
    return ours, other, ratio


# ---- rates and latencies


def lone_write(arguments, cluster, bare, plot):
    home, rounds = cluster.home(), []
    for _ in range(arguments.rounds):
        before = metrics(home)
        ours = redis_benchmark(home.port, "-c", 1, "-n", arguments.seconds * 300, "-t", "set")["p50_ms"]
        after = metrics(home)
        appended, count = (after[name] - before[name] for name in ("quartet_append_bytes_total", "quartet_appends_total"))
        other = percentile(bare.latencies("puts", round(appended / count), arguments.seconds), 0.5)
        rounds.append((ours, other))
    ours, other, ratio = medians(rounds)
    return [row("write p50, one connection, ms (beside: a bare put of the same bytes)", round(ours, 2), round(other, 2), ratio, 1.5, "at most")]


def pipelined_writes(arguments, cluster, bare, plot):
    home, rounds = cluster.home(), []
    for _ in range(arguments.rounds):
        ours = redis_benchmark(home.port, "-P", 16, "-c", 50, "-n", arguments.seconds * 20_000, "-t", "set")["per_second"]
        latencies = bare.latencies("puts", 1024, arguments.seconds)
        rounds.append((ours, len(latencies) / sum(latencies)))
    ours, other, ratio = medians(rounds)
    return [row("writes/s, -P 16 -c 50 (beside: bare puts of 1 KiB)", round(ours), round(other), ratio, 30, "at least")]


def lone_read(arguments, cluster, bare, plot):
    home, rounds = cluster.home(), []
    for _ in range(arguments.rounds):
        ours = redis_benchmark(home.port, "-c", 1, "-n", arguments.seconds * 600, "-t", "get")["p50_ms"]
        other = percentile(bare.latencies("reads", arguments.seconds), 0.5)
        rounds.append((ours, other))
    ours, other, ratio = medians(rounds)
    return [row("strong read p50, one connection, ms (beside: etcd's linearizable read)", round(ours, 2), round(other, 2), ratio, 2.0, "at most")]


def many_reads(arguments, cluster, bare, plot):
    home, rounds, confirmed, replies = cluster.home(), [], 0, arguments.seconds * 10_000
    with Server("always") as alone:
        for _ in range(arguments.rounds):
            before = metrics(home)["quartet_confirmations_total"]
            ours = redis_benchmark(home.port, "-c", 100, "-n", replies, "-t", "get")["per_second"]
            confirmed += metrics(home)["quartet_confirmations_total"] - before
            rounds.append((ours, redis_benchmark(alone.port, "-c", 100, "-n", replies, "-t", "get")["per_second"]))
    ours, other, ratio = medians(rounds)
    share = confirmed / (replies * arguments.rounds)
    return [
        row("strong reads/s, 100 connections (beside: with a file log)", round(ours), round(other), ratio, 0.4, "at least"),
        row("linearizable reads of etcd for each reply", round(share, 4), "", share, 0.05, "at most"),
    ]


# ---- faults


class Writers:
    """Connections that write all the time, each to whichever node lets it, and the times of what was acknowledged.

    `megabytes` a second are spread over them; None: as fast as they can. `keys` are overwritten at random; None: each key is another.
    """

    def __init__(self, nodes, count=6, batch=1, value_bytes=100, megabytes=None, keys=100_000):
        self.nodes, self.batch, self.value_bytes, self.keys = nodes, batch, value_bytes, keys
        self.seconds_a_batch = megabytes and count * batch * value_bytes / (megabytes * 1e6)
        self.done = []
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def _run(self, number):
        choose, made = random.Random(number), 0
        connection, at, due = None, number, time.monotonic()
        while not self.over.is_set():
            commands = []
            for _ in range(self.batch):
                made += 1
                name = choose.randrange(self.keys) if self.keys else f"{number}:{made}"
                commands.append((b"SET", f"key:{name}", os.urandom(self.value_bytes)))
            sent = time.monotonic()
            try:
                connection = connection or resp.Connection(self.nodes[at % len(self.nodes)].fixed_port, timeout_seconds=REPLY_SECONDS_MAX)
                if any(reply != "OK" for reply in connection.pipeline(*commands)):
                    raise OSError("refused")
                self.done.append((time.monotonic(), sent))
            except (OSError, resp.Closed):
                connection, at = None, at + 1
                time.sleep(0.02)
            if self.seconds_a_batch:
                due = max(due + self.seconds_a_batch, time.monotonic() - 1)
                time.sleep(max(0, due - time.monotonic()))

    def resumed(self, moment):
        """Seconds from then to the first acknowledgement of a write that was sent afterwards."""
        deadline = time.monotonic() + 120
        while True:
            found = [ended for ended, sent in self.done[-2000:] if sent > moment]
            if found:
                return min(found) - moment
            if time.monotonic() > deadline:
                raise TimeoutError("writes do not go on")
            time.sleep(0.01)

    def megabytes_per_second(self, since, until):
        count = sum(since < ended <= until for ended, _ in self.done)
        return count * self.batch * self.value_bytes / 1e6 / (until - since)

    def longest_pause(self, since, until):
        return longest_pause([ended for ended, _ in self.done], since, until)[0]


def longest_pause(times, since, until):
    """Between two of the times, or one of them and an end: how long it was, and when it ended."""
    times = [since, *sorted(moment for moment in times if since < moment < until), until]
    return max((later - earlier, later) for earlier, later in zip(times, times[1:]))


def wait_until(what, condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def start_again(cluster, node):
    """Starts a node that was killed, and returns once it follows."""
    node.start()
    wait_until(f"{node.name} follows", lambda: has_caught_up(cluster, node))


def has_caught_up(cluster, node):
    try:
        home, own = metrics(cluster.home()), metrics(node)
    except OSError:
        return False
    return own["quartet_term"] == home["quartet_term"] and home["quartet_log_applied"] - own["quartet_log_applied"] < 20


def kill_home(arguments, cluster, bare, plot):
    took = []
    with Writers(cluster.nodes) as writers:
        for _ in range(arguments.kills):
            time.sleep(1)
            home, killed = cluster.home(), time.monotonic()
            home.kill()
            took.append(writers.resumed(killed))
            start_again(cluster, home)
    return failing_over("the home killed", took, 3, plot, "home")


def kill_both(arguments, cluster, bare, plot):
    took = []
    with Writers(cluster.nodes) as writers:
        for _ in range(arguments.both_kills):
            time.sleep(1)
            home, leader = cluster.home(), cluster.etcd.leader()
            killed = time.monotonic()
            home.process.kill()
            cluster.etcd.kill(leader)
            home.kill()
            took.append(writers.resumed(killed))
            cluster.etcd.run(leader)
            start_again(cluster, home)
            time.sleep(1)
    return failing_over("the home and etcd's leader killed", took, 4.5, plot, "home and etcd's leader")


def failing_over(what, took, bar, plot, name):
    plot["seconds until writes go on"][name] = took
    p50, p99 = (percentile(took, share) / 1000 for share in (0.5, 0.99))
    shown = f"{p99:.2f} (p50 {p50:.2f}, worst {max(took):.2f})"
    return [row(f"{what}, {len(took)} times: p99 of s until the next acknowledged write", shown, "", p99, bar, "at most")]


def kill_leader(arguments, cluster, bare, plot):
    """Both sides meet the same kill."""
    rounds = []
    for _ in range(arguments.leader_kills):
        output = tempfile.TemporaryFile("w+")
        process = subprocess.Popen([*bare.command, "acknowledged"], stdin=subprocess.PIPE, stdout=output)
        with Writers(cluster.nodes) as writers:
            time.sleep(2)
            leader = cluster.etcd.leader()
            killed, clock = time.monotonic(), time.time()
            cluster.etcd.kill(leader)
            writers.resumed(killed)
            time.sleep(8)
            ended = time.monotonic()
        process.communicate()
        output.seek(0)
        etcd = [int(line) / 1e6 for line in output.read().split()]
        own = longest_pause(etcd, clock, clock + ended - killed)[1] - clock
        ours = longest_pause([at for at, _ in writers.done], killed, ended)[1] - killed
        rounds.append((ours, own))
        cluster.etcd.run(leader)
        time.sleep(2)
    later = statistics.median(ours - own for ours, own in rounds)
    for side, name in enumerate(("etcd's leader", "the same, bare etcd")):
        plot["seconds until writes go on"][name] = [pair[side] for pair in rounds]
    ours, own, _ = medians(rounds)
    return [row(f"etcd's leader killed, {len(rounds)} times: s until writes go on (beside: bare puts; judged: the difference)", round(ours, 2), round(own, 2), later, 0.5, "at most")]


# ---- load


def sustained_writes(arguments, cluster, bare, plot):
    files, memory = [], []
    with Writers(cluster.nodes[:1], 5, BATCH, VALUE_BYTES, megabytes=5, keys=50_000) as writers:
        began = time.monotonic()
        while time.monotonic() - began < arguments.sustained_seconds:
            time.sleep(1)
            files.append(max(path.stat().st_size for path in cluster.etcd.folder.glob("member-*/member/snap/db")) / 1e6)
            memory.append(max(resident_megabytes(process.pid) for process in cluster.etcd.processes))
        ended = time.monotonic()
    rate, pause = writers.megabytes_per_second(began, ended), writers.longest_pause(began, ended)
    plot["etcd's largest member, MB"] |= {"database file": files, "resident memory": memory}
    name = f"{arguments.sustained_seconds} s at {rate:.1f} MB/s of values"
    return [
        row(f"{name}: etcd's largest file, MB", round(max(files)), "", max(files), 700, "at most"),
        row(f"{name}: largest member's resident memory, MB", round(max(memory)), "", max(memory), 1500, "at most"),
        row(f"{name}: longest time without an acknowledgement, s", round(pause, 2), "", pause, 2, "at most"),
    ]


def resident_megabytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def added_node(arguments, cluster, bare, plot):
    with Writers(cluster.nodes[:1], 4, BATCH, 20 * VALUE_BYTES, keys=None) as filling:
        wait_until("the data are written", lambda: len(filling.done) * BATCH * 20 * VALUE_BYTES > arguments.gigabytes * 1e9, 3600)
    with Writers(cluster.nodes[:1], 4, 20, VALUE_BYTES, megabytes=2, keys=50_000) as writers:
        began = time.monotonic()
        time.sleep(15)
        added = Node(cluster, "added")
        added.ready_seconds_max = 1800
        cluster.nodes.append(added)
        adding = time.monotonic()
        added.start()
        starts = 1
        while not (added.alive() and has_caught_up(cluster, added)):
            if not added.alive():
                # As a supervisor does; it says why it ended.
                print(f"the added node ended with {added.process.returncode}:", *added.output[-5:], file=sys.stderr)
                added.start()
                starts += 1
            time.sleep(0.1)
        followed = time.monotonic()
    alone, beside = writers.megabytes_per_second(began, adding), writers.megabytes_per_second(adding, followed)
    pause = writers.longest_pause(adding, followed)
    name = f"a node added beside {arguments.gigabytes} GB"
    return [
        row(f"{name}: MB/s of writes meanwhile (beside: before)", round(beside, 2), round(alone, 2), beside / alone, 0.5, "at least"),
        row(f"{name}: s until it follows", round(followed - adding, 1), "", followed - adding, None, ""),
        row(f"{name}: starts it took", starts, "", starts, None, ""),
        row(f"{name}: longest time without an acknowledgement, s", round(pause, 2), "", pause, None, ""),
    ]


# ---- the run

ROWS = {
    "write": lone_write,
    "pipelined": pipelined_writes,
    "read": lone_read,
    "reads": many_reads,
    "home": kill_home,
    "both": kill_both,
    "leader": kill_leader,
    "sustained": sustained_writes,
    "added": added_node,
    "capacity": capacity,
}
PANELS = {"seconds until writes go on": "share of the kills", "etcd's largest member, MB": "s"}
COLOURS = ["#1f6fb2", "#c4512d", "#3a8a4d", "#7a5ea8"]


def measure(name, arguments):
    """A row's figures, on a cluster of its own."""
    load, plot = os.getloadavg()[0], {panel: {} for panel in PANELS}
    version = subprocess.run([os.environ.get("QUARTET_ETCD", "etcd"), "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    # docs/cluster.md: members keep what was asked since their last snapshot.
    options = ["--snapshot-count=1000"] if re.search(r" 3\.[456]\.", version) else []
    with Cluster(etcd_options=options) as cluster:
        rows = ROWS[name](arguments, cluster, Bare(arguments, cluster.etcd), plot)
    load = [round(load, 1), round(os.getloadavg()[0], 1)]
    command = " ".join(["benchmarks/cluster.py", *sys.argv[1:]])
    about = {"commit": commit(), "date": time.strftime("%Y-%m-%d %H:%M"), "etcd": version, "command": command}
    return {"rows": [{**one, "load": load} for one in rows], **about, "plot": plot}


def bends(points):
    """The points without those in the middle of a level stretch, which draw nothing."""
    ends = zip([None, *points], points, [*points[1:], None])
    return [point for before, point, after in ends if not (before and after and before[1] == point[1] == after[1])]


def drawn(results):
    """Both panels as SVG: how long each kill took, as the share that took no longer; and etcd's size by the second."""
    width, height, left, top = 420, 220, 50, 30
    parts = []
    for number, (panel, axis) in enumerate(PANELS.items()):
        curves = {name: values for result in results.values() for name, values in result["plot"][panel].items() if values}
        x0, is_share = left + number * (width + 90), axis.startswith("share")
        parts.append(f'<text x="{x0}" y="{top - 12}" font-weight="bold">{panel}</text><rect x="{x0}" y="{top}" width="{width}" height="{height}" class="frame"/>')
        if not curves:
            continue
        most = max(map(max, curves.values()))
        longest = most if is_share else max(map(len, curves.values()))
        parts.append(f'<text x="{x0}" y="{top + height + 16}">0</text><text x="{x0 + width}" y="{top + height + 16}" text-anchor="end">{longest:.1f} s</text>')
        parts.append(f'<text x="{x0 - 6}" y="{top + 10}" text-anchor="end">{"100 %" if is_share else round(most)}</text>')
        for (name, values), colour in zip(curves.items(), COLOURS):
            if is_share:
                points = [(0, 0)] + [(value / longest, (place + 1) / len(values)) for place, value in enumerate(sorted(values))]
            else:
                points = [(place / longest, value / most) for place, value in enumerate(values)]
            line = " ".join(f"{x0 + x * width:.1f},{top + height - y * height:.1f}" for x, y in bends(points))
            parts.append(f'<polyline points="{line}" stroke="{colour}"/>')
        for place, (name, colour) in enumerate(zip(curves, COLOURS)):
            parts.append(f'<text x="{x0 + place % 2 * width // 2}" y="{top + height + 36 + place // 2 * 18}" fill="{colour}">{name}</text>')
    style = "text{font:13px sans-serif}.frame{fill:none;stroke:#999}polyline{fill:none;stroke-width:2}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1050 320"><style>{style}</style><rect width="1050" height="320" fill="#fff"/>{"".join(parts)}</svg>\n'


def rounded(value):
    """The value with three digits of each fraction, milliseconds of a duration."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 3) if isinstance(value, float) else value


def written(value, depth=3):
    """JSON with a line for each value of the outer levels."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(rounded(value))
    lines = [f"{json.dumps(name)}: {written(part, depth - 1).rstrip()}" for name, part in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quartet", help="the binary; target/dist/quartet if not given")
    parser.add_argument("--measure", help="the program that asks bare etcd; built if not given")
    parser.add_argument("--part", dest="row", nargs=1, choices=ROWS, default=list(ROWS), help="one row")
    parser.add_argument("--row", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each side in a round")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--both-kills", type=int, default=20)
    parser.add_argument("--leader-kills", type=int, default=5)
    parser.add_argument("--sustained-seconds", type=int, default=180)
    parser.add_argument("--gigabytes", type=float, default=0.3)
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "benchmarks" / "cluster")
    arguments = parser.parse_args()
    if arguments.quartet:
        os.environ["QUARTET_BIN"] = arguments.quartet
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "cluster.json"
    for name in arguments.row:
        result = measure(name, arguments)
        # Another run may have written meanwhile.
        earlier = json.loads(kept.read_text())["results"] if kept.exists() else {}
        results = {known: result if known == name else earlier[known] for known in ROWS if known == name or known in earlier}
        kept.write_text(written({"machine": machine(), "results": results}))
        rows = [one for result in results.values() for one in result["rows"]]
        (arguments.out / "cluster.md").write_text(report(rows))
        (arguments.out / "cluster.svg").write_text(drawn(results))
        print(report(result["rows"]), flush=True)


if __name__ == "__main__":
    main()
