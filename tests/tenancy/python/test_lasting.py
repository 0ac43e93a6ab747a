"""Everything lasting that a tenant can make counts in its quota, and is refused once that is used up.

Users of ACL were counted nowhere: a tenant with 1 MB made 26,380 of them. Their neighbours were index aliases, attributes of vectors, long names by
RENAME, consumers that XREADGROUP makes, cached scripts and cursors. Each kind is made here until it is refused, or until it took four times the quota.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import FaunaError
from harness import dynamodb, fauna
from harness.admin import Admin
from harness.resp import Connection, ReplyError
from harness.server import Server

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(600)]

QUOTA = 1 << 20
PIECE = 10_000
TIMES = 4 * QUOTA // PIECE
LONG = "x" * PIECE
REFUSED = "DB capacity quota exceeded"


@pytest.fixture(scope="module")
def host():
    server = Server(durability="none").start()
    yield server
    server.close()


@pytest.fixture
def admin(host):
    admin = Admin(host)
    yield admin
    admin.delete("shop")


def name(number: int) -> str:
    return f"{number}:{LONG}"


def short(number: int) -> str:
    """A name of an index or a word."""
    return f"{number}:{'x' * 900}"


VECTOR = ["VALUES", 2, 1, 1]
PENDING = [["XGROUP", "CREATE", "s", "g", 0, "MKSTREAM"], ["XADD", "s", "1-1", "f", "v"], ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"]]
# Before the first, and for each number.
REDIS: dict[str, tuple[list, Callable[[int], list]]] = {
    "strings": ([], lambda n: ["SET", f"k{n}", LONG]),
    "long names": ([], lambda n: ["SET", name(n), 1]),
    "renamed keys": ([["MSET", *(word for n in range(TIMES) for word in (f"k{n}", 1))]], lambda n: ["RENAME", f"k{n}", name(n)]),
    "renamed new keys": ([["MSET", *(word for n in range(TIMES) for word in (f"k{n}", 1))]], lambda n: ["RENAMENX", f"k{n}", name(n)]),
    "users": ([], lambda n: ["ACL", "SETUSER", f"user{n}", f"~{name(n)}"]),
    "libraries": ([], lambda n: ["FUNCTION", "LOAD", f"#!lua name=l{n}\nredis.register_function('f{n}', function() end) --{LONG}"]),
    "scripts": ([], lambda n: ["SCRIPT", "LOAD", f"return {n} --{LONG}"]),
    "indexes": ([], lambda n: ["FT.CREATE", f"i{n}", "PREFIX", 1, name(n), "SCHEMA", "t", "TEXT"]),
    "fields of an index": ([["FT.CREATE", "i", "SCHEMA", "t", "TEXT"]], lambda n: ["FT.ALTER", "i", "SCHEMA", "ADD", name(n), "AS", f"f{n}", "TEXT", "NOINDEX"]),
    "aliases": ([["FT.CREATE", "i", "SCHEMA", "t", "TEXT"]], lambda n: ["FT.ALIASADD", short(n), "i"]),
    "aliases if absent": ([["FT.CREATE", "i", "SCHEMA", "t", "TEXT"]], lambda n: ["FT._ALIASADDIFNX", short(n), "i"]),
    "updated aliases": ([["FT.CREATE", "i", "SCHEMA", "t", "TEXT"]], lambda n: ["FT.ALIASUPDATE", short(n), "i"]),
    "dictionaries": ([], lambda n: ["FT.DICTADD", "d", short(n)]),
    "synonyms": ([["FT.CREATE", "i", "SCHEMA", "t", "TEXT"]], lambda n: ["FT.SYNUPDATE", "i", "g", short(n)]),
    "suggestions": ([], lambda n: ["FT.SUGADD", "s", f"{n}", 1, "PAYLOAD", LONG]),
    "Upstash's indexes": ([], lambda n: ["SEARCH.CREATE", f"i{n}", "ON", "hash", "PREFIX", 1, name(n), "SCHEMA", "t", "TEXT"]),
    "Upstash's aliases": ([["SEARCH.CREATE", "i", "ON", "hash", "PREFIX", 1, "d:", "SCHEMA", "t", "TEXT"]], lambda n: ["SEARCH.ALIASADD", short(n), "i"]),
    "groups": ([], lambda n: ["XGROUP", "CREATE", "s", name(n), 0, "MKSTREAM"]),
    "consumers": ([["XGROUP", "CREATE", "s", "g", 0, "MKSTREAM"]], lambda n: ["XGROUP", "CREATECONSUMER", "s", "g", name(n)]),
    "consumers that read": ([["XGROUP", "CREATE", "s", "g", 0, "MKSTREAM"]], lambda n: ["XREADGROUP", "GROUP", "g", name(n), "STREAMS", "s", ">"]),
    "consumers that claim": (PENDING, lambda n: ["XCLAIM", "s", "g", name(n), 0, "1-1"]),
    "consumers that claim all": (PENDING, lambda n: ["XAUTOCLAIM", "s", "g", name(n), 0, 0]),
    "attributes of vectors": ([["VADD", "v", *VECTOR, f"e{n}"] for n in range(TIMES)], lambda n: ["VSETATTR", "v", f"e{n}", json.dumps({"a": LONG})]),
    "vectors": ([], lambda n: ["VADD", "v", *VECTOR, name(n)]),
    "documents": ([], lambda n: ["JSON.SET", f"j{n}", "$", json.dumps(LONG)]),
    "a script's keys": ([], lambda n: ["EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, f"k{n}", LONG]),
    "members that move": ([["SADD", "s", *range(TIMES)]], lambda n: ["SMOVE", "s", name(n), n]),
    "copies": ([["SET", "k", LONG]], lambda n: ["COPY", "k", f"k{n}"]),
}
# Bytes of one, where that is not PIECE.
SHORTER = dict.fromkeys(["Upstash's aliases", "aliases", "aliases if absent", "updated aliases", "dictionaries", "synonyms"], 900)
# Another bound comes first: so many, of 900 bytes.
BOUNDED = {"Upstash's aliases": 1000}
# These work data off, or move it: they have a reserve of a quarter.
RESERVE = {"renamed keys", "renamed new keys", "consumers that read", "consumers that claim", "consumers that claim all", "members that move"}


@pytest.mark.parametrize("kind", REDIS)
def test_each_kind_of_redis_is_refused_when_the_quota_is_used_up(host, admin, kind):
    before, make = REDIS[kind]
    shop = admin.create("shop")
    with Connection(host.port) as connection:
        assert connection.do("AUTH", "shop", shop["credentials"]["token"]) == "OK"
        for words in before:
            connection.send(*words)
        for words in before:
            reply = connection.read()
            assert not isinstance(reply, ReplyError), (words[:3], reply)
        at_start = admin.usage("shop")["stored_bytes"]
        admin.change("shop", quotas={"stored_bytes": QUOTA + at_start})
        made, reply = 0, None
        for number in range(4 * QUOTA // SHORTER.get(kind, PIECE)):
            reply = connection.do(*make(number))
            if isinstance(reply, ReplyError):
                break
            made += 1
        used = admin.usage("shop")["stored_bytes"] - at_start
        if kind in BOUNDED:
            assert (made, used < QUOTA) == (BOUNDED[kind], True), reply
            return
        bound = 1.25 * QUOTA if kind in RESERVE else QUOTA
        assert isinstance(reply, ReplyError), (kind, made, used)
        assert REFUSED in reply, (kind, made, reply[:200])
        assert 0.05 * QUOTA < made * SHORTER.get(kind, PIECE) < bound + 2 * PIECE, (kind, made, reply[:200])
        assert used < bound + 10 * PIECE, (kind, used)
        # What takes away, and what reads, is still served.
        assert connection.do("DEL", "k", "k0", "s", "v", "j0") >= 0
        assert connection.do("GET", "k") is None


FAUNA = {
    "documents": lambda n: q.create(q.collection("c"), {"data": {"v": LONG}}),
    "collections": lambda n: q.create_collection({"name": f"c{n}", "data": {"v": LONG}}),
    "functions": lambda n: q.create_function({"name": f"f{n}", "body": q.query(lambda x: x), "data": {"v": LONG}}),
    "indexes": lambda n: q.create_index({"name": f"i{n}", "source": q.collection("c"), "data": {"v": LONG}}),
    "roles": lambda n: q.create_role({"name": f"r{n}", "privileges": {"resource": q.collection("c"), "actions": {"read": True}}, "data": {"v": LONG}}),
    "keys": lambda n: q.create_key({"role": "server", "data": {"v": LONG}}),
    "databases": lambda n: q.create_database({"name": f"d{n}", "data": {"v": LONG}}),
    "tokens": lambda n: q.create(q.tokens(), {"instance": q.ref(q.collection("c"), "1"), "data": {"v": LONG}}),
    "access providers": lambda n: q.create_access_provider({"name": f"a{n}", "issuer": f"https://i{n}", "jwks_uri": f"https://i{n}/k", "data": {"v": LONG}}),
}


@pytest.mark.parametrize("kind", FAUNA)
def test_each_kind_of_fauna_is_refused_when_the_quota_is_used_up(host, admin, kind):
    shop = admin.create("shop")
    client = fauna.connect(host, shop["credentials"]["fauna_key"])
    client.query(q.create_collection({"name": "c"}))
    client.query(q.map_(q.lambda_("n", q.create(q.ref(q.collection("c"), q.to_string(q.var("n"))), {})), list(range(1, TIMES + 1))))
    at_start = admin.usage("shop")["stored_bytes"]
    admin.change("shop", quotas={"stored_bytes": QUOTA + at_start})
    made = 0
    with pytest.raises(FaunaError) as refused:
        for number in range(TIMES):
            client.query(FAUNA[kind](number))
            made += 1
    assert refused.value.request_result.status_code == 429 and "storage quota is exceeded" in refused.value.request_result.response_raw, (kind, made)
    assert 10 < made < 1.2 * QUOTA / PIECE, (kind, made)
    assert client.query(q.count(q.documents(q.collection("c")))) >= 0


KEY = "k" * 50


def table(number: int) -> dict:
    key = [{"AttributeName": KEY, "KeyType": "HASH"}]
    definitions = [{"AttributeName": KEY, "AttributeType": "S"}]
    tags = [{"Key": f"{tag}" + "t" * 120, "Value": "v" * 250} for tag in range(40)]
    return {"TableName": f"table{number}", "KeySchema": key, "AttributeDefinitions": definitions, "BillingMode": "PAY_PER_REQUEST", "Tags": tags}


def tags_of(number: int) -> list[dict]:
    return [{"Key": f"{tag}" + "t" * 120, "Value": f"{number}" + "v" * 200} for tag in range(40)]


POLICY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "dynamodb:GetItem", "Resource": "*", "Sid": "x" * 9000}]})
DYNAMODB = {
    "items": lambda client, n, arn: client.put_item(TableName="lasting", Item={KEY: {"S": str(n)}, "v": {"S": LONG}}),
    "statements": lambda client, n, arn: client.execute_statement(Statement="INSERT INTO lasting VALUE {'%s': '%d', 'v': '%s'}" % (KEY, n, "x" * 8000)),
    "tables with tags": lambda client, n, arn: client.create_table(**table(n)),
    "backups": lambda client, n, arn: client.create_backup(TableName="lasting", BackupName=f"backup{n}"),
}


@pytest.mark.parametrize("kind", DYNAMODB)
def test_each_kind_of_dynamodb_is_refused_when_the_quota_is_used_up(host, admin, kind):
    shop = admin.create("shop")
    client = dynamodb.connect(host, key=(shop["credentials"]["access_key_id"], shop["credentials"]["secret_access_key"]))
    arn = client.create_table(**{**table(0), "TableName": "lasting"})["TableDescription"]["TableArn"]
    if kind == "backups":
        for number in range(10):
            client.put_item(TableName="lasting", Item={KEY: {"S": str(number)}, "v": {"S": LONG}})
    at_start = admin.usage("shop")["stored_bytes"]
    admin.change("shop", quotas={"stored_bytes": QUOTA + at_start})
    made = 0
    with pytest.raises(ClientError) as refused:
        for number in range(TIMES):
            DYNAMODB[kind](client, number, arn)
            made += 1
    assert refused.value.response["Error"]["Code"] == "LimitExceededException" and REFUSED in str(refused.value), (kind, made, str(refused.value)[:300])
    assert 5 < made < 1.3 * QUOTA / 8000, (kind, made)
    # Tags and policies of a table that is there are refused as well.
    for ask in (lambda: client.tag_resource(ResourceArn=arn, Tags=tags_of(1)), lambda: client.put_resource_policy(ResourceArn=arn, Policy=POLICY)):
        with pytest.raises(ClientError) as refused:
            ask()
        assert REFUSED in str(refused.value), str(refused.value)[:300]
    client.delete_table(TableName="lasting")
