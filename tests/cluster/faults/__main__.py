"""Breaks a cluster of real processes on machines of their own, again and again, and judges what its clients saw.

    python -m cluster.faults [--seed N] [--operations N] [--seconds N] [NAME...]

Each fault comes once, in an order that the seed decides, and then any of them until each judge has as many operations as are asked for and
the seconds are over. Names choose among the faults. Every client works at every node; an operation without an answer counts as unknown. At
the end each node in turn is home, and is read.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from consistency import known
from consistency.clients import Workload, report
from consistency.judge import OK
from consistency.workloads import ALL as KINDS
from harness.cluster import Node
from harness.network import alone, own_folder
from harness.server import ROOT

from . import faults
from .world import World, until

CLIENTS = 6
LENGTH_MAX = 8
# A state is hashed every 30 s; a node that has just started counts from there.
HASHES_WITHIN = 180.0
# How long a client of lists waits for an answer.
ANSWER_SECONDS = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="cluster.faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=60_000, help="for each of the two judges, at least")
    parser.add_argument("--seconds", type=float, default=0, help="at least")
    parser.add_argument("--registers", type=Path, help="the built test of registers; it is built otherwise")
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    alone("cluster.faults")
    count, wrong = known.check()
    if wrong:
        print("the judge is wrong", *wrong, sep="\n")
        return 1
    with own_folder() as folder:
        registers = chosen.registers or build_registers(folder)
        with World(folder) as world:
            try:
                return run(world, chosen, registers)
            except BaseException:
                for node in world.nodes:
                    print(f"{node.name} said last:\n{''.join(node.output[-25:])}")
                raise


def build_registers(folder: Path) -> Path:
    program = folder / "registers"
    subprocess.run(["go", "test", "-C", str(ROOT / "tests/redis/go"), "-c", "-o", str(program), "./linearizability"], check=True)
    return program


def run(world: World, chosen: argparse.Namespace, registers: Path) -> int:
    up = threading.Event()
    up.set()
    workloads = [Workload(name, world.nodes, up, ANSWER_SECONDS, LENGTH_MAX) for name in KINDS]
    seeds = [chosen.seed * 1000 + number for number in range(CLIENTS)]
    threads = [threading.Thread(target=workload.client, args=(seed,), daemon=True) for workload in workloads for seed in seeds]
    began = time.monotonic()
    with Registers(world, chosen, registers) as registers_run:
        for thread in threads:
            thread.start()
        try:
            until(lambda: all(count_of(workload) > 0 for workload in workloads), "every kind of client has done something")
            break_things(world, chosen, lambda: operations(workloads) >= chosen.operations and time.monotonic() - began >= chosen.seconds)
        finally:
            for workload in workloads:
                workload.stop.set()
        for thread in threads:
            thread.join(60)
        are_registers_good = registers_run.end()
    world.probe.over.set()
    world.probe.join()
    read_everywhere(world, workloads)
    if world.problems:
        print(*world.problems, sep="\n")
        return 1
    are_lists_good = report(workloads)
    surprises = collections.Counter(text for workload in workloads for text in workload.surprises)
    print("answers whose outcome is unknown:", *(f"{count} x {text}" for text, count in surprises.most_common(12)), sep="\n  ")
    assert world.compactions > 0, "etcd was never compacted"
    print(
        f"{operations(workloads)} operations on lists, {len(world.probe.acknowledged)} acknowledged writes kept at every node, {world.copies} copies, "
        f"{world.compactions} compactions"
    )
    return 0 if are_lists_good and are_registers_good else 1


def operations(workloads: list[Workload]) -> int:
    return sum(map(count_of, workloads))


def count_of(workload: Workload) -> int:
    """Of the operations that were answered."""
    return sum(len(one.operations) for one in list(workload.history) if one.outcome == OK)


def break_things(world: World, chosen: argparse.Namespace, is_enough) -> None:
    chance = random.Random(chosen.seed)
    names = [name.replace("-", "_") for name in chosen.names]
    possible = [one for one in faults.ALL if not names or one.__name__ in names]
    assert len(possible) == (len(names) or len(faults.ALL)), f"a fault is called otherwise: {[one.__name__ for one in faults.ALL]}"
    first = chance.sample(possible, len(possible))
    print(f"seed {chosen.seed}", flush=True)
    worst = 0.0
    while first or not is_enough():
        worst = max(worst, break_one(world, first.pop() if first else chance.choice(possible)))
    print(f"the longest time until writes went on: {worst:.1f} s")


def break_one(world: World, act) -> float:
    """The longest time that a write took to be acknowledged, while it was broken and afterwards."""
    world.probe.longest = 0.0
    began, before = time.monotonic(), world.cluster.term()
    act(world)
    world.network.heal()
    broken = time.monotonic() - began
    resumed = world.progress()
    settle(world)
    terms = world.cluster.term() - before
    assert not world.problems, "\n".join(world.problems)
    print(
        f"{faults.title(act)}: {broken:.1f} s, {terms} terms, {world.probe.longest:.1f} s without a write; "
        f"writes {resumed:.2f} s after it was mended",
        flush=True,
    )
    return world.probe.longest


def settle(world: World) -> None:
    """Until all nodes agree who is home."""

    def is_settled() -> bool:
        assert not world.problems, "\n".join(world.problems)
        try:
            figures = [node.metrics() for node in world.nodes]
        except OSError:
            return False
        return len({one["quartet_term"] for one in figures}) == 1 and sum(one["quartet_home"] for one in figures) == 1

    until(is_settled, "all nodes know one home")


def read_everywhere(world: World, workloads: list[Workload]) -> None:
    for node in world.nodes:
        until(lambda node=node: node.is_home() or hand_over(node), f"{node.name} is home")
        for workload in workloads:
            workload.read_all(node)
        world.probe.verify(node)
    figures: dict[str, dict[str, float]] = {}

    def are_alike() -> bool:
        try:
            figures.update({node.name: node.metrics() for node in world.nodes})
        except OSError:
            return False
        return len({one["quartet_log_applied"] for one in figures.values()}) == 1

    until(are_alike, "all nodes have applied the same records")
    hashed = {node.name: node.metrics()["quartet_state_hashes_total"] for node in world.nodes}

    def are_compared() -> bool:
        """Each has hashed its state behind the last write, and compared the one before at least."""
        try:
            figures.update({node.name: node.metrics() for node in world.nodes})
        except OSError:
            return False
        return all(figures[name]["quartet_state_hashes_total"] >= count + 2 for name, count in hashed.items())

    until(are_compared, "all nodes have compared their states with the home's", HASHES_WITHIN)
    for name, one in figures.items():
        assert one["quartet_state_hash_mismatches_total"] == 0, f"the state of {name} differed from its home's"
    print(f"state hashes behind the last write: equal at {len(figures)} nodes")


def hand_over(node: Node) -> bool:
    """False until it is home: the answer goes with the home that was, at the latest."""
    with contextlib.suppress(OSError):
        node.hand_over()
    return False


class Registers:
    """Clients of registers in a process of their own, which judges what they saw."""

    def __init__(self, world: World, chosen: argparse.Namespace, program: Path):
        environment = {
            **os.environ,
            "QUARTET_CLUSTER": ",".join(f"{node.host}:{node.fixed_port}" for node in world.nodes),
            "QUARTET_ROOT_KEY": world.nodes[0].root_key,
            "QUARTET_OPERATIONS": str(chosen.operations),
            "QUARTET_SEED": str(chosen.seed),
        }
        self.output = tempfile.TemporaryFile("w+")
        command = [str(program), "-test.run", "^TestCluster$", "-test.v", "-test.timeout", "3h"]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=self.output, stderr=self.output)

    def __enter__(self) -> "Registers":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()

    def end(self) -> bool:
        """Nothing is broken any more: waits for the judgement."""
        self.process.stdin.close()
        code = self.process.wait(600)
        self.output.seek(0)
        text = self.output.read()
        print(text.strip())
        return code == 0 and "--- PASS: TestCluster" in text


if __name__ == "__main__":
    sys.exit(main())
