"""Items, conditions, queries, batches and PartiQL as an application uses them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import ClientError

ITEM = {
    "p": "all",
    "text": "snow ☃ \" \\ \n",
    "number": Decimal("-1234567890.12345678901234567890123456789"[:30]),
    "bytes": b"\x00\xff",
    "yes": True,
    "nothing": None,
    "list": [1, "two", [3]],
    "map": {"inner": {"deep": Decimal(1)}},
    "texts": {"a", "b"},
    "numbers": {Decimal(1), Decimal("2.5")},
    "binaries": {b"a", b"b"},
}


def plain(item):
    return {name: value.value if hasattr(value, "value") else value for name, value in item.items()}


def test_every_type_comes_back(make_table):
    table = make_table()
    table.put_item(Item=ITEM)
    item = plain(table.get_item(Key={"p": "all"})["Item"])
    item["binaries"] = {bytes(value) for value in item["binaries"]}
    assert item == ITEM


def test_conditions_decide_writes(make_table):
    table = make_table()
    table.put_item(Item={"p": "a", "n": 1}, ConditionExpression=Attr("p").not_exists())
    with pytest.raises(ClientError, match="The conditional request failed") as failed:
        table.put_item(Item={"p": "a", "n": 2}, ConditionExpression=Attr("p").not_exists(), ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert failed.value.response["Item"] == {"p": {"S": "a"}, "n": {"N": "1"}}
    updated = table.update_item(
        Key={"p": "a"},
        UpdateExpression="ADD n :one SET l = list_append(if_not_exists(l, :none), :l)",
        ExpressionAttributeValues={":one": 1, ":none": [], ":l": ["x"]},
        ReturnValues="ALL_NEW",
    )
    assert updated["Attributes"] == {"p": "a", "n": 2, "l": ["x"]}


def test_queries_go_page_by_page(make_table):
    table = make_table(range_key=True)
    with table.batch_writer() as batch:
        for number in range(100):
            batch.put_item(Item={"p": "a", "s": number, "filler": "x" * 30_000})
    seen, pages, options = [], 0, {}
    while True:
        page = table.query(KeyConditionExpression=Key("p").eq("a") & Key("s").gte(10), ScanIndexForward=False, **options)
        seen += [int(item["s"]) for item in page["Items"]]
        pages += 1
        if "LastEvaluatedKey" not in page:
            break
        options = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    assert seen == list(range(99, 9, -1)) and pages >= 3


def test_parallel_scans_see_everything_once(make_table):
    table = make_table()
    with table.batch_writer() as batch:
        for number in range(200):
            batch.put_item(Item={"p": str(number)})
    seen = [item["p"] for segment in range(4) for item in table.scan(Segment=segment, TotalSegments=4)["Items"]]
    assert sorted(seen) == sorted(str(number) for number in range(200))


def test_global_indexes_are_never_stale(make_table):
    projection = {"ProjectionType": "ALL"}
    schema = [{"AttributeName": "section", "KeyType": "HASH"}, {"AttributeName": "views", "KeyType": "RANGE"}]
    table = make_table(
        more=[("section", "S"), ("views", "N")],
        GlobalSecondaryIndexes=[{"IndexName": "best", "KeySchema": schema, "Projection": projection}],
    )
    for number in range(20):
        table.put_item(Item={"p": str(number), "section": "World", "views": number})
        table.update_item(Key={"p": str(number)}, UpdateExpression="SET #v = :v", ExpressionAttributeNames={"#v": "views"}, ExpressionAttributeValues={":v": 100 - number})
        best = table.query(IndexName="best", KeyConditionExpression=Key("section").eq("World"), ScanIndexForward=False)["Items"]
        assert [int(item["views"]) for item in best] == [100 - other for other in range(number + 1)]


def test_an_index_can_be_added_and_removed(make_table, dynamodb):
    table = make_table()
    with table.batch_writer() as batch:
        for number in range(500):
            batch.put_item(Item={"p": str(number), "g": number % 5})
    create = {"IndexName": "late", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}], "Projection": {"ProjectionType": "KEYS_ONLY"}}
    dynamodb.update_table(
        TableName=table.name,
        AttributeDefinitions=[{"AttributeName": "g", "AttributeType": "N"}],
        GlobalSecondaryIndexUpdates=[{"Create": create}],
    )
    while dynamodb.describe_table(TableName=table.name)["Table"]["GlobalSecondaryIndexes"][0]["IndexStatus"] != "ACTIVE":
        pass
    assert table.query(IndexName="late", KeyConditionExpression=Key("g").eq(3))["Count"] == 100
    dynamodb.update_table(TableName=table.name, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "late"}}])
    assert "GlobalSecondaryIndexes" not in dynamodb.describe_table(TableName=table.name)["Table"]


def test_batches_answer_what_fits(make_table, dynamodb):
    table = make_table()
    for number in range(60):
        table.put_item(Item={"p": str(number), "filler": "x" * 390_000})
    keys = {table.name: {"Keys": [{"p": {"S": str(number)}} for number in range(60)]}}
    got, calls = 0, 0
    while keys:
        answer = dynamodb.batch_get_item(RequestItems=keys)
        got, calls, keys = got + len(answer["Responses"][table.name]), calls + 1, answer["UnprocessedKeys"]
    assert got == 60 and calls >= 2


def test_partiql(make_table, dynamodb):
    table = make_table(range_key=True)
    for number in range(3):
        dynamodb.execute_statement(Statement=f"INSERT INTO \"{table.name}\" VALUE {{'p': 'a', 's': {number}, 'x': ?}}", Parameters=[{"S": "v"}])
    with pytest.raises(dynamodb.exceptions.DuplicateItemException):
        dynamodb.execute_statement(Statement=f"INSERT INTO \"{table.name}\" VALUE {{'p': 'a', 's': 1}}")
    rows = dynamodb.execute_statement(Statement=f'SELECT s FROM "{table.name}" WHERE p = \'a\' AND s > 0 ORDER BY s DESC')["Items"]
    assert rows == [{"s": {"N": "2"}}, {"s": {"N": "1"}}]
    page = dynamodb.execute_statement(Statement=f'SELECT * FROM "{table.name}"', Limit=2)
    rest = dynamodb.execute_statement(Statement=f'SELECT * FROM "{table.name}"', Limit=2, NextToken=page["NextToken"])
    assert len(page["Items"]) + len(rest["Items"]) == 3
