"""What DynamoDB counts: projections that find nothing, bytes of numbers, capacity in transactions, maxima of on-demand tables.

Each right value was measured at the service by authors of other servers and of a conformance suite (2026); DynamoDB Local agrees where it
counts at all.
"""

from __future__ import annotations

import pytest

ITEM_BYTES_MAX = 409_600


def number(value) -> dict:
    return {"N": str(value)}


def test_a_projection_that_finds_nothing_is_empty(service):
    table = service.make_table("pk:S")
    for key in "ab":
        service.client.put_item(TableName=table, Item={"pk": {"S": key}, "x": number(1)})

    def get(key: str, projection: str) -> dict:
        return {"Get": {"TableName": table, "Key": {"pk": {"S": key}}, "ProjectionExpression": projection}}

    reply = service.call("transact_get_items", TransactItems=[get("a", "nope"), get("b", "x"), get("none", "x")])
    assert reply == {"Responses": [{}, {"Item": {"x": number(1)}}, {}]}
    assert service.call("get_item", TableName=table, Key={"pk": {"S": "a"}}, ProjectionExpression="nope") == {"Item": {}}
    assert service.call("get_item", TableName=table, Key={"pk": {"S": "none"}}, ProjectionExpression="nope") == {}


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("1", 2),
        ("12", 2),
        ("123", 3),
        ("123456", 4),
        ("-12", 3),
        ("3.14159", 5),
        ("-3.14159", 6),
        ("1.5", 3),
        ("12.34", 3),
        ("100.001", 5),
        ("0.001", 2),
        ("1000000", 2),
        ("1E125", 2),
        ("0042.1200", 3),
        ("0", 1),
    ],
)
def test_bytes_of_a_number(service, text, cost):
    """1, half the digits before the point, half of those behind it, and 1 for a minus: the item of the greatest size is taken, a byte more is not."""
    table, key = service.make_table("pk:S"), f"n{text}"
    padding = ITEM_BYTES_MAX - len("pk" + key) - len("n") - cost - len("p")
    for over, outcome in ((0, "ok"), (1, "ValidationException")):
        item = {"pk": {"S": key}, "n": number(text), "p": {"S": "x" * (padding + over)}}
        assert service.outcome("put_item", TableName=table, Item=item) == outcome, over


class Transactions:
    """Writes in transactions, and what they consume: in all, of the table, of its index."""

    def __init__(self, service):
        self.service, self.table = service, service.make_table("pk:S", index=("g:S",))

    def write(self, kind: str, token: str | None = None, **arguments) -> list:
        options = {} if token is None else {"ClientRequestToken": token}
        item = {kind: {"TableName": self.table, **arguments}}
        return self.consumed(self.service.client.transact_write_items(TransactItems=[item], ReturnConsumedCapacity="INDEXES", **options))

    def consumed(self, reply: dict) -> list:
        counted = reply["ConsumedCapacity"][0]
        index = counted.get("GlobalSecondaryIndexes", {}).get("index", {})
        return [part.get("CapacityUnits") for part in (counted, counted.get("Table", {}), index)]


@pytest.fixture
def transactions(service):
    return Transactions(service)


def test_an_index_costs_once_in_a_transaction(service, transactions):
    item = {"pk": {"S": "1"}, "g": {"S": "a"}, "d": {"S": "x" * 3000}}
    service.client.put_item(TableName=transactions.table, Item=item)
    key = {"pk": {"S": "1"}}
    moved = transactions.write("Update", Key=key, UpdateExpression="SET g=:g", ExpressionAttributeValues={":g": {"S": "b"}})
    assert moved == [12, 6, 6]
    assert transactions.write("Delete", Key=key) == [9, 6, 3]


def test_a_replayed_token_is_charged_as_reading(service, transactions):
    service.client.put_item(TableName=transactions.table, Item={"pk": {"S": "9"}, "d": {"S": "x" * 9000}})
    key = {"pk": {"S": "9"}}
    assert [transactions.write("Delete", token="token", Key=key)[0] for _ in range(2)] == [18, 6]


def test_a_statement_in_a_transaction_costs_the_same(service, transactions):
    statement = {"Statement": f"INSERT INTO \"{transactions.table}\" VALUE {{'pk':'pq','g':'z'}}"}
    reply = service.client.execute_transaction(TransactStatements=[statement], ReturnConsumedCapacity="INDEXES")
    assert transactions.consumed(reply) == [3, 2, 1]


def test_maxima_of_an_on_demand_table(service):
    table = service.make_table("pk:S", OnDemandThroughput={"MaxReadRequestUnits": 20, "MaxWriteRequestUnits": 15})

    def change(**settings):
        service.client.update_table(TableName=table, **settings)
        service.client.get_waiter("table_exists").wait(TableName=table, WaiterConfig={"Delay": 1})
        return service.client.describe_table(TableName=table)["Table"].get("OnDemandThroughput")

    assert change(OnDemandThroughput={"MaxReadRequestUnits": 40}) == {"MaxReadRequestUnits": 40, "MaxWriteRequestUnits": 15}
    assert change(OnDemandThroughput={"MaxWriteRequestUnits": -1}) == {"MaxReadRequestUnits": 40}
    provisioned = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
    assert change(BillingMode="PROVISIONED", ProvisionedThroughput=provisioned) is None
    assert service.call("update_table", TableName=table, OnDemandThroughput={"MaxReadRequestUnits": 5}) == (
        "ValidationException: One or more parameter values were invalid: MaxReadRequestUnits for OnDemandThroughput "
        "cannot be specified when the table BillingMode is PROVISIONED"
    )
