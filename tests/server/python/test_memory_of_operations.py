"""What any one operation of DynamoDB can make the server take, in a control group of 256 MiB.

The operations are those of boto3's model, so a new one is among them by itself: each gets words of megabytes and long lists in every member that its
shape has. Validation errors repeated them: a body of a few kilobytes that expands to a table's name of 15 MB, sent on 24 connections, ended the server.
"""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from datetime import datetime, timezone

import boto3
import pytest
from harness.dynamodb import connect
from harness.memory_bounds import GROUP, MIB, Watch, bounded_server, until

pytestmark = [pytest.mark.quartet_only, pytest.mark.slow, pytest.mark.timeout(1200)]

LONG = "w" * (4 * MIB)
# Members of a list.
MANY = 20_000
# Longest error, in bytes: some texts list what is allowed, or the first members that are wrong.
ERROR_BYTES_MAX = 32 << 10
KEPT = 56 * MIB
AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"


@pytest.fixture
def server():
    with bounded_server() as server:
        yield server


def post(server, prefix: str, operation: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.dynamodb_port, timeout=60)
    sent = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"{prefix}.{operation}",
        "X-Amz-Date": datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"),
        "Authorization": AUTHORIZATION,
        **headers,
    }
    try:
        connection.request("POST", "/", body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def operations() -> Iterator[tuple[str, str, object]]:
    for service in ("dynamodb", "dynamodbstreams"):
        model = boto3.client(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b").meta.service_model
        for name in model.operation_names:
            yield model.metadata["targetPrefix"], name, model.operation_model(name).input_shape


def least(shape, depth: int = 0):
    """A value of the shape, as small as it may be."""
    match shape.type_name:
        case "structure":
            return {name: least(shape.members[name], depth + 1) for name in shape.required_members} if depth < 6 else {}
        case "list":
            return [least(shape.member, depth + 1)] if depth < 6 else []
        case "map":
            return {"k": least(shape.value, depth + 1)} if depth < 6 else {}
        case "string":
            return (getattr(shape, "enum", None) or ["nowhere"])[0]
        case "boolean":
            return True
        case "blob":
            return "AAAA"
        case _:
            return 1


def large(shape) -> object:
    """A value of the shape that is as large as its kind lets it be, in a body of 16 MB."""
    match shape.type_name:
        case "list":
            return [least(shape.member)] * MANY
        case "map":
            value = least(shape.value)
            return {f"k{number}": value for number in range(MANY)}
        case "string" | "blob":
            return LONG
        case _:
            return least(shape)


def test_a_long_word_and_a_long_list_are_answered_by_every_operation(server):
    with Watch(server) as watch:
        at_rest, served = server.anonymous_bytes(), 0
        for prefix, operation, shape in operations():
            smallest = least(shape)
            for name, member in shape.members.items():
                body = json.dumps({**smallest, name: large(member)}).encode()
                if len(body) > 16 * MIB - 1024:
                    continue
                status, answer = post(server, prefix, operation, body)
                assert status == 200 or len(answer) < ERROR_BYTES_MAX, (operation, name, status, len(answer), answer[:300])
                assert status == 200 or b"__type" in answer or status == 413, (operation, name, status, answer[:300])
                served += 1
                assert server.alive() and watch.most < GROUP, (operation, name, watch.most >> 20)
        assert served > 200 and watch.served > 100
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def test_the_longest_pages_and_batches_fit(server):
    client = connect(server)
    key = {"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}
    definitions = [{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "s", "AttributeType": "N"}]
    client.create_table(TableName="pages", KeySchema=list(key), AttributeDefinitions=definitions, BillingMode="PAY_PER_REQUEST")
    for number in range(100):
        client.put_item(TableName="pages", Item={"p": {"S": "a"}, "s": {"N": str(number)}, "v": {"S": "v" * 380_000}})
    at_rest = server.anonymous_bytes()
    finished: list[bool] = []
    keys = [{"p": {"S": "a"}, "s": {"N": str(number)}} for number in range(100)]

    def batches() -> None:
        reader = connect(server)
        for _ in range(3):
            reply = reader.batch_get_item(RequestItems={"pages": {"Keys": keys}})
            assert len(reply["Responses"]["pages"]) + len(reply.get("UnprocessedKeys", {}).get("pages", {}).get("Keys", [])) == 100
            assert reader.query(TableName="pages", KeyConditionExpression="p = :p", ExpressionAttributeValues={":p": {"S": "a"}})["Count"] > 0
            assert reader.scan(TableName="pages")["Count"] > 0
            statements = [{"Statement": f"SELECT * FROM pages WHERE p = 'a' AND s = {number}"} for number in range(25)]
            assert len(reader.batch_execute_statement(Statements=statements)["Responses"]) == 25
        finished.append(True)

    with Watch(server) as watch:
        readers = [threading.Thread(target=batches) for _ in range(4)]
        [reader.start() for reader in readers]
        [reader.join() for reader in readers]
        assert len(finished) == len(readers)
        assert watch.served > 10
    assert server.alive() and watch.most < GROUP, watch.most >> 20
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def test_bodies_that_expand_a_thousandfold_fit(server):
    body = gzip.compress(b'{"TableName":"' + b"x" * (15 * MIB) + b'"}')
    assert len(body) < 64 << 10
    at_rest, answers = server.anonymous_bytes(), []

    def send() -> None:
        answers.append(post(server, "DynamoDB_20120810", "DescribeTable", body, **{"Content-Encoding": "gzip"}))

    with Watch(server) as watch:
        senders = [threading.Thread(target=send) for _ in range(24)]
        [sender.start() for sender in senders]
        [sender.join() for sender in senders]
        assert watch.served > 0
    assert server.alive() and watch.most < GROUP, watch.most >> 20
    assert len(answers) == 24 and all(status >= 400 and len(answer) < ERROR_BYTES_MAX for status, answer in answers)
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


# Members of a batch of each kind, as many as a body of 16 MB holds.
BATCHES = {
    "BatchExecuteStatement": ('{"Statements":[', '{"Statement":"SELECT*FROM a"}', "]}"),
    "ExecuteTransaction": ('{"TransactStatements":[', '{"Statement":"SELECT*FROM a"}', "]}"),
    "BatchGetItem": ('{"RequestItems":{"pages":{"Keys":[', '{"p":{"S":"a"}}', "]}}}"),
    "BatchWriteItem": ('{"RequestItems":{"pages":[', '{"PutRequest":{"Item":{"p":{"S":"a"}}}}', "]}}"),
    "TransactWriteItems": ('{"TransactItems":[', '{"Put":{"TableName":"pages","Item":{"p":{"S":"a"}}}}', "]}"),
    "TransactGetItems": ('{"TransactItems":[', '{"Get":{"TableName":"pages","Key":{"p":{"S":"a"}}}}', "]}"),
}


@pytest.mark.parametrize("operation", BATCHES)
def test_batches_of_hundreds_of_thousands_of_members_fit(server, operation):
    """Six at once. The members of a batch are built before they are counted, so what they take is bounded by the text that they have."""
    first, member, last = BATCHES[operation]
    body = (first + ",".join([member] * (15 * MIB // (len(member) + 1))) + last).encode()
    at_rest, answers = server.anonymous_bytes(), []
    with Watch(server) as watch:
        senders = [threading.Thread(target=lambda: answers.append(post(server, "DynamoDB_20120810", operation, body))) for _ in range(6)]
        [sender.start() for sender in senders]
        [sender.join() for sender in senders]
        assert watch.served > 0
    assert server.alive() and watch.most < GROUP, watch.most >> 20
    assert len(answers) == 6 and all(status >= 400 and b"__type" in answer and len(answer) < ERROR_BYTES_MAX for status, answer in answers)
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)
