"""Judges whether what transactions saw is strictly serializable.

The database says itself in which order transactions happened: a writer has a commit version of its own, and whoever only reads has a read version. So the
judge need not search for an order. It replays the writers in the order of their versions and compares:

- every read with the state at the transaction's read version;
- every read of a writer that is no snapshot read also with the state just before its commit version: nothing it read had changed;
- versions with real time: who began after another's end was known has no older version.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

# The key that stands for all that are not the workload's.
BEYOND = b"l"
READS = ("get", "range", "select")


@dataclass
class Step:
    """What was asked and, of reads, what came back."""

    kind: str
    arguments: tuple
    result: object = None
    snapshot: bool = False


@dataclass
class Done:
    """A transaction that committed."""

    name: bytes
    began: float
    ended: float
    read_version: int
    commit_version: int | None  # None: it wrote nothing
    steps: list[Step] = field(default_factory=list)

    @property
    def version(self) -> int:
        return self.read_version if self.commit_version is None else self.commit_version


def _number(value: bytes) -> int:
    return int.from_bytes(value, "little")


def _fitted(value: bytes, length: int) -> bytes:
    return value[:length].ljust(length, b"\0")


ATOMIC = {
    "add": lambda old, operand: ((_number(_fitted(old, len(operand))) + _number(operand)) % (1 << 8 * len(operand))).to_bytes(len(operand), "little"),
    "bit_xor": lambda old, operand: bytes(a ^ b for a, b in zip(_fitted(old, len(operand)), operand)),
    "max": lambda old, operand: max(_fitted(old, len(operand)), operand, key=_number),
    "byte_min": min,
}


def apply(state: dict[bytes, bytes], step: Step) -> None:
    """Changes the state as a write does."""
    match step.kind, step.arguments:
        case "set", (key, value):
            state[key] = value
        case "clear", (begin, end):
            for key in [key for key in state if begin <= key < end]:
                del state[key]
        case "compare_and_clear", (key, operand):
            if state.get(key) == operand:
                del state[key]
        case operation, (key, operand):
            state[key] = ATOMIC[operation](state[key], operand) if key in state else operand


def read(state: dict[bytes, bytes], step: Step):
    """What a read finds in the state."""
    match step.kind, step.arguments:
        case "get", (key,):
            return state.get(key)
        case "range", (begin, end, limit, reverse):
            rows = sorted((item for item in state.items() if begin <= item[0] < end), reverse=reverse)
            return rows[:limit] if limit else rows
        case "select", (key, or_equal, offset):
            keys = sorted(state)
            index = (bisect_right if or_equal else bisect_left)(keys, key) + offset - 1
            return b"" if index < 0 else keys[index] if index < len(keys) else BEYOND
    raise ValueError(step.kind)


class Replay:
    """The state after each writer."""

    def __init__(self, done: list[Done]):
        self.writers = sorted((one for one in done if one.commit_version is not None), key=lambda one: one.commit_version)
        self.versions = [one.commit_version for one in self.writers]
        self.states: list[dict[bytes, bytes]] = [{}]
        for writer in self.writers:
            state = dict(self.states[-1])
            for step in writer.steps:
                if step.kind not in READS:
                    apply(state, step)
            self.states.append(state)

    def at(self, version: int) -> dict[bytes, bytes]:
        return self.states[bisect_right(self.versions, version)]

    def before(self, version: int) -> dict[bytes, bytes]:
        return self.states[bisect_left(self.versions, version)]


def complaints(done: list[Done]) -> Iterator[str]:
    """Everything that is wrong with a history."""
    replay = Replay(done)
    for earlier, later in zip(replay.versions, replay.versions[1:]):
        if earlier == later:
            yield f"two transactions committed at {earlier}"
    for one in done:
        yield from _wrong_reads(one, replay.at(one.read_version), "the state at its read version", True)
        if one.commit_version is not None:
            if one.commit_version <= one.read_version:
                yield f"{one.name} committed before what it read"
            yield from _wrong_reads(one, replay.before(one.commit_version), "the state it committed on", False)
    yield from _against_time(done)


def _wrong_reads(one: Done, state: dict[bytes, bytes], where: str, snapshots: bool) -> Iterator[str]:
    state = dict(state)
    for step in one.steps:
        if step.kind not in READS:
            apply(state, step)
        elif snapshots or not step.snapshot:
            expected = read(state, step)
            if expected != step.result:
                yield f"{one.name}: {step} is not {expected} as in {where}"


def _against_time(done: list[Done]) -> Iterator[str]:
    """Sweeps over time with the newest version of those that have ended."""
    by_end = sorted(done, key=lambda one: one.ended)
    index, newest = 0, 0
    for one in sorted(done, key=lambda one: one.began):
        while index < len(by_end) and by_end[index].ended < one.began:
            newest = max(newest, by_end[index].version)
            index += 1
        if one.read_version < newest:
            yield f"{one.name} read at {one.read_version} when {newest} was known"
