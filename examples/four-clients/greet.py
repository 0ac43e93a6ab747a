"""One greeting through each of four clients, into one server.

    greet.py write TEXT     writes TEXT through redis-py, boto3, the faunadb driver and FoundationDB's binding
    greet.py read           prints what each of them reads

The server is a `quartet serve --dev` on its usual ports; FoundationDB's binding finds it by
FDB_CLUSTER_FILE and loads our libfdb_c.so from LD_LIBRARY_PATH.
"""

import sys

import boto3
import fdb
import redis
from faunadb import query as q
from faunadb.client import FaunaClient

KEY = "greeting"

cache = redis.Redis(decode_responses=True)
tables = boto3.resource(
    "dynamodb", endpoint_url="http://127.0.0.1:8000", region_name="any", aws_access_key_id="any", aws_secret_access_key="any"
)
fauna = FaunaClient("secret", domain="127.0.0.1", port=8443, scheme="http")
fdb.api_version(730)
rows = fdb.open()


def write(text: str) -> None:
    cache.set(KEY, text)

    if KEY not in [table.name for table in tables.tables.all()]:
        key = {"AttributeName": "id", "KeyType": "HASH"}
        tables.create_table(
            TableName=KEY, KeySchema=[key], AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}], BillingMode="PAY_PER_REQUEST"
        ).wait_until_exists()
    tables.Table(KEY).put_item(Item={"id": KEY, "text": text})

    if not fauna.query(q.exists(q.collection(KEY))):
        fauna.query(q.create_collection({"name": KEY}))
    document = q.ref(q.collection(KEY), "1")
    data = {"data": {"text": text}}
    fauna.query(q.if_(q.exists(document), q.update(document, data), q.create(document, data)))

    rows[KEY.encode()] = text.encode()


def read() -> dict[str, str]:
    return {
        "redis-py": cache.get(KEY),
        "boto3": tables.Table(KEY).get_item(Key={"id": KEY}, ConsistentRead=True)["Item"]["text"],
        "faunadb": fauna.query(q.select(["data", "text"], q.get(q.ref(q.collection(KEY), "1")))),
        "fdb": bytes(rows[KEY.encode()]).decode(),
    }


if sys.argv[1] == "write":
    write(sys.argv[2])
else:
    for client, text in read().items():
        print(f"{client:9} {text}")
