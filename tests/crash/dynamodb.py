"""`python -m crash.dynamodb [--cycles N] [--seconds S] [--seed X] [--power]`: transactions, SIGKILL, recover, compare; again.

Each writer moves money between accounts and keeps notes of its transfers, all in one TransactWriteItems: it writes the note of
this transfer, marks an older one as done, and deletes one older still. After a recovery a writer's notes must be those
after its last acknowledged transfer, or after the one that was in flight (else lost, phantom or torn); the accounts
must hold what they held in all (torn); global and local index must hold exactly the items (index); and the stream
must tell each change once, from the image before it to the one after it, and end with the table (stream).

`--power` cuts the power of a disk that drops what was not synced, as in `python -m crash --power`, which also shows that a server
that never syncs is caught by such cuts. Where no file system may be mounted, it is skipped.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from harness import small_disk
from harness.dynamodb import connect
from harness.server import Server
from harness.small_disk import PowerDisk

ACCOUNTS, MONEY, WRITERS = 8, 1000, 4
# A note is open for so many transfers, and there for so many.
OPEN, KEPT = 3, 6
SEGMENT_BYTES, DISK_MEGABYTES = 8 << 10, 192
PATIENCE_SECONDS = 120
TABLE, GLOBAL, LOCAL = "accounts", "by-kind", "by-kind-in-partition"


@dataclass
class Writer:
    """What one writer was promised: how many transfers were acknowledged, and how many it sent."""

    name: str
    acknowledged: int = 0
    sent: int = 0

    def notes_after(self, transfers: int) -> dict[int, str]:
        """The numbers and kinds of the notes that are there after so many transfers."""
        numbers = range(max(1, transfers - KEPT + 1), transfers + 1)
        return {number: "done" if number <= transfers - OPEN else "open" for number in numbers}

    def actions(self, number: int, chance: random.Random) -> list[dict]:
        source, target = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randrange(1, 50)

        def on(action: str, key: dict, **more) -> dict:
            return {action: {"TableName": TABLE, "Key": key, **more}}

        def move(account: int, change: int) -> dict:
            values = {":m": {"N": str(change)}}
            return on("Update", item_key(f"account-{account}", 0), UpdateExpression="ADD money :m", ExpressionAttributeValues=values)

        note = {**item_key(self.name, number), "kind": {"S": "open"}}
        actions = [move(source, -amount), move(target, amount), {"Put": {"TableName": TABLE, "Item": note}}]
        if number > OPEN:
            done = {"UpdateExpression": "SET kind = :k", "ConditionExpression": "attribute_exists(p)", "ExpressionAttributeValues": {":k": {"S": "done"}}}
            actions.append(on("Update", item_key(self.name, number - OPEN), **done))
        if number > KEPT:
            actions.append(on("Delete", item_key(self.name, number - KEPT), ConditionExpression="attribute_exists(p)"))
        return actions


class Running(threading.Thread):
    """A writer at work, until the server is gone."""

    def __init__(self, server: Server, writer: Writer, seed: int):
        super().__init__(daemon=True)
        self.client, self.writer, self.chance = connect(server), writer, random.Random(seed)
        self.unexpected: str | None = None

    def run(self) -> None:
        while True:
            self.writer.sent = self.writer.acknowledged + 1
            try:
                self.client.transact_write_items(TransactItems=self.writer.actions(self.writer.sent, self.chance))
            except ClientError as refused:
                self.unexpected = str(refused)
                return
            except BotoCoreError:
                return
            self.writer.acknowledged = self.writer.sent


def item_key(partition: str, number: int) -> dict:
    return {"p": {"S": partition}, "s": {"N": str(number)}}


def place(key: dict) -> tuple[str, int]:
    return key["p"]["S"], int(key["s"]["N"])


def schema(**kinds: str) -> list[dict]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in kinds.items()]


def set_up(server: Server) -> None:
    client = connect(server)
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=schema(p="HASH", s="RANGE"),
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in (("p", "S"), ("s", "N"), ("kind", "S"))],
        GlobalSecondaryIndexes=[{"IndexName": GLOBAL, "KeySchema": schema(kind="HASH"), "Projection": {"ProjectionType": "ALL"}}],
        LocalSecondaryIndexes=[{"IndexName": LOCAL, "KeySchema": schema(p="HASH", kind="RANGE"), "Projection": {"ProjectionType": "KEYS_ONLY"}}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    for account in range(ACCOUNTS):
        item = {**item_key(f"account-{account}", 0), "kind": {"S": "account"}, "money": {"N": str(MONEY)}}
        client.put_item(TableName=TABLE, Item=item)


def pages(call, **options):
    while True:
        page = call(**options)
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        options["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def shard_records(streams, arn: str, shard: str):
    iterator = streams.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    while True:
        page = streams.get_records(ShardIterator=iterator)
        yield from (record["dynamodb"] for record in page["Records"])
        if not page["Records"]:
            return
        iterator = page["NextShardIterator"]


def streamed(server: Server, arn: str) -> dict | str:
    """The table as its stream tells it, or what the stream got wrong."""
    streams, copy = connect(server, "dynamodbstreams"), {}
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        for change in shard_records(streams, arn, shard["ShardId"]):
            at = place(change["Keys"])
            if copy.pop(at, None) != change.get("OldImage"):
                return f"{at} was not what it was before a change"
            if "NewImage" in change:
                copy[at] = change["NewImage"]
    return copy


def index_faults(client, items: dict) -> list[str]:
    found = []
    for name, kept in ((GLOBAL, items), (LOCAL, {at: {part: item[part] for part in ("p", "s", "kind")} for at, item in items.items()})):
        entries = list(pages(client.scan, TableName=TABLE, IndexName=name))
        if len(entries) != len(items) or {place(entry): entry for entry in entries} != kept:
            found.append(f"index {name}: {len(entries)} entries for {len(items)} items")
    return found


def faults(server: Server, writers: list[Writer]) -> list[str]:
    client, found = connect(server), []
    items = {place(item): item for item in pages(client.scan, TableName=TABLE)}
    for writer in writers:
        notes = {number: item["kind"]["S"] for (name, number), item in items.items() if name == writer.name}
        done = max(notes, default=0)
        if done not in (writer.acknowledged, writer.sent) or notes != writer.notes_after(done):
            found.append(f"writer {writer.name}: {writer.acknowledged} acknowledged, {writer.sent} sent, notes {notes}")
        writer.acknowledged = done
    total = sum(int(item["money"]["N"]) for item in items.values() if "money" in item)
    if total != ACCOUNTS * MONEY or len(items) != ACCOUNTS + sum(len(writer.notes_after(writer.acknowledged)) for writer in writers):
        found.append(f"torn: {len(items)} items, the accounts hold {total}")
    found += index_faults(client, items)
    told = streamed(server, client.describe_table(TableName=TABLE)["Table"]["LatestStreamArn"])
    if told != items:
        found.append(f"stream: {told if isinstance(told, str) else 'it tells another table'}")
    return found


def wait_until_acknowledged(running: list[Running], transfers: int) -> None:
    """A machine may be so slow that no client has begun when its server would be ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(thread.writer.acknowledged for thread in running) < transfers and time.monotonic() < deadline:
        if not any(thread.is_alive() for thread in running):
            return
        time.sleep(0.005)


def run_cycles(server: Server, end, options) -> list[str]:
    """`end` is how the server comes to its end. What was wrong, if anything was."""
    chance, writers = random.Random(options.seed), [Writer(f"writer-{number}") for number in range(WRITERS)]
    set_up(server)
    for cycle in range(options.cycles):
        running = [Running(server, writer, chance.randrange(1 << 32)) for writer in writers]
        for thread in running:
            thread.start()
        wait_until_acknowledged(running, sum(writer.acknowledged for writer in writers) + 1)
        time.sleep(chance.uniform(0.1, options.seconds))
        end()
        for thread in running:
            thread.join(PATIENCE_SECONDS)
        server.start()
        wrong = [thread.unexpected for thread in running if thread.unexpected] + faults(server, writers)
        if wrong:
            return [f"seed {options.seed}, cycle {cycle}", *wrong]
    transfers = sum(writer.acknowledged for writer in writers)
    ends = "power cuts" if options.power else "kills"
    print(f"{options.cycles} {ends}, {transfers} transfers, none lost or torn; seed {options.seed}")
    return [] if transfers else ["no transfer was acknowledged"]


def with_kills(options) -> list[str]:
    server = Server(durability="always").start()
    try:
        return run_cycles(server, server.kill, options)
    finally:
        server.close()


def with_power_cuts(options) -> list[str]:
    with PowerDisk(DISK_MEGABYTES) as disk:
        arguments = ["--log-segment-bytes", str(SEGMENT_BYTES)]
        server = Server(durability="always", data=str(disk.path / "data"), options=arguments).start()
        try:
            return run_cycles(server, lambda: disk.cut(server.process), options)
        finally:
            server.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="longest time between two ends of the server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--power", action="store_true", help="cut the power of the disk instead of killing the server")
    options = parser.parse_args()
    if options.power and (reason := small_disk.why_not()):
        print(f"POWER CUTS ARE SKIPPED: {reason}", flush=True)
        return 0
    wrong = with_power_cuts(options) if options.power else with_kills(options)
    if wrong:
        print("; ".join(wrong[:10]), file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
