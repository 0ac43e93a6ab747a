"""A stack that CDK has synthesized, made, looked at, changed and deleted by the calls that CloudFormation's handlers make for it.

`tests/dynamodb/cdk/template.json` is what aws-cdk-lib made of `stack.mjs` beside it. The handlers of AWS::DynamoDB::Table and
AWS::DynamoDB::GlobalTable: which calls their schemas' permissions name (CreateTable, then what CreateTable does not take), in that order, each followed by waiting.
"""

import json
import time
from pathlib import Path

import pytest
from harness.dynamodb import connect

pytestmark = pytest.mark.quartet_only

TEMPLATE = Path(__file__).parents[1] / "cdk" / "template.json"
REGION = "us-east-1"
#: Given to CreateTable as they are.
AS_THEY_ARE = [
    "AttributeDefinitions",
    "BillingMode",
    "DeletionProtectionEnabled",
    "GlobalSecondaryIndexes",
    "KeySchema",
    "LocalSecondaryIndexes",
    "OnDemandThroughput",
    "ProvisionedThroughput",
    "TableClass",
    "TableName",
    "Tags",
    "WarmThroughput",
]


@pytest.fixture(scope="module")
def dynamodb(_session_server):
    client = connect(_session_server)
    yield client
    for name in [found for found in client.list_tables()["TableNames"] if found.startswith("cdk-")]:
        client.update_table(TableName=name, DeletionProtectionEnabled=False)
        client.delete_table(TableName=name)


def resolved(value):
    """The two functions of CloudFormation that the template has."""
    if isinstance(value, list):
        return [resolved(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(resolved(parts))
    if value == {"Ref": "AWS::Partition"}:
        return "aws"
    return {key: resolved(each) for key, each in value.items()}


def resources():
    template = json.loads(TEMPLATE.read_text())
    found = {}
    for resource in template["Resources"].values():
        properties = resolved(resource["Properties"])
        found[properties["TableName"]] = table_of(resource["Type"], properties)
    return found


def table_of(kind, properties):
    """The properties of a table in its only region, whichever resource it is."""
    if kind == "AWS::DynamoDB::Table":
        return properties
    assert kind == "AWS::DynamoDB::GlobalTable"
    table = dict(properties)
    (replica,) = table.pop("Replicas")
    assert replica.pop("Region") == REGION
    of_indexes = {index["IndexName"]: index for index in replica.pop("GlobalSecondaryIndexes", [])}
    read, write = replica.pop("ReadOnDemandThroughputSettings"), table.pop("WriteOnDemandThroughputSettings")
    table["IndexInsights"] = [name for name, index in of_indexes.items() if index.get("ContributorInsightsSpecification", {}).get("Enabled")]
    return {**table, **replica, "OnDemandThroughput": {**read, **write}}


def wait(look, wanted):
    deadline = time.monotonic() + 60
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"{found} is not {wanted}"


def wait_until_active(dynamodb, name):
    def statuses():
        table = dynamodb.describe_table(TableName=name)["Table"]
        return {table["TableStatus"], *(index["IndexStatus"] for index in table.get("GlobalSecondaryIndexes", []))}

    wait(statuses, {"ACTIVE"})


def create(dynamodb, table):
    given = {key: table[key] for key in AS_THEY_ARE if key in table}
    name = table["TableName"]
    if stream := table.get("StreamSpecification"):
        given["StreamSpecification"] = {"StreamEnabled": True, **stream}
    if table.get("SSESpecification", {}).get("SSEEnabled"):
        given["SSESpecification"] = {"Enabled": True}
    if policy := table.get("ResourcePolicy"):
        given["ResourcePolicy"] = json.dumps(policy["PolicyDocument"])
    arn = dynamodb.create_table(**given)["TableDescription"]["TableArn"]
    wait_until_active(dynamodb, name)
    if recovery := table.get("PointInTimeRecoverySpecification"):
        dynamodb.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)
    if expiry := table.get("TimeToLiveSpecification"):
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification=expiry)
    if table.get("ContributorInsightsSpecification", {}).get("Enabled"):
        dynamodb.update_contributor_insights(TableName=name, ContributorInsightsAction="ENABLE")
    for index in table.get("IndexInsights", []):
        dynamodb.update_contributor_insights(TableName=name, IndexName=index, ContributorInsightsAction="ENABLE")
    wait(lambda: dynamodb.describe_contributor_insights(TableName=name)["ContributorInsightsStatus"], "ENABLED")
    return arn


def read(dynamodb, name):
    """What the read handler tells, in the words of the template: what differs from it is drift."""
    shown = dynamodb.describe_table(TableName=name)["Table"]
    table = {key: shown[key] for key in ("AttributeDefinitions", "KeySchema", "TableName")}
    table["BillingMode"] = shown.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    table["DeletionProtectionEnabled"] = shown.get("DeletionProtectionEnabled", False)
    table["TableClass"] = shown.get("TableClassSummary", {}).get("TableClass", "STANDARD")
    table["StreamSpecification"] = {"StreamViewType": shown["StreamSpecification"]["StreamViewType"]}
    for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        table[kind] = {index["IndexName"]: (index["KeySchema"], index["Projection"]) for index in shown.get(kind, [])}
    units = shown["ProvisionedThroughput"]
    table["Units"] = (units["ReadCapacityUnits"], units["WriteCapacityUnits"])
    table["OnDemandThroughput"] = shown.get("OnDemandThroughput")
    table["Warm"] = (shown["WarmThroughput"]["ReadUnitsPerSecond"], shown["WarmThroughput"]["WriteUnitsPerSecond"])
    recovery = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    table["Recovery"] = (recovery["PointInTimeRecoveryStatus"], recovery.get("RecoveryPeriodInDays"))
    table["Expiry"] = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    table["Tags"] = dynamodb.list_tags_of_resource(ResourceArn=shown["TableArn"])["Tags"]
    return table


def expected(table):
    on_demand = table.get("BillingMode") == "PAY_PER_REQUEST"
    units = table.get("ProvisionedThroughput", {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0})
    recovery = table["PointInTimeRecoverySpecification"]
    indexes = {kind: {index["IndexName"]: (index["KeySchema"], index["Projection"]) for index in table.get(kind, [])} for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")}
    return {
        "AttributeDefinitions": table["AttributeDefinitions"],
        "KeySchema": table["KeySchema"],
        "TableName": table["TableName"],
        "BillingMode": "PAY_PER_REQUEST" if on_demand else "PROVISIONED",
        "DeletionProtectionEnabled": table.get("DeletionProtectionEnabled", False),
        "TableClass": table.get("TableClass", "STANDARD"),
        "StreamSpecification": table["StreamSpecification"],
        **indexes,
        "Units": (units["ReadCapacityUnits"], units["WriteCapacityUnits"]),
        "OnDemandThroughput": table.get("OnDemandThroughput"),
        "Recovery": ("ENABLED", recovery.get("RecoveryPeriodInDays", 35)),
        "Expiry": {"TimeToLiveStatus": "ENABLED", "AttributeName": table["TimeToLiveSpecification"]["AttributeName"]},
        "Tags": table.get("Tags", []),
    }


@pytest.mark.parametrize("name", ["cdk-orders", "cdk-carts"])
def test_a_synthesized_table_is_made_changed_and_deleted(dynamodb, name):
    table = resources()[name]
    arn = create(dynamodb, table)

    def has_drifted():
        found, wanted = read(dynamodb, name), expected(table)
        return {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}

    assert has_drifted() == {}
    if "WarmThroughput" in table:
        assert read(dynamodb, name)["Warm"] == (table["WarmThroughput"]["ReadUnitsPerSecond"], table["WarmThroughput"]["WriteUnitsPerSecond"])
    if "ResourcePolicy" in table:
        assert json.loads(dynamodb.get_resource_policy(ResourceArn=arn)["Policy"]) == table["ResourcePolicy"]["PolicyDocument"]
    for index in table.get("IndexInsights", []):
        wait(lambda: dynamodb.describe_contributor_insights(TableName=name, IndexName=index)["ContributorInsightsStatus"], "ENABLED")  # noqa: B023
    # An update of the stack: a new index, another tag, no more expiry.
    table["AttributeDefinitions"] = sorted([*table["AttributeDefinitions"], {"AttributeName": "zone", "AttributeType": "S"}], key=lambda each: each["AttributeName"])
    index = {"IndexName": "by-zone", "KeySchema": [{"AttributeName": "zone", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}
    units = {} if table.get("BillingMode") == "PAY_PER_REQUEST" else {"ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}}
    dynamodb.update_table(TableName=name, AttributeDefinitions=table["AttributeDefinitions"], GlobalSecondaryIndexUpdates=[{"Create": {**index, **units}}])
    wait_until_active(dynamodb, name)
    table["GlobalSecondaryIndexes"].append(index)
    dynamodb.tag_resource(ResourceArn=arn, Tags=[{"Key": "stage", "Value": "test"}])
    dynamodb.untag_resource(ResourceArn=arn, TagKeys=["team"])
    table["Tags"] = [{"Key": "stage", "Value": "test"}]
    found, wanted = read(dynamodb, name), expected(table)
    found["AttributeDefinitions"] = sorted(found["AttributeDefinitions"], key=lambda each: each["AttributeName"])
    assert {key: found[key] for key in wanted} == wanted
    # A deletion of the stack, which a protected table refuses.
    if table.get("DeletionProtectionEnabled"):
        with pytest.raises(dynamodb.exceptions.ClientError, match="deletion protection"):
            dynamodb.delete_table(TableName=name)
        dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=name)
    wait(lambda: name in dynamodb.list_tables()["TableNames"], False)
