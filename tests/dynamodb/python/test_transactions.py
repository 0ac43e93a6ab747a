"""Transactions under contention, streams with several consumers, expiry."""

from __future__ import annotations

import random
import threading
import time

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect

ACCOUNTS, MONEY = 10, 100


def test_money_is_neither_made_nor_lost(make_table, server, dynamodb):
    table = make_table()
    for account in range(ACCOUNTS):
        table.put_item(Item={"p": str(account), "money": MONEY})
    sums, problems = [], []

    def transfer(seed: int) -> None:
        chance, client = random.Random(seed), connect(server)
        for _ in range(40):
            source, target = chance.sample(range(ACCOUNTS), 2)
            amount = {"N": str(chance.randrange(1, 60))}
            update = {"TableName": table.name, "ExpressionAttributeValues": {":a": amount}}
            actions = [
                {"Update": {**update, "Key": {"p": {"S": str(source)}}, "UpdateExpression": "SET money = money - :a", "ConditionExpression": "money >= :a"}},
                {"Update": {**update, "Key": {"p": {"S": str(target)}}, "UpdateExpression": "SET money = money + :a"}},
            ]
            try:
                client.transact_write_items(TransactItems=actions)
            except client.exceptions.TransactionCanceledException as cancelled:
                codes = [reason["Code"] for reason in cancelled.response["CancellationReasons"]]
                if codes != ["ConditionalCheckFailed", "None"]:
                    problems.append(codes)
            gets = [{"Get": {"TableName": table.name, "Key": {"p": {"S": str(account)}}}} for account in range(ACCOUNTS)]
            rows = client.transact_get_items(TransactItems=gets)["Responses"]
            sums.append(sum(int(row["Item"]["money"]["N"]) for row in rows))

    threads = [threading.Thread(target=transfer, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems and len(sums) == 240 and set(sums) == {ACCOUNTS * MONEY}


def test_a_token_makes_a_transaction_happen_once(make_table, dynamodb):
    table = make_table()
    add = {"TableName": table.name, "Key": {"p": {"S": "a"}}, "UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    for _ in range(3):
        dynamodb.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="same")
    assert table.get_item(Key={"p": "a"})["Item"]["n"] == 1
    with pytest.raises(dynamodb.exceptions.IdempotentParameterMismatchException):
        dynamodb.transact_write_items(TransactItems=[{"Delete": {"TableName": table.name, "Key": {"p": {"S": "a"}}}}], ClientRequestToken="same")


def test_a_projection_that_finds_nothing_is_left_out(make_table, dynamodb):
    """TransactGetItems answered `Item: {}` as GetItem does; the service leaves the member out (ExtendDB#74, moto#3420)."""
    table = make_table()
    table.put_item(Item={"p": "a", "x": 1})
    get = lambda key, names: {"Get": {"TableName": table.name, "Key": {"p": {"S": key}}, "ProjectionExpression": names}}
    found = dynamodb.transact_get_items(TransactItems=[get("a", "nope"), get("none", "x")])["Responses"]
    assert found == [{}, {}]
    assert dynamodb.transact_get_items(TransactItems=[get("a", "x")])["Responses"] == [{"Item": {"x": {"N": "1"}}}]
    assert dynamodb.get_item(TableName=table.name, Key={"p": {"S": "a"}}, ProjectionExpression="nope")["Item"] == {}


def test_a_transaction_costs_the_table_twice_and_an_index_once(make_table, dynamodb):
    """Index units were doubled too, and a replay was charged for what is there now (measured at the service: dynoxide#188)."""
    index = {"IndexName": "index", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}
    table = make_table(more=[("g", "S")], GlobalSecondaryIndexes=[index])
    key = {"TableName": table.name, "Key": {"p": {"S": "1"}}}

    def consumed(call, **members):
        (told,) = call(ReturnConsumedCapacity="INDEXES", **members)["ConsumedCapacity"]
        indexes = told.get("GlobalSecondaryIndexes", {})
        return told["CapacityUnits"], told["Table"]["CapacityUnits"], indexes.get("index", {}).get("CapacityUnits")

    write = lambda action, **members: consumed(dynamodb.transact_write_items, TransactItems=[action], **members)
    table.put_item(Item={"p": "1", "g": "a", "d": "x" * 3000})
    move = {"Update": {**key, "UpdateExpression": "SET g = :g", "ExpressionAttributeValues": {":g": {"S": "b"}}}}
    assert write(move) == (12, 6, 6)
    assert write({"Delete": key}, ClientRequestToken="delete") == (9, 6, 3)
    # Repeated, it costs what reading it would have, though nothing is there any more.
    assert write({"Delete": key}, ClientRequestToken="delete") == (2, 2, None)
    statement = {"Statement": f"INSERT INTO \"{table.name}\" VALUE {{'p': '2', 'g': 'z', 'd': '{'x' * 5000}'}}"}
    insert = lambda: consumed(dynamodb.execute_transaction, TransactStatements=[statement], ClientRequestToken="insert")
    assert insert() == (15, 10, 5)
    assert insert() == (4, 4, None)


def consume(streams, arn: str, limit: int) -> list[dict]:
    """Everything in all shards of a stream, page by page."""
    records = []
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
        while iterator:
            page = streams.get_records(ShardIterator=iterator, Limit=limit)
            records += page["Records"]
            iterator = page["Records"] and page.get("NextShardIterator")
    return records


def test_consumers_of_a_stream_rebuild_the_table(make_table, streams):
    table = make_table(StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
    chance = random.Random(7)
    for step in range(200):
        key = {"p": str(chance.randrange(20))}
        if chance.random() < 0.3:
            table.delete_item(Key=key)
        else:
            table.put_item(Item={**key, "step": step % 3})
    there = {item["p"]: item["step"] for item in table.scan()["Items"]}
    for limit in (3, 1000):
        copy, last = {}, {}
        for record in consume(streams, table.latest_stream_arn, limit):
            change = record["dynamodb"]
            key = change["Keys"]["p"]["S"]
            assert int(change["SequenceNumber"]) > last.get(key, 0)
            last[key] = int(change["SequenceNumber"])
            assert (change.get("OldImage") or {}).get("step", {}).get("N") == copy.get(key)
            if record["eventName"] == "REMOVE":
                del copy[key]
            else:
                copy[key] = change["NewImage"]["step"]["N"]
        assert {key: int(step) for key, step in copy.items()} == there


def test_items_expire_and_say_so(make_table, dynamodb, streams):
    table = make_table(StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
    table.put_item(Item={"p": "before", "at": int(time.time()) - 1})
    dynamodb.update_time_to_live(TableName=table.name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "at"})
    table.put_item(Item={"p": "after", "at": int(time.time()) + 1})
    table.put_item(Item={"p": "later", "at": int(time.time()) + 1000})
    table.put_item(Item={"p": "text", "at": "1"})
    deadline = time.monotonic() + 60
    while table.scan()["Count"] > 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {item["p"] for item in table.scan()["Items"]} == {"later", "text"}
    removed = [record for record in consume(streams, table.latest_stream_arn, 100) if record["eventName"] == "REMOVE"]
    assert {record["userIdentity"]["PrincipalId"] for record in removed} == {"dynamodb.amazonaws.com"}
    assert {record["dynamodb"]["Keys"]["p"]["S"] for record in removed} == {"before", "after"}


def test_everything_is_there_after_a_kill(fresh_server):
    client = connect(fresh_server)
    client.create_table(
        TableName="kept",
        KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    for number in range(20):
        client.put_item(TableName="kept", Item={"p": {"S": str(number)}})
    fresh_server.kill()
    fresh_server.start()
    assert connect(fresh_server).scan(TableName="kept")["Count"] == 20


def test_an_unknown_key_is_refused(tmp_path):
    from harness.server import Server

    server = Server(options=["--dynamodb-access-keys", "known:secret"]).start()
    try:
        assert connect(server, key=("known", "secret")).list_tables()["TableNames"] == []
        for key, error in [(("known", "wrong"), "InvalidSignatureException"), (("other", "secret"), "UnrecognizedClientException")]:
            with pytest.raises(ClientError, match=error):
                connect(server, key=key).list_tables()
    finally:
        server.close()


def test_a_token_does_not_mind_how_the_same_is_spelled(make_table, dynamodb):
    table = make_table()

    def put(number: str, members: list[str], numbers: list[str]) -> None:
        item = {"p": {"S": "a"}, "n": {"N": number}, "s": {"SS": members}, "l": {"L": [{"NS": numbers}]}}
        dynamodb.transact_write_items(TransactItems=[{"Put": {"TableName": table.name, "Item": item}}], ClientRequestToken="spelled")

    put("1", ["a", "b"], ["1", "20"])
    put("1.0", ["b", "a"], ["2e1", "01"])
    with pytest.raises(dynamodb.exceptions.IdempotentParameterMismatchException):
        put("1", ["a", "c"], ["1", "20"])


def test_a_transaction_reads_four_megabytes_at_most(make_table, dynamodb):
    table = make_table()
    for number in range(11):
        table.put_item(Item={"p": str(number), "x": "x" * 400_000})
    keys = [{"p": {"S": str(number)}} for number in range(11)]
    gets = [{"Get": {"TableName": table.name, "Key": key}} for key in keys]
    statements = [{"Statement": f'SELECT * FROM "{table.name}" WHERE p = ?', "Parameters": [key["p"]]} for key in keys]
    assert len(dynamodb.transact_get_items(TransactItems=gets[:10])["Responses"]) == 10
    assert len(dynamodb.execute_transaction(TransactStatements=statements[:10])["Responses"]) == 10
    for refuse in (lambda: dynamodb.transact_get_items(TransactItems=gets), lambda: dynamodb.execute_transaction(TransactStatements=statements)):
        with pytest.raises(ClientError, match="ValidationException.*cannot exceed 4 MB"):
            refuse()
