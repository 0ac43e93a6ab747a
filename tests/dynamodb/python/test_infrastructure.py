"""The calls that Terraform's AWS provider makes for tables, in its order, with its waiting in between.

Follows the provider's `aws_dynamodb_table`, `aws_dynamodb_resource_policy`, `aws_dynamodb_table_item` and `aws_dynamodb_tag` (terraform-provider-aws, internal/service/dynamodb). CDK deploys through CloudFormation, whose resource
`AWS::DynamoDB::GlobalTable` makes the same calls for one region.
"""

import json
import time
import uuid

import boto3
import pytest
from botocore.exceptions import ClientError
from harness.dynamodb import connect
from harness.server import Server

pytestmark = pytest.mark.quartet_only


@pytest.fixture(scope="module")
def dynamodb(_session_server):
    return connect(_session_server)


@pytest.fixture
def name(dynamodb):
    chosen = f"orders-{uuid.uuid4().hex[:12]}"
    yield chosen
    try:
        dynamodb.update_table(TableName=chosen, DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName=chosen)
    except dynamodb.exceptions.ResourceNotFoundException:
        pass


def described(dynamodb, name):
    return dynamodb.describe_table(TableName=name)["Table"]


def wait(look, wanted):
    """As the provider's waiters: asked again and again until it is so."""
    deadline = time.monotonic() + 60
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"{found} is not {wanted}"


def wait_until_active(dynamodb, name):
    wait(lambda: described(dynamodb, name)["TableStatus"], "ACTIVE")
    for index in described(dynamodb, name).get("GlobalSecondaryIndexes", []):
        wait(lambda: next(found["IndexStatus"] for found in described(dynamodb, name)["GlobalSecondaryIndexes"] if found["IndexName"] == index["IndexName"]), "ACTIVE")


def create(dynamodb, name):
    created = dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "customer", "KeyType": "HASH"}, {"AttributeName": "placed", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "customer", "AttributeType": "S"},
            {"AttributeName": "placed", "AttributeType": "N"},
            {"AttributeName": "state", "AttributeType": "S"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "by-state",
                "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}, {"AttributeName": "placed", "KeyType": "RANGE"}],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["total"]},
                "WarmThroughput": {"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000},
            }
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        SSESpecification={"Enabled": True},
        TableClass="STANDARD",
        DeletionProtectionEnabled=True,
        WarmThroughput={"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000},
        Tags=[{"Key": "team", "Value": "shop"}, {"Key": "managed-by", "Value": "terraform"}],
    )["TableDescription"]
    wait_until_active(dynamodb, name)
    wait(lambda: described(dynamodb, name)["WarmThroughput"]["Status"], "ACTIVE")
    return created["TableArn"]


def read(dynamodb, name, arn):
    """What a refresh reads; every plan begins with it."""
    table = described(dynamodb, name)
    backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    ttl = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    tags = dynamodb.list_tags_of_resource(ResourceArn=arn)["Tags"]
    return {
        "hash": next(key["AttributeName"] for key in table["KeySchema"] if key["KeyType"] == "HASH"),
        "billing": table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        "indexes": sorted(index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])),
        "stream": table.get("StreamSpecification", {}).get("StreamViewType"),
        "encrypted": table.get("SSEDescription", {}).get("Status"),
        "class": table.get("TableClassSummary", {}).get("TableClass", "STANDARD"),
        "protected": table.get("DeletionProtectionEnabled"),
        "warm": (table["WarmThroughput"]["ReadUnitsPerSecond"], table["WarmThroughput"]["WriteUnitsPerSecond"]),
        "recovery": backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"],
        "ttl": (ttl["TimeToLiveStatus"], ttl.get("AttributeName")),
        "tags": {tag["Key"]: tag["Value"] for tag in tags},
        "replicas": [replica["RegionName"] for replica in table.get("Replicas", [])],
    }


def test_apply_plan_change_and_destroy(dynamodb, name):
    arn = create(dynamodb, name)
    dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"AttributeName": "gone", "Enabled": True})
    wait(lambda: dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"], "ENABLED")
    dynamodb.update_continuous_backups(
        TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 7}
    )
    recovery = lambda: read(dynamodb, name, arn)["recovery"]  # noqa: E731
    wait(recovery, "ENABLED")

    applied = read(dynamodb, name, arn)
    assert applied == {
        "hash": "customer",
        "billing": "PAY_PER_REQUEST",
        "indexes": ["by-state"],
        "stream": "NEW_AND_OLD_IMAGES",
        "encrypted": "ENABLED",
        "class": "STANDARD",
        "protected": True,
        "warm": (12000, 4000),
        "recovery": "ENABLED",
        "ttl": ("ENABLED", "gone"),
        "tags": {"team": "shop", "managed-by": "terraform"},
        "replicas": [],
    }
    assert read(dynamodb, name, arn) == applied, "a second plan finds a difference"

    # A change: one call for each group of arguments, with waiting in between.
    dynamodb.untag_resource(ResourceArn=arn, TagKeys=["managed-by"])
    dynamodb.tag_resource(ResourceArn=arn, Tags=[{"Key": "team", "Value": "store"}])
    dynamodb.update_table(TableName=name, BillingMode="PROVISIONED", ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
        GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "by-state", "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}}}])  # fmt: skip
    wait_until_active(dynamodb, name)
    dynamodb.update_table(TableName=name, StreamSpecification={"StreamEnabled": False})
    wait_until_active(dynamodb, name)
    dynamodb.update_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": kind} for attribute, kind in (("customer", "S"), ("placed", "N"), ("state", "S"), ("city", "S"))],
        GlobalSecondaryIndexUpdates=[
            {"Create": {
                "IndexName": "by-city",
                "KeySchema": [{"AttributeName": "city", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
                "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
            }}
        ],
    )  # fmt: skip
    wait_until_active(dynamodb, name)
    dynamodb.update_table(TableName=name, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by-state"}}])
    wait(lambda: read(dynamodb, name, arn)["indexes"], ["by-city"])
    dynamodb.update_table(TableName=name, TableClass="STANDARD_INFREQUENT_ACCESS")
    wait_until_active(dynamodb, name)
    dynamodb.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": False})
    wait(recovery, "DISABLED")
    dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
    changed = read(dynamodb, name, arn)
    assert (changed["billing"], changed["stream"], changed["class"]) == ("PROVISIONED", None, "STANDARD_INFREQUENT_ACCESS")
    assert (changed["protected"], changed["tags"]) == (False, {"team": "store"})

    dynamodb.delete_table(TableName=name)
    dynamodb.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})


def test_a_resource_policy(dynamodb, name):
    arn = create(dynamodb, name)
    statement = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "dynamodb:GetItem", "Resource": arn}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    revision = dynamodb.put_resource_policy(ResourceArn=arn, Policy=policy, ConfirmRemoveSelfResourceAccess=False)["RevisionId"]
    found = dynamodb.get_resource_policy(ResourceArn=arn)
    assert json.loads(found["Policy"]) == json.loads(policy) and found["RevisionId"] == revision
    dynamodb.delete_resource_policy(ResourceArn=arn, ExpectedRevisionId=revision)
    with pytest.raises(dynamodb.exceptions.PolicyNotFoundException):
        dynamodb.get_resource_policy(ResourceArn=arn)


def test_an_item(dynamodb, name):
    create(dynamodb, name)
    key = {"customer": {"S": "ann"}, "placed": {"N": "1"}}
    item = key | {"state": {"S": "new"}}
    names = {"#hk": "customer"}
    absent = {"ConditionExpression": "attribute_not_exists(#hk)", "ExpressionAttributeNames": names}
    dynamodb.put_item(TableName=name, Item=item, **absent)
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(TableName=name, Item=item, **absent)
    read = dict(ConsistentRead=True, ProjectionExpression="#a_customer, #a_placed, #a_state",
        ExpressionAttributeNames={f"#a_{attribute}": attribute for attribute in item})  # fmt: skip
    assert dynamodb.get_item(TableName=name, Key=key, **read)["Item"] == item
    dynamodb.update_item(TableName=name, Key=key, AttributeUpdates={"state": {"Action": "PUT", "Value": {"S": "sent"}}})
    dynamodb.delete_item(TableName=name, Key=key)
    assert "Item" not in dynamodb.get_item(TableName=name, Key=key, **read)


def test_a_tag_of_its_own(dynamodb, name):
    arn = create(dynamodb, name)
    dynamodb.tag_resource(ResourceArn=arn, Tags=[{"Key": "alone", "Value": "1"}])
    assert {"Key": "alone", "Value": "1"} in dynamodb.list_tags_of_resource(ResourceArn=arn)["Tags"]


def test_contributor_insights(dynamodb, name):
    """`aws_dynamodb_contributor_insights`, of the table and of an index: switched on, waited for, read, switched off, waited for."""
    create(dynamodb, name)
    wait_until_active(dynamodb, name)
    for target in ({"TableName": name}, {"TableName": name, "IndexName": "by-state"}):
        status = lambda target=target: dynamodb.describe_contributor_insights(**target)["ContributorInsightsStatus"]  # noqa: E731
        assert status() == "DISABLED"
        updated = dynamodb.update_contributor_insights(ContributorInsightsAction="ENABLE", **target)
        assert updated["ContributorInsightsStatus"] == "ENABLING" and updated.get("IndexName") == target.get("IndexName")
        wait(status, "ENABLED")
        assert dynamodb.describe_contributor_insights(**target)["ContributorInsightsMode"] == "ACCESSED_AND_THROTTLED_KEYS"
    listed = dynamodb.list_contributor_insights(TableName=name)["ContributorInsightsSummaries"]
    assert [(found.get("IndexName"), found["ContributorInsightsStatus"]) for found in listed] == [(None, "ENABLED"), ("by-state", "ENABLED")]
    with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
        dynamodb.describe_contributor_insights(TableName=name, IndexName="no-such-index")
    dynamodb.update_contributor_insights(TableName=name, ContributorInsightsAction="DISABLE")
    wait(lambda: dynamodb.describe_contributor_insights(TableName=name)["ContributorInsightsStatus"], "DISABLED")
    dynamodb.update_table(TableName=name, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by-state"}}])
    wait(lambda: [found.get("IndexName") for found in dynamodb.list_contributor_insights(TableName=name)["ContributorInsightsSummaries"]], [None])


def test_a_replica_of_its_own_region_is_no_replica(dynamodb, name):
    """The service refuses it too: a table is its region's replica already."""
    create(dynamodb, name)
    with pytest.raises(dynamodb.exceptions.ClientError) as refused:
        dynamodb.update_table(TableName=name, ReplicaUpdates=[{"Create": {"RegionName": "us-east-1"}}])
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert described(dynamodb, name).get("Replicas", []) == []


def test_the_key_of_encrypted_tables_is_described(dynamodb, name):
    """The provider resolves `alias/aws/dynamodb` for `server_side_encryption`, by the endpoint that the block names for `kms`.

    The page named this server for it, and the server answered UnknownOperationException.
    """
    endpoint = dynamodb.meta.endpoint_url
    keys = boto3.client("kms", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    known = keys.describe_key(KeyId="alias/aws/dynamodb")["KeyMetadata"]
    assert (known["KeyManager"], known["KeyState"], known["Enabled"]) == ("AWS", "Enabled", True)
    create(dynamodb, name)
    assert described(dynamodb, name)["SSEDescription"]["KMSMasterKeyArn"] == known["Arn"]
    for id in (known["Arn"], known["KeyId"], known["Arn"].replace(f"key/{known['KeyId']}", "alias/aws/dynamodb")):
        assert keys.describe_key(KeyId=id)["KeyMetadata"]["Arn"] == known["Arn"]
    with pytest.raises(keys.exceptions.NotFoundException):
        keys.describe_key(KeyId="alias/mine")


def test_a_request_about_keys_is_signed_for_their_service():
    """Its scope names `kms`; a request on tables under that scope, or the other way round, is refused."""
    access, secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    with Server(options=["--dynamodb-access-keys", f"{access}:{secret}"]) as server:
        options = {"endpoint_url": f"http://127.0.0.1:{server.dynamodb_port}", "region_name": "us-east-1", "aws_access_key_id": access}
        assert boto3.client("kms", **options, aws_secret_access_key=secret).describe_key(KeyId="alias/aws/dynamodb")
        with pytest.raises(ClientError):
            boto3.client("kms", **options, aws_secret_access_key=secret + "x").describe_key(KeyId="alias/aws/dynamodb")
        assert boto3.client("dynamodb", **options, aws_secret_access_key=secret).list_tables()["TableNames"] == []
