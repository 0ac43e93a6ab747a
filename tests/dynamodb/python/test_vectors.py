"""Vector indexes and SearchVectors, which the service has since August 2026. A table with VectorIndexes was made without them once."""

from __future__ import annotations

import math
import random
import threading

import pytest
from botocore.exceptions import ClientError
from harness.dynamodb import connect
from harness.memory_bounds import until
from harness.server import Server

DISTANCES = ("COSINE", "EUCLIDEAN", "DOT_PRODUCT")


def vector(*components: float) -> list:
    return [{"N": repr(component)} for component in components]


def index(name: str, distance: str = "COSINE", dimensions: int = 3, **more) -> dict:
    projection = {"ProjectionType": "ALL"}
    return {"IndexName": name, "VectorAttribute": {"AttributeName": "e"}, "Dimensions": dimensions, "DistanceFunction": distance, "Projection": projection, **more}


def make(dynamodb, name: str, indexes: list, extra: tuple = ()) -> str:
    definitions = [{"AttributeName": attribute, "AttributeType": "S"} for attribute in ("p", *extra)]
    keys = [{"AttributeName": "p", "KeyType": "HASH"}]
    dynamodb.create_table(TableName=name, AttributeDefinitions=definitions, KeySchema=keys, BillingMode="PAY_PER_REQUEST", VectorIndexes=indexes)
    return name


def search(dynamodb, table: str, name: str, components, count: int = 10, **more) -> list:
    results = dynamodb.search_vectors(TableName=table, IndexName=name, SearchVector=vector(*components), TopK=count, **more)["SearchResults"]
    return [(result["Item"]["p"]["S"], result["Score"]) for result in results]


def distance(kind: str, a, b) -> float:
    product = sum(x * y for x, y in zip(a, b))
    if kind == "DOT_PRODUCT":
        return product
    if kind == "EUCLIDEAN":
        return math.dist(a, b)
    return 1 - product / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def test_the_nearest_items_are_found_and_scored(dynamodb):
    table = make(dynamodb, "nearest", [index(kind.lower(), kind, 8) for kind in DISTANCES])
    chance = random.Random(1)
    vectors = {f"item-{number}": [chance.uniform(-1, 1) for _ in range(8)] for number in range(300)}
    for name, components in vectors.items():
        dynamodb.put_item(TableName=table, Item={"p": {"S": name}, "e": {"L": vector(*components)}, "more": {"S": name}})
    for kind in DISTANCES:
        query = [chance.uniform(-1, 1) for _ in range(8)]
        expected = sorted(((distance(kind, query, other), name) for name, other in vectors.items()), reverse=kind == "DOT_PRODUCT")
        found = search(dynamodb, table, kind.lower(), query, 20)
        assert [name for name, _ in found] == [name for _, name in expected[:20]]
        assert all(math.isclose(score, exact, rel_tol=1e-4, abs_tol=1e-5) for (_, score), (exact, _) in zip(found, expected))


def test_a_search_after_the_reply_sees_the_item_and_each_search_one_state(dynamodb, server):
    """The index commits with the item: 1,000 changes from one client, a search from another after each reply, and others meanwhile."""
    table = make(dynamodb, "strict", [index("vix")])
    over, seen, failed = threading.Event(), [], []
    pair = [{"Put": {"TableName": table, "Item": {"p": {"S": name}, "e": {"L": vector(1, 0, 0)}}}} for name in ("x", "y")]
    gone = [{"Delete": {"TableName": table, "Key": {"p": {"S": name}}}} for name in ("x", "y")]

    def look():
        try:
            while not over.is_set():
                seen.append({name for name, _ in search(dynamodb, table, "vix", (1, 0, 0))} & {"x", "y"})
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(100):
            components = (math.cos(number), math.sin(number), 0.0)
            dynamodb.put_item(TableName=table, Item={"p": {"S": "moving"}, "e": {"L": vector(*components)}})
            found = dict(search(dynamodb, table, "vix", components))
            assert abs(found["moving"]) < 1e-6
            dynamodb.transact_write_items(TransactItems=gone if number % 2 else pair)
    finally:
        over.set()
        thread.join()
    assert failed == [] and seen
    assert set(map(frozenset, seen)) <= {frozenset(), frozenset({"x", "y"})}, "both or none"


def test_filters_and_projections(dynamodb):
    schema = [{"AttributeName": "t", "SearchSchemaElementType": "HASH"}, {"AttributeName": "c", "SearchSchemaElementType": "INLINE_FILTER"}]
    keys_only = {"Projection": {"ProjectionType": "KEYS_ONLY"}}
    table = make(dynamodb, "filtered", [index("all", SearchSchema=schema), index("keys", SearchSchema=schema, **keys_only)], ("t", "c"))
    for number in range(40):
        item = {"p": {"S": str(number)}, "t": {"S": f"t{number % 2}"}, "c": {"S": f"c{number % 4}"}, "e": {"L": vector(1, number, 0)}, "o": {"S": "other"}}
        dynamodb.put_item(TableName=table, Item=item)
    one = {"SearchConditionExpression": "t = :t", "ExpressionAttributeValues": {":t": {"S": "t1"}}}
    two = {"SearchConditionExpression": "t = :t AND c = :c", "ExpressionAttributeValues": {":t": {"S": "t1"}, ":c": {"S": "c3"}}}
    assert {int(name) % 2 for name, _ in search(dynamodb, table, "all", (1, 0, 0), 100, **one)} == {1}
    assert [int(name) for name, _ in search(dynamodb, table, "all", (1, 0, 0), 3, **two)] == [3, 7, 11]
    raw = lambda name, **more: dynamodb.search_vectors(TableName=table, IndexName=name, SearchVector=vector(1, 0, 0), TopK=1, **one, **more)["SearchResults"][0]["Item"]
    assert set(raw("all")) == {"p", "t", "c", "o"} and set(raw("keys")) == {"p", "t", "c"}
    shown = raw("all", ProjectionExpression="e[1], o")
    assert shown == {"e": {"L": [{"N": "1"}]}, "o": {"S": "other"}}


def test_an_index_of_an_older_table_is_filled_and_removed(dynamodb):
    table = "older"
    keys = [{"AttributeName": "p", "KeyType": "HASH"}]
    dynamodb.create_table(TableName=table, AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}], KeySchema=keys, BillingMode="PAY_PER_REQUEST")
    for number in range(500):
        components = vector(1, number, 0) if number % 5 else vector(1, 2)
        dynamodb.put_item(TableName=table, Item={"p": {"S": str(number)}, "e": {"L": components}})
    dynamodb.update_table(TableName=table, VectorIndexUpdates=[{"Create": index("vix")}])
    described = lambda: dynamodb.describe_table(TableName=table)["Table"].get("VectorIndexes", [])
    until(lambda: described()[0]["IndexStatus"] == "ACTIVE" and "Backfilling" not in described()[0])
    assert described()[0]["ItemCount"] == 400, "those of another length are not in it"
    assert [name for name, _ in search(dynamodb, table, "vix", (1, 7, 0), 1)] == ["7"]
    dynamodb.update_item(TableName=table, Key={"p": {"S": "0"}}, UpdateExpression="SET o = :o", ExpressionAttributeValues={":o": {"S": "o"}})
    with pytest.raises(ClientError, match="Invalid size for parameter e, Expected: 3, Actual: 2 IndexName: vix"):
        dynamodb.put_item(TableName=table, Item={"p": {"S": "0"}, "e": {"L": vector(1, 2)}})
    dynamodb.update_table(TableName=table, VectorIndexUpdates=[{"Delete": {"IndexName": "vix"}}])
    assert described() == []
    with pytest.raises(ClientError, match="The table does not have the specified index: vix"):
        search(dynamodb, table, "vix", (1, 7, 0))


def test_vectors_are_there_after_a_kill():
    with Server(durability="always") as server:
        dynamodb = connect(server)
        table = make(dynamodb, "durable", [index("vix")])
        for number in range(50):
            dynamodb.put_item(TableName=table, Item={"p": {"S": str(number)}, "e": {"L": vector(1, number, 0)}})
        before = search(dynamodb, table, "vix", (1, 20, 0), 50)
        server.kill()
        server.start()
        assert len(before) == 50 and search(connect(server), table, "vix", (1, 20, 0), 50) == before
