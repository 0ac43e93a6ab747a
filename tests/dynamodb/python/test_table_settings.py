"""What stands beside a table: recovery, policies, warm throughput, shards; as the service answers it."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

KEYS = {"KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}
STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}


def refused(call, **members):
    with pytest.raises(ClientError) as error:
        call(**members)
    return error.value.response["Error"]["Code"], error.value.response["Error"]["Message"]


@pytest.mark.parametrize("units, count", [(1, 1), (1000, 1), (1001, 2), (40_000, 4), (None, 4)])
def test_a_stream_has_a_shard_for_each_thousand_units(dynamodb, streams, units, count):
    """Programs read `Shards[0]` of a small table and nothing else, as the service's small tables have one partition."""
    name = f"shards-{units}"
    billing = {"BillingMode": "PAY_PER_REQUEST"}
    if units:
        billing = {"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": units}}
    arn = dynamodb.create_table(TableName=name, **KEYS, **STREAM, **billing)["TableDescription"]["LatestStreamArn"]
    for number in range(20):
        dynamodb.put_item(TableName=name, Item={"p": {"S": str(number)}})
    shards = [shard["ShardId"] for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]]
    seen = []
    for shard in shards:
        iterator = streams.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
        seen.append([record["dynamodb"]["Keys"]["p"]["S"] for record in streams.get_records(ShardIterator=iterator)["Records"]])
    assert len(shards) == count and sorted(sum(seen, []), key=int) == [str(number) for number in range(20)]
    assert all(seen)


def test_point_in_time_recovery_is_accepted(dynamodb, make_table):
    name = make_table().name
    update = lambda **members: dynamodb.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=members)["ContinuousBackupsDescription"]
    describe = lambda: dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    off = {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "DISABLED"}}
    assert describe() == off
    on = update(PointInTimeRecoveryEnabled=True)
    recovery = on["PointInTimeRecoveryDescription"]
    assert on["ContinuousBackupsStatus"] == recovery["PointInTimeRecoveryStatus"] == "ENABLED"
    assert recovery["RecoveryPeriodInDays"] == 35
    assert recovery["EarliestRestorableDateTime"] <= recovery["LatestRestorableDateTime"]
    assert describe()["PointInTimeRecoveryDescription"]["EarliestRestorableDateTime"] == recovery["EarliestRestorableDateTime"]
    week = update(PointInTimeRecoveryEnabled=True, RecoveryPeriodInDays=7)["PointInTimeRecoveryDescription"]
    assert week["LatestRestorableDateTime"] >= recovery["LatestRestorableDateTime"]
    assert {**week, "LatestRestorableDateTime": recovery["LatestRestorableDateTime"]} == {**recovery, "RecoveryPeriodInDays": 7}
    text = "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
    assert refused(update, PointInTimeRecoveryEnabled=False, RecoveryPeriodInDays=7) == ("ValidationException", text)
    assert update(PointInTimeRecoveryEnabled=False) == off == describe()
    assert refused(dynamodb.describe_continuous_backups, TableName="absent") == ("TableNotFoundException", "Table not found: absent")


def policy(action: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"AWS": "000000000000"}, "Action": action, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


NO_POLICY = "Resource-based policy not found for the provided ResourceArn: "


def test_revisions_of_policies_are_obeyed(dynamodb, make_table):
    table = make_table()
    arn, name = table.table_arn, table.name
    put = lambda action, **members: dynamodb.put_resource_policy(ResourceArn=arn, Policy=policy(action), **members)["RevisionId"]
    get = lambda: dynamodb.get_resource_policy(ResourceArn=arn)
    assert refused(dynamodb.get_resource_policy, ResourceArn=arn) == ("PolicyNotFoundException", NO_POLICY + arn)
    assert "RevisionId" not in dynamodb.delete_resource_policy(ResourceArn=arn)
    first = put("dynamodb:GetItem", ExpectedRevisionId="NO_POLICY")
    assert put("dynamodb:GetItem") == first, "the same policy is no new revision"
    second = put("dynamodb:PutItem", ExpectedRevisionId=first)
    assert second != first and get()["RevisionId"] == second
    stale = f"{NO_POLICY}Requested update for policy with revision id {first}, but the policy associated to target table {name} has revision id {second}."
    there = f"{NO_POLICY}Requested policy update expecting none to be present for table {name}, but a policy exists with revision id {second}."
    delete = lambda **members: dynamodb.delete_resource_policy(ResourceArn=arn, **members)
    put_anything = lambda **members: put("dynamodb:Scan", **members)
    assert refused(put_anything, ExpectedRevisionId=first) == refused(delete, ExpectedRevisionId=first) == ("PolicyNotFoundException", stale)
    assert refused(put_anything, ExpectedRevisionId="NO_POLICY") == ("PolicyNotFoundException", there)
    assert json.loads(get()["Policy"])["Statement"][0]["Action"] == "dynamodb:PutItem"
    assert delete(ExpectedRevisionId=second)["RevisionId"] == second
    assert refused(delete, ExpectedRevisionId=second)[0] == "PolicyNotFoundException"


def test_streams_have_policies_of_their_own(dynamodb, make_table):
    """They were refused as no ARN of a table."""
    table = make_table(StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
    arn = table.latest_stream_arn
    assert refused(dynamodb.get_resource_policy, ResourceArn=arn) == ("PolicyNotFoundException", NO_POLICY + arn)
    of_table = dynamodb.put_resource_policy(ResourceArn=table.table_arn, Policy=policy("dynamodb:GetItem"))["RevisionId"]
    revision = dynamodb.put_resource_policy(ResourceArn=arn, Policy=policy("dynamodb:GetRecords"), ExpectedRevisionId="NO_POLICY")["RevisionId"]
    shown = dynamodb.get_resource_policy(ResourceArn=arn)
    assert shown["RevisionId"] == revision and json.loads(shown["Policy"]) == json.loads(policy("dynamodb:GetRecords"))
    assert refused(dynamodb.delete_resource_policy, ResourceArn=arn, ExpectedRevisionId="1")[0] == "PolicyNotFoundException"
    assert dynamodb.delete_resource_policy(ResourceArn=arn)["RevisionId"] == revision
    assert dynamodb.get_resource_policy(ResourceArn=table.table_arn)["RevisionId"] == of_table
    assert refused(dynamodb.get_resource_policy, ResourceArn=arn + "9")[0] == "ResourceNotFoundException"


def test_a_malformed_policy_is_refused(dynamodb, make_table):
    arn = make_table().table_arn
    for text, reason in [
        ("{", "Invalid policy document: This policy contains invalid Json"),
        ("{}", "Invalid policy document: Could not parse the policy: Statement is empty!"),
        (policy("x" * 20_480), "Maximum policy size of 20480 bytes exceeded"),
    ]:
        answer = refused(dynamodb.put_resource_policy, ResourceArn=arn, Policy=text)
        assert answer == ("ValidationException", f"One or more parameter values were invalid: {reason}")
    for call in (dynamodb.get_resource_policy, dynamodb.delete_resource_policy):
        answer = refused(call, ResourceArn=arn + "-absent")
        assert answer == ("ResourceNotFoundException", f"Requested resource not found: Table: {arn.split('/')[1]}-absent not found")


def test_a_new_table_takes_its_policy_along(dynamodb):
    description = dynamodb.create_table(TableName="with-policy", BillingMode="PAY_PER_REQUEST", ResourcePolicy=policy("dynamodb:GetItem"), **KEYS)
    arn = description["TableDescription"]["TableArn"]
    assert json.loads(dynamodb.get_resource_policy(ResourceArn=arn)["Policy"]) == json.loads(policy("dynamodb:GetItem"))


INDEX = {"IndexName": "index", "KeySchema": KEYS["KeySchema"], "Projection": {"ProjectionType": "ALL"}}


def test_warm_throughput_describes_existing_tables_and_indexes(dynamodb):
    on_demand = {"BillingMode": "PAY_PER_REQUEST", **KEYS}
    plain = dynamodb.create_table(TableName="cold", GlobalSecondaryIndexes=[INDEX], **on_demand)["TableDescription"]
    assert "WarmThroughput" not in plain and "WarmThroughput" not in plain["GlobalSecondaryIndexes"][0]
    usual = {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 4_000, "Status": "ACTIVE"}
    assert dynamodb.describe_table(TableName="cold")["Table"]["WarmThroughput"] == usual
    assert "WarmThroughput" not in dynamodb.delete_table(TableName="cold")["TableDescription"]
    warm = {"ReadUnitsPerSecond": 15_000, "WriteUnitsPerSecond": 5_000}
    asked = dynamodb.create_table(TableName="warm", WarmThroughput=warm, **on_demand)["TableDescription"]
    assert asked["WarmThroughput"] == {**warm, "Status": "UPDATING"}
    assert dynamodb.describe_table(TableName="warm")["Table"]["WarmThroughput"] == {**warm, "Status": "ACTIVE"}
    update = lambda units: dynamodb.update_table(TableName="warm", WarmThroughput={"ReadUnitsPerSecond": units})["TableDescription"]
    assert update(16_000)["WarmThroughput"] == {"ReadUnitsPerSecond": 16_000, "WriteUnitsPerSecond": 5_000, "Status": "UPDATING"}
    reason = "lower than current WarmThroughput, decreasing WarmThroughput is not supported"
    text = f"One or more parameter values were invalid: Requested ReadUnitsPerSecond for WarmThroughput for table is {reason}"
    assert refused(lambda: update(15_999)) == ("ValidationException", text)


def test_an_index_that_goes_is_still_listed(dynamodb):
    dynamodb.create_table(TableName="indexed", BillingMode="PAY_PER_REQUEST", GlobalSecondaryIndexes=[INDEX], **KEYS)
    delete = [{"Delete": {"IndexName": "index"}}]
    answer = dynamodb.update_table(TableName="indexed", GlobalSecondaryIndexUpdates=delete)["TableDescription"]
    assert [(index["IndexName"], index["IndexStatus"]) for index in answer["GlobalSecondaryIndexes"]] == [("index", "DELETING")]
    assert "GlobalSecondaryIndexes" not in dynamodb.describe_table(TableName="indexed")["Table"]


def test_maxima_on_demand_can_be_removed(dynamodb):
    """-1 was kept and shown, and a table that became provisioned kept maxima that applied to nothing (dynoxide#159)."""
    maxima = lambda read, write: {"MaxReadRequestUnits": read, "MaxWriteRequestUnits": write}
    index = {**INDEX, "OnDemandThroughput": maxima(8, 9)}
    dynamodb.create_table(TableName="maxima", BillingMode="PAY_PER_REQUEST", OnDemandThroughput=maxima(20, 15), GlobalSecondaryIndexes=[index], **KEYS)

    def shown():
        table = dynamodb.describe_table(TableName="maxima")["Table"]
        return table.get("OnDemandThroughput"), table["GlobalSecondaryIndexes"][0].get("OnDemandThroughput")

    update = lambda **members: dynamodb.update_table(TableName="maxima", **members)
    of_index = lambda **members: update(GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "index", **members}}])
    update(OnDemandThroughput={"MaxReadRequestUnits": 40})
    of_index(OnDemandThroughput={"MaxWriteRequestUnits": -1})
    assert shown() == (maxima(40, 15), {"MaxReadRequestUnits": 8})
    update(OnDemandThroughput={"MaxWriteRequestUnits": -1})
    of_index(OnDemandThroughput={"MaxReadRequestUnits": -1})
    assert shown() == ({"MaxReadRequestUnits": 40}, None)
    of_index(OnDemandThroughput=maxima(1, 2))
    units = {"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}}
    update(BillingMode="PROVISIONED", GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "index", **units}}], **units)
    assert shown() == (None, None)
    reason = "One or more parameter values were invalid: MaxReadRequestUnits for OnDemandThroughput{} cannot be specified when the table BillingMode is PROVISIONED"
    assert refused(lambda: update(OnDemandThroughput={"MaxReadRequestUnits": 5})) == ("ValidationException", reason.format(""))
    refused_of_index = refused(lambda: of_index(OnDemandThroughput=maxima(5, 5)))
    assert refused_of_index == ("ValidationException", reason.format(" for index : index"))
    # Maxima do not come back with the billing mode.
    update(BillingMode="PAY_PER_REQUEST")
    assert shown() == (None, None)
