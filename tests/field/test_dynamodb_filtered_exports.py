"""A filtered export holds the items and the attributes that it was asked for, and no others.

ExportTableToPointInTime ignored its FilterSpecification: a request for one tenant's items exported those of all, secrets included. Known from
the developer guide, "Filtering a table export": an incremental export judges a change by the newest image, a deletion by the old one.
"""

from __future__ import annotations

import gzip
import json
import time

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect
from harness.server import Server

SECONDS_MAX = 60


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A table of two tenants, its client, and the folder that its exports are written to."""
    bucket = tmp_path_factory.mktemp("bucket")
    with Server(options=["--dynamodb-buckets", f"exports={bucket}"]) as server:
        client = connect(server)
        keys = {"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]}
        definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
        client.create_table(TableName="table", AttributeDefinitions=definitions, BillingMode="PAY_PER_REQUEST", **keys)
        client.update_continuous_backups(TableName="table", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
        for number in range(10):
            put(client, "tenant1" if number < 3 else "tenant2", str(number), number)
        yield client, bucket


def put(client, tenant: str, name: str, number: int) -> None:
    client.put_item(TableName="table", Item={"pk": {"S": tenant}, "sk": {"S": name}, "n": {"N": str(number)}, "secret": {"S": "s"}, "in": {"M": {"a": {"N": "1"}, "b": {"N": "2"}}}})


def export(filled, specification: dict, **more) -> list[dict]:
    """The lines of an export, as dictionaries."""
    client, bucket = filled
    arn = client.describe_table(TableName="table")["Table"]["TableArn"]
    begun = client.export_table_to_point_in_time(TableArn=arn, S3Bucket="exports", S3Prefix=f"e{time.monotonic_ns()}", FilterSpecification=specification, **more)
    until = time.monotonic() + SECONDS_MAX
    while True:
        description = client.describe_export(ExportArn=begun["ExportDescription"]["ExportArn"])["ExportDescription"]
        if description["ExportStatus"] != "IN_PROGRESS":
            break
        assert time.monotonic() < until
        time.sleep(0.05)
    assert description["ExportStatus"] == "COMPLETED" and description["FilterSpecification"] == specification
    files = bucket / description["S3Prefix"]
    lines = [json.loads(line) for file in files.rglob("*.json.gz") for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert description["ItemCount"] == len(lines)
    return lines


ONE = {":p": {"S": "tenant1"}}


@pytest.mark.parametrize(
    ("specification", "names"),
    [
        ({"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": ONE}, ["0", "1", "2"]),
        ({"KeyConditionExpression": "pk = :p AND sk >= :s", "ExpressionAttributeValues": {**ONE, ":s": {"S": "1"}}}, ["1", "2"]),
        ({"FilterExpression": "n < :n", "ExpressionAttributeValues": {":n": {"N": "5"}}}, ["0", "1", "2", "3", "4"]),
        ({"FilterExpression": "pk = :p", "ExpressionAttributeValues": ONE}, ["0", "1", "2"]),
        ({"KeyConditionExpression": "pk = :p", "FilterExpression": "#n < :n", "ExpressionAttributeNames": {"#n": "n"}, "ExpressionAttributeValues": {**ONE, ":n": {"N": "2"}}}, ["0", "1"]),
        ({"FilterExpression": "attribute_not_exists(n)"}, []),
    ],
    ids=["partition", "part of a partition", "filter", "filter of a key", "both", "nothing"],
)
def test_an_export_holds_what_was_asked_for(filled, specification, names):
    lines = export(filled, specification)
    assert sorted(line["Item"]["sk"]["S"] for line in lines) == names
    assert all("secret" in line["Item"] for line in lines)


def test_a_projection_leaves_the_rest_out(filled):
    lines = export(filled, {"FilterExpression": "n < :n", "ProjectionExpression": "sk, #i.a", "ExpressionAttributeNames": {"#i": "in"}, "ExpressionAttributeValues": {":n": {"N": "1"}}})
    assert lines == [{"Item": {"sk": {"S": "0"}, "in": {"M": {"a": {"N": "1"}}}}}]


@pytest.mark.parametrize(
    "specification",
    [
        {"FilterExpression": "(("},
        {"KeyConditionExpression": "n = :p", "ExpressionAttributeValues": ONE},
        {"KeyConditionExpression": "pk > :p", "ExpressionAttributeValues": ONE},
        {"KeyConditionExpression": "pk = :p", "FilterExpression": "sk = :p", "ExpressionAttributeValues": ONE},
        {"FilterExpression": "n = :none"},
        {"FilterExpression": "n = :p", "ExpressionAttributeValues": {**ONE, ":unused": {"S": "x"}}},
        {"ProjectionExpression": "a, a"},
        {"ExpressionAttributeValues": ONE},
    ],
    ids=str,
)
def test_faults_are_those_of_queries(filled, specification):
    with pytest.raises(ClientError) as refused:
        export(filled, specification)
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_changes_are_judged_by_their_newest_image(filled):
    client, _ = filled
    # Times are whole seconds.
    time.sleep(1.1)
    start = int(time.time())
    put(client, "tenant1", "in", 100)
    put(client, "tenant2", "other", 1)
    put(client, "tenant2", "9", 100)  # moves into the filter
    put(client, "tenant1", "gone", 100)
    time.sleep(1.1)
    middle = int(time.time())
    put(client, "tenant1", "in", 1)  # and out of it
    client.delete_item(TableName="table", Key={"pk": {"S": "tenant1"}, "sk": {"S": "gone"}})
    time.sleep(1.2)

    def names(begin: int, end: int, view: str = "NEW_AND_OLD_IMAGES"):
        period = {"ExportFromTime": begin, "ExportToTime": end, "ExportViewType": view}
        specification = {"FilterExpression": "n = :n", "ProjectionExpression": "n", "ExpressionAttributeValues": {":n": {"N": "100"}}}
        lines = export(filled, specification, ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=period)
        for line in lines:
            images = [image for name, image in line.items() if name.endswith("Image")]
            assert line["Keys"].keys() == {"pk", "sk"} and all(image.keys() == {"n"} for image in images)
        return sorted(line["Keys"]["sk"]["S"] for line in lines)

    assert names(start, middle) == ["9", "gone", "in"]
    assert names(middle, int(time.time())) == ["gone"]
