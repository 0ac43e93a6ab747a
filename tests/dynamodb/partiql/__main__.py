"""Random PartiQL statements at Quartet and at DynamoDB Local: the reply and the tables after each write must be alike.

    python -m dynamodb.partiql [--seed N] [--count N] [--texts] [--record]

Numbers are compared by value, sets and results without ORDER BY without order. Where the two differ, a rule of `rules.py` must say
why Quartet is right, and where both refuse in other words, why; `--texts` shows these. Ends with status 1 if a difference has no
explanation.
"""

from __future__ import annotations

import argparse
import datetime
import random
import re
import sys
from collections import Counter
from decimal import Decimal

from botocore.exceptions import ClientError

from harness.counts import record
from harness.dynamodb import connect
from harness.server import Server

from . import local
from .rules import Case, Outcome, explanation, text_explanation
from .statements import TABLES, Maker, Statement, items

# Statements between two fresh fillings of the tables.
ROUND = 25


def canonical(value: dict):
    """An attribute value that is equal for equal values."""
    ((kind, content),) = value.items()
    if kind == "N":
        return kind, Decimal(content).normalize()
    if kind == "NS":
        return kind, frozenset(Decimal(number).normalize() for number in content)
    if kind in ("SS", "BS"):
        return kind, frozenset(content)
    if kind == "L":
        return kind, tuple(canonical(element) for element in content)
    return kind, canonical_item(content) if kind == "M" else content


def canonical_item(item: dict) -> tuple:
    return tuple(sorted((name, canonical(value)) for name, value in item.items()))


def canonical_items(found: list[dict], is_ordered: bool) -> tuple:
    made = [canonical_item(item) for item in found]
    return tuple(made if is_ordered else sorted(made, key=repr))


class Side:
    """One of the two servers, with its tables."""

    def __init__(self, client):
        self.client = client
        for name, has_range in TABLES.items():
            keys, indexes = {"pk": "S"} | ({"sk": "N", "g": "S"} if has_range else {}), {}
            if has_range:
                schema = [{"AttributeName": "g", "KeyType": "HASH"}]
                indexes = {"GlobalSecondaryIndexes": [{"IndexName": "by_g", "KeySchema": schema, "Projection": {"ProjectionType": "ALL"}}]}
            client.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}] + ([{"AttributeName": "sk", "KeyType": "RANGE"}] if has_range else []),
                AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": kind} for attribute, kind in keys.items()],
                BillingMode="PAY_PER_REQUEST",
                **indexes,
            )

    def fill(self, filling: dict[str, list[dict]]) -> None:
        for name, wanted in filling.items():
            keys = ("pk", "sk") if TABLES[name] else ("pk",)
            for item in self.client.scan(TableName=name)["Items"]:
                self.client.delete_item(TableName=name, Key={key: item[key] for key in keys})
            for item in wanted:
                self.client.put_item(TableName=name, Item=item)

    def tables(self) -> tuple:
        return tuple(canonical_items(self.client.scan(TableName=name)["Items"], False) for name in TABLES)

    def run(self, statement: Statement, looks: bool = True) -> Outcome:
        more = {"Parameters": statement.parameters} if statement.parameters else {}
        try:
            found = self.client.execute_statement(Statement=statement.text, **more).get("Items", [])
            outcome = Outcome("ok", items=canonical_items(found, statement.is_ordered))
        except ClientError as error:
            # The service's model, which SDKs go by, has DuplicateItemException; Local leaves out the end of its name.
            name = error.response["Error"]["Code"].replace("DuplicateItemException", "DuplicateItem")
            outcome = Outcome(name, error.response["Error"].get("Message", ""))
        reads = statement.text.lstrip().upper().startswith("SELECT")
        return outcome if reads or not looks else Outcome(outcome.kind, outcome.text, outcome.items, self.tables())


def is_alike(one: Outcome, other: Outcome) -> bool:
    return (one.kind, one.items, one.tables) == (other.kind, other.items, other.tables)


def plain_text(text: str) -> str:
    """A text without places in the statement, and a malformed statement's without what is wrong with it."""
    text = re.sub(r" at \d+:\d+:\d+| under root\S*", "", text)
    return re.sub(r"(Statement wasn't well formed, can't be processed: ).*", r"\1", text, flags=re.S)


def main() -> int:
    parser = argparse.ArgumentParser(prog="dynamodb.partiql", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--texts", action="store_true")
    parser.add_argument("--record", action="store_true", help="write the counts to docs/counts.txt")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.count} statements", flush=True)
    maker, server = Maker(options.seed), Server()
    explained, texts, kinds, unexplained = Counter(), Counter(), Counter(), 0
    try:
        server.start()
        with local.started() as client:
            theirs, ours = Side(client), Side(connect(server, validates=False))
            filling: dict[str, list[dict]] = {}
            differs = False
            for number in range(options.count):
                if number % ROUND == 0:
                    filling = {name: items(maker.random, has_range) for name, has_range in TABLES.items()}
                if number % ROUND == 0 or differs:
                    theirs.fill(filling)
                    ours.fill(filling)
                statement = maker.statement()
                outcomes = theirs.run(statement), ours.run(statement)
                kinds[outcomes[1].kind] += 1
                differs = not is_alike(*outcomes)
                if differs:
                    again = lambda text: theirs.run(Statement(text, statement.parameters), looks=False)
                    rule = explanation(Case(statement, *outcomes, again))
                    if rule:
                        explained[rule] += 1
                    else:
                        unexplained += 1
                        print(f"statement {number}: {statement.text!r} {statement.parameters}")
                        for name, outcome in zip(("local", "quartet"), outcomes):
                            print(f"  {name}: {outcome.kind} {outcome.text} {str(outcome.items)[:4000]}")
                        if outcomes[0].tables != outcomes[1].tables:
                            print("  the tables differ afterwards")
                elif outcomes[0].text and plain_text(outcomes[0].text) != plain_text(outcomes[1].text):
                    rule = text_explanation(outcomes[0].text, outcomes[1].text)
                    if rule:
                        texts[rule] += 1
                    else:
                        unexplained += 1
                    if options.texts or not rule:
                        print(f"text of statement {number}, {rule}: {statement.text!r} {statement.parameters}")
                        print(f"  local: {outcomes[0].text}\n  quartet: {outcomes[1].text}")
    finally:
        server.close()
    print("outcomes: " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    for rule, count in explained.most_common():
        print(f"explained: {count} {rule}")
    for rule, count in texts.most_common():
        print(f"other words: {count} {rule}")
    print(f"{options.count} statements, {explained.total()} differences and {texts.total()} other words explained, {unexplained} unexplained")
    if options.record and not unexplained:
        day = datetime.date.today().isoformat()
        counts = {"day": day, "seed": options.seed, "statements": options.count, "differ": explained.total(), "words": texts.total()}
        record({f"partiql.{name}": count for name, count in counts.items()})
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
