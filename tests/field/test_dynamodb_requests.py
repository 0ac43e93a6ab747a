"""Requests of several tables, values that are too deep, and the reasons of throttling, as the service tells them.

A malformed name of a table in a batch was answered as a table that is not there; a value of more than 61 maps was no JSON at all to the
server, where the service counts 32 levels; the reasons of a ThrottlingException had the spelling of another exception, so that SDKs dropped
them. Known from recordings of the service (paritysuite, October 2026) and from its model (botocore 1.44).
"""

from __future__ import annotations

import datetime
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect
from harness.server import Server

KEYS = (
    "failed to satisfy constraint: Map keys must satisfy constraint: [Member must have length less than or equal to 255, "
    "Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"
)
CAPACITY = "Value 'BOGUS' at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
ECHO = "Value '{\"bad!name\":{\"Keys\":[{\"pk\":{\"S\":\"a\"}}]}}' at 'requestItems' " + KEYS


def test_a_malformed_name_of_a_table_is_a_fault_of_the_map(service):
    get = {"bad!name": {"Keys": [{"pk": {"S": "a"}}]}}
    assert service.call("batch_get_item", RequestItems=get) == f"ValidationException: 1 validation error detected: {ECHO}"
    both = service.call("batch_get_item", RequestItems=get, ReturnConsumedCapacity="BOGUS")
    assert both == f"ValidationException: 2 validation errors detected: {ECHO}; {CAPACITY}"
    written = service.call("batch_write_item", RequestItems={"bad!name": [{"PutRequest": {"Item": {"pk": {"S": "x"}}}}]})
    assert written.startswith("ValidationException: 1 validation error detected: Value '{") and written.endswith(KEYS)
    assert service.outcome("batch_get_item", RequestItems={"not-there": get["bad!name"]}) == "ResourceNotFoundException"


def test_tables_of_one_batch_are_asked_in_one_style(service):
    one, two = service.make_table("pk:S"), service.make_table("pk:S", "sk:S")
    style = {one: {"Keys": [{"pk": {"S": "a"}}], "ProjectionExpression": "pk"}, two: {"Keys": [{"pk": {"S": "a"}, "sk": {"S": "b"}}], "AttributesToGet": ["pk"]}}
    assert service.outcome("batch_get_item", RequestItems=style) == "ValidationException"
    empty = service.call("batch_get_item", RequestItems={one: {"Keys": []}})
    expected = f"Value at 'RequestItems.{one}.member.Keys' failed to satisfy constraint: Member must have length greater than or equal to 1"
    assert empty == f"ValidationException: 1 validation error detected: {expected}"


@pytest.mark.parametrize("levels", [33, 61, 64, 200, 5_000])
@pytest.mark.parametrize("kind", ["M", "L"])
def test_values_that_are_too_deep_are_told_so(service, levels, kind):
    table = service.make_table("pk:S")
    open_, close = ('{"M":{"a":', "}}") if kind == "M" else ('{"L":[', "]}")
    value = open_ * levels + '{"S":"x"}' + close * levels
    reply = send(service, "PutItem", f'{{"TableName":"{table}","Item":{{"pk":{{"S":"k"}},"deep":{value}}}}}')
    assert "ValidationException" in reply and "Nesting Levels have exceeded supported limits" in reply
    # The fault that is found first is told first.
    reply = send(service, "PutItem", f'{{"TableName":"{table}","Item":{{"deep":{value}}},"ReturnValues":"BOGUS"}}')
    assert "ValidationException" in reply and "returnValues" in reply
    assert service.call("scan", TableName=table)["Count"] == 0


def send(service, operation: str, body: str) -> str:
    """Bodies that no SDK writes."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Authorization": f"AWS4-HMAC-SHA256 Credential=any/{now[:8]}/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=x",
        "X-Amz-Date": now,
    }
    request = urllib.request.Request(service.client.meta.endpoint_url, body.encode(), headers)
    try:
        return urllib.request.urlopen(request).read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


@pytest.mark.parametrize(
    ("options", "size", "code", "member", "reason"),
    [
        ({"OnDemandThroughput": {"MaxReadRequestUnits": 2, "MaxWriteRequestUnits": 2}}, 3000, "ThrottlingException", "throttlingReasons", "TableWriteMaxOnDemandThroughputExceeded"),
        (
            {"BillingMode": "PROVISIONED", "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}},
            300_000,
            "ProvisionedThroughputExceededException",
            "ThrottlingReasons",
            "TableWriteProvisionedThroughputExceeded",
        ),
    ],
    ids=["on demand", "provisioned"],
)
def test_reasons_of_throttling_have_the_models_spelling(options, size, code, member, reason):
    with Server(options=["--dynamodb-throttling", "on"]) as server:
        client = connect(server)
        keys = {"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}]}
        client.create_table(TableName="table", **{"BillingMode": "PAY_PER_REQUEST", **keys, **options})
        with pytest.raises(ClientError) as refused:
            for number in range(100):
                client.put_item(TableName="table", Item={"pk": {"S": str(number)}, "d": {"S": "x" * size}})
    assert refused.value.response["Error"]["Code"] == code
    assert [told["reason"] for told in refused.value.response[member]] == [reason]
