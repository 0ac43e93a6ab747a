"""The order of a request's errors: each stage of checks answers before the next stage looks.

A request with a fault of every stage gets the first stage's error; without that fault the second's, and so on to a request that is served. The order
is the service's (docs/compat/dynamodb.md, "The order of errors"). Within a stage the members' complaints come together, in the order of the model.
"""

from __future__ import annotations

import http.client
import json
from datetime import datetime, timezone

import pytest

pytestmark = pytest.mark.quartet_only

KEY = {"p": {"S": "a"}}
TABLE = {
    "TableName": "order",
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"


def post(port: int, operation: str, body: str, authorization: str | None = SIGNED, kind: str | None = "application/x-amz-json-1.0") -> tuple[int, str, str]:
    """Status, exception and message."""
    headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "X-Amz-Date": datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")}
    if authorization:
        headers["Authorization"] = authorization
    if kind:
        headers["Content-Type"] = kind
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if not text.startswith("{"):
        return answer.status, text.strip("<>/\n"), ""
    told = json.loads(text)
    return answer.status, told.get("__type", "").rpartition("#")[2], told.get("message", told.get("Message", ""))


@pytest.fixture
def port(server):
    post(server.dynamodb_port, "CreateTable", json.dumps(TABLE))
    yield server.dynamodb_port
    post(server.dynamodb_port, "DeleteTable", '{"TableName":"order"}')


def test_the_request_is_judged_before_its_body(port):
    broken = "{broken"
    assert post(port, "Nothing", broken, None, None)[:2] == (404, "UnknownOperationException")
    assert post(port, "Nothing", broken, None) == (400, "SerializationException", "")
    assert post(port, "PutItem", broken, None) == (400, "SerializationException", "")
    assert post(port, "Nothing", "{}", None)[:2] == (400, "UnknownOperationException")
    assert post(port, "PutItem", "{}", None)[:2] == (400, "MissingAuthenticationTokenException")
    assert post(port, "PutItem", "{}", "AWS4-HMAC-SHA256 nothing")[:2] == (400, "IncompleteSignatureException")


NULL = "Value null at '{}' failed to satisfy constraint: Member must not be null"
WORD = "Value 'no' at '{}' failed to satisfy constraint: Member must satisfy enum value set: {}"
CAPACITY = WORD.format("returnConsumedCapacity", "[INDEXES, TOTAL, NONE]")
VALUES = WORD.format("returnValues", "[ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]")
NAME = "Value 'a b' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"

# For each operation the members of a request in which every stage has a fault. A stage: the start of its error, and what mends its fault.
STAGES = {
    "PutItem": (
        {"TableName": "a b", "ReturnValues": "no", "ReturnConsumedCapacity": "no", "ConditionExpression": "size(", "ExpressionAttributeValues": {":v": {"S": "x"}}, "ConditionalOperator": 5},
        [
            ("SerializationException", "NUMBER_VALUE cannot be converted to String", {"ConditionalOperator": None}),
            ("ValidationException", f"4 validation errors detected: {NAME}; {NULL.format('item')}; ", {"TableName": "none", "Item": {"q": {"S": "b"}}}),
            ("ValidationException", f"2 validation errors detected: {VALUES}; {CAPACITY}", {"ReturnValues": None, "ReturnConsumedCapacity": None}),
            ("ValidationException", "Invalid ConditionExpression: Syntax error", {"ConditionExpression": "attribute_exists(p)"}),
            ("ValidationException", "Value provided in ExpressionAttributeValues unused in expressions: keys: {:v}", {"ExpressionAttributeValues": None}),
            ("ResourceNotFoundException", "Requested resource not found", {"TableName": "order"}),
            ("ValidationException", "One or more parameter values were invalid: Missing the key p in the item", {"Item": KEY}),
            ("ConditionalCheckFailedException", "The conditional request failed", {"ConditionExpression": None}),
        ],
    ),
    "GetItem": (
        {"TableName": "none", "Key": {"q": {"S": ""}}, "ReturnConsumedCapacity": "no", "ProjectionExpression": "a,,b", "ConsistentRead": "maybe"},
        [
            ("SerializationException", "", {"ConsistentRead": None}),
            ("ValidationException", CAPACITY, {"ReturnConsumedCapacity": None}),
            ("ValidationException", "Invalid ProjectionExpression: Syntax error", {"ProjectionExpression": "a"}),
            ("ResourceNotFoundException", "Requested resource not found", {"TableName": "order"}),
            ("ValidationException", "The provided key element does not match the schema", {"Key": KEY}),
        ],
    ),
    "UpdateItem": (
        {"ReturnValues": "no", "UpdateExpression": "SET", "ConditionExpression": "(", "ExpressionAttributeNames": {"#u": "u"}},
        [
            ("ValidationException", f"3 validation errors detected: {NULL.format('tableName')}; {NULL.format('key')}; {VALUES}", {"TableName": "none", "Key": {"q": {"S": "b"}}, "ReturnValues": None}),
            ("ValidationException", "Invalid UpdateExpression: Syntax error", {"UpdateExpression": "SET a = p"}),
            ("ValidationException", "Invalid ConditionExpression: Syntax error", {"ConditionExpression": "attribute_exists(p)"}),
            ("ValidationException", "Value provided in ExpressionAttributeNames unused in expressions: keys: {#u}", {"ExpressionAttributeNames": None}),
            ("ResourceNotFoundException", "Requested resource not found", {"TableName": "order"}),
            ("ValidationException", "The provided key element does not match the schema", {"Key": KEY}),
            ("ConditionalCheckFailedException", "The conditional request failed", {"ConditionExpression": None, "UpdateExpression": "SET a = :v", "ExpressionAttributeValues": {":v": {"S": "x"}}}),
        ],
    ),
    "Query": (
        {"TableName": "none", "Limit": 0, "KeyConditionExpression": "p =", "FilterExpression": "(", "ExpressionAttributeValues": {":v": {"S": "x"}}},
        [
            ("ValidationException", "Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1", {"Limit": 1}),
            ("ValidationException", "Invalid KeyConditionExpression: Syntax error", {"KeyConditionExpression": "q = :v"}),
            ("ValidationException", "Invalid FilterExpression: Syntax error", {"FilterExpression": None}),
            ("ResourceNotFoundException", "Requested resource not found", {"TableName": "order"}),
            ("ValidationException", "Query condition missed key schema element: p", {"KeyConditionExpression": "p = :v"}),
        ],
    ),
    "TransactWriteItems": (
        {"TransactItems": [], "ClientRequestToken": "t" * 37},
        [
            (
                "ValidationException",
                "2 validation errors detected: Value '[]' at 'transactItems' failed to satisfy constraint: Member must have length greater than or equal to 1; ",
                {"TransactItems": [{"Put": {"TableName": "none", "Item": KEY}}, {"Put": {"TableName": "none", "Item": KEY}}], "ClientRequestToken": None},
            ),
            ("ResourceNotFoundException", "Requested resource not found", {"TransactItems": [{"Put": {"TableName": "order", "Item": KEY}}, {"Put": {"TableName": "order", "Item": KEY}}]}),
            ("ValidationException", "Transaction request cannot include multiple operations on one item", {"TransactItems": [{"Put": {"TableName": "order", "Item": KEY}}]}),
        ],
    ),
}


@pytest.mark.parametrize("operation", STAGES)
def test_each_stage_answers_before_the_next(port, operation):
    members, stages = STAGES[operation]
    members = dict(members)
    for exception, start, mend in stages:
        status, told, message = post(port, operation, json.dumps(members))
        assert (status, told) == (400, exception) and message.removeprefix("1 validation error detected: ").startswith(start), (members, told, message)
        for name, value in mend.items():
            if value is None:
                members.pop(name, None)
            else:
                members[name] = value
    status, told, message = post(port, operation, json.dumps(members))
    assert status == 200, (members, told, message)
