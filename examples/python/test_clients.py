"""Python's clients of each layer. The addresses are in the variables that these clients have usually; `pytest` runs all of them."""

import json
import os
import urllib.request
from urllib.parse import urlsplit

import boto3
import redis
from faunadb import query as q
from faunadb.client import FaunaClient


def test_redis():
    database = redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)
    database.set("python:greeting", "hello")
    assert database.get("python:greeting") == "hello"


def test_rest():
    headers = {"Authorization": "Bearer " + os.environ["UPSTASH_REDIS_REST_TOKEN"]}
    asked = urllib.request.Request(os.environ["UPSTASH_REDIS_REST_URL"], b'["INCR", "python:visits"]', headers)
    with urllib.request.urlopen(asked) as response:
        assert json.load(response) == {"result": 1}


def test_dynamodb():
    table = boto3.resource("dynamodb").create_table(
        TableName="python-notes",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    table.put_item(Item={"id": "1", "text": "hello"})
    assert table.get_item(Key={"id": "1"})["Item"]["text"] == "hello"


def test_fauna():
    address = urlsplit(os.environ["FAUNA_ENDPOINT"])
    client = FaunaClient(os.environ["FAUNA_SECRET"], domain=address.hostname, port=address.port, scheme=address.scheme)
    client.query(q.create_collection({"name": "python_people"}))
    person = q.ref(q.collection("python_people"), "1")
    client.query(q.create(person, {"data": {"name": "Ann"}}))
    assert client.query(q.select(["data", "name"], q.get(person))) == "Ann"


def test_keyvalue():
    """With our libfdb_c.so in the place of FoundationDB's: LD_LIBRARY_PATH names its folder."""
    import fdb

    fdb.api_version(730)
    database = fdb.open(os.environ["FDB_CLUSTER_FILE"])
    database[b"python:greeting"] = b"hello"
    assert database[b"python:greeting"] == b"hello"
