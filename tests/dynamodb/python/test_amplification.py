"""Small requests that multiply: what each may send, cost in memory and take, as a table.

Each of these once copied what it names as often as it names it, before anybody looked at sizes: gigabytes for a few kilobytes.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect
from harness.server import Server

KIB, MIB = 1 << 10, 1 << 20
LARGE = 390 * 1000
KEY = {"p": {"S": "large"}}
# Generous: an unoptimised server beside seven others.
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def server():
    server = Server(data="memory").start()
    client = connect(server)
    keys = {"KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}
    for name in ("tab", "tiny"):
        client.create_table(TableName=name, BillingMode="PAY_PER_REQUEST", **keys)
    large = {**KEY, "x": {"S": "x" * LARGE}}
    client.put_item(TableName="tab", Item=large)
    client.put_item(TableName="tab", Item={"p": {"S": "deep"}, "m": nested(30, {"S": "x" * LARGE})})
    client.put_item(TableName="tab", Item={"p": {"S": "bytes"}, "b": {"B": b"a" * LARGE}})
    for number in range(40):
        client.put_item(TableName="tab", Item={"p": {"S": f"{number}"}, "x": {"S": "x" * LARGE}})
    for first in range(0, 2000, 25):
        client.batch_write_item(RequestItems={"tiny": [{"PutRequest": {"Item": {"p": {"S": f"{number}"}}}} for number in range(first, first + 25)]})
    yield server
    server.close()


def nested(levels: int, value: dict) -> dict:
    for _ in range(levels):
        value = {"M": {"m": value}}
    return value


def update(expression: str, **values) -> tuple[str, dict]:
    return "update_item", {"TableName": "tab", "Key": KEY, "UpdateExpression": expression, **({"ExpressionAttributeValues": values} if values else {})}


def select(statement: str) -> tuple[str, dict]:
    return "execute_statement", {"Statement": statement}


def each(template: str, count: int, joined: str = ",") -> str:
    return joined.join(template.format(number) for number in range(count))


def update_of(number: int) -> dict:
    return {"Update": {"TableName": "tab", "Key": {"p": {"S": f"{number}"}}, "UpdateExpression": "SET y = :y", "ExpressionAttributeValues": {":y": {"S": "y"}}}}


FULL, EXPRESSION, TRANSACTION = "Item size to update has exceeded", "Expression size has exceeded", "cannot exceed 4 MB"
TWICE = "Duplicate identifiers in select clause"

# What it is; the request; the most it sends; the most that the server's memory may grow at its peak; what refuses it, if anything does.
TABLE = [
    ("an attribute copied to many", update("SET " + each("a{0}=x", 500)), 5 * KIB, 8 * MIB, FULL),
    ("an attribute copied if others are not there", update("SET " + each("a{0}=if_not_exists(b{0},x)", 140)), 5 * KIB, 8 * MIB, FULL),
    ("a value put into many", update("SET " + each("a{0}=:v", 500), **{":v": {"S": "x" * 3000}}), 8 * KIB, 8 * MIB, FULL),
    ("a large value put into many", update("SET " + each("a{0}=:v", 500), **{":v": {"S": "x" * LARGE}}), 400 * KIB, 24 * MIB, EXPRESSION),
    (
        "a large value in many conditions",
        ("scan", {"TableName": "tab", "FilterExpression": each("a{0}=:v", 140, " OR "), "ExpressionAttributeValues": {":v": {"S": "x" * LARGE}}}),
        400 * KIB,
        40 * MIB,
        EXPRESSION,
    ),
    (
        "a long name in a long path",
        ("get_item", {"TableName": "tab", "Key": KEY, "ProjectionExpression": each("#n" + ".#n" * 30 + "[{0}]", 40), "ExpressionAttributeNames": {"#n": "n" * 65_000}}),
        72 * KIB,
        24 * MIB,
        EXPRESSION,
    ),
    ("an attribute shown many times", select("SELECT " + each("x", 4000) + ' FROM "tab" WHERE p = \'large\''), 9 * KIB, 16 * MIB, TWICE),
    ("each level of what is nested", select("SELECT " + each("m", 1) + "".join(f",{'.'.join(['m'] * level)}" for level in range(2, 31)) + ' FROM "tab" WHERE p = \'deep\''), 3 * KIB, 16 * MIB, TWICE),
    ("many items changed a little", ("transact_write_items", {"TransactItems": [update_of(number) for number in range(40)]}), 8 * KIB, 40 * MIB, TRANSACTION),
    (
        "bytes looked for in bytes, often",
        (
            "query",
            {
                "TableName": "tab",
                "KeyConditionExpression": "p = :p",
                "FilterExpression": each("contains(b,:v)", 200, " OR "),
                "ExpressionAttributeValues": {":p": {"S": "bytes"}, ":v": {"B": b"a" * 9_000 + b"b"}},
            },
        ),
        20 * KIB,
        40 * MIB,
        None,
    ),
    (
        "a long filter over tiny items",
        ("scan", {"TableName": "tiny", "FilterExpression": each("a IN (" + each(":v", 100) + ")", 12, " OR "), "ExpressionAttributeValues": {":v": {"S": "v"}}}),
        8 * KIB,
        16 * MIB,
        None,
    ),
    ("a long projection of tiny items", ("scan", {"TableName": "tiny", "ProjectionExpression": each("a{0}", 800)}), 8 * KIB, 16 * MIB, None),
]


def peak_bytes(server) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * KIB


def forget_peak(server) -> None:
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")


@pytest.mark.parametrize("request_, sent_max, grown_max, refusal", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_no_request_multiplies_without_bound(server, request_, sent_max, grown_max, refusal):
    operation, members = request_
    client, sent, answered = connect(server), [], []
    client.meta.events.register("before-send.dynamodb.*", lambda request, **_: sent.append(len(request.body)))
    # Read first: what the server gives back between the two is no growth.
    before = server.rss_bytes()
    forget_peak(server)
    begun = time.monotonic()
    try:
        answered.append(len(json.dumps(getattr(client, operation)(**members), default=str)))
        assert refusal is None
    except ClientError as refused:
        assert refusal and refused.response["Error"]["Code"] == "ValidationException" and refusal in refused.response["Error"]["Message"]
    assert time.monotonic() - begun < SECONDS_MAX
    assert sent[0] <= sent_max
    assert peak_bytes(server) - before <= grown_max


def test_a_page_of_a_long_filter_ends_early_and_goes_on(server):
    """As many rows as the filter's tests allow, and then a key to go on after."""
    client, keys, found = connect(server), {}, 0
    filter_ = each("p IN (" + each(":v", 100) + ")", 12, " OR ")
    while True:
        page = client.scan(TableName="tiny", FilterExpression=filter_, ExpressionAttributeValues={":v": {"S": "7"}}, **keys)
        assert page["ScannedCount"] < 1000
        found += page["Count"]
        if "LastEvaluatedKey" not in page:
            break
        keys = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert found == 1
