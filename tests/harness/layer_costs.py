"""DynamoDB's operations, FaunaDB's functions and FoundationDB's calls by what their cost grows with: one table for the test and for the benchmark.

Each `*_lines` answers names with functions that make one call, given its number, on a table or a collection of many items or of few. What is
here costs about the same on both: it names its item, or bounds its page. What grows is on docs/limits.md: a count, a sum or another fold of
what it reads, and a page of a set's events, which are sorted by their time.
"""

from __future__ import annotations

from collections.abc import Callable

from faunadb import query as q

ITEMS = {False: 1_000, True: 100_000}
Calls = dict[str, Callable[[int], object]]


def fill_table(client, table: str, count: int) -> None:
    """Items `a` of one partition in the order of `n`, and an index by `g`, in whose one partition they are too."""
    key = [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "n", "KeyType": "RANGE"}]
    by_group = [{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "r", "KeyType": "RANGE"}]
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=key,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in (("p", "S"), ("n", "N"), ("g", "S"), ("r", "N"))],
        GlobalSecondaryIndexes=[{"IndexName": "by_group", "KeySchema": by_group, "Projection": {"ProjectionType": "ALL"}}],
    )
    for start in range(0, count, 25):
        items = [item(number) for number in range(start, min(start + 25, count))]
        client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": one}} for one in items]})


def item(number: int) -> dict:
    return {"p": {"S": "a"}, "n": {"N": str(number)}, "g": {"S": "g"}, "r": {"N": str(number * 7919 % 1_000_003)}, "v": {"S": "value"}}


def dynamodb_lines(client, table: str) -> Calls:
    def key(number: int) -> dict:
        return {name: value for name, value in item(number).items() if name in ("p", "n")}

    def query(**more):
        values = {":p": {"S": "a"}}
        return client.query(TableName=table, KeyConditionExpression="p = :p", ExpressionAttributeValues=values, Limit=5, **more)

    def by_group(forward: bool):
        values = {":g": {"S": "g"}}
        condition = "g = :g"
        return client.query(
            TableName=table, IndexName="by_group", KeyConditionExpression=condition, ExpressionAttributeValues=values, Limit=5, ScanIndexForward=forward
        )

    def change(number: int) -> dict:
        return {"TableName": table, "Key": key(number), "UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": {"S": f"v{number}"}}}

    return {
        "GetItem": lambda number: client.get_item(TableName=table, Key=key(number), ConsistentRead=True),
        "PutItem, new": lambda number: client.put_item(TableName=table, Item=item(10_000_000 + number)),
        "PutItem, old": lambda number: client.put_item(TableName=table, Item=item(number)),
        "UpdateItem": lambda number: client.update_item(**change(number)),
        "DeleteItem": lambda number: client.delete_item(TableName=table, Key=key(10_000_000 + number)),
        "Query": lambda number: query(),
        "Query, backwards": lambda number: query(ScanIndexForward=False),
        "Query, from a key": lambda number: query(ExclusiveStartKey=key(500)),
        "Query of an index": lambda number: by_group(True),
        "Query of an index, backwards": lambda number: by_group(False),
        "Scan": lambda number: client.scan(TableName=table, Limit=5),
        "Scan, a segment": lambda number: client.scan(TableName=table, Limit=5, Segment=3, TotalSegments=4),
        "BatchGetItem": lambda number: client.batch_get_item(RequestItems={table: {"Keys": [key(number), key(number + 1)]}}),
        "BatchWriteItem": lambda number: client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item(number)}}]}),
        "TransactGetItems": lambda number: client.transact_get_items(TransactItems=[{"Get": {"TableName": table, "Key": key(number)}}]),
        "TransactWriteItems": lambda number: client.transact_write_items(TransactItems=[{"Update": change(number)}]),
        "ExecuteStatement": lambda number: client.execute_statement(Statement=f"SELECT * FROM \"{table}\" WHERE p = 'a' AND n = {number}"),
        "DescribeTable": lambda number: client.describe_table(TableName=table),
        "ListTables": lambda number: client.list_tables(),
        "DescribeTimeToLive": lambda number: client.describe_time_to_live(TableName=table),
        "DescribeContinuousBackups": lambda number: client.describe_continuous_backups(TableName=table),
    }


def fill_collection(client, name: str, count: int) -> None:
    """Documents 1 to `count` of one group, and indexes by it: of references, and of references in the order of `r`."""
    client.query(q.create_collection({"name": name}))
    term = [{"field": ["data", "g"]}]
    by_group = {"name": f"{name}_by_group", "source": q.collection(name), "terms": term}
    by_r = {"name": f"{name}_by_r", "source": q.collection(name), "terms": term, "values": [{"field": ["data", "r"]}, {"field": ["ref"]}]}
    client.query(q.do(q.create_index(by_group), q.create_index(by_r)))
    for start in range(1, count + 1, 500):
        numbers = range(start, min(start + 500, count + 1))
        client.query(q.do(*(q.create(q.ref(q.collection(name), str(number)), {"data": document(number)}) for number in numbers)))


def document(number: int) -> dict:
    return {"g": "g", "r": number * 7919 % 1_000_003, "v": "value"}


def fauna_lines(client, name: str) -> Calls:
    def ref(number: int):
        return q.ref(q.collection(name), str(number + 1))

    documents = q.documents(q.collection(name))
    by_group, by_r = (q.match(q.index(f"{name}_{index}"), "g") for index in ("by_group", "by_r"))
    expressions = {
        "Get": lambda number: q.get(ref(number)),
        "Get of an index": lambda number: q.get(by_group),
        "Exists": lambda number: q.exists(ref(number)),
        "Exists of an index": lambda number: q.exists(by_group),
        "Create": lambda number: q.create(q.collection(name), {"data": document(number)}),
        "Update": lambda number: q.update(ref(number), {"data": {"v": f"v{number}"}}),
        "Replace": lambda number: q.replace(ref(number), {"data": document(number)}),
        "Create and Delete": lambda number: q.do(q.create(ref(10_000_000 + number), {"data": document(number)}), q.delete(ref(10_000_000 + number))),
        "Insert of a version": lambda number: q.insert(ref(number), 1_000_000 + number, "create", {"data": document(number)}),
        "Paginate": lambda number: q.paginate(documents, size=5),
        "Paginate, after": lambda number: q.paginate(documents, size=5, after=ref(500)),
        "Paginate, before": lambda number: q.paginate(documents, size=5, before=ref(500)),
        "Paginate of an index": lambda number: q.paginate(by_r, size=5),
        "Paginate of a range": lambda number: q.paginate(q.range(by_r, 500, 1_000_000), size=5),
        "Paginate of a union": lambda number: q.paginate(q.union(documents, by_group), size=5),
        "Paginate of an intersection": lambda number: q.paginate(q.intersection(documents, by_group), size=5),
        "Paginate of a reversed set": lambda number: q.paginate(q.reverse(documents), size=5),
        "Paginate of events": lambda number: q.paginate(ref(number), size=5, events=True),
        "Map and Get": lambda number: q.map_(lambda one: q.get(one), q.paginate(documents, size=5)),
        "Take": lambda number: q.take(5, q.select("data", q.paginate(documents, size=5))),
        "Contains": lambda number: q.contains_path(["data", "v"], q.get(ref(number))),
        "Get of a collection": lambda number: q.get(q.collection(name)),
    }
    return {line: lambda number, make=make: client.query(make(number)) for line, make in expressions.items()}


def fill_keys(fdb, database, prefix: str, count: int) -> None:
    """Keys `PREFIXNNNNNNNN`, which begin at 0."""

    @fdb.transactional
    def fill(tr, start: int) -> None:
        for number in range(start, min(start + 1000, count)):
            tr[kept_key(prefix, number)] = b"value"

    for start in range(0, count, 1000):
        fill(database, start)


def kept_key(prefix: str, number: int) -> bytes:
    return f"{prefix}{number:08}".encode()


def keyvalue_lines(fdb, database, prefix: str) -> Calls:
    selector = fdb.KeySelector

    def call(body):
        return lambda number: fdb.transactional(body)(database, kept_key(prefix, number))

    end = prefix.encode() + b"\xff"
    return {
        "get": call(lambda tr, key: tr[key].wait()),
        "get of a snapshot": call(lambda tr, key: tr.snapshot[key].wait()),
        "set": call(lambda tr, key: tr.set(key, b"other")),
        "set, new": call(lambda tr, key: tr.set(key + b"new", b"other")),
        "clear": call(lambda tr, key: tr.clear(key + b"new")),
        "clear of a range": call(lambda tr, key: tr.clear_range(key + b"a", key + b"z")),
        "add": call(lambda tr, key: tr.add(key + b"count", b"\1\0\0\0\0\0\0\0")),
        "get_key": call(lambda tr, key: tr.get_key(selector.first_greater_than(key)).wait()),
        "get_key, far": call(lambda tr, key: tr.get_key(selector.first_greater_than(key) + 20).wait()),
        "get_range": call(lambda tr, key: list(tr.get_range(key, end, limit=5))),
        "get_range, backwards": call(lambda tr, key: list(tr.get_range(key, end, limit=5, reverse=True))),
        "get_estimated_range_size": call(lambda tr, key: tr.get_estimated_range_size_bytes(key, key + b"z").wait()),
        "get and set": call(lambda tr, key: tr.set(key, tr[key].wait() or b"")),
        "conflict range": call(lambda tr, key: tr.add_read_conflict_range(key, end)),
        "get_read_version": call(lambda tr, key: tr.get_read_version().wait()),
    }
