"""`python -m crash [--cycles N] [--seconds S] [--seed X] [--power]`: SIGKILL, recover, compare with the ledger; again.

    write -> kill at a random moment -> start on the same data -> check -> write ...

Each writer notes what it is about to send, then what was acknowledged. After a
recovery everything acknowledged must be there (else lost), nothing may be there
which was never sent (phantom), nothing twice (duplicate), a transaction wholly
or not at all (torn); a request in flight may count once or not at all.

SIGKILL keeps what the kernel has in its page cache, so it checks the server's
order of log and acknowledgement and its recovery, not the disk. `--power` cuts
the power instead: the data lie on a disk that drops what was not synced
(`harness.small_disk`). Before that a server that never syncs must be caught by
it, or the cuts prove nothing. Where no file system may be mounted, it is skipped.

Segments of the log are so small, and one connection asks for checkpoints so
often, that in nearly every cycle both are begun and removed; every second cycle
goes on until they are, however slow the disk. Written keys are
checked in their own cycle and a sample of them again later; every EPOCH cycles
all of them, then all are flushed, so that a cycle stays short. Before the first
cycle `self_check` shows that each kind of fault is noticed.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from harness import small_disk
from harness.resp import Closed, Connection
from harness.server import Server
from harness.small_disk import PowerDisk

EPOCH = 25
WRITERS = 6
ALONE = 5  # every fifth cycle has one writer: a connection that is alone syncs on its own thread
SAMPLE = 200
SEGMENT_BYTES = 8 << 10
DISK_MEGABYTES = 192
# What a checkpoint makes: of the memory engine one file, of the ssd engine the next ones.
STORE_FILES = "base-" if os.environ.get("QUARTET_ENGINE") == "ssd" else "checkpoint-"
# How long a request may take, and a renewal of log and checkpoint.
PATIENCE_SECONDS = 120
# A server that never syncs must be caught within so many cuts.
PROOF_CYCLES = 5


@dataclass
class Ledger:
    """What one writer did in one cycle. `sent` includes what was acknowledged; at most one more is in flight."""

    writer: int
    cycle: int
    values: dict[str, str] = field(default_factory=dict)  # acknowledged SET
    gone: set[str] = field(default_factory=set)  # acknowledged DEL
    maybe: dict[str, str] = field(default_factory=dict)  # in flight: SET or DEL of this key
    pushed: list[str] = field(default_factory=list)
    push_in_flight: str | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)
    pair_in_flight: tuple[str, str] | None = None
    own_acknowledged: int = 0
    own_sent: int = 0
    sketched_acknowledged: int = 0
    sketched_sent: int = 0
    shared_replies: list[int] = field(default_factory=list)
    shared_sent: int = 0

    def acknowledged(self) -> int:
        return len(self.values) + len(self.gone) + len(self.pushed) + len(self.pairs) + self.own_acknowledged + self.sketched_acknowledged + len(self.shared_replies)


class Writer(threading.Thread):
    def __init__(self, port: int, ledger: Ledger, seed: int):
        super().__init__(daemon=True)
        self.port, self.ledger, self.chance = port, ledger, random.Random(seed)
        self.unexpected: str | None = None

    def run(self) -> None:
        try:
            with Connection(self.port, timeout_seconds=PATIENCE_SECONDS) as connection:
                number = 0
                while True:
                    number += 1
                    self.step(connection, f"c{self.ledger.cycle}:w{self.ledger.writer}:{number}")
        except (Closed, ConnectionError):
            pass
        except Exception as problem:
            self.unexpected = repr(problem)

    def step(self, connection: Connection, name: str) -> None:
        kind = self.chance.randrange(7)
        if kind <= 1:
            self.write(connection, name)
        elif kind == 2:
            self.remove(connection)
        elif kind == 3:
            self.push(connection, name)
        elif kind == 4:
            self.count(connection)
        elif kind == 5:
            self.sketch(connection, name)
        else:
            self.pair(connection, name)

    def write(self, connection: Connection, name: str) -> None:
        ledger, value = self.ledger, name + "=" + "x" * self.chance.choice([1, 20, 2000])
        ledger.maybe[name] = value
        expect(connection.do("SET", name, value), "OK")
        ledger.values[name] = value
        del ledger.maybe[name]

    def remove(self, connection: Connection) -> None:
        ledger = self.ledger
        if not ledger.values:
            return
        name = next(reversed(ledger.values))
        ledger.maybe[name] = ledger.values.pop(name)
        expect(connection.do("DEL", name), 1)
        ledger.gone.add(name)
        del ledger.maybe[name]

    def push(self, connection: Connection, name: str) -> None:
        ledger = self.ledger
        ledger.push_in_flight = name
        if not isinstance(reply := connection.do("RPUSH", f"c{ledger.cycle}:list", name), int):
            raise AssertionError(reply)
        ledger.pushed.append(name)
        ledger.push_in_flight = None

    def count(self, connection: Connection) -> None:
        ledger = self.ledger
        ledger.own_sent += 1
        if not isinstance(own := connection.do("INCR", f"counter:{ledger.writer}"), int):
            raise AssertionError(own)
        ledger.own_acknowledged += 1
        ledger.shared_sent += 1
        if not isinstance(shared := connection.do("INCR", "counter:shared"), int):
            raise AssertionError(shared)
        ledger.shared_replies.append(shared)

    def sketch(self, connection: Connection, name: str) -> None:
        """Adds one to the figure of a sketch of each family, and of a time series: an item, a count, a number or a sample."""
        ledger, writer = self.ledger, self.ledger.writer
        ledger.sketched_sent += 1
        replies = connection.pipeline(
            ["CMS.INITBYDIM", f"cms:{writer}", 2000, 5],
            ["TDIGEST.CREATE", f"td:{writer}"],
            ["BF.INSERT", f"bf:{writer}", "ERROR", "0.000000001", "CAPACITY", 1000, "ITEMS", name],
            ["CF.INSERT", f"cf:{writer}", "CAPACITY", 1000000, "ITEMS", name],
            ["CMS.INCRBY", f"cms:{writer}", "item", 1],
            ["TDIGEST.ADD", f"td:{writer}", self.chance.random()],
            ["TS.ADD", f"ts:{writer}", ledger.sketched_sent + 1000000 * ledger.cycle, self.chance.random(), "LABELS", "writer", writer],
        )
        expect(replies[2:4], [[1], [1]])
        expect(replies[5], "OK")
        ledger.sketched_acknowledged += 1

    def pair(self, connection: Connection, name: str) -> None:
        ledger = self.ledger
        ledger.pair_in_flight = (name + "a", name + "b")
        replies = connection.pipeline(["MULTI"], ["SET", name + "a", name], ["HSET", name + "b", "of", name], ["EXEC"])
        expect(replies[-1], ["OK", 1])
        ledger.pairs.append(ledger.pair_in_flight)
        ledger.pair_in_flight = None


class Saver(threading.Thread):
    """Asks for one checkpoint after another."""

    def __init__(self, port: int):
        super().__init__(daemon=True)
        self.port = port

    def run(self) -> None:
        try:
            with Connection(self.port, timeout_seconds=PATIENCE_SECONDS) as connection:
                while True:
                    connection.do("SAVE")
        except (Closed, ConnectionError):
            pass


def newest(data: str, prefix: str) -> str:
    return max((name for name in os.listdir(data) if name.startswith(prefix) and name[-1].isdigit()), default="")


def newest_files(server: Server) -> list[str]:
    return [newest(server.data, "log-"), newest(server.data, STORE_FILES)]


def wait_until_renewed(server: Server, before: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while server.alive() and time.monotonic() < deadline and any(old == new for old, new in zip(before, newest_files(server))):
        time.sleep(0.005)


@dataclass
class Renewed:
    """How often the log and the checkpoints were renewed within a cycle."""

    segments: int = 0
    checkpoints: int = 0

    def count(self, before: list[str], after: list[str]) -> None:
        self.segments += before[0] != after[0]
        self.checkpoints += before[1] != after[1]


def expect(reply, wanted) -> None:
    if reply != wanted:
        raise AssertionError(f"{reply!r} instead of {wanted!r}")


@dataclass
class Observed:
    """The database after a recovery, as far as one cycle is concerned."""

    values: dict[str, object]
    elements: list[str]
    counters: dict[str, int]


# The figure of a sketch that counts what was added: the command, and the name of the figure.
FIGURES = {"bf": ("BF.INFO", "Number of items inserted"), "cf": ("CF.INFO", "Number of items inserted"), "cms": ("CMS.INFO", "count"), "td": ("TDIGEST.INFO", "Observations"), "ts": ("TS.INFO", "totalSamples")}


def figure(connection: Connection, family: str, writer: int) -> int:
    command, name = FIGURES[family]
    if connection.do("EXISTS", f"{family}:{writer}") == 0:
        return 0
    reply = connection.do(command, f"{family}:{writer}")
    return int(reply[reply.index(name) + 1])


def observe(port: int, cycle: int) -> Observed:
    with Connection(port, timeout_seconds=60) as connection:
        names = [name for name in connection.do("KEYS", f"c{cycle}:*") if not name.endswith(":list")]
        replies = connection.pipeline(*[["HGET", name, "of"] if name.endswith("b") else ["GET", name] for name in names])
        elements = connection.do("LRANGE", f"c{cycle}:list", 0, -1)
        counters = {name: int(connection.do("GET", name) or 0) for name in ["counter:shared"] + [f"counter:{n}" for n in range(WRITERS)]}
        counters |= {f"{family}:{n}": figure(connection, family, n) for n in range(WRITERS) for family in FIGURES}
    return Observed(dict(zip(names, replies)), elements, counters)


def faults(ledgers: list[Ledger], seen: Observed, base: dict[str, int]) -> list[str]:
    found, explained = [], set()
    for ledger in ledgers:
        for name, value in ledger.values.items():
            explained.add(name)
            if seen.values.get(name) != value:
                found.append(f"lost: SET {name}")
        for name in ledger.gone:
            if name in seen.values:
                found.append(f"lost: DEL {name}")
            explained.add(name)
        for name, value in ledger.maybe.items():
            explained.add(name)
            if seen.values.get(name, value) != value:
                found.append(f"phantom: value of {name}")
        for pair in ledger.pairs:
            explained.update(pair)
            if [seen.values.get(name) for name in pair] != [pair[0][:-1]] * 2:
                found.append(f"lost: transaction {pair}")
        if pair := ledger.pair_in_flight:
            explained.update(pair)
            if [seen.values.get(name) for name in pair] not in ([None] * 2, [pair[0][:-1]] * 2):
                found.append(f"torn: transaction {pair}")
        mine = [element for element in seen.elements if element.split(":")[1] == f"w{ledger.writer}"]
        rest = mine[len(ledger.pushed) :]
        if mine[: len(ledger.pushed)] != ledger.pushed:
            lost = set(ledger.pushed) - set(mine)
            found.append(f"lost: RPUSH {sorted(lost)}" if lost else f"order: elements of writer {ledger.writer}")
        if rest not in ([], [ledger.push_in_flight]):
            found.append(f"phantom: elements {rest}")
        name = f"counter:{ledger.writer}"
        found += counter_faults(name, seen.counters[name] - base.get(name, 0), ledger.own_acknowledged, ledger.own_sent)
        for name in (f"{family}:{ledger.writer}" for family in FIGURES):
            found += counter_faults(name, seen.counters[name] - base.get(name, 0), ledger.sketched_acknowledged, ledger.sketched_sent)
    found += [f"duplicate: element {name}" for name, times in Counter(seen.elements).items() if times > 1]
    found += [f"phantom: key {name}" for name in seen.values.keys() - explained]
    replies = [number for ledger in ledgers for number in ledger.shared_replies]
    found += [f"duplicate: INCR answered {number} twice" for number, times in Counter(replies).items() if times > 1]
    grown = seen.counters["counter:shared"] - base.get("counter:shared", 0)
    found += counter_faults("counter:shared", grown, len(replies), sum(ledger.shared_sent for ledger in ledgers))
    if replies and max(replies) > seen.counters["counter:shared"]:
        found.append("lost: the shared counter went back")
    return found


def counter_faults(name: str, grown: int, acknowledged: int, sent: int) -> list[str]:
    if grown < acknowledged:
        return [f"lost: {name} grew by {grown}, {acknowledged} were acknowledged"]
    return [f"phantom: {name} grew by {grown}, {sent} were sent"] if grown > sent else []


def self_check() -> None:
    """A check which cannot fail proves nothing: each fault, made by hand, must be named."""

    def ledger() -> Ledger:
        return Ledger(0, 1, {"c1:w0:1": "v"}, {"c1:w0:2"}, {"c1:w0:3": "m"}, ["c1:w0:4"], "c1:w0:5", [("c1:w0:6a", "c1:w0:6b")], ("c1:w0:7a", "c1:w0:7b"), 2, 3, 2, 3, [1, 2], 2)

    def good() -> Observed:
        values = {"c1:w0:1": "v", "c1:w0:6a": "c1:w0:6", "c1:w0:6b": "c1:w0:6"}
        return Observed(values, ["c1:w0:4"], {"counter:shared": 2, "counter:0": 2} | {f"{family}:0": 2 for family in FIGURES})

    assert faults([ledger()], good(), {}) == []
    breakages = {
        "lost: SET": lambda seen: seen.values.pop("c1:w0:1"),
        "lost: DEL": lambda seen: seen.values.update({"c1:w0:2": "v"}),
        "phantom: value": lambda seen: seen.values.update({"c1:w0:3": "other"}),
        "phantom: key": lambda seen: seen.values.update({"c1:w0:9": "v"}),
        "lost: transaction": lambda seen: seen.values.pop("c1:w0:6b"),
        "torn: ": lambda seen: seen.values.update({"c1:w0:7a": "c1:w0:7"}),
        "lost: RPUSH": lambda seen: seen.elements.clear(),
        "duplicate: element": lambda seen: seen.elements.append("c1:w0:4"),
        "phantom: elements": lambda seen: seen.elements.append("c1:w0:8"),
        "lost: counter:0": lambda seen: seen.counters.update({"counter:0": 1}),
        "phantom: counter:0": lambda seen: seen.counters.update({"counter:0": 4}),
        "lost: bf:0": lambda seen: seen.counters.update({"bf:0": 1}),
        "phantom: cms:0": lambda seen: seen.counters.update({"cms:0": 4}),
        "lost: counter:shared": lambda seen: seen.counters.update({"counter:shared": 1}),
    }
    for wanted, breakage in breakages.items():
        seen = good()
        breakage(seen)
        named = faults([ledger()], seen, {})
        assert any(one.startswith(wanted) for one in named), f"{wanted!r} was not noticed: {named}"


def check_older(port: int, survivors: dict[str, str], names: list[str]) -> list[str]:
    if not names:
        return []
    with Connection(port, timeout_seconds=60) as connection:
        replies = connection.do("MGET", *names)
    return [f"lost: {name}, seen after an earlier recovery" for name, reply in zip(names, replies) if reply != survivors[name]]


def one_cycle(server: Server, end, cycle: int, chance: random.Random, base: dict[str, int], survivors: dict[str, str], renewed: Renewed) -> tuple[int, list[str]]:
    """`end` is how the server comes to its end."""
    files = newest_files(server)
    ledgers = [Ledger(number, cycle) for number in range(1 if cycle % ALONE == 0 else WRITERS)]
    writers = [Writer(server.port, ledger, chance.randrange(1 << 30)) for ledger in ledgers]
    saver = Saver(server.port)
    for thread in [*writers, saver]:
        thread.start()
    time.sleep(chance.uniform(0.002, 0.25))
    if cycle % 2 == 1:
        wait_until_renewed(server, files)
    if not server.alive():
        return 0, ["the server ended by itself:\n" + "".join(server.output[-40:])]
    # Not afterwards: a loss of power may have taken the newest of them.
    renewed.count(files, newest_files(server))
    end()
    for thread in [*writers, saver]:
        thread.join(PATIENCE_SECONDS)
    if not os.path.isdir(server.data):
        return 0, ["lost: the data directory"]
    server.start()
    if chance.random() < 0.1:  # Crash right after a recovery: recovering twice equals recovering once.
        end()
        server.start()
    seen = observe(server.port, cycle)
    found = [f"unexpected: {writer.unexpected}" for writer in writers if writer.unexpected]
    found += faults(ledgers, seen, base)
    names = list(survivors) if cycle % EPOCH == 0 else chance.sample(sorted(survivors), min(SAMPLE, len(survivors)))
    found += check_older(server.port, survivors, names)
    base.update(seen.counters)
    survivors.update({name: value for name, value in seen.values.items() if not name.endswith("b")})
    return sum(ledger.acknowledged() for ledger in ledgers), found


@dataclass
class Outcome:
    cycles: int = 0
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list)
    renewed: Renewed = field(default_factory=Renewed)
    seconds: float = 0.0


def run_cycles(server: Server, end, options, cycles: int) -> Outcome:
    """Until there is a problem, or time is up."""
    chance, base, survivors, outcome = random.Random(options.seed), {}, {}, Outcome()
    started = time.monotonic()
    while outcome.cycles < cycles and (not options.seconds or time.monotonic() - started < options.seconds):
        outcome.cycles += 1
        count, outcome.problems = one_cycle(server, end, outcome.cycles, chance, base, survivors, outcome.renewed)
        outcome.acknowledged += count
        if outcome.problems:
            break
        if outcome.cycles % EPOCH == 0:
            with Connection(server.port, timeout_seconds=60) as connection:
                expect(connection.do("FLUSHALL"), "OK")
            base.clear(), survivors.clear()
            print(f"crash: {outcome.cycles} cycles, {outcome.acknowledged} acknowledged writes checked", flush=True)
    outcome.seconds = time.monotonic() - started
    if not outcome.problems and outcome.cycles >= 10 and min(outcome.renewed.segments, outcome.renewed.checkpoints) < outcome.cycles / 2:
        outcome.problems.append(f"the log and the checkpoints were renewed too seldom: {outcome.renewed}")
    return outcome


def with_kills(options) -> Outcome:
    server = Server(durability=options.durability, options=["--log-segment-bytes", str(SEGMENT_BYTES)]).start()
    outcome = Outcome(problems=["the harness failed"])
    try:
        outcome = run_cycles(server, server.kill, options, options.cycles)
    finally:
        server.own_data = server.own_data and not outcome.problems
        server.close()
    return report(outcome, options, server.data)


def with_power_cuts(options) -> Outcome:
    proof = cut_power(options, PROOF_CYCLES, preload=never_syncing())
    assert any(problem.startswith("lost") for problem in proof.problems), f"a server that never syncs was not caught: {proof}"
    print(f"crash: a server that never syncs was caught at cut {proof.cycles}: {proof.problems[0]}", flush=True)
    return report(cut_power(options, options.cycles), options, "a disk that is gone")


def cut_power(options, cycles: int, preload: str | None = None) -> Outcome:
    with PowerDisk(DISK_MEGABYTES) as disk:
        arguments = ["--log-segment-bytes", str(SEGMENT_BYTES)]
        server = Server(durability=options.durability, data=str(disk.path / "data"), options=arguments).start()
        if preload is not None:  # What an honest server has begun, so that the first thing missed is not the directory.
            server.stop()
            server.preload = preload
            server.start()
        try:
            return run_cycles(server, lambda: disk.cut(server.process), options, cycles)
        finally:
            server.close()


def never_syncing() -> str:
    library = os.path.join(tempfile.mkdtemp(prefix="quartet-never-sync-"), "never_sync.so")
    source = os.path.join(os.path.dirname(__file__), "never_sync.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def report(outcome: Outcome, options, data: str) -> Outcome:
    kinds = Counter(problem.split(":")[0] for problem in outcome.problems)
    ends = "power cuts" if options.power else "kills"
    print(f"crash: {outcome.cycles} {ends} in {outcome.seconds:.0f} s ({outcome.seconds / max(outcome.cycles, 1):.2f} s each), "
          f"{outcome.acknowledged} acknowledged writes checked, segments begun in {outcome.renewed.segments} of them, "
          f"checkpoints written in {outcome.renewed.checkpoints}, "
          f"{kinds['lost']} lost, {kinds['phantom']} phantom, {kinds['duplicate']} duplicate, {kinds['torn']} torn")  # fmt: skip
    for problem in outcome.problems[:20]:
        print("  " + problem)
    if outcome.problems:
        print(f"  cycle {outcome.cycles}, seed {options.seed}; the data is kept in {data}")
    return outcome


def main() -> int:
    options = argparse.ArgumentParser(prog="crash")
    options.add_argument("--cycles", type=int, default=200)
    options.add_argument("--seconds", type=float, default=180.0, help="stop earlier after this time; 0 for no bound")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--durability", default="always")
    options.add_argument("--power", action="store_true", help="cut the power of the disk instead of killing the server")
    options = options.parse_args()
    self_check()
    if options.power and (reason := small_disk.why_not()):
        print(f"crash: POWER CUTS ARE SKIPPED: {reason}", flush=True)
        return 0
    print(f"crash: seed {options.seed}, up to {options.cycles} cycles", flush=True)
    outcome = with_power_cuts(options) if options.power else with_kills(options)
    return 1 if outcome.problems or outcome.acknowledged == 0 else 0


sys.exit(main())
