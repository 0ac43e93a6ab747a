"""Bytes no client would send: the protocol's error, bounded memory, and the server goes on."""

from __future__ import annotations

import gzip
import http.client
import json

import pytest

AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"


def post(server, body: bytes, operation: str = "PutItem", **headers: str) -> tuple[int, str]:
    from datetime import datetime, timezone

    connection = http.client.HTTPConnection("127.0.0.1", server.dynamodb_port, timeout=60)
    base = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "X-Amz-Date": datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"),
        "Authorization": AUTHORIZATION,
    }
    base.update({name.replace("_", "-"): value for name, value in headers.items()})
    connection.request("POST", "/", body, base)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def item(value: str) -> bytes:
    return b'{"TableName":"nowhere","Item":{"p":%s}}' % value.encode()


@pytest.mark.parametrize(
    "body, status, part",
    [
        (b"", 400, "SerializationException"),
        (b"\xff\xfe", 400, "SerializationException"),
        (b"[1]", 400, "SerializationException"),
        (b"{" * 100_000, 400, "SerializationException"),
        # A member that no shape names is passed over, however deep it is.
        (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, 400, "Member must not be null"),
        (item('{"S":"\\ud800"}'), 400, "SerializationException"),
        (item('{"N":"' + "9" * 1_000_000 + '"}'), 400, "38 significant digits"),
        (item('{"N":"1e1000000"}'), 400, "Number overflow"),
        (item('{"N":"1e-1000000"}'), 400, "Number underflow"),
        (item('{"L":[' * 60 + '{"S":""}' + "]}" * 60), 400, "Nesting Levels"),
        (item('{"S":"' + "x" * 409_600 + '"}'), 400, "Item size has exceeded"),
        (item('{"SS":["a","a"]}'), 400, "contains duplicates"),
        (item('{"B":"????"}'), 400, "SerializationException"),
        (item('{"S":"a","S":"b"}'), 400, "ResourceNotFoundException"),
        (item('{"NS":["' + "1" * 1_000_000 + '"]}'), 400, "38 significant digits"),
        (b'{"TableName":"a\\udfff","Item":{}}', 400, "SerializationException"),
        (b'{"TableName":"a\\u0000b","Item":{}}', 400, "regular expression pattern"),
        (b'{"TableName":"nowhere","TableName":"elsewhere","Item":{"p":{"S":"a"},"p":{"S":"b"}}}', 400, "ResourceNotFoundException"),
        (b" " * ((16 << 20) - 2) + b"{}", 400, "ValidationException"),
        (b" " * (17 << 20), 413, ""),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_bad_bodies(server, body, status, part):
    assert (found := post(server, body))[0] == status and part in found[1]


@pytest.mark.parametrize(
    "operation, member, text, part",
    [
        ("PutItem", "ConditionExpression", "NOT " * 1000 + "a = b", "nested too deeply"),
        ("PutItem", "ConditionExpression", "size(" * 800, "nested too deeply"),
        ("PutItem", "ConditionExpression", "(" * 1500 + "a" + ")" * 1500 + " = b", "nested too deeply"),
        ("PutItem", "ConditionExpression", "a = b OR " * 400 + "a = b", "too many operators"),
        ("PutItem", "ConditionExpression", "a" * 4097, "maximum allowed size"),
        ("UpdateItem", "UpdateExpression", "SET a = " + "(" * 3000, "nested too deeply"),
        ("UpdateItem", "UpdateExpression", "SET a = " + "if_not_exists(a," * 240, "nested too deeply"),
        ("ExecuteStatement", "Statement", "INSERT INTO t VALUE {'p': " + "[" * 8000, "nested too deep"),
        ("ExecuteStatement", "Statement", "INSERT INTO t VALUE {'p': " + "<<" * 4000, "nested too deep"),
        ("ExecuteStatement", "Statement", "SELECT * FROM t WHERE " + "(" * 8000, "nested too deep"),
        ("ExecuteStatement", "Statement", "SELECT * FROM t WHERE " + "NOT " * 2000 + "a = 1", "nested too deep"),
        ("ExecuteStatement", "Statement", "SELECT * FROM t WHERE p = " + "1" * 8000, "38 significant digits"),
        ("ExecuteStatement", "Statement", "SELECT " + " " * 8192 + "* FROM t", "length less than or equal to 8192"),
        ("Query", "Limit", int("9" * 4000), "SerializationException"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_texts(server, operation, member, text, part):
    subject = {"PutItem": {"Item": {"p": {"S": "a"}}}, "UpdateItem": {"Key": {"p": {"S": "a"}}}}.get(operation, {})
    table = {} if operation == "ExecuteStatement" else {"TableName": "nowhere"}
    body = json.dumps({**table, **subject, member: text}).encode()
    assert (found := post(server, body, operation))[0] == 400 and part in found[1]


def test_bad_headers(server):
    good = b"{}"
    assert post(server, good, "NoSuchOperation")[1] == json.dumps({"__type": "com.amazon.coral.service#UnknownOperationException"}, separators=(",", ":"))
    assert post(server, good, Content_Type="text/plain")[0] == 404
    assert post(server, good, Content_Encoding="br")[0] == 500
    assert post(server, b"nonsense", Content_Encoding="gzip")[0] == 500
    assert post(server, gzip.compress(b" " * (64 << 20)), Content_Encoding="gzip")[0] == 413
    assert post(server, gzip.compress(good), "ListTables", Content_Encoding="gzip")[0] == 200
    assert post(server, good, "ListTables", Junk="x" * 20_000)[0] == 400
    assert "MissingAuthenticationToken" in post(server, good, "ListTables", Authorization="Basic x")[1]


def test_health_and_ids(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.dynamodb_port, timeout=60)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, f"healthy: 127.0.0.1:{server.dynamodb_port} ".encode())
    ids = set()
    for _ in range(10):
        connection.request("POST", "/", b"{}", {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "x"})
        answer = connection.getresponse()
        answer.read()
        ids.add(answer.headers["x-amzn-RequestId"])
    assert len(ids) == 10 and {len(one) for one in ids} == {52}


def test_memory_stays_bounded(server):
    before = server.rss_bytes()
    for _ in range(20):
        post(server, item('{"S":"' + "x" * (15 << 20) + '"}'))
    assert server.rss_bytes() < before + (200 << 20)
    # What is small in JSON is larger in memory, but a request is gone once it is answered.
    for body in (item('{"L":[' + "{}," * (1 << 20) + "{}]}"), item('{"NS":[' + '"1",' * (1 << 20) + '"1"]}')):
        assert post(server, body)[0] == 400
    assert server.rss_bytes() < before + (400 << 20)
