"""Judges a history of transactions that append to lists and read them.

Every value is appended once, so a list that was read tells who wrote each of its elements, and in which order. From that follow
the dependencies between transactions (Adya, Liskov and O'Neil, "Generalized Isolation Level Definitions", 2000):

    ww  one appended behind what the other had appended
    wr  one read what the other had appended last
    rw  one read a list to which the other appended next
    rt  one had ended before the other began

Strictly serializable means: no cycle among all of them, and nobody saw what was taken back or half done. A cycle is named after
the edges it needs: G0 (ww), G1c (and wr), G-single (and one rw), G2 (and more), with `-realtime` if it needs rt as well.

A transaction whose outcome is unknown counts as committed if anybody saw something of it, and otherwise as never begun; it may
take effect at any time after its beginning.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclass
class Transaction:
    """`operations`: ("append", key, value), or ("read", key, list of values). Times are of one clock; what failed or is unknown
    has read nothing that counts."""

    operations: list
    began: int
    ended: int
    outcome: str = OK

    def appends(self):
        return [(key, value) for kind, key, value in self.operations if kind == "append"]

    def reads(self):
        return [(key, value) for kind, key, value in self.operations if kind == "read"]


@dataclass
class Verdict:
    """Name of an anomaly to what shows it."""

    anomalies: dict = field(default_factory=lambda: defaultdict(list))
    edges: dict = field(default_factory=dict)

    def add(self, name: str, what) -> None:
        if len(self.anomalies[name]) < 5:
            self.anomalies[name].append(what)

    def names(self) -> list[str]:
        return sorted(self.anomalies)


def judge(history: list[Transaction]) -> Verdict:
    verdict = Verdict()
    writers = {}
    for index, transaction in enumerate(history):
        for key, value in transaction.appends():
            assert (key, value) not in writers, f"{value} is appended twice to {key}"
            writers[key, value] = index
    for index, transaction in enumerate(history):
        if transaction.outcome == OK:
            check_internal(index, transaction, verdict)
    longest = longest_lists(history, verdict)
    committed = committed_ones(history, longest, writers)
    check_reads(history, writers, verdict)
    orders = {key: [value for value in values if (key, value) in writers] for key, values in longest.items()}
    graph = dependencies(history, committed, orders, writers)
    graph["rt"] = real_time(history, committed)
    verdict.edges = {kind: sum(map(len, edges.values())) for kind, edges in graph.items()}
    name_cycles(graph, verdict)
    return verdict


def check_internal(index: int, transaction: Transaction, verdict: Verdict) -> None:
    """What a transaction reads agrees with what it has read and appended itself."""
    known, own = {}, defaultdict(list)
    for kind, key, value in transaction.operations:
        if kind == "append":
            own[key].append(value)
            if key in known:
                known[key] = known[key] + [value]
        else:
            if key in known and known[key] != value or own[key] and value[-len(own[key]) :] != own[key]:
                verdict.add("internal", (index, key, value))
            known[key] = value


def seen_from_outside(transaction: Transaction):
    """Each list that was read, without what the transaction itself had appended before."""
    own = defaultdict(list)
    for kind, key, value in transaction.operations:
        if kind == "append":
            own[key].append(value)
        else:
            yield key, value[: len(value) - len(own[key])] if value[len(value) - len(own[key]) :] == own[key] else value


def longest_lists(history, verdict: Verdict) -> dict:
    longest = defaultdict(list)
    reads = [(index, key, values) for index, one in enumerate(history) if one.outcome == OK for key, values in one.reads()]
    for index, key, values in reads:
        if len(set(values)) < len(values):
            verdict.add("duplicate", (index, key, values))
        if len(values) > len(longest[key]):
            longest[key] = values
    for index, key, values in reads:
        if longest[key][: len(values)] != values:
            verdict.add("incompatible-order", (index, key, values, longest[key]))
    return longest


def committed_ones(history, longest, writers) -> set:
    committed = {index for index, transaction in enumerate(history) if transaction.outcome == OK}
    for key, values in longest.items():
        for value in values:
            writer = writers.get((key, value))
            if writer is not None and history[writer].outcome == UNKNOWN:
                committed.add(writer)
    return committed


def check_reads(history, writers, verdict: Verdict) -> None:
    for index, transaction in enumerate(history):
        if transaction.outcome != OK:
            continue
        for key, values in seen_from_outside(transaction):
            for value in values:
                writer = writers.get((key, value))
                if writer is None:
                    verdict.add("invented", (index, key, value))
                elif history[writer].outcome == FAILED:
                    verdict.add("G1a", (index, key, value))
            if values and writers.get((key, values[-1])) not in (None, index):
                writer = history[writers[key, values[-1]]]
                if [value for other, value in writer.appends() if other == key][-1] != values[-1]:
                    verdict.add("G1b", (index, key, values[-1]))


def dependencies(history, committed, orders, writers) -> dict:
    graph = {kind: defaultdict(set) for kind in ("ww", "wr", "rw")}

    def add(kind, one, other):
        if one != other and one in committed and other in committed:
            graph[kind][one].add(other)

    unseen = defaultdict(list)
    for (key, value), writer in writers.items():
        if history[writer].outcome == OK and value not in (seen := orders.setdefault(key, [])) and writer not in unseen[key]:
            unseen[key].append(writer)
    place = {(key, value): position for key, values in orders.items() for position, value in enumerate(values)}
    for key, values in orders.items():
        for before, after in zip(values, values[1:]):
            add("ww", writers[key, before], writers[key, after])
        for writer in unseen[key]:
            if values:
                # What nobody saw was appended behind everything that somebody saw.
                add("ww", writers[key, values[-1]], writer)
    for index, transaction in enumerate(history):
        if transaction.outcome != OK:
            continue
        for key, values in seen_from_outside(transaction):
            known = [value for value in values if (key, value) in place]
            if known:
                add("wr", writers[key, known[-1]], index)
            following = place[key, known[-1]] + 1 if known else 0
            if following < len(orders[key]):
                add("rw", index, writers[key, orders[key][following]])
            else:
                for writer in unseen[key]:
                    add("rw", index, writer)
    return graph


def real_time(history, committed) -> dict:
    """From each transaction to those that began after it had ended; what follows from others is left out."""
    edges = defaultdict(set)
    events = []
    for index in committed:
        transaction = history[index]
        events.append((transaction.began, 1, index))
        if transaction.outcome == OK:
            events.append((transaction.ended, 0, index))
    before, frontier = {}, set()
    # An end at the very time of a beginning did not come before it.
    for _, kind, index in sorted(events, key=lambda event: (event[0], -event[1])):
        if kind == 1:
            before[index] = set(frontier)
            for other in frontier:
                edges[other].add(index)
        else:
            frontier -= before[index]
            frontier.add(index)
    return edges


def name_cycles(graph, verdict: Verdict) -> None:
    for suffix, extra in (("", []), ("-realtime", ["rt"])):
        if suffix and any(name in verdict.anomalies for name in ("G0", "G1c", "G-single", "G2")):
            return
        writes, reads = ["ww", *extra], ["ww", "wr", *extra]
        for component in components(merged(graph, writes)):
            verdict.add("G0" + suffix, sorted(component))
        for component in components(merged(graph, reads)):
            if any(other in component for one in component for other in graph["wr"].get(one, ())):
                if not any(set(inner) == set(component) for inner in components(merged(graph, writes))):
                    verdict.add("G1c" + suffix, sorted(component))
        everything = merged(graph, [*reads, "rw"])
        without = merged(graph, reads)
        for component in components(everything):
            members = set(component)
            single = first_single(graph["rw"], without, members)
            if single:
                verdict.add("G-single" + suffix, single)
            elif not any(members >= set(inner) for inner in components(restricted(without, members))):
                verdict.add("G2" + suffix, sorted(component))


def first_single(rw, without, members):
    """A cycle with exactly one rw: from its end there is a way back to its beginning without any."""
    for one in members:
        for other in rw.get(one, ()):
            if other in members and reaches(without, other, one, members):
                return one, other
    return None


def reaches(graph, start, goal, members) -> bool:
    seen, left = {start}, [start]
    while left:
        node = left.pop()
        if node == goal:
            return True
        for following in graph.get(node, ()):
            if following in members and following not in seen:
                seen.add(following)
                left.append(following)
    return False


def merged(graph, kinds) -> dict:
    edges = defaultdict(set)
    for kind in kinds:
        for one, others in graph[kind].items():
            edges[one] |= others
    return edges


def restricted(graph, members) -> dict:
    return {one: others & members for one, others in graph.items() if one in members}


def components(graph) -> list[list[int]]:
    """The strongly connected components of more than one node (Tarjan, 1972), without recursion."""
    found, number, low, on_stack, stack, count = [], {}, {}, set(), [], 0
    for root in list(graph):
        if root in number:
            continue
        work = [(root, iter(graph.get(root, ())))]
        number[root] = low[root] = count
        count += 1
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            for other in following:
                if other not in number:
                    number[other] = low[other] = count
                    count += 1
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(graph.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        component.append(other)
                        if other == node:
                            break
                    if len(component) > 1:
                        found.append(component)
    return found
