"""boto3 against one server; each test makes tables of its own."""

from __future__ import annotations

import itertools

import boto3
import pytest
from botocore.config import Config

from harness.server import Server

names = (f"table-{number}" for number in itertools.count(1))


def boto(server: Server, service: str = "dynamodb", key: tuple[str, str] = ("test", "test"), make=boto3.client):
    return make(
        service,
        endpoint_url=f"http://127.0.0.1:{server.dynamodb_port}",
        region_name="us-east-1",
        aws_access_key_id=key[0],
        aws_secret_access_key=key[1],
        config=Config(retries={"max_attempts": 1}, max_pool_connections=50),
    )


@pytest.fixture
def dynamodb(server):
    return boto(server)


@pytest.fixture
def streams(server):
    return boto(server, "dynamodbstreams")


@pytest.fixture
def make_table(server):
    """Makes a table with the hash key `p`, and the range key `s` (a number) if asked; answers boto3's Table."""
    resource = boto(server, make=boto3.resource)

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
