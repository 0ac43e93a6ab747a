"""The workloads. Each has steps that its threads repeat until the server is gone, and a verification when it is back."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from . import checks
from .client import Answer, Client, Refused, collection, create, each, field, let, match, obj, page, ref, update, var, when

# Versions older than the layer keeps them cannot be read again.
SAMPLES_KEPT_SECONDS = 600.0


class Workload:
    """Steps are called as `step(client, chance)` by threads of their own; `Gone` ends a thread's round."""

    def __init__(self, setup: Client):
        self.faults: list[str] = []
        self.checked: Counter[str] = Counter()
        self.round = 0

    def steps(self) -> list:
        return []

    def streams(self) -> list:
        return []

    def begin(self, client: Client, round: int) -> None:
        self.round = round

    def verify(self, client: Client) -> None:
        pass

    def found(self, kind: str, faults: list[str]) -> None:
        self.checked[kind] += 1
        self.faults += faults

    def ask(self, client: Client, query) -> Answer | None:
        """`None`: there was too much contention, and nothing has happened."""
        try:
            return client.ask(query)
        except Refused as refused:
            if refused.status != 409:
                raise
            self.checked["contended"] += 1
            return None


def index(name: str, source: str, terms: list[str], values: list[str]) -> dict:
    paths = lambda fields: [obj(field=["data", name]) for name in fields]
    made = obj(name=name, source=collection(source), terms=paths(terms), values=paths(values), serialized=True)
    return {"create_index": made}


def make_collection(client: Client, name: str) -> None:
    client.ask({"create_collection": obj(name=name)})


class Bank(Workload):
    """Money moves between accounts and is never more or less; the index says what the documents say."""

    ACCOUNTS, MONEY = range(1, 7), 100

    def __init__(self, setup: Client):
        super().__init__(setup)
        make_collection(setup, "accounts")
        make_collection(setup, "transfers")
        setup.ask(index("balances", "accounts", [], ["balance"]))
        setup.ask(index("transfers_by_name", "transfers", ["name"], []))
        setup.ask({"do": [create("accounts", id, balance=self.MONEY) for id in self.ACCOUNTS]})
        self.acknowledged: list[str] = []
        self.sent: list[str] = []

    def begin(self, client: Client, round: int) -> None:
        super().begin(client, round)
        self.acknowledged, self.sent = [], []

    def steps(self) -> list:
        return [self.transfer, self.transfer, self.look]

    def transfer(self, client: Client, chance: random.Random) -> None:
        source, target = chance.sample(self.ACCOUNTS, 2)
        # Balances may become negative: an index once lost those.
        amount, name = chance.randrange(1, 90), f"{self.round}:{threading.get_ident()}:{time.monotonic_ns()}"
        balance = lambda id: field("balance", {"get": ref("accounts", id)})
        moved = {
            "do": [
                update("accounts", source, balance={"subtract": [var("a"), amount]}),
                update("accounts", target, balance={"add": [var("b"), amount]}),
                create("transfers", name=name),
                True,
            ]
        }
        self.sent.append(name)
        answer = self.ask(client, let(when({"gte": [var("a"), -300]}, moved, False), a=balance(source), b=balance(target)))
        if answer and answer.value:
            self.acknowledged.append(name)

    def look(self, client: Client, chance: random.Random) -> None:
        documents = each(page({"documents": collection("accounts")}), field("balance", {"get": var("x")}))
        seen = client.ask(obj(documents=documents, entries=page(match("balances")))).value
        documents, entries = seen["documents"]["data"], seen["entries"]["data"]
        self.found("total", checks.total(documents, self.MONEY * len(self.ACCOUNTS)))
        self.found("index", checks.agree(documents, entries))
        self.found("index order", [] if entries == sorted(entries) else [f"index: {entries} is not in order"])

    def verify(self, client: Client) -> None:
        self.look(client, random.Random(0))
        for first in range(0, len(self.sent), 200):
            names = self.sent[first : first + 200]
            counts = client.ask({"map": {"lambda": "x", "expr": {"count": match("transfers_by_name", var("x"))}}, "collection": names}).value
            seen = [name for name, count in zip(names, counts) for _ in range(count)]
            self.found("transfers", checks.elements(set(self.acknowledged) & set(names), set(names), seen))


class Elements(Workload):
    """A set only grows: what was added stays, and is met by every walk through its pages and every stream."""

    def __init__(self, setup: Client):
        super().__init__(setup)
        make_collection(setup, "elements")
        setup.ask(index("elements_by_round", "elements", ["round"], ["n"]))
        self.lock = threading.Lock()

    def begin(self, client: Client, round: int) -> None:
        super().begin(client, round)
        self.sent: set[int] = set()
        self.acknowledged: set[int] = set()
        self.created: dict[int, int] = {}
        self.told: list[tuple[int, int]] = []
        self.start = 0

    def steps(self) -> list:
        return [self.add, self.add, self.read, self.walk]

    def streams(self) -> list:
        return [self.follow]

    def all(self) -> dict:
        return match("elements_by_round", self.round)

    def add(self, client: Client, chance: random.Random) -> None:
        with self.lock:
            number = len(self.sent) * (1 if chance.random() < 0.5 else -1)
            while number in self.sent:
                number = chance.randrange(-1_000_000, 1_000_000)
            self.sent.add(number)
        answer = self.ask(client, create("elements", round=self.round, n=number))
        if answer:
            self.created[int(answer.value["ref"]["@ref"]["id"])] = answer.txn
            self.acknowledged.add(number)

    def read(self, client: Client, chance: random.Random) -> None:
        there = set(self.acknowledged)
        seen = client.ask(page(self.all())).value["data"]
        self.found("set", checks.elements(there, set(self.sent), seen))

    def walk(self, client: Client, chance: random.Random) -> None:
        there, seen, after = set(self.acknowledged), [], {}
        size = chance.randrange(1, 20)
        for _ in range(200):
            one = client.ask(page(self.all(), size, **after)).value
            seen += one["data"]
            if "after" not in one:
                self.found("walk", checks.walk(there, set(self.sent), seen))
                return
            after = {"after": quoted(one["after"])}

    def follow(self, client: Client) -> None:
        for event in client.stream({"documents": collection("elements")}):
            if event["type"] == "start":
                self.start = event["txn"]
            elif event["event"]["action"] == "add":
                self.told.append((event["txn"], int(event["event"]["document"]["ref"]["@ref"]["id"])))

    def verify(self, client: Client) -> None:
        self.read(client, random.Random(0))
        documents = each(page(self.all()), var("x"))
        self.found("set", checks.elements(self.acknowledged, self.sent, client.ask(documents).value["data"]))
        last = self.told[-1][0] if self.told else 0
        self.found("set stream", checks.added(self.start, last, self.created, self.told))
        exist = {"map": {"lambda": "x", "expr": {"exists": {"ref": collection("elements"), "id": var("x")}}}}
        ids = [str(id) for _, id in self.told]
        for first in range(0, len(ids), 500):
            there = client.ask({**exist, "collection": ids[first : first + 500]}).value
            self.found("told", [f"stream: told {id}, which is not there" for id, yes in zip(ids[first:], there) if not yes])


def quoted(value):
    """A value as rendered, as an expression: objects other than escapes become `object`."""
    if isinstance(value, list):
        return [quoted(item) for item in value]
    if isinstance(value, dict) and not any(key.startswith("@") for key in value):
        return {"object": {key: quoted(item) for key, item in value.items()}}
    return value


class Register(Workload):
    """One document: every write has its place, every read its write, every stream every version."""

    def __init__(self, setup: Client):
        super().__init__(setup)
        make_collection(setup, "registers")
        self.lock = threading.Lock()

    def begin(self, client: Client, round: int) -> None:
        super().begin(client, round)
        made = client.ask(create("registers", round, value=0))
        self.writes = [checks.Write(0, made.txn, made.began, made.ended)]
        self.reads: list[checks.Read] = []
        self.told: list[tuple[int, int]] = []
        self.start, self.next = 0, 0

    def steps(self) -> list:
        return [self.write, self.swap, self.read, self.read]

    def streams(self) -> list:
        return [self.follow]

    def fresh(self) -> checks.Write:
        with self.lock:
            self.next += 1
            write = checks.Write(self.next, None, time.monotonic(), float("inf"))
            self.writes.append(write)
        return write

    def write(self, client: Client, chance: random.Random) -> None:
        write = self.fresh()
        self.acknowledge(write, self.ask(client, update("registers", self.round, value=write.value)))

    def swap(self, client: Client, chance: random.Random) -> None:
        write = self.fresh()
        changed = {"do": [update("registers", self.round, value=write.value), var("old")]}
        answer = self.ask(client, let(changed, old=field("value", {"get": ref("registers", self.round)})))
        if answer:
            write.expected = answer.value
        self.acknowledge(write, answer)

    def acknowledge(self, write: checks.Write, answer: Answer | None) -> None:
        if answer:
            write.txn, write.ended = answer.txn, answer.ended

    def read(self, client: Client, chance: random.Random) -> None:
        seen = let(obj(value=field("value", var("d")), ts={"select": "ts", "from": var("d")}), d={"get": ref("registers", self.round)})
        answer = client.ask(seen)
        self.reads.append(checks.Read(answer.value["value"], answer.value["ts"], answer.txn, answer.began))

    def follow(self, client: Client) -> None:
        for event in client.stream(ref("registers", self.round)):
            if event["type"] == "start":
                self.start = event["txn"]
            else:
                self.told.append((event["txn"], event["event"]["document"]["data"]["value"]))

    def verify(self, client: Client) -> None:
        events = client.ask(page({"events": ref("registers", self.round)})).value["data"]
        history = [(event["ts"], event["data"]["value"]) for event in events]
        self.found("register", checks.register(self.writes, self.reads, history))
        self.checked["reads of the register"] += len(self.reads)
        self.found("stream", checks.feed(history, self.start, self.told))


class Counts(Workload):
    """A count rises; nobody ever sees it fall, and what was read at a time is read again at that time."""

    def __init__(self, setup: Client):
        super().__init__(setup)
        make_collection(setup, "counts")
        setup.ask(index("counts_by_value", "counts", [], ["value"]))
        setup.ask(create("counts", 1, value=0))
        self.samples: list[tuple[int, int]] = []
        self.snapshots: list[tuple[float, int, object]] = []
        self.acknowledged = 0

    def steps(self) -> list:
        return [self.raise_it, self.raise_it, self.read, self.again]

    def raise_it(self, client: Client, chance: random.Random) -> None:
        value = {"add": [field("value", {"get": ref("counts", 1)}), 1]}
        answer = self.ask(client, field("value", update("counts", 1, value=value)))
        if answer:
            self.samples.append((answer.txn, answer.value))
            self.acknowledged += 1

    SNAPSHOT = obj(
        value=field("value", {"get": ref("counts", 1)}),
        entries=page(match("counts_by_value")),
        money=page(match("balances")),
        transfers={"count": {"documents": collection("transfers")}},
    )

    def read(self, client: Client, chance: random.Random) -> None:
        answer = client.ask(self.SNAPSHOT)
        self.samples.append((answer.txn, answer.value["value"]))
        self.found("index", checks.agree([answer.value["value"]], answer.value["entries"]["data"]))
        self.snapshots.append((time.monotonic(), answer.txn, answer.value))

    def again(self, client: Client, chance: random.Random) -> None:
        oldest = time.monotonic() - SAMPLES_KEPT_SECONDS
        self.snapshots = [one for one in self.snapshots if one[0] > oldest]
        if not self.snapshots:
            time.sleep(0.01)
            return
        _, at, value = chance.choice(self.snapshots)
        seen = client.ask({"at": at, "expr": self.SNAPSHOT}).value
        self.found("temporal", [] if seen == value else [f"temporal: at {at} there was {value}, now there was {seen}"])

    def verify(self, client: Client) -> None:
        self.read(client, random.Random(0))
        chance = random.Random(self.round)
        for _ in range(20):
            self.again(client, chance)
        self.found("monotonic", checks.counts(self.samples))
        final = self.samples[-1][1]
        if final < self.acknowledged:
            self.faults.append(f"lost: the count is {final} after {self.acknowledged} acknowledged")
        self.samples = self.samples[-1:]


class Rivals(Workload):
    """Two who each insert only if neither has: at most one does (G2, write skew)."""

    def __init__(self, setup: Client):
        super().__init__(setup)
        for name in ("left", "right"):
            make_collection(setup, name)
            setup.ask(index(f"{name}_by_key", name, ["key"], []))

    def begin(self, client: Client, round: int) -> None:
        super().begin(client, round)
        self.meeting = threading.Barrier(2)
        self.keys: list[int] = []

    def steps(self) -> list:
        return [lambda client, chance: self.try_first(client, "left"), lambda client, chance: self.try_first(client, "right")]

    def try_first(self, client: Client, own: str) -> None:
        try:
            if self.meeting.wait(1) == 0:
                self.keys.append(self.round * 1_000_000 + len(self.keys))
            self.meeting.wait(1)
        except threading.BrokenBarrierError:
            time.sleep(0.01)
            return
        key = self.keys[-1]
        alone = {"and": [{"is_empty": match(f"{name}_by_key", key)} for name in ("left", "right")]}
        self.ask(client, when(alone, create(own, key=key)))

    def verify(self, client: Client) -> None:
        both = {"add": [{"count": match(f"{name}_by_key", var("x"))} for name in ("left", "right")]}
        for first in range(0, len(self.keys), 200):
            keys = self.keys[first : first + 200]
            winners = client.ask({"map": {"lambda": "x", "expr": both}, "collection": keys}).value
            self.found("write skew", checks.skew(dict(zip(keys, winners))))
        self.checked["rivalries"] += len(self.keys)


class Generations(Workload):
    """A collection's name, a document, a role and a key change together: every query meets one generation of all of them."""

    KEYS = {"select": "data", "from": page({"keys": None})}
    MARKED = {"contains_path": ["data", "generation"], "in": {"get": var("x")}}
    NAMES = {"map": {"lambda": "x", "expr": {"select": "name", "from": {"get": var("x")}}}}

    def __init__(self, setup: Client):
        super().__init__(setup)
        make_collection(setup, "generation_0")
        setup.ask(create("generation_0", 1, value=0))
        setup.ask({"create_role": obj(name="generation", data=obj(n=0), privileges=[])})
        self.acknowledged, self.seen = 0, 0

    def begin(self, client: Client, round: int) -> None:
        super().begin(client, round)
        # The key of the last change may have been lost with its answer.
        marked = {"filter": {"lambda": "x", "expr": self.MARKED}, "collection": self.KEYS}
        client.ask({"foreach": {"lambda": "x", "expr": {"delete": var("x")}}, "collection": marked})
        self.key = client.ask({"create_key": obj(role={"role": "generation"}, data=obj(generation=self.now(client)))}).value
        self.rotate(client, random.Random(round))

    def now(self, client: Client) -> int:
        return client.ask({"select": ["data", "n"], "from": {"get": {"role": "generation"}}}).value

    def steps(self) -> list:
        return [self.rotate, self.look, self.enter, self.enter]

    def rotate(self, client: Client, chance: random.Random) -> None:
        old = self.key["data"]["generation"]
        name, new = f"generation_{old}", old + 1
        is_current = {"equals": [field("value", {"get": var("r")}), new]}
        read = obj(resource=collection(name), actions=obj(read={"query": {"lambda": "r", "expr": is_current}}))
        changes = [
            update(name, 1, value=new),
            {"update": {"role": "generation"}, "params": obj(data=obj(n=new), privileges=[read])},
            {"delete": self.key["ref"]},
            {"update": collection(name), "params": obj(name=f"generation_{new}")},
            {"create_key": obj(role={"role": "generation"}, data=obj(generation=new))},
        ]
        answer = self.ask(client, {"do": changes})
        if answer:
            self.key, self.acknowledged = answer.value, new

    def look(self, client: Client, chance: random.Random) -> None:
        least = self.acknowledged
        names = {**self.NAMES, "collection": {"select": "data", "from": page({"collections": None})}}
        named = {"filter": {"lambda": "x", "expr": {"startswith": var("x"), "search": "generation_"}}, "collection": names}
        marked = {"filter": {"lambda": "x", "expr": self.MARKED}, "collection": self.KEYS}
        document = {"ref": {"collection": {"select": 0, "from": var("names")}}, "id": "1"}
        all = obj(
            names=var("names"),
            value=field("value", {"get": document}),
            role={"select": ["data", "n"], "from": {"get": {"role": "generation"}}},
            keys=each(marked, {"select": ["data", "generation"], "from": {"get": var("x")}}),
        )
        seen = client.ask(let(all, names=named)).value
        self.found("generation", checks.one_generation(**seen))
        self.found("generation", [] if seen["value"] >= least else [f"stale: generation {seen['value']} after {least}"])
        self.seen = max(self.seen, seen["value"])

    def enter(self, client: Client, chance: random.Random) -> None:
        """A key opens its own generation, or no longer anything."""
        key = self.key
        own = key["data"]["generation"]
        try:
            with Client(client.connection.port, key["secret"]) as inside:
                value = inside.ask(field("value", {"get": ref(f"generation_{own}", 1)})).value
            self.found("key", [] if value == own else [f"torn: the key of generation {own} has read {value}"])
        except Refused as refused:
            self.found("key", [] if refused.status == 401 else [f"torn: the key of generation {own}: {refused}"])
            own += 1
        self.seen = max(self.seen, own)

    def verify(self, client: Client) -> None:
        self.look(client, random.Random(0))
        now = self.now(client)
        self.found("recovery", checks.undone(self.seen, now) + checks.undone(self.acknowledged, now))


ALL = [Bank, Elements, Register, Counts, Rivals, Generations]
