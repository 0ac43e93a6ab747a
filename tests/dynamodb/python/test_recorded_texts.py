"""Refusals whose whole text public recordings of the service have."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect

ENVELOPE = "1 validation error detected: "
UNUSED = "Value provided in ExpressionAttributeNames unused in expressions: keys: {#u}"
NAMES = {"#u": "u"}
ITEM = {"p": {"S": "a"}}
EMPTY_SET = "One or more parameter values were invalid: An string set  may not be empty"
LENGTH = "failed to satisfy constraint: Member must have length"


@pytest.fixture
def refusal(server):
    """Sends members that a client would refuse to send, and answers the exception's name and text."""
    client = connect(server, validates=False)

    def refuse(operation: str, **members) -> tuple[str, str]:
        with pytest.raises(ClientError) as refused:
            client._make_api_call(operation, members)
        error = refused.value.response["Error"]
        return error["Code"], error["Message"]

    return refuse


def writes(**members):
    """The three writes of one item, each with what it needs."""
    yield "PutItem", {"Item": ITEM, "ConditionExpression": "attribute_exists(p)", **members}
    yield "DeleteItem", {"Key": ITEM, "ConditionExpression": "attribute_exists(p)", **members}
    yield "UpdateItem", {"Key": ITEM, "UpdateExpression": "REMOVE a", **members}


ENVELOPED = [
    *((operation, members, UNUSED) for operation, members in writes(ExpressionAttributeNames=NAMES)),
    *((operation, members, "ExpressionAttributeValues must not be empty") for operation, members in writes(ExpressionAttributeValues={})),
    *((operation, members, EMPTY_SET) for operation, members in writes(ExpressionAttributeValues={":s": {"SS": []}})),
    ("PutItem", {"Item": {**ITEM, "s": {"SS": []}}}, EMPTY_SET),
    (
        "PutItem",
        {"Item": {**ITEM, "n": {"NULL": False}}},
        "One or more parameter values were invalid: Null attribute value types must have the value of true",
    ),
    ("PutItem", {"Item": ITEM, "ReturnValues": "ALL_NEW"}, "ReturnValues can only be ALL_OLD or NONE"),
    ("UpdateItem", {"Key": ITEM, "UpdateExpression": ""}, "Invalid UpdateExpression: The expression can not be empty;"),
    (
        "DeleteItem",
        {"Key": ITEM, "ConditionExpression": "((a = a))"},
        "Invalid ConditionExpression: The expression has redundant parentheses;",
    ),
    (
        "Query",
        {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}, "Select": "COUNT", "ProjectionExpression": "p"},
        "Cannot specify the ProjectionExpression when choosing to get only the Count",
    ),
    (
        "Query",
        {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}, "Limit": 0},
        "Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
    ),
]

BARE = [
    ("PutItem", {"Item": {"p": {}}}, "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"),
    ("PutItem", {"Item": {**ITEM, "n": {"N": "x"}}}, "The parameter cannot be converted to a numeric value: x"),
    ("PutItem", {"Item": {**ITEM, "s": {"S": "x" * 409_600}}}, "Item size has exceeded the maximum allowed size"),
    (
        "UpdateItem",
        {"Key": ITEM, "UpdateExpression": "REMOVE p"},
        "One or more parameter values were invalid: Cannot update attribute p. This attribute is part of the key",
    ),
    ("GetItem", {"Key": ITEM, "ProjectionExpression": "p", "ExpressionAttributeNames": NAMES}, UNUSED),
    ("Scan", {"FilterExpression": "attribute_exists(a)", "ExpressionAttributeNames": NAMES}, UNUSED),
    ("Scan", {"FilterExpression": "a = :s", "ExpressionAttributeValues": {":s": {"SS": []}}}, EMPTY_SET),
    (
        "Scan",
        {"Select": "COUNT", "ProjectionExpression": "p"},
        "Cannot specify the ProjectionExpression when choosing to get only the Count",
    ),
    (
        "Query",
        {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}, "ExpressionAttributeNames": NAMES},
        UNUSED,
    ),
    (
        "Query",
        {"KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}, "ExclusiveStartKey": {"p": {"N": "1"}}},
        "The provided starting key is invalid",
    ),
]


@pytest.mark.parametrize("operation, members, text", [(*case[:2], ENVELOPE + case[2]) for case in ENVELOPED] + BARE)
def test_the_envelope_stands_before_requests_and_not_before_data(refusal, make_table, operation, members, text):
    assert refusal(operation, TableName=make_table().name, **members) == ("ValidationException", text)


@pytest.mark.parametrize(
    "operation, name, text",
    [
        ("CreateTable", "ab", f"Value 'ab' at 'tableName' {LENGTH} greater than or equal to 3"),
        ("CreateTable", "", f"Value '' at 'tableName' {LENGTH} greater than or equal to 3"),
        ("CreateTable", "a" * 256, f"Value '{'a' * 256}' at 'tableName' {LENGTH} less than or equal to 255"),
        (
            "CreateTable",
            "a b!",
            "Value 'a b!' at 'tableName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        ),
        ("PutItem", "a" * 256, f"Value '{'a' * 256}' at 'tableName' {LENGTH} less than or equal to 255"),
    ],
)
def test_names_of_tables(refusal, operation, name, text):
    members = {"Item": ITEM} if operation == "PutItem" else {"KeySchema": [], "AttributeDefinitions": []}
    assert refusal(operation, TableName=name, **members) == ("ValidationException", ENVELOPE + text)


def definitions(*names):
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def schema(*names):
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE", "RANGE"))]


def test_keys_of_tables(refusal):
    new = {"TableName": "tab", "BillingMode": "PAY_PER_REQUEST"}
    three = refusal("CreateTable", **new, KeySchema=schema("a", "b", "c"), AttributeDefinitions=definitions("a", "b", "c"))
    shown = "KeySchemaElement(attributeName=a, keyType=HASH), KeySchemaElement(attributeName=b, keyType=RANGE), KeySchemaElement(attributeName=c, keyType=RANGE)"
    assert three == ("ValidationException", f"{ENVELOPE}Value '[{shown}]' at 'keySchema' {LENGTH} less than or equal to 2")
    twice = refusal("CreateTable", **new, KeySchema=schema("a"), AttributeDefinitions=definitions("a", "a"))
    assert twice == ("ValidationException", "Attribute Name is duplicated: a")


def test_too_many_of_something_shows_it(refusal, make_table):
    name = make_table().name
    gets = [{"Get": {"TableName": name, "Key": {"p": {"S": str(number)}}}} for number in range(101)]
    code, text = refusal("TransactGetItems", TransactItems=gets)
    assert text.startswith(f"{ENVELOPE}Value '[TransactGetItem(get=Get(key={{p=AttributeValue(s=0)}}, tableName={name})), ")
    assert text.endswith(f"]' at 'transactItems' {LENGTH} less than or equal to 100")
    writes = [{"PutRequest": {"Item": {"p": {"S": str(number)}}}} for number in range(26)]
    code, text = refusal("BatchWriteItem", RequestItems={name: writes})
    assert text.startswith(f"{ENVELOPE}Value '{{{name}=[WriteRequest(putRequest=PutRequest(item={{p=AttributeValue(s=0)}})), ")
    assert text.endswith("Member must have length greater than or equal to 1]")
    # What is long is not repeated.
    writes = [{"PutRequest": {"Item": {"p": {"S": str(number)}, "x": {"S": "x" * 10_000}}}} for number in range(26)]
    assert len(refusal("BatchWriteItem", RequestItems={name: writes})[1]) < 1000


def test_a_composite_key_names_what_is_missing(refusal, make_table):
    keys = [{"AttributeName": name, "KeyType": kind} for name, kind in (("a", "HASH"), ("b", "HASH"), ("c", "RANGE"), ("d", "RANGE"))]
    index = {"IndexName": "index", "KeySchema": keys, "Projection": {"ProjectionType": "ALL"}}
    table = make_table(more=[(name, "S") for name in "abcd"], GlobalSecondaryIndexes=[index])
    # Those of the range attributes were recorded from the service in October 2026 (paritysuite, multiAttributeGsiKey).
    skipped = "RANGE key attributes c must have equality conditions specified in the query because a condition is present on key attribute d"
    texts = {
        "a = :v": "Query condition missed key schema element: b",
        "a = :v AND b = :v AND d = :v": skipped,
        "a = :v AND b = :v AND c > :v AND d = :v": skipped,
    }
    for condition, text in texts.items():
        members = {"KeyConditionExpression": condition, "ExpressionAttributeValues": {":v": {"S": "v"}}}
        refused = refusal("Query", TableName=table.name, IndexName="index", **members)
        assert refused == ("ValidationException", text)
