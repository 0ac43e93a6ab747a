"""Every operation that the service's model has, as boto3 knows it."""

from __future__ import annotations

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError

from harness.dynamodb import connect

TABLE_ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/{name}"
ITEM = {"p": {"S": "a"}}

# What shapes alone do not tell: members with a meaning.
MEANT = {
    "TableName": "{name}",
    "SourceTableName": "{name}",
    "GlobalTableName": "{name}",
    "TargetTableName": "other-table",
    "TableArn": TABLE_ARN,
    "ResourceArn": TABLE_ARN,
    "BackupArn": TABLE_ARN + "/backup/01489602797149-73d8d5bc",
    "ExportArn": TABLE_ARN + "/export/01489602797149-73d8d5bc",
    "ImportArn": TABLE_ARN + "/import/01489602797149-73d8d5bc",
    "Statement": "SELECT * FROM \"{name}\" WHERE p = 'a'",
    "Policy": "{{}}",
}


def sample(shape, name: str, member: str = ""):
    """The least that a client takes for a value of the shape."""
    if member in MEANT:
        return MEANT[member].format(name=name)
    if shape.type_name == "structure":
        if shape.name == "AttributeValue":
            return ITEM["p"]
        return {required: sample(shape.members[required], name, required) for required in shape.required_members}
    if shape.type_name == "list":
        return [sample(shape.member, name)] * max(1, shape.metadata.get("min", 1))
    if shape.type_name == "map":
        key = name if member == "RequestItems" else "p"
        return {key: sample(shape.value, name)}
    if shape.type_name == "string":
        return shape.enum[0] if shape.enum else "x" * max(4, shape.metadata.get("min", 1))
    return {"boolean": True, "timestamp": 0, "blob": b"x"}.get(shape.type_name, 1)


def operations():
    for service in ("dynamodb", "dynamodbstreams"):
        model = boto3.client(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b").meta.service_model
        yield from ((service, operation) for operation in model.operation_names)


@pytest.mark.parametrize("service, operation", list(operations()))
def test_every_operation_of_the_model_is_known(server, make_table, service, operation):
    client, name = connect(server, service), make_table().name
    model = client.meta.service_model.operation_model(operation)
    arguments = sample(model.input_shape, name) if model.input_shape else {}
    method = next(method for method, known in client.meta.method_to_api_mapping.items() if known == operation)
    try:
        getattr(client, method)(**arguments)
    except ClientError as refused:
        # Exceptions of the server's side are repeated by clients for half a minute.
        assert refused.response["ResponseMetadata"]["HTTPStatusCode"] == 400, refused
        assert refused.response["Error"]["Code"] not in ("UnknownOperationException", "SerializationException"), refused
    except ParamValidationError as unsuited:
        pytest.fail(f"the sample for {operation} is wrong: {unsuited}")
