"""A cluster whose nodes and members of etcd are each on a machine of their own, and somebody who starts again what ends by itself."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis

from harness import certificates
from harness.cluster import EXIT_NEEDS_COPY, Cluster, Node
from harness.network import Network
from harness.small_disk import SmallDisk

NODES, MEMBERS = 3, 3
# Everything that is waited for comes within this many seconds, or it is a fault.
COMES_WITHIN = 60.0
# Writes go on within this many seconds wherever a majority lives and can talk.
RESUMES_WITHIN = 60.0
# Logs in small pieces, so that a full disk is soon noticed, and few of them.
OPTIONS = ["--log-segment-bytes", "2097152", "--log-retention-bytes", "33554432", "--dynamodb-access-keys", "test:test"]
# Room for what a long run writes, and for a checkpoint of it.
DISK_MEGABYTES = 512
MUCH_BYTES = 1 << 19


def until(holds: Callable[[], bool], what: str, seconds: float = COMES_WITHIN) -> float:
    """Returns the seconds that it took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - began


class World:
    def __init__(self, folder: Path):
        self.folder = folder
        self.network = Network()
        names = [*(f"node-{number}" for number in range(NODES)), *(f"member-{number}" for number in range(MEMBERS))]
        self.machines = [self.network.machine(name) for name in names]
        made = certificates.make(folder, [machine.address for machine in self.machines])
        self.disks = [SmallDisk(DISK_MEGABYTES) for _ in range(NODES)]
        folders = [str(disk.path / "data") for disk in self.disks]
        self.cluster = Cluster(NODES, OPTIONS, machines=self.machines, certificates=made, folders=folders)
        self.nodes, self.etcd, self.members = self.cluster.nodes, self.cluster.etcd, self.machines[NODES:]
        for node in self.nodes:
            node.clock_file = folder / f"clock-{node.name}"
            self.set_clock(node, 0)
        self.kept_running: set[Node] = set()
        self.paused: set[Node] = set()
        self.problems: list[str] = []
        self.copies = 0
        self.over = threading.Event()
        self.keeper = threading.Thread(target=self._keep_running)
        self.probe = Probe(self.nodes)
        self.compactions = 0
        self.compacter = threading.Thread(target=self._compact)

    def __enter__(self) -> "World":
        try:
            self.etcd.start()
            for node in self.nodes:
                self.start(node)
            self.home()
            self.keeper.start()
            self.compacter.start()
            self.probe.start()
            self.progress()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self.over.set()
        self.probe.over.set()
        for thread in (self.keeper, self.compacter, self.probe):
            if thread.is_alive():
                thread.join()
        self.kept_running.clear()
        self.cluster.close()
        for disk in self.disks:
            disk.close()
        self.network.close()

    # ---- who is what

    def home(self) -> Node:
        return self.another_home(None)

    def another_home(self, than: Node | None) -> Node:
        """The home, once a node is it that is not `than`."""
        found: list[Node] = []

        def is_there() -> bool:
            candidates = (node for node in self.nodes if node is not than and node in self.kept_running - self.paused and node.alive())
            found[:] = [node for node in candidates if node.is_home()]
            return bool(found)

        until(is_there, f"a home other than {than.name if than else 'none'}")
        return found[0]

    def followers(self) -> list[Node]:
        home = self.home()
        return [node for node in self.nodes if node is not home]

    def leader(self) -> int:
        return self.etcd.leader()

    def disk(self, node: Node) -> SmallDisk:
        return self.disks[self.nodes.index(node)]

    # ---- acts

    def start(self, node: Node) -> None:
        """A node that finds etcd without a leader ends, and whoever keeps it running starts it again."""
        deadline = time.monotonic() + COMES_WITHIN
        while True:
            try:
                node.start()
                break
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
        self.kept_running.add(node)

    def kill(self, node: Node) -> None:
        self.kept_running.discard(node)
        node.kill()

    def pause(self, node: Node) -> None:
        self.paused.add(node)
        node.pause()

    def go_on(self, node: Node) -> None:
        node.go_on()
        self.paused.discard(node)

    def set_clock(self, node: Node, seconds: int) -> None:
        """The clock of a node, which may run, is ahead of the machine's by so much."""
        node.set_clock(seconds)

    def progress(self) -> float:
        """Seconds until a write is acknowledged that began after this."""
        return self.probe.wait()

    def write_much(self) -> str:
        """So that disks fill up. Why it was refused, or nothing."""
        try:
            self.probe.connect(self.home()).set("much", os.urandom(MUCH_BYTES))
        except (redis.RedisError, OSError) as error:
            return str(error)
        return ""

    def _compact(self) -> None:
        """What somebody else does to an etcd that is shared: each second all history goes."""
        member = 0
        while not self.over.wait(1):
            try:
                self.etcd.compact(member)
                self.compactions += 1
            except (OSError, ValueError):
                member = (member + 1) % MEMBERS

    def progress_for(self, seconds: float) -> None:
        """Writes go on all that time."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            self.progress()

    def _keep_running(self) -> None:
        while not self.over.wait(0.05):
            for node in list(self.kept_running):
                if node.alive():
                    continue
                code = node.process.returncode
                # It may have been killed just now, on purpose.
                if node not in self.kept_running:
                    continue
                if code != EXIT_NEEDS_COPY:
                    self.problems.append(f"{node.name} ended by itself with {code}:\n{''.join(node.output[-30:])}")
                    self.kept_running.discard(node)
                    continue
                self.copies += 1
                try:
                    self.start(node)
                except RuntimeError as error:
                    self.problems.append(f"{node.name} did not start again: {error}")
                    self.kept_running.discard(node)


class Probe(threading.Thread):
    """A client that adds one number after another to a set, at whichever node takes it, and keeps those that were acknowledged."""

    KEY = "probe"
    TIMEOUT_SECONDS = 1.5

    def __init__(self, nodes: list[Node]):
        super().__init__()
        self.nodes, self.over = nodes, threading.Event()
        self.acknowledged: list[int] = []
        self.unknown: set[int] = set()
        self.refusals: list[str] = []
        # When the newest acknowledged write began and ended.
        self.newest = (0.0, 0.0)
        # The longest time between the ends of two, since somebody has set it back.
        self.longest = 0.0

    def run(self) -> None:
        value, place, client = 0, 0, None
        while not self.over.is_set():
            value += 1
            began = time.monotonic()
            try:
                client = client or self.connect(self.nodes[place % len(self.nodes)])
                client.sadd(self.KEY, value)
                self.acknowledged.append(value)
                before, self.newest = self.newest[1] or began, (began, time.monotonic())
                self.longest = max(self.longest, self.newest[1] - before)
            except (redis.RedisError, OSError) as error:
                self.unknown.add(value)
                self.refusals.append(str(error))
                place, client = place + 1, None
                time.sleep(0.01)

    def connect(self, node: Node, seconds: float = TIMEOUT_SECONDS) -> redis.Redis:
        return redis.Redis(host=node.host, port=node.fixed_port, password=node.root_key, socket_timeout=seconds, socket_connect_timeout=seconds, retry=None)

    def wait(self) -> float:
        began = time.monotonic()
        until(lambda: self.newest[0] > began, "a write is acknowledged", RESUMES_WITHIN)
        return self.newest[1] - began

    def wait_refused(self, count: int) -> None:
        """Until so many more writes have failed."""
        seen = len(self.refusals)
        until(lambda: len(self.refusals) >= seen + count, "writes fail")

    def verify(self, node: Node) -> None:
        kept: set[int] = set()

        def is_read() -> bool:
            """The home may move by itself, and connections end then."""
            try:
                kept.update(map(int, self.connect(node, seconds=60).smembers(self.KEY)))
            except (redis.RedisError, OSError):
                return False
            return True

        until(is_read, f"{node.name} can be read")
        lost = set(self.acknowledged) - kept
        assert not lost, f"{node.name} has lost acknowledged writes: {sorted(lost)[:10]}"
        invented = kept - set(self.acknowledged) - self.unknown
        assert not invented, f"{node.name} has what nobody wrote: {sorted(invented)[:10]}"
