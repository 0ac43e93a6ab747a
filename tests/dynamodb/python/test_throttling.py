"""A server that makes tables live from their units, as it does by default without `--dev`."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect
from harness.server import Server

LARGE = {"S": "x" * 390_000}


@pytest.fixture(scope="module")
def throttled():
    server = Server(options=["--dynamodb-throttling", "on"]).start()
    yield connect(server)
    server.close()


def table(client, name: str, **capacity) -> str:
    key = [{"AttributeName": "p", "KeyType": "HASH"}]
    client.create_table(TableName=name, KeySchema=key, AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}], **capacity)
    return name


def test_provisioned_units_run_out(throttled):
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    name = table(throttled, "provisioned", ProvisionedThroughput=units)
    # It takes 381 of the 300 units that are kept.
    throttled.put_item(TableName=name, Item={"p": {"S": "large"}, "v": LARGE})
    with pytest.raises(throttled.exceptions.ProvisionedThroughputExceededException) as refused:
        throttled.put_item(TableName=name, Item={"p": {"S": "small"}})
    reasons = refused.value.response["ThrottlingReasons"]
    assert [reason["reason"] for reason in reasons] == ["TableWriteProvisionedThroughputExceeded"]
    assert throttled.get_item(TableName=name, Key={"p": {"S": "large"}})["Item"]["v"] == LARGE
    with pytest.raises(throttled.exceptions.TransactionCanceledException) as cancelled:
        throttled.transact_write_items(TransactItems=[{"Delete": {"TableName": name, "Key": {"p": {"S": "large"}}}}])
    assert cancelled.value.response["CancellationReasons"][0]["Code"] == "ProvisionedThroughputExceeded"


def test_the_rest_of_a_batch_comes_back(throttled):
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    name = table(throttled, "batch", ProvisionedThroughput=units)
    writes = [{"PutRequest": {"Item": {"p": {"S": str(number)}, "v": {"S": "x" * 200_000}}}} for number in range(4)]
    left = throttled.batch_write_item(RequestItems={name: writes})["UnprocessedItems"]
    assert left == {name: writes[2:]}


def test_a_maximum_on_demand_is_of_each_second(throttled):
    maximum = {"MaxReadRequestUnits": 1, "MaxWriteRequestUnits": -1}
    name = table(throttled, "maximum", BillingMode="PAY_PER_REQUEST", OnDemandThroughput=maximum)
    throttled.put_item(TableName=name, Item={"p": {"S": "large"}, "v": LARGE})
    throttled.get_item(TableName=name, Key={"p": {"S": "large"}})
    with pytest.raises(ClientError) as refused:
        throttled.get_item(TableName=name, Key={"p": {"S": "large"}})
    assert refused.value.response["Error"]["Code"] == "ThrottlingException"


def test_tables_on_demand_have_what_they_like(throttled):
    name = table(throttled, "free", BillingMode="PAY_PER_REQUEST")
    for number in range(20):
        throttled.put_item(TableName=name, Item={"p": {"S": str(number)}, "v": LARGE})
