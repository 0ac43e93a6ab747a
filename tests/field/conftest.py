"""What users of the originals met: reports from issue trackers and forums, as cases with the right value and how it is known.

Each test states its input and the right reply. The right values of Redis are those of redis-server 7.0.15 (`QUARTET_TEST_TARGET=redis` runs
them there, but for the newer ones), those of DynamoDB recordings of the service or DynamoDB Local's, those of FaunaDB what its source keeps.
"""

from __future__ import annotations

import itertools
import json

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect
from harness.resp import Connection

names = (f"field-{number}" for number in itertools.count(1))


@pytest.fixture
def open_connection(server):
    """Opens connections of RESP2; all are closed after the test."""
    opened = []

    def open_one(**options) -> Connection:
        opened.append(Connection(server.port, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


class Service:
    """DynamoDB as a user who looks at every reply: an error is its code and text."""

    def __init__(self, server):
        self.client = connect(server, validates=False)

    def call(self, operation: str, **arguments):
        try:
            reply = getattr(self.client, operation)(**arguments)
        except ClientError as error:
            text = f"{error.response['Error']['Code']}: {error.response['Error'].get('Message', '')}"
            reasons = error.response.get("CancellationReasons")
            return text if reasons is None else f"{text} {json.dumps(reasons)}"
        del reply["ResponseMetadata"]
        return reply

    def outcome(self, operation: str, **arguments) -> str:
        """`ok`, or the code of the error."""
        reply = self.call(operation, **arguments)
        return reply.split(":")[0] if isinstance(reply, str) else "ok"

    def sql(self, statement: str, parameters: list | None = None, **options):
        """The items of a statement, or its error."""
        if parameters is not None:
            options["Parameters"] = parameters
        reply = self.call("execute_statement", Statement=statement, **options)
        return reply if isinstance(reply, str) else reply.get("Items")

    def sql_outcome(self, statement: str) -> str:
        reply = self.sql(statement)
        return reply.split(":")[0] if isinstance(reply, str) else "ok"

    def make_table(self, *keys: str, index: tuple[str, ...] = (), **options) -> str:
        """A table of keys such as `pk:S`, and a global index `index` of others."""
        name, indexed = next(names), index or ()
        attributes = dict(key.split(":") for key in [*keys, *indexed])
        options.setdefault("BillingMode", "PAY_PER_REQUEST")
        if indexed:
            everything = {"ProjectionType": "ALL"}
            options["GlobalSecondaryIndexes"] = [{"IndexName": "index", "KeySchema": key_schema(indexed), "Projection": everything}]
        self.client.create_table(
            TableName=name,
            KeySchema=key_schema(keys),
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in attributes.items()],
            **options,
        )
        self.client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        return name


def key_schema(keys) -> list[dict]:
    kinds = ["HASH", *["RANGE"] * (len(keys) - 1)]
    return [{"AttributeName": key.split(":")[0], "KeyType": kind} for key, kind in zip(keys, kinds, strict=True)]


@pytest.fixture
def service(server) -> Service:
    return Service(server)
