"""What the body of an HTTP request takes when it is read, in a control group of 256 MiB: expanded, and as values.

A body of 15 KB expands to 16 MB of `{"L":[]},`, whose values take a hundred times the length of their text: one such request to the DynamoDB listener
ended the server, and its neighbours did at the other doors (`"1",` and `["1"],` over REST, `1,` and `[],` to Fauna). Bodies are taken from the budget
before they are expanded and before their values are read; what has no room is refused in the protocol's words.
"""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import zlib
from datetime import datetime, timezone

import pytest
from harness.memory_bounds import GROUP, MIB, Watch, bounded_server, until
from harness.server import Server

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(1200)]

KEPT = 56 * MIB
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
ENCODINGS = {"": bytes, "gzip": lambda body: gzip.compress(body, 1), "deflate": lambda body: zlib.compress(body, 1)}


def many(start: str, piece: str, end: str, length: int) -> bytes:
    return (start + piece * (length // len(piece)) + end).encode()


def dynamodb(operation: str, *text: str) -> tuple[str, str, dict, bytes]:
    return "dynamodb", "/", {"X-Amz-Target": f"DynamoDB_20120810.{operation}"}, many(*text, 15 * MIB)


def rest(path: str, *text: str) -> tuple[str, str, dict, bytes]:
    return "http", path, {"Authorization": "Bearer dev"}, many(*text, 24 * MIB)


def fauna(path: str, *text: str) -> tuple[str, str, dict, bytes]:
    return "fauna", path, {"Authorization": "Bearer secret", "X-FaunaDB-API-Version": "4"}, many(*text, 7 * MIB)


# The smallest values of each kind, as many as a body may have.
BODIES = {
    "numbers nobody asks for": dynamodb("PutItem", '{"TableName":"t","Item":{},"x":[', "1,", "1]}"),
    "numbers of a list": dynamodb("PutItem", '{"TableName":"t","Item":{"p":{"L":[', '{"N":"1"},', '{"N":"1"}]}}}'),
    "empty lists": dynamodb("PutItem", '{"TableName":"t","Item":{"p":{"L":[', '{"L":[]},', '{"N":"1"}]}}}'),
    "a set": dynamodb("PutItem", '{"TableName":"t","Item":{"p":{"SS":[', '"1",', '"2"]}}}'),
    "keys": dynamodb("BatchGetItem", '{"RequestItems":{"t":{"Keys":[', "{},", "{}]}}}"),
    "statements": dynamodb("BatchExecuteStatement", '{"Statements":[', "{},", "{}]}"),
    "names": dynamodb("Query", '{"TableName":"t","AttributesToGet":[', '"a",', '"b"]}'),
    "words": rest("/", '["DEL",', '"1",', '"2"]'),
    "commands": rest("/pipeline", "[", '["1"],', '["2"]]'),
    "a transaction": rest("/multi-exec", "[", '["1"],', '["2"]]'),
    "a path's last word": rest("/set/k", "", ",", "x"),
    "numbers": fauna("/", "[", "1,", "1]"),
    "empty arrays": fauna("/", "[", "[],", "1]"),
    "calls": fauna("/", "[", '{"now":null},', "1]"),
    "members": fauna("/", '{"object":{', '"a":1,', '"b":1}}'),
    "a stream": fauna("/stream", "[", "[],", "1]"),
}
REFUSED = {"dynamodb": (500, b"out of memory"), "http": (400, b"OOM "), "fauna": (503, b"more memory than there is left")}


@pytest.fixture
def server():
    with bounded_server() as server:
        yield server


def post(server: Server, door: str, path: str, headers: dict, body: bytes, encoding: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", getattr(server, f"{door}_port"), timeout=600)
    sent = {"Content-Type": "application/x-amz-json-1.0", "Authorization": SIGNED, "X-Amz-Date": datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"), **headers}
    if encoding:
        sent["Content-Encoding"] = encoding
    try:
        connection.request("POST", path, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read(4096)
    finally:
        connection.close()


def encodings_of(door: str) -> list[str]:
    # Fauna's service reads plain bodies only.
    return [""] if door == "fauna" else list(ENCODINGS)


@pytest.mark.slow
def test_the_smallest_values_of_the_longest_body_are_refused_or_answered(server):
    at_rest, refused = server.anonymous_bytes(), set()
    with Watch(server) as watch:
        for name, (door, path, headers, body) in BODIES.items():
            for encoding in encodings_of(door):
                status, answer = post(server, door, path, headers, ENCODINGS[encoding](body), encoding)
                expected, words = REFUSED[door]
                if status == expected and words in answer:
                    refused.add(name)
                assert server.alive() and watch.most < GROUP, (name, encoding, watch.most >> 20)
                assert status < 500 or name in refused, (name, encoding, status, answer[:300])
        assert watch.served > 0
    assert refused == set(BODIES) - {"a path's last word"}
    assert post(server, "http", "/del/k", {"Authorization": "Bearer dev"}, b"") == (200, b'{"result":1}')
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def test_bodies_that_expand_on_many_connections_fit(server):
    """Each is broken, or refused for its content or for lack of memory; together they had more than there is."""
    at_rest, answers = server.anonymous_bytes(), []
    longest = {
        "dynamodb": dynamodb("DescribeTable", '{"TableName":"', "x", '"}'),
        "http": rest("/", '["ECHO","', "x", '"]'),
    }

    def send(door: str, encoding: str) -> None:
        _, path, headers, body = longest[door]
        answers.append((door, *post(server, door, path, headers, ENCODINGS[encoding](body), encoding)))

    with Watch(server) as watch:
        senders = [threading.Thread(target=send, args=(door, encoding)) for door in longest for encoding in ("gzip", "deflate") for _ in range(4)]
        [sender.start() for sender in senders]
        [sender.join() for sender in senders]
        assert watch.served > 0
    assert server.alive() and watch.most < GROUP, watch.most >> 20
    assert len(answers) == 16
    for door, status, answer in answers:
        assert status < 500 or REFUSED[door][1] in answer, (door, status, answer[:300])
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def test_usual_bodies_are_as_before(server):
    """A body below 64 KiB is not counted, and one of a megabyte with long values has room."""
    item = {"p": {"S": "a"}, "v": {"S": "v" * 300_000}, "l": {"L": [{"N": str(number)} for number in range(5000)]}}
    table = {"TableName": "usual", "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"}
    table["AttributeDefinitions"] = [{"AttributeName": "p", "AttributeType": "S"}]
    for operation, body in [("CreateTable", table), ("PutItem", {"TableName": "usual", "Item": item})]:
        for encoding in encodings_of("dynamodb") if operation == "PutItem" else [""]:
            text = ENCODINGS[encoding](json.dumps(body).encode())
            status, answer = post(server, "dynamodb", "/", {"X-Amz-Target": f"DynamoDB_20120810.{operation}"}, text, encoding)
            assert status == 200, answer
    headers = {"Authorization": "Bearer dev"}
    commands = [["SET", f"k{number}", "v" * 1000] for number in range(1000)]
    for encoding in encodings_of("http"):
        status, answer = post(server, "http", "/pipeline", headers, ENCODINGS[encoding](json.dumps(commands).encode()), encoding)
        assert status == 200 and answer.startswith(b'[{"result":"OK"}'), answer[:200]
    query = {"map": {"lambda": "x", "expr": {"var": "x"}}, "collection": list(range(20_000))}
    status, answer = post(server, "fauna", "/", {"Authorization": "Bearer secret", "X-FaunaDB-API-Version": "4"}, json.dumps(query).encode())
    assert status == 200 and answer.startswith(b'{"resource":[0,1,'), answer[:200]
