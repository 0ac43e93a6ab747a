"""HTTP/2 with prior knowledge, which no SDK speaks to DynamoDB by itself; bodies compressed both ways."""

from __future__ import annotations

import gzip
import json
import zlib

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


def test_http2_with_compressed_bodies(server, make_table):
    name, url = make_table().name, f"http://127.0.0.1:{server.dynamodb_port}/"

    def ask(client: httpx.Client, operation: str, body: dict, **headers: str) -> httpx.Response:
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"DynamoDB_20120810.{operation}", **headers}
        if headers.get("Content-Encoding") == "gzip":
            data = gzip.compress(data)
        request = AWSRequest("POST", url, data=data, headers=headers)
        SigV4Auth(Credentials("test", "test"), "dynamodb", "us-east-1").add_auth(request)
        return client.post(url, content=data, headers=dict(request.headers.items()))

    item = {"p": {"S": "a"}, "v": {"S": "x" * 20_000}}
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        put = ask(client, "PutItem", {"TableName": name, "Item": item}, **{"Content-Encoding": "gzip"})
        assert (put.http_version, put.status_code, put.json()) == ("HTTP/2", 200, {})
        with client.stream("GET", url) as health:
            assert health.status_code == 200
        got = ask(client, "GetItem", {"TableName": name, "Key": {"p": {"S": "a"}}}, **{"Accept-Encoding": "gzip"})
        assert (got.headers["content-encoding"], got.json()) == ("gzip", {"Item": item})
        # The checksum is of the bytes as they are sent, which SDKs check before they unpack.
        plain = ask(client, "GetItem", {"TableName": name, "Key": {"p": {"S": "a"}}}, **{"Accept-Encoding": "identity"})
        assert int(plain.headers["x-amz-crc32"]) == zlib.crc32(plain.content)
        refused = ask(client, "GetItem", {"TableName": "nowhere", "Key": {"p": {"S": "a"}}})
        assert (refused.status_code, refused.json()["__type"].split("#")[1]) == (400, "ResourceNotFoundException")
