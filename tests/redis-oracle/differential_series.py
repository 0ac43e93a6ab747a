"""Sends the original and Quartet the same commands about time series, and compares the bytes of the replies, in RESP2 and RESP3.

`python differential_series.py [--seed N] [--rounds N] [--show N]`, with PYTHONPATH=tests. The original's module needs OpenSSL 1.1: put the
folder of its libraries into LD_LIBRARY_PATH. Each round fills series with random commands, asks for everything there is, and carries each
series to the other side by DUMP, where it must give the same answers. Ends with 1 if a reply differs that `is_explained` does not name.

The last bucket of a series with a rule is not removed: that ends the original's process. Increments are not sent at earlier times: the
original takes -1 as the end of time. Numbers that are no whole words (`1x`) are not sent: the original reads their start. Figures of memory are left out.
"""

from __future__ import annotations

import argparse
import random
import re
import sys

from differential_sketches import Side
from oracle import Oracle

from harness.server import Server, free_port

Request = tuple[object, ...]
AGGREGATORS = ["avg", "sum", "min", "max", "range", "count", "first", "last", "std.p", "std.s", "var.p", "var.s", "twa"]
KEYS = [f"s{number}" for number in range(6)]
MEMORY = re.compile(rb"(\+memoryUsage\r\n:)\d+")
NUMBER = re.compile(rb"[+,](-?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?)\r\n")


class Requests:
    """Random requests. Times advance, with some that are behind."""

    def __init__(self, chance: random.Random):
        self.chance = chance
        self.now = 1000

    def word(self, *words: str) -> str:
        word = self.chance.choice(words)
        return word.lower() if self.chance.random() < 0.2 else word

    def maybe(self, likely: float, *words: object) -> list[object]:
        return list(words) if self.chance.random() < likely else []

    def time(self) -> object:
        roll = self.chance.random()
        if roll < 0.02:
            return self.chance.choice(["x", "-1", "", "9223372036854775808"])
        if roll < 0.2:
            return max(0, self.now - self.chance.randrange(600))
        self.now += self.chance.choice([0, 1, 1, 1, 2, 7, 50])
        return self.now

    def value(self) -> object:
        roll = self.chance.random()
        if roll < 0.02:
            return self.chance.choice(["x", "inf", "-inf", "", "1e400"])
        if roll < 0.3:
            return self.chance.randrange(20)
        return round(self.chance.gauss(0, 1000), self.chance.randrange(6))

    def key(self) -> str:
        return self.chance.choice(["plain", "absent"]) if self.chance.random() < 0.02 else self.chance.choice(KEYS)

    def settings(self) -> list[object]:
        chance = self.chance
        return [
            *self.maybe(0.3, self.word("RETENTION"), chance.choice([0, 50, 300, 100000, "x", -1])),
            *self.maybe(0.4, self.word("CHUNK_SIZE"), chance.choice([48, 64, 128, 128, 4096, 50, "x", 1 << 30])),
            *self.maybe(0.4, self.word("DUPLICATE_POLICY"), self.word("BLOCK", "FIRST", "LAST", "MIN", "MAX", "SUM", "other")),
            *self.maybe(0.2, "IGNORE", chance.choice([0, 5, -1, "x"]), chance.choice([0, 2.5, 10])),
            *self.maybe(0.6, "LABELS", *[word for _ in range(chance.randrange(1, 4)) for word in (f"l{chance.randrange(3)}", f"v{chance.randrange(3)}")]),
        ]

    def filters(self) -> list[str]:
        chance = self.chance
        any_of = ["l{}=v{}", "l{}!=v{}", "l{}=(v{},v1)", "l{}!=(v{},x)", "l{}=", "l{}!=", "l{}"]
        return ["l{}=v{}".format(chance.randrange(3), chance.randrange(3))] * (chance.random() < 0.9) + [
            chance.choice(any_of).format(chance.randrange(3), chance.randrange(3)) for _ in range(chance.randrange(3))
        ]

    def bounds(self) -> list[object]:
        start = self.chance.choice(["-", 0, self.now - self.chance.randrange(1, 800)])
        end = self.chance.choice(["+", self.now, self.now - self.chance.randrange(1, 300)])
        return [start if start == "-" else max(0, start), end if end == "+" else max(0, end)]

    def options(self, is_reverse: bool) -> list[object]:
        chance = self.chance
        options = [
            *self.maybe(0.15, "LATEST"),
            *self.maybe(0.15, "FILTER_BY_VALUE", chance.randrange(-500, 5), chance.randrange(5, 800)),
            *self.maybe(0.1, "FILTER_BY_TS", *[self.now - chance.randrange(500) for _ in range(8)]),
            *self.maybe(0.3, "COUNT", chance.choice([1, 2, 5, 100, 0, "x"])),
        ]
        if chance.random() < 0.6:
            # The original fills gaps backwards in its own way for some aggregators.
            names = AGGREGATORS if not is_reverse else [name for name in AGGREGATORS if name not in ("last", "first", "twa")]
            options += self.maybe(0.4, "ALIGN", chance.choice(["start", "end", "-", "+", 0, 3, 500, "x"]))
            options += ["AGGREGATION", self.word(*names), chance.choice([1, 3, 10, 50, 1000, 10**6, 0, "x"])]
            options += self.maybe(0.3, "BUCKETTIMESTAMP", self.word("start", "mid", "end", "~", "x"))
            options += [] if is_reverse else self.maybe(0.3, "EMPTY")
        return options

    def write(self) -> Request:
        chance, key = self.chance, self.key()
        return tuple(
            chance.choices(
                [
                    lambda: ["TS.ADD", key, self.time(), self.value(), *self.maybe(0.2, "ON_DUPLICATE", self.word("LAST", "SUM", "FIRST", "MAX", "x"))],
                    lambda: ["TS.MADD", *[word for _ in range(chance.randrange(1, 6)) for word in (self.key(), self.time(), self.value())]],
                    lambda: [self.word("TS.INCRBY", "TS.DECRBY"), key, chance.randrange(50), "TIMESTAMP", self.now],
                    lambda: ["TS.CREATE", key, *self.maybe(0.2, self.word("UNCOMPRESSED", "COMPRESSED")), *self.settings()],
                    lambda: ["TS.ALTER", key, *self.settings()],
                    lambda: ["TS.DEL", key, *sorted(self.now - 200 - chance.randrange(600) for _ in range(2))],
                    lambda: ["TS.CREATERULE", key, self.key(), "AGGREGATION", self.word(*AGGREGATORS), chance.choice([5, 20, 100, 0]), *self.maybe(0.3, chance.randrange(30))],
                    lambda: ["TS.DELETERULE", key, self.key()],
                    lambda: ["DEL", key],
                    lambda: ["RENAME", key, self.key()],
                    lambda: ["EXPIRE", key, 1000],
                ],
                weights=[60, 25, 6, 6, 3, 3, 6, 1, 1, 1, 1],
            )[0]()
        )

    def read(self) -> Request:
        chance, key = self.chance, self.key()
        is_reverse = chance.random() < 0.4
        word = "REV" if is_reverse else ""
        return tuple(
            chance.choice(
                [
                    lambda: [f"TS.{word}RANGE", key, *self.bounds(), *self.options(is_reverse)],
                    lambda: [f"TS.{word}RANGE", key, *self.bounds(), *self.options(is_reverse)],
                    lambda: ["TS.GET", key, *self.maybe(0.2, "LATEST")],
                    lambda: ["TS.MGET", *self.maybe(0.3, "WITHLABELS"), *self.maybe(0.2, "SELECTED_LABELS", "l1", "x"), "FILTER", *self.filters()],
                    lambda: [
                        f"TS.M{word}RANGE", *self.bounds(), *self.options(is_reverse), *self.maybe(0.3, "WITHLABELS"), "FILTER", *self.filters(),
                        *self.maybe(0.3, "GROUPBY", f"l{chance.randrange(3)}", "REDUCE", self.word(*AGGREGATORS)),
                    ],
                    lambda: ["TS.QUERYINDEX", *self.filters()],
                    lambda: ["TS.INFO", key, *self.maybe(0.3, "DEBUG")],
                ]
            )()
        )


def masked(reply: bytes) -> bytes:
    """Without memory, and with numbers to twelve digits: sums are added in another order."""
    rounded = NUMBER.sub(lambda found: b"#%.11e\r\n" % float(found[1]), reply)
    return MEMORY.sub(rb"\1", rounded)


def is_explained(request: Request, theirs: bytes, ours: bytes) -> bool:
    words = [str(word).upper() for word in request]
    # An increment to an infinite value is refused here.
    return words[0] in ("TS.INCRBY", "TS.DECRBY") and b"invalid increase" in ours


class Comparison:
    def __init__(self, theirs: Side, ours: Side, show: int):
        self.theirs, self.ours, self.show = theirs, ours, show
        self.compared = self.differ = self.explained = 0

    def ask(self, request: Request, protocols: tuple[int, ...] = (0,)) -> None:
        for which in protocols:
            theirs, ours = self.theirs.raw(which, request), self.ours.raw(which, request)
            self.compared += 1
            if b"older than retention" in theirs:
                # The original answers some increments twice: by the error, and by the timestamp.
                echo = self.theirs.raw(which, ("ECHO", "end"))
                if b"end" not in echo:
                    self.theirs.reply(self.theirs.files[which])
                    theirs = echo
            if masked(theirs) == masked(ours):
                continue
            if is_explained(request, theirs, ours) or self.is_by_an_old_label(request, theirs, ours):
                self.explained += 1
                continue
            self.differ += 1
            if self.differ <= self.show:
                print(f"{' '.join(map(str, request))}\n  the original: {theirs[:500]!r}\n  Quartet:      {ours[:500]!r}", flush=True)

    def is_by_an_old_label(self, request: Request, theirs: bytes, ours: bytes) -> bool:
        """The original still finds a series by labels that TS.ALTER has replaced."""
        words = [str(word) for word in request]
        if words[0].upper() not in ("TS.QUERYINDEX", "TS.MGET", "TS.MRANGE", "TS.MREVRANGE"):
            return False
        conditions = words[words.index("FILTER") + 1 :] if "FILTER" in words else words[1:]
        if "GROUPBY" in conditions:
            conditions = conditions[: conditions.index("GROUPBY")]
        wanted = [condition.split("=") for condition in conditions if "=" in condition and "!" not in condition and not condition.endswith("=")]
        more = [key for key in KEYS if key.encode() in theirs and key.encode() not in ours]

        def has(key: str, label: str, values: str) -> bool:
            labels = self.theirs.client.execute_command("TS.INFO", key)
            labels = labels[labels.index(b"labels") + 1]
            return any(own == label.encode() and value.decode() in values.strip("()").split(",") for own, value in labels)

        return bool(more) and all(not all(has(key, *condition) for condition in wanted) for key in more)


def carry(comparison: Comparison, requests: Requests, key: str) -> None:
    """Each side's series at the other side, by DUMP."""
    there, here = comparison.theirs.client, comparison.ours.client
    if there.type(key) != b"TSDB-TYPE" or here.type(key) != b"TSDB-TYPE":
        return
    for source, target in ((there, here), (here, there)):
        payload = source.dump(key)
        for side in (source, target):
            side.restore("carried", 0, payload, replace=True)
        comparison.ask(("TS.INFO", "carried", "DEBUG"), (0, 1))
        comparison.ask(("TS.RANGE", "carried", "-", "+"), (0, 1))
        comparison.ask(("TS.ADD", "carried", requests.now + 1000, 5))
        comparison.ask(("TS.ADD", "carried", requests.now - 100, 5, "ON_DUPLICATE", "LAST"))
        comparison.ask(("TS.RANGE", "carried", "-", "+"))


def round_of(comparison: Comparison, seed: int, requests_each: int) -> None:
    requests = Requests(random.Random(seed))
    comparison.ask(("FLUSHALL",))
    comparison.ask(("SET", "plain", "text"))
    for key in KEYS[:3]:
        comparison.ask(("TS.CREATE", key, "CHUNK_SIZE", 64, "DUPLICATE_POLICY", "LAST", "LABELS", "l0", "v0", "l1", f"v{key[1:]}"))
    for _ in range(requests_each):
        for _ in range(requests.chance.randrange(1, 12)):
            comparison.ask(requests.write())
        comparison.ask(requests.read(), (0, 1))
    for key in KEYS:
        comparison.ask(("TS.INFO", key, "DEBUG"), (0, 1))
        comparison.ask(("TS.RANGE", key, "-", "+"), (0, 1))
        carry(comparison, requests, key)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    port = free_port()
    with Oracle(port, modules=("redistimeseries.so",)), Server(durability="none") as server:
        comparison = Comparison(Side(port), Side(server.port), options.show)
        for number in range(options.rounds):
            round_of(comparison, options.seed * 1_000_003 + number, options.requests)
    print(f"{comparison.compared} replies compared, {comparison.explained} explained, {comparison.differ} differ")
    return 1 if comparison.differ else 0


if __name__ == "__main__":
    sys.exit(main())
