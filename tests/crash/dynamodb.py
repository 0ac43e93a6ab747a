"""`python -m crash.dynamodb [--cycles N] [--seconds S] [--seed X]`: transactions, SIGKILL, recover, compare; again.

Each writer moves money between accounts and notes every transfer by a number, all in one TransactWriteItems. After a
recovery every acknowledged transfer must be there (else lost), none that was never sent (phantom), the accounts must
hold what they held in all (torn), the global index must hold exactly the items (index), and the stream must rebuild
the table (stream). A transfer in flight may count once or not at all.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from harness.dynamodb import connect
from harness.server import Server

ACCOUNTS, MONEY, WRITERS = 8, 1000, 4
TABLE, INDEX = "accounts", "by-kind"


@dataclass
class Ledger:
    acknowledged: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)


class Writer(threading.Thread):
    def __init__(self, server: Server, name: str, ledger: Ledger, seed: int):
        super().__init__(daemon=True)
        self.client, self.prefix, self.ledger, self.chance = connect(server), name, ledger, random.Random(seed)
        self.unexpected: str | None = None

    def run(self) -> None:
        number = 0
        while True:
            number += 1
            transfer = f"{self.prefix}:{number}"
            self.ledger.sent.add(transfer)
            try:
                self.client.transact_write_items(TransactItems=self.actions(transfer))
            except ClientError as refused:
                self.unexpected = str(refused)
                return
            except BotoCoreError:
                return
            self.ledger.acknowledged.add(transfer)

    def actions(self, transfer: str) -> list[dict]:
        source, target = self.chance.sample(range(ACCOUNTS), 2)
        amount = self.chance.randrange(1, 50)

        def move(account: int, change: int) -> dict:
            return {
                "Update": {
                    "TableName": TABLE,
                    "Key": {"p": {"S": f"account-{account}"}},
                    "UpdateExpression": "ADD money :m",
                    "ExpressionAttributeValues": {":m": {"N": str(change)}},
                }
            }

        note = {"Put": {"TableName": TABLE, "Item": {"p": {"S": transfer}, "kind": {"S": "transfer"}}}}
        return [move(source, -amount), move(target, amount), note]


def set_up(server: Server) -> None:
    client = connect(server)
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("p", "kind")],
        GlobalSecondaryIndexes=[{"IndexName": INDEX, "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    for account in range(ACCOUNTS):
        client.put_item(TableName=TABLE, Item={"p": {"S": f"account-{account}"}, "kind": {"S": "account"}, "money": {"N": str(MONEY)}})


def pages(call, **options):
    while True:
        page = call(**options)
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        options["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def streamed(server: Server, arn: str) -> dict[str, dict]:
    """The table as its stream tells it."""
    streams, copy = connect(server, "dynamodbstreams"), {}
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
        while True:
            page = streams.get_records(ShardIterator=iterator)
            for record in page["Records"]:
                copy[record["dynamodb"]["Keys"]["p"]["S"]] = record["dynamodb"]["NewImage"]
            if not page["Records"]:
                break
            iterator = page["NextShardIterator"]
    return copy


def faults(server: Server, ledger: Ledger) -> list[str]:
    client = connect(server)
    items = {item["p"]["S"]: item for item in pages(client.scan, TableName=TABLE)}
    transfers = {name for name, item in items.items() if item["kind"]["S"] == "transfer"}
    found = [f"lost {name}" for name in ledger.acknowledged - transfers]
    found += [f"phantom {name}" for name in transfers - ledger.sent]
    total = sum(int(item["money"]["N"]) for item in items.values() if "money" in item)
    if total != ACCOUNTS * MONEY:
        found.append(f"torn: the accounts hold {total}")
    indexed = {}
    for kind in ("account", "transfer"):
        query = pages(client.query, TableName=TABLE, IndexName=INDEX, KeyConditionExpression="kind = :k", ExpressionAttributeValues={":k": {"S": kind}})
        indexed.update((item["p"]["S"], item) for item in query)
    if indexed != items:
        found.append(f"index: {len(indexed)} entries for {len(items)} items")
    if streamed(server, client.describe_table(TableName=TABLE)["Table"]["LatestStreamArn"]) != items:
        found.append("stream: it tells another table")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="longest time between two kills")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    chance, ledger = random.Random(options.seed), Ledger()
    server = Server(durability="always").start()
    try:
        set_up(server)
        for cycle in range(options.cycles):
            writers = [Writer(server, f"{cycle}:{index}", ledger, chance.randrange(1 << 32)) for index in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.1, options.seconds))
            server.kill()
            for writer in writers:
                writer.join(30)
            server.start()
            wrong = [writer.unexpected for writer in writers if writer.unexpected] + faults(server, ledger)
            if wrong:
                print(f"seed {options.seed}, cycle {cycle}: " + "; ".join(wrong[:10]), file=sys.stderr)
                return 1
        print(f"{options.cycles} kills, {len(ledger.acknowledged)} transfers acknowledged, none lost or torn; seed {options.seed}")
        return 0
    finally:
        server.close()


sys.exit(main())
