"""Our own export comes back equal: a database with every kind of value leaves a server, enters a fresh one, and public clients compare both.

`quartet export redis` left indexes of SEARCH.CREATE and vector indexes out, since no Redis has a form for them, and nothing exported the users.
An export of DynamoDB lost expiry, tags, the class of the table, protection against deletion and warm throughput: its description has no place
for some, and an import did not take the others over. Now the file has them as facts that Redis skips, users go in Redis' own form of an ACL
file, and `settings.json` stands beside a table's description.
"""

from __future__ import annotations

import base64
import json
import shlex
import subprocess

import pytest
from harness.dynamodb import connect
from harness.redis_copy import run_import, until, url
from harness.resp import Connection
from harness.server import Server, binary

LATER_MS = 4_000_000_000_000


@pytest.fixture
def source():
    with Server() as server:
        yield server


@pytest.fixture
def target():
    with Server() as server:
        yield server


def run(*words, folder) -> str:
    process = subprocess.run([binary(), *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


# Redis

USERS = [
    ["ACL", "SETUSER", "reader", "on", ">first", ">second", "~data:*", "%R~other:*", "&news", "+@read", "-get", "(%W~logs:* +xadd)"],
    ["ACL", "SETUSER", "idle", "off", "nopass", "resetchannels", "+@all", "-@dangerous", "allkeys"],
]

FILLING = [
    "SET text value", "SET number -12345", "SET expiring x PXAT 4000000000000", "SETBIT bits 100000 1", "APPEND raw 1.50", "SET empty ''",
    "RPUSH list a 1 -70000 ''", "RPUSH long-list {300 words}", "SADD integers 1 2 -3", "SADD set a b ''", "SADD long-set {300 words}",
    "ZADD zset -inf a 2.5 b inf c 5e-324 d 1.7976931348623157e308 e", "ZADD long-zset {300 scores}",
    "HSET hash f v g 1 '' empty", "HSET long-hash {300 words}", "HPEXPIREAT hash 4000000000000 FIELDS 1 g", "PEXPIREAT list 4000000000000",
    "XADD stream 1-1 a 1", "XADD stream 2-0 a 2 b ''", "XADD stream 9-9 c 3", "XDEL stream 9-9", "XGROUP CREATE stream group 0 ENTRIESREAD 1",
    "XGROUP CREATECONSUMER stream group idle", "XREADGROUP GROUP group me COUNT 1 STREAMS stream >", "XGROUP CREATE stream other $",
    "XADD gone 5-5 a 1", "XDEL gone 5-5", "PFADD few a b c", "PFADD many {300 words}", "GEOADD geo 13.361389 38.115556 Palermo",
    "JSON.SET document $ '{\"z\":1,\"a\":[1,2.5,null,\"\\u00e9\",{\"deep\":true}],\"e\":{},\"big\":9007199254740993}'", "JSON.SET plain $ 1",
    "PEXPIREAT document 4000000000000", "VADD vectors VALUES 3 1 0 0 a SETATTR '{\"n\":1}'", "VADD vectors VALUES 3 0 1 0 b",
    "BF.INSERT bloom CAPACITY 3 ITEMS a b c d e", "CF.INSERT cuckoo CAPACITY 8 ITEMS a b c a", "CMS.INITBYDIM counts 20 3", "CMS.INCRBY counts a 5 b 2",
    "TOPK.RESERVE top 3 20 3 1", "TOPK.ADD top a b a c a d", "TDIGEST.CREATE digest COMPRESSION 20", "TDIGEST.ADD digest 1 2 2 3 3 3 9",
    "VADD binary VALUES 3 1 -1 1 a BIN", "VADD float VALUES 2 0.1 0.2 a NOQUANT", "FT.SUGADD suggestions hello 2 PAYLOAD p",
]  # fmt: skip

# Those of database 0.
DEFINITIONS = [
    "FT.CREATE shop ON HASH PREFIX 1 item: LANGUAGE french STOPWORDS 1 le SCHEMA name TEXT WEIGHT 2 SORTABLE price NUMERIC kind TAG SEPARATOR ; v VECTOR HNSW 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC COSINE",
    "FT.CREATE documents ON JSON PREFIX 1 docu SCHEMA $.z AS z NUMERIC $.a[*].deep AS deep TAG", "FT.ALIASADD store shop",
    "FT.SYNUPDATE shop group chat matou", "FT.DICTADD words one two", "HSET item:1 name 'un chat' price 5 kind a;b", "HSET item:2 name chien price 7",
    "SEARCH.CREATE products ON HASH PREFIX 1 item: LANGUAGE french SCHEMA name TEXT price F64 FAST",
    "SEARCH.CREATE brief ON JSON PREFIX 1 docu SCHEMA z F64 FAST", "SEARCH.CREATE log ON STREAM stream SCHEMA a TEXT NOSTEM",
    "SEARCH.ALIASADD goods products", "SEARCH.ALIASADD astray nowhere", "PEXPIREAT brief 4000000000000",
    "VECTOR.CREATE near DIM 2 METRIC COSINE", "VECTOR.ADD near a VALUES 2 1 0.25", "VECTOR.ADD near b VALUES 2 -1 3", "VECTOR.CREATE none DIM 3 METRIC DOT",
    "PEXPIREAT none 4000000000000",
]  # fmt: skip
LIBRARY = "#!lua name=l\nredis.register_function('f', function() return 7 end)"


def words_of(line: str) -> list[str]:
    many = {"{300 words}": [f"m{n}-{'x' * (n % 90)}" for n in range(300)], "{300 scores}": [w for n in range(300) for w in (str(n / 8), f"m{n}")]}
    return [word for part in shlex.split(line.replace("{300 ", "{300_")) for word in many.get(part.replace("_", " "), [part])]


def fill_redis(port: int) -> None:
    with Connection(port) as connection:
        for db in (0, 15):
            connection.do("SELECT", db)
            for line in FILLING:
                connection.do(*words_of(line))
            connection.do("SET", b"\x00binary\xff", bytes(range(256)))
        connection.do("SELECT", 15)
        connection.do("VECTOR.CREATE", "far", "DIM", 1, "METRIC", "EUCLIDEAN")
        connection.do("VECTOR.ADD", "far", "only", "VALUES", 1, 9)
        connection.do("SELECT", 0)
        for line in DEFINITIONS:
            connection.do(*words_of(line))
        connection.do("FUNCTION", "LOAD", LIBRARY)


def value(connection: Connection, name, kind: str):
    readings = {
        "string": [["GET", name]],
        "list": [["LRANGE", name, 0, -1]],
        "zset": [["ZRANGE", name, 0, -1, "WITHSCORES"]],
        "hash": [["HGETALL", name], ["HPEXPIRETIME", name, "FIELDS", 2, "f", "g"]],
        "stream": [["XINFO", "STREAM", name, "FULL", "COUNT", 0]],
        "ReJSON-RL": [["JSON.GET", name]],
        "vectorset": [["VINFO", name], *[[word, name, m] for m in ("a", "b") for word in ("VEMB", "VGETATTR")], ["VSIM", name, "ELE", "a", "WITHSCORES"]],
        "MBbloom--": [["BF.INFO", name], ["BF.DEBUG", name], ["BF.MEXISTS", name, "a", "b", "z"]],
        "MBbloomCF": [["CF.INFO", name], ["CF.COUNT", name, "a"], ["CF.MEXISTS", name, "b", "z"]],
        "CMSk-TYPE": [["CMS.INFO", name], ["CMS.QUERY", name, "a", "b", "z"]],
        "TopK-TYPE": [["TOPK.INFO", name], ["TOPK.LIST", name, "WITHCOUNT"], ["TOPK.COUNT", name, "a", "z"]],
        "TDIS-TYPE": [["TDIGEST.QUANTILE", name, 0, 0.5, 1], ["TDIGEST.RANK", name, 2, 3]],
        "trietype0": [["FT.SUGGET", name, "h", "WITHSCORES", "WITHPAYLOADS"]],
        "search": [["SEARCH.DESCRIBE", name]],
        "vector": [["VECTOR.INFO", name], ["VECTOR.COUNT", name], *[["VECTOR.GET", name, id] for id in ("a", "b", "only")]],
    }
    if kind == "set":
        return sorted(connection.do("SMEMBERS", name))
    return [without_own(told(connection, *words)) for words in readings[kind]]


def told(connection: Connection, *words):
    try:
        return connection.do(*words)
    except Exception as error:  # noqa: BLE001
        return str(error)


# What a copy has of its own: when consumers were last seen, the number that a graph got, the bytes that an index takes.
OWN = {"hnsw-m", "vset-uid", "hnsw-max-node-uid", "seen-time", "active-time", "indexSize", "radix-tree-keys", "radix-tree-nodes"}


def without_own(reply):
    if not isinstance(reply, list):
        return reply
    pairs = list(zip(reply[::2], reply[1::2]))
    if reply and len(reply) % 2 == 0 and any(isinstance(name, str) and name in OWN for name, _ in pairs):
        reply = [word for pair in pairs if pair[0] not in OWN for word in pair]
    return [without_own(part) for part in reply]


def redis_contents(port: int) -> dict:
    found = {}
    with Connection(port) as connection:
        for index in ("products", "brief", "log"):
            connection.do("SEARCH.WAITINDEXING", index)
        for db in (0, 15):
            connection.do("SELECT", db)
            for name in connection.do("KEYS", "*"):
                kind = str(connection.do("TYPE", name))
                found[db, name] = kind, value(connection, name, kind), connection.do("PEXPIRETIME", name)
        connection.do("SELECT", 0)
        for index in ("shop", "documents"):
            until(lambda: dict(pairs(connection.do("FT.INFO", index)))["indexing"] == 0)
            info = dict(pairs(connection.do("FT.INFO", index)))
            found[index] = [info[part] for part in ("index_name", "index_definition", "attributes", "num_docs", "stopwords_list") if part in info]
        for words in (
            ["FT.SYNDUMP", "shop"], ["FT.DICTDUMP", "words"], ["FT.SEARCH", "store", "matou"], ["FT.SEARCH", "documents", "@z:[1 1]", "NOCONTENT"],
            ["SEARCH.LISTALIASES"], ["SEARCH.QUERY", "goods", '{"name":"chat"}'], ["SEARCH.COUNT", "log", '{"a":"2"}'],
            ["VECTOR.QUERY", "near", "TOPK", 2, "VALUES", 2, 1, 0], ["FUNCTION", "LIST", "WITHCODE"],
        ):  # fmt: skip
            found[tuple(words)] = told(connection, *words)
    return found


def pairs(words: list) -> list:
    return list(zip(words[::2], words[1::2]))


def compare(expected: dict, found: dict) -> None:
    for part, value in expected.items():
        if isinstance(value, dict) and isinstance(found.get(part), dict):
            compare(value, found[part])
        assert found.get(part) == value, part
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("form", ["file", "live", "replica"])
def test_everything_in_redis_comes_back(source, target, tmp_path, form):
    fill_redis(source.port)
    expected = redis_contents(source.port)
    assert {value[0] for key, value in expected.items() if key[0] in (0, 15)} == {
        "string", "list", "set", "zset", "hash", "stream", "ReJSON-RL", "vectorset", "trietype0", "search", "vector",
        "MBbloom--", "MBbloomCF", "CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE",
    }  # fmt: skip
    if form == "file":
        run("export", "redis", "--from", url(source), "--to", "copy.rdb", folder=tmp_path)
        assert "rejected 0" in run_import(tmp_path / "copy.rdb", target)
    elif form == "live":
        assert "rejected 0" in run_import(url(source), target)
    else:
        with Connection(target.port) as connection, Connection(source.port) as original:
            connection.do("REPLICAOF", "127.0.0.1", source.port)
            until(lambda: connection.do("DBSIZE") == original.do("DBSIZE") and "goods" in str(told(connection, "SEARCH.LISTALIASES")))
    compare(expected, redis_contents(target.port))


def test_users_come_back(source, target, tmp_path):
    """Also between logins: a password that worked there works here."""
    with Connection(source.port) as connection:
        for words in USERS:
            connection.do(*words)
        expected = sorted(line for line in connection.do("ACL", "LIST") if not line.startswith("user default "))
    run("export", "redis", "--from", url(source), "--to", "copy.rdb", "--acl-file", "users.acl", folder=tmp_path)
    assert (tmp_path / "users.acl").stat().st_mode & 0o077 == 0
    assert "rejected 0" in run_import(tmp_path / "copy.rdb", target, "--acl-file", str(tmp_path / "users.acl"))
    target.restart()
    with Connection(target.port) as connection:
        assert sorted(line for line in connection.do("ACL", "LIST") if not line.startswith("user default ")) == expected
        assert connection.do("AUTH", "reader", "second") == "OK"


# DynamoDB

ITEMS = [
    {
        "p": {"S": "every kind"}, "s": {"N": "-1.5E+3"}, "text": {"S": 'é "quoted"\n\u0000\u2028\\'}, "empty": {"S": ""}, "bytes": {"B": bytes(range(256))},
        "no-bytes": {"B": b""}, "digits": {"N": "1234567890123456789012345678901234567.8"}, "tiny": {"N": "1E-130"}, "huge": {"N": "-9.9E+125"},
        "zero": {"N": "0"}, "yes": {"BOOL": True}, "no": {"BOOL": False}, "nothing": {"NULL": True}, "texts": {"SS": ["a", "", "é"]},
        "numbers": {"NS": ["1", "-2.5", "3E+40"]}, "binaries": {"BS": [b"", b"\0\xff"]}, "list": {"L": [{"L": []}, {"M": {}}, {"N": "1"}, {"S": "x"}]},
        "map": {"M": {"deep.er": {"M": {"é": {"L": [{"BOOL": True}]}}}}}, "g": {"S": "group"},
    },
    {"p": {"S": "every kind"}, "s": {"N": "2"}, "expires": {"N": "32503680000"}, "g": {"S": "group"}},
    {"p": {"S": "x" * 2048}, "s": {"N": "0"}, "long": {"S": "y" * 300_000}},
]  # fmt: skip
CREATION = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in (("p", "S"), ("s", "N"), ("g", "S"), ("l", "B"))],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["text", "map"]},
        }
    ],
    "LocalSecondaryIndexes": [
        {"IndexName": "by-l", "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "l", "KeyType": "RANGE"}], "Projection": {"ProjectionType": "KEYS_ONLY"}}
    ],
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}  # fmt: skip
UNITS = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 8}
CAPACITIES = {
    "provisioned": {"BillingMode": "PROVISIONED", "ProvisionedThroughput": UNITS},
    "on demand": {"BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxReadRequestUnits": 100, "MaxWriteRequestUnits": 50}},
}
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "dynamodb:GetItem", "Resource": "*"}]}


def make_table(client, capacity: str) -> None:
    creation = json.loads(json.dumps(CREATION)) | CAPACITIES[capacity]
    if capacity == "provisioned":
        creation["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"] = {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}
    protected = {"DeletionProtectionEnabled": True, "TableClass": "STANDARD_INFREQUENT_ACCESS"}
    arn = client.create_table(TableName="whole", **creation, **protected, SSESpecification={"Enabled": True, "SSEType": "KMS"})["TableDescription"]["TableArn"]
    for item in ITEMS:
        client.put_item(TableName="whole", Item=item)
    client.update_time_to_live(TableName="whole", TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires"})
    client.tag_resource(ResourceArn=arn, Tags=[{"Key": f"key {number}", "Value": str(number)} for number in range(50)])
    client.update_continuous_backups(TableName="whole", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 7})
    client.put_resource_policy(ResourceArn=arn, Policy=json.dumps(POLICY))
    for index in ({}, {"IndexName": "by-g"}):
        client.update_contributor_insights(TableName="whole", ContributorInsightsAction="ENABLE", **index)


# Of the table's making, not of its definition. The bytes and counts of both are compared by their items.
OWN_PARTS = {"CreationDateTime", "TableId", "LatestStreamArn", "LatestStreamLabel", "LastUpdateToPayPerRequestDateTime", "LastIncreaseDateTime",
             "LastDecreaseDateTime", "NumberOfDecreasesToday", "LastUpdateDateTime", "ResponseMetadata", "EarliestRestorableDateTime",
             "LatestRestorableDateTime", "RevisionId", "WarmThroughput"}  # fmt: skip


def definition(value):
    if isinstance(value, dict):
        return {name: definition(part) for name, part in value.items() if name not in OWN_PARTS}
    return [definition(part) for part in value] if isinstance(value, list) else value


def table_contents(client, table: str) -> dict:
    described = client.describe_table(TableName=table)
    arn = described["Table"]["TableArn"]
    tags = client.get_paginator("list_tags_of_resource").paginate(ResourceArn=arn).build_full_result()["Tags"]
    pages = client.get_paginator("scan").paginate(TableName=table)
    found = {
        # A table that was on demand during its import says that it once was, as the service does.
        "table": {name: part for name, part in definition(described)["Table"].items() if name != "BillingModeSummary" or part["BillingMode"] != "PROVISIONED"},
        "items": sorted((item for page in pages for item in page["Items"]), key=repr),
        "index": client.query(TableName=table, IndexName="by-g", KeyConditionExpression="g = :g", ExpressionAttributeValues={":g": {"S": "group"}})["Items"],
        "expiry": client.describe_time_to_live(TableName=table)["TimeToLiveDescription"],
        "tags": sorted(tags, key=lambda tag: tag["Key"]),
        "recovery": definition(client.describe_continuous_backups(TableName=table)),
        "policy": json.loads(client.get_resource_policy(ResourceArn=arn)["Policy"]),
        "insights": [definition(client.describe_contributor_insights(TableName=table, **index)) for index in ({}, {"IndexName": "by-g"})],
    }
    return json.loads(json.dumps(found, default=repr))


@pytest.mark.parametrize("capacity", list(CAPACITIES))
def test_a_table_of_dynamodb_comes_back(source, target, tmp_path, capacity):
    there, here = connect(source), connect(target)
    make_table(there, capacity)
    run("export", "dynamodb", "--from", f"http://127.0.0.1:{source.dynamodb_port}", "--table", "whole", "--to", "out", folder=tmp_path)
    out = run("import", "dynamodb", "--from", "out", "--to", f"http://127.0.0.1:{target.dynamodb_port}", "--into", "whole", folder=tmp_path)
    assert f"brought {len(ITEMS)} records; rejected 0" in out
    compare(table_contents(there, "whole"), table_contents(here, "whole"))


@pytest.mark.parametrize("form", ["DYNAMODB_JSON", "ION"])
def test_an_export_of_the_server_comes_back(tmp_path, form):
    """By ExportTableToPointInTime and ImportTable, which name the table's definition themselves."""
    with Server(options=["--dynamodb-buckets", f"here={tmp_path}"]) as server:
        client = connect(server)
        make_table(client, "on demand")
        arn = client.describe_table(TableName="whole")["Table"]["TableArn"]
        export = client.export_table_to_point_in_time(TableArn=arn, S3Bucket="here", S3Prefix="out", ExportFormat=form)["ExportDescription"]["ExportArn"]
        wait = {"Delay": 0.1, "MaxAttempts": 600}
        client.get_waiter("export_completed").wait(ExportArn=export, WaiterConfig=wait)
        table = {name: part for name, part in CREATION.items() if name in ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")}
        table["AttributeDefinitions"] = [part for part in table["AttributeDefinitions"] if part["AttributeName"] != "l"]
        creation = {"TableName": "copy", "BillingMode": "PAY_PER_REQUEST", **table}
        started = client.import_table(
            S3BucketSource={"S3Bucket": "here", "S3KeyPrefix": "out/"}, InputFormat=form, InputCompressionType="GZIP", TableCreationParameters=creation
        )["ImportTableDescription"]["ImportArn"]
        client.get_waiter("import_completed").wait(ImportArn=started, WaiterConfig=wait)
        assert client.describe_import(ImportArn=started)["ImportTableDescription"]["ErrorCount"] == 0
        read = lambda name: sorted((item for page in client.get_paginator("scan").paginate(TableName=name) for item in page["Items"]), key=repr)  # noqa: E731
        assert read("copy") == read("whole")


# Keys and values


def test_keys_and_values_come_back(source, target, tmp_path):
    """By the export's own file, byte by byte, and by reading both through the binding's library."""
    rows = {b"": b"of the empty key", b"\x00": b"", b"\xfe\xff": b"last", b"k" * 10_000: b"longest key", b"long": b"v" * 100_000}
    rows |= {b"number" + number.to_bytes(4, "big"): bytes([number % 256]) * (number % 70) for number in range(3000)}
    line = lambda key, value: json.dumps({"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}, separators=(",", ":"))  # noqa: E731
    (tmp_path / "in").write_text("".join(f"{line(*row)}\n" for row in sorted(rows.items())))
    for server, file in ((source, "in"), (target, "out")):
        cluster = f"{server.data}/fdb.cluster"
        assert f"brought {len(rows)} records; rejected 0" in run("import", "keyvalue", "--from", file, "--cluster-file", cluster, folder=tmp_path)
        run("export", "keyvalue", "--cluster-file", cluster, "--to", "out", folder=tmp_path)
        assert (tmp_path / "out").read_text() == (tmp_path / "in").read_text()
