"""Every member of every request, as boto3's model of the service has it, is served, refused by name, or listed with what it does (`crates/layer-dynamodb/members.txt`, which the crate compares with its own table).

A table that was made with VectorIndexes had none, and an export with a FilterSpecification held everything. The next month's member fails
this test instead of vanishing.
"""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect

FILE = Path(__file__).parents[3] / "crates" / "layer-dynamodb" / "members.txt"
# Members that are not refused by their shape but where they are read: what the answer says.
ELSEWHERE = {("UpdateTable", "ReplicaUpdates"): "refused"}


def known() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in FILE.read_text().splitlines():
        operation, path, says = line.split(" ", 2)
        found.setdefault(operation, {})[path] = says
    for (operation, path), says in ELSEWHERE.items():
        found[operation][path] = says
    return found


def paths(shape, above=()):
    """Members, nested ones included, in the form of the file."""
    if shape.type_name in ("list", "map"):
        yield from paths(shape.member if shape.type_name == "list" else shape.value, above)
    # An attribute's value has a grammar of its own, which is read where the value is.
    if shape.type_name != "structure" or shape.name in (*above, "AttributeValue"):
        return
    for name, member in shape.members.items():
        yield name
        yield from (f"{name}.{nested}" for nested in paths(member, (*above, shape.name)))


def inputs():
    for service in ("dynamodb", "dynamodbstreams"):
        model = boto3.client(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b").meta.service_model
        for name in model.operation_names:
            yield name, model.operation_model(name).input_shape


def test_every_member_of_the_model_is_accounted_for():
    missing, listed = [], known()
    for operation, shape in inputs():
        members = listed.get(operation, {})
        for path in paths(shape) if shape and "*" not in members else ():
            parts = path.split(".")
            above = [".".join(parts[:count]) for count in range(1, len(parts))]
            # What is refused or passed over takes its members with it.
            if any(not members.get(part, "served").startswith("served") for part in above):
                continue
            if path not in members:
                missing.append(f"{operation} {path}")
    assert not missing


KEYS = {"KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}


@pytest.mark.parametrize(
    ("operation", "member", "arguments"),
    [
        ("create_table", "GlobalTableSourceArn", {"TableName": "made", **KEYS, "GlobalTableSourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/x"}),
        ("update_table", "MultiRegionConsistency", {"TableName": "{name}", "MultiRegionConsistency": "STRONG"}),
    ],
)
def test_what_would_be_promised_is_refused_by_name(server, make_table, operation, member, arguments):
    client, table = connect(server), make_table().name
    arguments = {name: value.replace("{name}", table) if isinstance(value, str) else value for name, value in arguments.items()}
    with pytest.raises(ClientError) as refused:
        getattr(client, operation)(**arguments)
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert member in refused.value.response["Error"]["Message"]
    assert "made" not in client.list_tables()["TableNames"]
