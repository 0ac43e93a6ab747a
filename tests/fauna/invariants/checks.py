"""Pure checks of what was observed. Each answers the faults it found, and `self_check` shows that each can find one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass
class Write:
    """`txn` is None if the answer was lost. `expected` is the value that a compare-and-set saw."""

    value: int
    txn: int | None
    began: float
    ended: float
    expected: int | None = None


@dataclass
class Read:
    value: int
    ts: int
    txn: int
    began: float


def register(writes: list[Write], reads: list[Read], history: list[tuple[int, int]]) -> list[str]:
    """One document's value. `history` is every version as (ts, value), oldest first."""
    found = []
    place = {value: number for number, (_, value) in enumerate(history)}
    stamps = {value: ts for ts, value in history}
    found += [f"phantom: value {value}" for value in place.keys() - {write.value for write in writes}]
    for write in writes:
        if write.txn is not None and stamps.get(write.value) != write.txn:
            found.append(f"lost: value {write.value}, acknowledged at {write.txn}")
        if write.expected is not None and write.value in place:
            before = history[place[write.value] - 1][1] if place[write.value] else None
            if before != write.expected:
                found.append(f"lost update: {write.value} was written over {write.expected}, but follows {before}")
    acknowledged = sorted((write for write in writes if write.txn is not None), key=lambda write: write.ended)
    found += real_time([(write.began, write.ended, write.txn) for write in acknowledged])
    for read in reads:
        if stamps.get(read.value) != read.ts:
            found.append(f"phantom: read {read.value} of {read.ts}, written at {stamps.get(read.value)}")
        if read.ts > read.txn:
            found.append(f"future: read {read.value} of {read.ts} at {read.txn}")
        missed = [ts for ts, _ in history if read.ts < ts <= read.txn]
        if missed:
            found.append(f"skew: at {read.txn} read {read.value} of {read.ts}, not that of {missed[-1]}")
        newest = max((write.txn for write in acknowledged if write.ended < read.began), default=0)
        if newest > read.ts:
            found.append(f"stale: read {read.value} of {read.ts} after {newest} was acknowledged")
    return found


def real_time(operations: list[tuple[float, float, int]]) -> list[str]:
    """Of two operations one of which ended before the other began, the first has the smaller time."""
    found, newest, by_end = [], 0, sorted(operations, key=lambda one: one[1])
    position = 0
    for began, _, txn in sorted(operations):
        while position < len(by_end) and by_end[position][1] < began:
            newest = max(newest, by_end[position][2])
            position += 1
        if txn < newest:
            found.append(f"order: {txn} began after {newest} had ended")
    return found


def elements(acknowledged: set, sent: set, seen: list) -> list[str]:
    found = [f"lost: {element}" for element in sorted(acknowledged - set(seen))]
    found += [f"phantom: {element}" for element in sorted(set(seen) - sent)]
    return found + [f"twice: {element}" for element, times in Counter(seen).items() if times > 1]


def walk(there_throughout: set, sent: set, seen: list) -> list[str]:
    """The rows of pages read one after another while others insert."""
    found = [f"page: {fault}" for fault in elements(there_throughout, sent, seen)]
    return found + ([] if seen == sorted(seen) else ["page: the rows of a walk are not in order"])


def total(balances: list[int], expected: int) -> list[str]:
    return [] if sum(balances) == expected else [f"torn: the accounts hold {sum(balances)} instead of {expected}"]


def counts(samples: list[tuple[int, int]]) -> list[str]:
    """Of (time, count): counts rise with time."""
    samples = sorted(samples)
    falls = [(early, late) for early, late in zip(samples, samples[1:]) if early[1] > late[1]]
    return [f"monotonic: {late[1]} at {late[0]} after {early[1]} at {early[0]}" for early, late in falls]


def skew(winners: dict[int, int]) -> list[str]:
    return [f"write skew: {count} of two rivals won {key}" for key, count in winners.items() if count > 1]


def agree(documents: list, entries: list) -> list[str]:
    missing, extra = Counter(map(str, documents)) - Counter(map(str, entries)), Counter(map(str, entries)) - Counter(map(str, documents))
    return [f"index: lacks {one}" for one in missing] + [f"index: has {one}" for one in extra]


def one_generation(names: list, value: int, role: int, keys: list[int]) -> list[str]:
    """The collection's name, its document, the role and the key are changed together."""
    same = names == [f"generation_{value}"] and role == value and keys == [value]
    return [] if same else [f"torn: names {names}, document {value}, role {role}, keys {keys}"]


def undone(seen: int, now: int) -> list[str]:
    """What somebody has seen is there after a crash."""
    return [] if now >= seen else [f"undone: generation {seen} was seen, now it is {now}"]


def feed(history: list[tuple[int, int]], start: int, told: list[tuple[int, int]]) -> list[str]:
    """A stream over a document: (txn, value) of its versions."""
    last = told[-1][0] if told else 0
    wanted = [version for version in history if start < version[0] <= last]
    return [] if told == wanted else [f"stream: told {told[:9]} after {start} instead of {wanted[:9]}"]


def added(start: int, last: int, created: dict[int, int], told: list[tuple[int, int]]) -> list[str]:
    """A stream over a set: (txn, element) of what was added; `created` are the acknowledged ones by element."""
    found = [] if [txn for txn, _ in told] == sorted(txn for txn, _ in told) else ["stream: events are not in order"]
    names = [element for _, element in told]
    found += [f"stream: {element} twice" for element, times in Counter(names).items() if times > 1]
    missing = {element for element, txn in created.items() if start < txn <= last} - set(names)
    return found + [f"stream: {element} was left out" for element in sorted(missing)]


def self_check() -> None:
    """A check which cannot fail proves nothing."""
    writes = [Write(1, 10, 0, 1), Write(2, 20, 2, 3, expected=1), Write(3, None, 4, 5)]
    history, read = [(10, 1), (20, 2)], Read(2, 20, 25, 3.5)
    assert register(writes, [read], history) == []
    assert elements({1}, {1, 2}, [1, 2]) == walk({1}, {1, 2}, [1, 2]) == total([1, 2], 3) == counts([(1, 1), (2, 1)]) == []
    assert skew({1: 1}) == agree([1, 2], [2, 1]) == feed([(1, 1), (2, 2), (3, 3)], 1, [(2, 2)]) == added(1, 9, {7: 5, 8: 1}, [(5, 7)]) == []
    assert one_generation(["generation_3"], 3, 3, [3]) == undone(3, 3) == []
    broken = {
        "torn: names": one_generation(["generation_4"], 3, 3, [3]),
        "torn: names ['generation_3'], document 3, role 4": one_generation(["generation_3"], 3, 4, [3]),
        "torn: names ['generation_3'], document 3, role 3, keys [4]": one_generation(["generation_3"], 3, 3, [4]),
        "undone": undone(4, 3),
        "lost:": register(writes, [], history[:1]),
        "phantom: value": register(writes, [], [*history, (30, 9)]),
        "lost update": register([*writes, Write(4, 30, 6, 7, expected=1)], [], [*history, (30, 4)]),
        "order": register([*writes, Write(4, 15, 6, 7)], [], [(10, 1), (15, 4), (20, 2)]),
        "phantom: read": register(writes, [Read(2, 19, 25, 3.5)], history),
        "future": register(writes, [Read(2, 20, 19, 2.5)], history),
        "skew": register(writes, [Read(1, 10, 25, 1.5)], history),
        "stale": register(writes, [Read(1, 10, 15, 3.5)], history),
        "twice": elements({1}, {1}, [1, 1]),
        "page: lost": walk({1, 2}, {1, 2}, [1]),
        "page: the rows": walk({1, 2}, {1, 2}, [2, 1]),
        "torn": total([1, 1], 3),
        "monotonic": counts([(1, 2), (2, 1)]),
        "write skew": skew({1: 2}),
        "index: lacks": agree([1], []),
        "index: has": agree([], [1]),
        "stream: told": feed([(1, 1), (2, 2)], 0, [(2, 2)]),
        "stream: 7 was": added(1, 9, {7: 5}, []),
        "stream: 7 twice": added(1, 9, {7: 5}, [(5, 7), (5, 7)]),
        "stream: events": added(1, 9, {}, [(6, 7), (5, 8)]),
    }
    for wanted, named in broken.items():
        assert any(one.startswith(wanted) for one in named), f"{wanted!r} was not noticed: {named}"
