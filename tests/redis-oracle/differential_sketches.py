"""Sends the original and Quartet the same commands about sketches, and compares the bytes of the replies, in RESP2 and RESP3.

`python differential_sketches.py [--seed N] [--rounds N] [--show N]`, with PYTHONPATH=tests. Each round fills keys of every family with
random commands, asks for everything there is, and then carries each key to the other side by DUMP and by SCANDUMP, where it must give the
same answers. Ends with 1 if a reply differs that `is_explained` does not name.

The original reads digests by changing them, so a round only reads digests that are whole. Top-K lists decay always or never, since the
original's chance is its own. Sizes for which the original ends its process are not asked for.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys

import redis
from oracle import Oracle

from harness.server import Server, free_port

Request = tuple[object, ...]


class Side:
    """A connection for each protocol, and the bytes that arrive."""

    def __init__(self, port: int):
        self.client = redis.Redis(port=port, protocol=2)
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        self.files = [connection.makefile("rb") for connection in self.sockets]
        self.raw(1, ("HELLO", "3"))

    def raw(self, which: int, request: Request) -> bytes:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in request]
        self.sockets[which].sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.reply(self.files[which])

    def reply(self, file) -> bytes:
        line = file.readline()
        if not line:
            raise ConnectionError("closed")
        head, count = line[:1], line[1:-2]
        if head in b"$=" and int(count) >= 0:
            return line + file.read(int(count) + 2)
        if head in b"*~>" and int(count) >= 0:
            return line + b"".join(self.reply(file) for _ in range(int(count)))
        if head == b"%":
            return line + b"".join(self.reply(file) for _ in range(2 * int(count)))
        return line


ODD = ["0", "-1", "x", "", "1.5", "inf", "-inf", "nan", "1e400", "1e-400", "0x10", " 1", "9223372036854775808"]


class Requests:
    """Random requests. `number` and `share` are rarely odd."""

    def __init__(self, chance: random.Random):
        self.chance = chance

    def item(self) -> str:
        return self.chance.choice(["", "a", "ä\0b", "x" * 300]) if self.chance.random() < 0.02 else f"item-{self.chance.randrange(400)}"

    def items(self, most: int = 6) -> list[str]:
        return [self.item() for _ in range(self.chance.randrange(1, most))]

    def texts(self) -> list[str]:
        """Items without a NUL, where the original ends those of a Top-K list."""
        return [item.replace("\0", "") for item in self.items()]

    def number(self, least: int, most: int) -> object:
        return self.chance.choice(ODD) if self.chance.random() < 0.05 else self.chance.randint(least, most)

    def share(self) -> object:
        return self.chance.choice(ODD) if self.chance.random() < 0.05 else round(self.chance.uniform(0.0001, 0.5), self.chance.randint(1, 6))

    def word(self, *words: str) -> str:
        word = self.chance.choice(words)
        return word.lower() if self.chance.random() < 0.3 else word

    def maybe(self, *words: object) -> list[object]:
        return list(words) if self.chance.random() < 0.3 else []

    def key(self, family: str) -> str:
        return self.chance.choice(["plain", "absent"]) if self.chance.random() < 0.04 else f"{family}{self.chance.randrange(3)}"

    def spoiled(self, request: list[object]) -> Request:
        roll = self.chance.random()
        if roll < 0.02 and len(request) > 1:
            request.pop(self.chance.randrange(1, len(request)))
        elif roll < 0.03:
            request.insert(self.chance.randrange(1, len(request) + 1), self.chance.choice(["x", "NONSCALING", "1"]))
        return tuple(request)

    def bloom(self) -> Request:
        key = self.key("bf")
        return self.spoiled(
            self.chance.choice(
                [
                    lambda: ["BF.RESERVE", key, self.share(), self.number(1, 300), *self.maybe("EXPANSION", self.number(1, 4)), *self.maybe(self.word("NONSCALING"))],
                    lambda: ["BF.ADD", key, self.item()],
                    lambda: ["BF.MADD", key, *self.items()],
                    lambda: [
                        "BF.INSERT", key, *self.maybe("CAPACITY", self.number(1, 100)), *self.maybe("ERROR", self.share()),
                        *self.maybe("EXPANSION", self.number(1, 4)), *self.maybe(self.word("NOCREATE", "NONSCALING")), "ITEMS", *self.items(),
                    ],
                    lambda: ["BF.EXISTS", key, self.item()],
                    lambda: ["BF.MEXISTS", key, *self.items()],
                    lambda: ["BF.INFO", key, *self.maybe(self.word("CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "other"))],
                    lambda: ["BF.CARD", key],
                    lambda: ["BF.DEBUG", key],
                    lambda: ["BF.SCANDUMP", key, self.number(0, 200)],
                ]
            )()
        )

    def cuckoo(self) -> Request:
        key = self.key("cf")
        return self.spoiled(
            self.chance.choice(
                [
                    lambda: [
                        "CF.RESERVE", key, self.number(4, 300), *self.maybe("BUCKETSIZE", self.number(1, 5)), *self.maybe("MAXITERATIONS", self.number(1, 30)),
                        *self.maybe("EXPANSION", self.number(0, 4)),
                    ],
                    lambda: ["CF.ADD", key, self.item()],
                    lambda: ["CF.ADDNX", key, self.item()],
                    lambda: ["CF.INSERT", key, *self.maybe("CAPACITY", self.number(4, 100)), *self.maybe("NOCREATE"), "ITEMS", *self.items()],
                    lambda: ["CF.INSERTNX", key, *self.maybe("CAPACITY", self.number(4, 100)), *self.maybe("NOCREATE"), "ITEMS", *self.items()],
                    lambda: ["CF.EXISTS", key, self.item()],
                    lambda: ["CF.MEXISTS", key, *self.items()],
                    lambda: ["CF.COUNT", key, self.item()],
                    lambda: ["CF.DEL", key, self.item()],
                    lambda: ["CF.DEL", key, self.item()],
                    lambda: ["CF.COMPACT", key],
                    lambda: ["CF.INFO", key],
                    lambda: ["CF.DEBUG", key],
                    lambda: ["CF.SCANDUMP", key, self.number(0, 200)],
                ]
            )()
        )

    def count_min(self) -> Request:
        key = self.key("cms")
        sources = [self.key("cms") for _ in range(self.chance.randrange(1, 4))]
        return self.spoiled(
            self.chance.choice(
                [
                    lambda: ["CMS.INITBYDIM", key, *self.chance.choice([(40, 4), (40, 4), (self.number(1, 50), self.number(1, 6))])],
                    lambda: ["CMS.INITBYPROB", key, self.share(), self.share()],
                    lambda: ["CMS.INCRBY", key, *[word for item in self.items() for word in (item, self.number(0, 9))]],
                    lambda: ["CMS.INCRBY", key, self.item(), self.chance.choice([4294967295, 4294967296, 2**62, 3000000000])],
                    lambda: ["CMS.QUERY", key, *self.items()],
                    lambda: ["CMS.MERGE", key, len(sources), *sources, *self.maybe("WEIGHTS", *[self.number(-2, 5) for _ in sources])],
                    lambda: ["CMS.INFO", key],
                ]
            )()
        )

    def top_k(self) -> Request:
        key = self.key("topk")
        return self.spoiled(
            self.chance.choice(
                [
                    lambda: ["TOPK.RESERVE", key, self.number(1, 12), self.number(1, 30), self.number(1, 6), self.chance.choice(["1", "1e-300", "0", "x"])],
                    lambda: ["TOPK.ADD", key, *self.texts()],
                    lambda: ["TOPK.INCRBY", key, *[word for item in self.texts() for word in (item, self.chance.randint(0, 50))]],
                    lambda: ["TOPK.QUERY", key, *self.texts()],
                    lambda: ["TOPK.COUNT", key, *self.texts()],
                    lambda: ["TOPK.LIST", key, *self.maybe(self.word("WITHCOUNT", "WITH", "other"))],
                    lambda: ["TOPK.INFO", key],
                ]
            )()
        )

    def value(self) -> object:
        return self.chance.choice(ODD[:2] + ODD[4:5] + ["-3", "1e300"]) if self.chance.random() < 0.05 else round(self.chance.gauss(0, 100), self.chance.randint(0, 4))

    def digest_writes(self, key: str) -> list[Request]:
        count = self.chance.choice([2, 3, 10, 100, 700, 3000])
        writes: list[Request] = [("TDIGEST.CREATE", key, *self.maybe("COMPRESSION", self.number(1, 200)))]
        while count > 0:
            values = [self.value() for _ in range(min(count, 300))]
            writes.append(("TDIGEST.ADD", key, *values))
            count -= 300
        return [*writes, ("TDIGEST.INFO", key)]

    def digest_reads(self, key: str) -> list[Request]:
        ranks, shares = [self.number(0, 4000) for _ in range(4)], [self.share() for _ in range(4)]
        values = [self.value() for _ in range(5)]
        return [
            ("TDIGEST.MIN", key),
            ("TDIGEST.MAX", key),
            ("TDIGEST.QUANTILE", key, 0, 1, *shares),
            ("TDIGEST.QUANTILE", key, *sorted(round(self.chance.random(), 4) for _ in range(12))),
            ("TDIGEST.CDF", key, *values),
            ("TDIGEST.RANK", key, *values),
            ("TDIGEST.REVRANK", key, *values),
            ("TDIGEST.BYRANK", key, *ranks),
            ("TDIGEST.BYREVRANK", key, *ranks),
            ("TDIGEST.BYRANK", key, 0, 1, 2, 5),
            ("TDIGEST.TRIMMED_MEAN", key, self.share(), 0.7),
            ("TDIGEST.TRIMMED_MEAN", key, 0, 1),
        ]


def is_explained(request: Request, theirs: bytes, ours: bytes) -> bool:
    name = str(request[0])
    # The original answers nothing for a digest of a single number.
    return name.startswith("TDIGEST.") and b"nan" in theirs and b"nan" not in ours


class Comparison:
    def __init__(self, theirs: Side, ours: Side, show: int):
        self.theirs, self.ours, self.show = theirs, ours, show
        self.compared = self.differ = self.explained = 0

    def refused(self, key: str, is_theirs: bool, payload: bytes, error: Exception) -> None:
        self.differ += 1
        if self.differ <= self.show:
            print(f"the dump of {key} of {'the original' if is_theirs else 'Quartet'} is refused: {error}\n  {payload[:200].hex()}", flush=True)

    def ask(self, request: Request, protocols: tuple[int, ...] = (0,)) -> None:
        for which in protocols:
            theirs, ours = self.theirs.raw(which, request), self.ours.raw(which, request)
            self.compared += 1
            if theirs == ours:
                continue
            if is_explained(request, theirs, ours):
                self.explained += 1
                continue
            self.differ += 1
            if self.differ <= self.show:
                print(f"{request!r}\n  the original: {theirs[:400]!r}\n  Quartet:      {ours[:400]!r}", flush=True)


FAMILIES = {"bf": "bloom", "cf": "cuckoo", "cms": "count_min", "topk": "top_k"}


def reads(requests: Requests, family: str, key: str) -> list[Request]:
    """Everything that can be asked about a key, without changing it at either side."""
    items = [f"item-{number}" for number in range(0, 400, 3)]
    if family == "bf":
        return [("BF.INFO", key), ("BF.DEBUG", key), ("BF.CARD", key), ("BF.MEXISTS", key, *items), ("BF.SCANDUMP", key, 0), ("BF.SCANDUMP", key, 1)]
    if family == "cf":
        return [("CF.INFO", key), ("CF.DEBUG", key), ("CF.MEXISTS", key, *items), ("CF.COUNT", key, "item-3"), ("CF.SCANDUMP", key, 0), ("CF.SCANDUMP", key, 1)]
    if family == "cms":
        return [("CMS.INFO", key), ("CMS.QUERY", key, *items)]
    if family == "topk":
        return [("TOPK.INFO", key), ("TOPK.LIST", key, "WITHCOUNT"), ("TOPK.QUERY", key, *items), ("TOPK.COUNT", key, *items)]
    return requests.digest_reads(key)


def load_chunks(source: redis.Redis, target: redis.Redis, family: str, key: str) -> None:
    at, name = 0, family.upper()
    target.delete(key)
    while True:
        at, part = source.execute_command(f"{name}.SCANDUMP", key, at)
        if at == 0:
            return
        target.execute_command(f"{name}.LOADCHUNK", key, at, part)


def carry(comparison: Comparison, requests: Requests, family: str, key: str) -> None:
    """Each side's keys at the other side: by DUMP, and filters also by SCANDUMP."""
    there, here = comparison.theirs.client, comparison.ours.client
    if there.type(key) in (b"none", b"string"):
        return
    for source, target in ((there, here), (here, there)):
        payload = source.dump(key)
        try:
            target.restore(key, 0, payload, replace=True)
        except redis.ResponseError as error:
            comparison.refused(key, source is there, payload, error)
            continue
        for request in reads(requests, family, key):
            comparison.ask(request, (0, 1))
        has_items = family == "bf" or family == "cf" and source.execute_command("CF.SCANDUMP", key, 0)[0] != 0
        if has_items:
            load_chunks(source, target, family, key)
            for request in reads(requests, family, key):
                comparison.ask(request)


def round_of(comparison: Comparison, seed: int, requests_each: int) -> None:
    requests = Requests(random.Random(seed))
    comparison.ask(("FLUSHALL",))
    comparison.ask(("SET", "plain", "text"))
    for family, method in FAMILIES.items():
        for number in range(requests_each):
            comparison.ask(getattr(requests, method)(), (number % 2,))
        for number in range(3):
            for request in reads(requests, family, f"{family}{number}"):
                comparison.ask(request, (0, 1))
            carry(comparison, requests, family, f"{family}{number}")
    for number in range(3):
        for request in requests.digest_writes(f"td{number}"):
            comparison.ask(request)
    comparison.ask(("TDIGEST.MERGE", "merged", 2, "td0", "td1", *requests.maybe("COMPRESSION", requests.number(1, 50)), *requests.maybe("OVERRIDE")))
    for key in ("td0", "td1", "td2", "merged"):
        for request in requests.digest_reads(key):
            comparison.ask(request, (0, 1))
        carry(comparison, requests, "td", key)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    port = free_port()
    with Oracle(port), Server(durability="none") as server:
        comparison = Comparison(Side(port), Side(server.port), options.show)
        for number in range(options.rounds):
            round_of(comparison, options.seed * 1_000_003 + number, options.requests)
    print(f"{comparison.compared} replies compared, {comparison.explained} explained, {comparison.differ} differ")
    return 1 if comparison.differ else 0


if __name__ == "__main__":
    sys.exit(main())
