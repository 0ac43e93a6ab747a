"""Backups of tables and recovery to a point in time, each state judged against a dictionary that was kept beside."""

from __future__ import annotations

import random
import time
from datetime import datetime, timezone

import boto3
import pytest
from botocore.exceptions import ClientError
from harness.dynamodb import connect
from harness.server import Server

KEYS = {"KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}


def index(name):
    return {"IndexName": f"by-{name}", "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}


def state_of(client, table, **options):
    pages = client.get_paginator("scan").paginate(TableName=table, ConsistentRead="IndexName" not in options, **options)
    return {item["p"]["S"]: item["n"]["N"] for page in pages for item in page["Items"]}


def change(client, table, state, seed, count=40):
    """Puts, updates, deletes, batches and transactions, made to the table and to the state."""
    choice = random.Random(seed)
    for _ in range(count):
        keys = [str(number) for number in choice.sample(range(60), 3)]
        value = str(choice.randrange(10**6))
        match choice.randrange(5):
            case 0:
                client.put_item(TableName=table, Item={"p": {"S": keys[0]}, "n": {"N": value}})
                state[keys[0]] = value
            case 1:
                client.update_item(TableName=table, Key={"p": {"S": keys[0]}}, UpdateExpression="SET n = :n", ExpressionAttributeValues={":n": {"N": value}})
                state[keys[0]] = value
            case 2:
                client.delete_item(TableName=table, Key={"p": {"S": keys[0]}})
                state.pop(keys[0], None)
            case 3:
                requests = [{"PutRequest": {"Item": {"p": {"S": key}, "n": {"N": value}}}} for key in keys[1:]]
                client.batch_write_item(RequestItems={table: [*requests, {"DeleteRequest": {"Key": {"p": {"S": keys[0]}}}}]})
                state.update(dict.fromkeys(keys[1:], value))
                state.pop(keys[0], None)
            case 4:
                put = lambda key: {"Put": {"TableName": table, "Item": {"p": {"S": key}, "n": {"N": value}}}}  # noqa: E731
                client.transact_write_items(TransactItems=[put(key) for key in keys])
                state.update(dict.fromkeys(keys, value))


def recover(client, table, enabled=True, **options):
    specification = {"PointInTimeRecoveryEnabled": enabled, **options}
    client.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification=specification)


def wait_until_there(client, table):
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})


def refused(call, **members):
    with pytest.raises(ClientError) as error:
        call(**members)
    return error.value.response["Error"]["Code"]


def next_second():
    """The next whole second, once it is there."""
    second = int(time.time()) + 1
    while time.time() < second:
        time.sleep(0.01)
    return datetime.fromtimestamp(second, timezone.utc)


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_states_of_several_seconds_are_restored_also_after_a_restart(engine):
    server = Server("always", options=["--engine", engine]).start()
    try:
        client = connect(server)
        client.create_table(TableName="shop", BillingMode="PAY_PER_REQUEST", **KEYS)
        recover(client, "shop")
        state, moments, backups = {}, [], []
        for number in range(4):
            change(client, "shop", state, number)
            moments.append((next_second(), dict(state)))
            backup = client.create_backup(TableName="shop", BackupName=f"backup-{number}")["BackupDetails"]
            backups.append((backup["BackupArn"], dict(state)))
        change(client, "shop", state, 9)
        server.restart()
        client = connect(server)
        for number, (moment, expected) in enumerate(moments):
            answer = client.restore_table_to_point_in_time(SourceTableName="shop", TargetTableName=f"moment-{number}", RestoreDateTime=moment)
            summary = answer["TableDescription"]["RestoreSummary"]
            assert summary["RestoreInProgress"] and summary["RestoreDateTime"] == moment
        for number, (arn, expected) in enumerate(backups):
            client.restore_table_from_backup(BackupArn=arn, TargetTableName=f"backup-{number}")
        client.restore_table_to_point_in_time(SourceTableName="shop", TargetTableName="latest", UseLatestRestorableTime=True)
        change(client, "shop", dict(state), 10)
        client.delete_table(TableName="shop")
        for name, states in [("moment", moments), ("backup", backups)]:
            for number, (_, expected) in enumerate(states):
                wait_until_there(client, f"{name}-{number}")
                assert state_of(client, f"{name}-{number}") == expected
        wait_until_there(client, "latest")
        assert state_of(client, "latest") == state
    finally:
        server.close()


def test_nothing_half_restored_is_seen_when_the_server_is_killed():
    server = Server("always").start()
    try:
        client = connect(server)
        definitions = [*KEYS["AttributeDefinitions"], {"AttributeName": "n", "AttributeType": "N"}]
        client.create_table(
            TableName="large",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=KEYS["KeySchema"],
            AttributeDefinitions=definitions,
            GlobalSecondaryIndexes=[index("n")],
        )
        with boto3.resource("dynamodb", **place(server)).Table("large").batch_writer() as batch:
            for number in range(2000):
                batch.put_item(Item={"p": str(number), "n": number % 10, "text": "x" * 200})
        expected = {str(number): str(number % 10) for number in range(2000)}
        arn = client.create_backup(TableName="large", BackupName="whole")["BackupDetails"]["BackupArn"]
        for number in range(0, 2000, 7):
            client.delete_item(TableName="large", Key={"p": {"S": str(number)}})
        for number in range(3):
            name = f"restored-{number}"
            client.restore_table_from_backup(BackupArn=arn, TargetTableName=name)
            time.sleep(0.03 * number)
            server.kill()
            server.start()
            client = connect(server)
            try:
                assert state_of(client, name) == expected, "all of it is there, or nothing is shown"
            except ClientError as error:
                assert error.response["Error"]["Code"] == "ResourceNotFoundException"
            wait_until_there(client, name)
            assert state_of(client, name) == expected == state_of(client, name, IndexName="by-n")
        assert client.describe_backup(BackupArn=arn)["BackupDescription"]["BackupDetails"]["BackupStatus"] == "AVAILABLE"
    finally:
        server.close()


def place(server):
    return {
        "endpoint_url": f"http://127.0.0.1:{server.dynamodb_port}",
        "region_name": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }


def test_a_restore_follows_its_request(dynamodb):
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("p", "a", "b")]
    dynamodb.create_table(
        TableName="rich",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=KEYS["KeySchema"],
        AttributeDefinitions=definitions,
        GlobalSecondaryIndexes=[index("a"), index("b")],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        Tags=[{"Key": "team", "Value": "shop"}],
    )
    dynamodb.update_time_to_live(TableName="rich", TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"})
    dynamodb.put_item(TableName="rich", Item={"p": {"S": "1"}, "a": {"S": "x"}, "b": {"S": "y"}, "n": {"N": "1"}})
    arn = dynamodb.create_backup(TableName="rich", BackupName="rich")["BackupDetails"]["BackupArn"]
    described = dynamodb.describe_backup(BackupArn=arn)["BackupDescription"]
    assert described["SourceTableDetails"]["ItemCount"] == 1
    features = described["SourceTableFeatureDetails"]
    assert [index["IndexName"] for index in features["GlobalSecondaryIndexes"]] == ["by-a", "by-b"]
    assert features["StreamDescription"] == {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    assert features["TimeToLiveDescription"] == {"TimeToLiveStatus": "ENABLED", "AttributeName": "until"}
    restore = lambda name, **options: dynamodb.restore_table_from_backup(BackupArn=arn, TargetTableName=name, **options)  # noqa: E731
    restore("plain")
    units = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}
    of_index = {**index("b"), "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}}
    restore("chosen", BillingModeOverride="PROVISIONED", ProvisionedThroughputOverride=units, GlobalSecondaryIndexOverride=[of_index])
    restore("bare", GlobalSecondaryIndexOverride=[])
    other = {**of_index, "IndexName": "other"}
    assert refused(restore, name="wrong", GlobalSecondaryIndexOverride=[other]) == "ValidationException"
    for name, indexes in [("plain", ["by-a", "by-b"]), ("chosen", ["by-b"]), ("bare", [])]:
        wait_until_there(dynamodb, name)
        table = dynamodb.describe_table(TableName=name)["Table"]
        assert [index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])] == indexes
        assert table["RestoreSummary"]["SourceBackupArn"] == arn and not table["RestoreSummary"]["RestoreInProgress"]
        assert "StreamSpecification" not in table and dynamodb.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"] == []
        assert state_of(dynamodb, name) == {"1": "1"}
    chosen = dynamodb.describe_table(TableName="chosen")["Table"]
    assert chosen["ProvisionedThroughput"]["WriteCapacityUnits"] == 4
    assert chosen["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]["ReadCapacityUnits"] == 5
    assert {part["AttributeName"] for part in chosen["AttributeDefinitions"]} == {"p", "b"}


def test_lists_have_pages_and_bounds(dynamodb, make_table):
    table = make_table().name
    arns = [dynamodb.create_backup(TableName=table, BackupName=f"number-{number}")["BackupDetails"]["BackupArn"] for number in range(5)]
    listed, start = [], {}
    while True:
        page = dynamodb.list_backups(TableName=table, Limit=2, **start)
        listed += [backup["BackupArn"] for backup in page["BackupSummaries"]]
        if "LastEvaluatedBackupArn" not in page:
            break
        start = {"ExclusiveStartBackupArn": page["LastEvaluatedBackupArn"]}
    assert sorted(listed) == sorted(arns)
    long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
    assert dynamodb.list_backups(TableName=table, TimeRangeUpperBound=long_ago)["BackupSummaries"] == []
    assert len(dynamodb.list_backups(TableName=table, TimeRangeLowerBound=long_ago)["BackupSummaries"]) == 5
    assert dynamodb.delete_backup(BackupArn=arns[0])["BackupDescription"]["BackupDetails"]["BackupStatus"] == "DELETED"
    for call in (dynamodb.describe_backup, dynamodb.delete_backup):
        assert refused(call, BackupArn=arns[0]) == "BackupNotFoundException"


def test_a_deleted_table_with_recovery_leaves_a_backup(dynamodb, make_table):
    table = make_table().name
    recover(dynamodb, table, RecoveryPeriodInDays=1)
    state = {}
    change(dynamodb, table, state, 3)
    dynamodb.delete_table(TableName=table)
    [backup] = dynamodb.list_backups(TableName=table, BackupType="SYSTEM")["BackupSummaries"]
    assert backup["BackupName"] == f"{table}$DeletedTableBackup" and backup["BackupType"] == "SYSTEM"
    assert (backup["BackupExpiryDateTime"] - backup["BackupCreationDateTime"]).days == 35
    dynamodb.restore_table_from_backup(BackupArn=backup["BackupArn"], TargetTableName=table)
    wait_until_there(dynamodb, table)
    assert state_of(dynamodb, table) == state
