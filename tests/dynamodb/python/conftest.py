"""boto3 against one server; each test makes tables of its own."""

from __future__ import annotations

import itertools

import boto3
import pytest

from harness.dynamodb import connect

names = (f"table-{number}" for number in itertools.count(1))


@pytest.fixture
def dynamodb(server):
    return connect(server)


@pytest.fixture
def streams(server):
    return connect(server, "dynamodbstreams")


@pytest.fixture
def make_table(server):
    """Makes a table with the hash key `p`, and the range key `s` (a number) if asked; answers boto3's Table."""
    resource = connect(server, make=boto3.resource)

    def make(range_key: bool = False, more: list[tuple[str, str]] = (), **options):
        attributes = [("p", "S")] + ([("s", "N")] if range_key else [])
        schema = [{"AttributeName": "p", "KeyType": "HASH"}] + ([{"AttributeName": "s", "KeyType": "RANGE"}] if range_key else [])
        table = resource.create_table(
            TableName=next(names),
            KeySchema=schema,
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in [*attributes, *more]],
            BillingMode="PAY_PER_REQUEST",
            **options,
        )
        table.wait_until_exists()
        return table

    return make
