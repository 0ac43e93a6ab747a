"""Transactions that append to lists and read them, through each way in. A workload runs one on a fresh connection of its own.

`run` answers the operations with what was read, or raises `Failed` (nothing was done, for certain). Any other error leaves open
whether it was done. `connect` is called again after each error; no request takes longer than `seconds`.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
from pathlib import Path

import redis
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import HttpError

from harness import dynamodb, fauna
from harness.server import ROOT, Server


class Failed(Exception):
    """The transaction has had no effect."""


class Kind:
    seconds = 10.0

    def connect(self, server: Server):
        raise NotImplementedError

    def prepare(self, server: Server) -> None:
        """Makes what the lists are kept in."""

    def run(self, client, operations):
        raise NotImplementedError


def follows_a_lost_connection(error: BaseException) -> bool:
    """Whether the client met the error while it handled a lost connection. A pipeline that loses its connection within EXEC sends UNWATCH
    on a new one, and a refusal of that one hides the loss: EXEC may have been executed."""
    while error := error.__context__:
        if isinstance(error, (redis.ConnectionError, redis.TimeoutError, redis.WatchError)):
            return True
    return False


class OverRedis(Kind):
    def connect(self, server: Server):
        return redis.Redis(
            host=server.host, port=server.port, password=server.root_key, socket_timeout=self.seconds, retry=None, decode_responses=True
        )

    def run(self, client, operations):
        try:
            return self.transact(client, operations)
        except redis.ResponseError as error:
            # No node is home, or its disk is full: nothing was executed.
            is_refused = str(error).startswith(("MASTERDOWN", "MISCONF")) or isinstance(error, redis.exceptions.MasterDownError)
            if is_refused and not follows_a_lost_connection(error):
                raise Failed from error
            raise

    def transact(self, client, operations):
        raise NotImplementedError

    def name(self, key) -> str:
        return f"{type(self).__name__}:{key}"


def numbers(values) -> list[int]:
    return [int(value) for value in values]


class Multi(OverRedis):
    def transact(self, client, operations):
        pipe = client.pipeline(transaction=True)
        for kind, key, value in operations:
            pipe.rpush(self.name(key), value) if kind == "append" else pipe.lrange(self.name(key), 0, -1)
        answers = pipe.execute()
        return [(kind, key, value if kind == "append" else numbers(answer)) for (kind, key, value), answer in zip(operations, answers)]


class Watch(OverRedis):
    """Reads first, then appends if nothing that was read has changed."""

    def transact(self, client, operations):
        reads = [operation for operation in operations if operation[0] == "read"]
        appends = [operation for operation in operations if operation[0] == "append"]
        with client.pipeline(transaction=True) as pipe:
            pipe.watch(*{self.name(key) for _, key, _ in operations})
            done = [("read", key, numbers(pipe.lrange(self.name(key), 0, -1))) for _, key, _ in reads]
            pipe.multi()
            for _, key, value in appends:
                pipe.rpush(self.name(key), value)
            pipe.get("nothing")
            try:
                pipe.execute()
            except redis.WatchError as error:
                # The client names a connection that broke in the middle the same way.
                if "Watched variable changed" not in str(error):
                    raise
                raise Failed from error
        return done + appends


class Script(OverRedis):
    SOURCE = """local answers = {}
for _, operation in ipairs(cjson.decode(ARGV[1])) do
  if operation[1] == 'append' then
    redis.call('RPUSH', operation[2], operation[3])
    answers[#answers + 1] = {}
  else
    answers[#answers + 1] = redis.call('LRANGE', operation[2], 0, -1)
  end
end
return answers"""

    def transact(self, client, operations):
        given = json.dumps([[kind, self.name(key), value or 0] for kind, key, value in operations])
        answers = client.eval(self.SOURCE, 0, given)
        return [(kind, key, value if kind == "append" else numbers(answer)) for (kind, key, value), answer in zip(operations, answers)]


class DynamoDb(Kind):
    """A transaction of the service either reads or writes, and touches an item once."""

    def connect(self, server: Server):
        return dynamodb.connect(server, seconds=self.seconds)

    def prepare(self, server: Server) -> None:
        dynamodb.connect(server).create_table(
            TableName="lists",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def run(self, client, operations):
        kind = operations[0][0]
        once = list({key: (other, key, value) for other, key, value in operations if other == kind}.values())
        try:
            return self.write(client, once) if kind == "append" else self.read(client, once)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("TransactionCanceledException", "TransactionConflictException"):
                raise Failed from error
            raise

    def write(self, client, appends):
        def update(key, value):
            values = {":new": {"L": [{"N": str(value)}]}, ":none": {"L": []}}
            expression = "SET v = list_append(if_not_exists(v, :none), :new)"
            return {
                "Update": {"TableName": "lists", "Key": {"id": {"S": str(key)}}, "UpdateExpression": expression, "ExpressionAttributeValues": values}
            }

        client.transact_write_items(TransactItems=[update(key, value) for _, key, value in appends])
        return appends

    def read(self, client, reads):
        gets = [{"Get": {"TableName": "lists", "Key": {"id": {"S": str(key)}}}} for _, key, _ in reads]
        answers = client.transact_get_items(TransactItems=gets)["Responses"]
        lists = [answer.get("Item", {}).get("v", {}).get("L", []) for answer in answers]
        return [("read", key, [int(value["N"]) for value in values]) for (_, key, _), values in zip(reads, lists)]


class Fql(Kind):
    def connect(self, server: Server):
        return fauna.connect(server, timeout=self.seconds)

    def prepare(self, server: Server) -> None:
        client = fauna.connect(server)
        client.query(q.create_collection({"name": "lists"}))

    def run(self, client, operations):
        def values(key):
            return q.select(["data", "v"], q.get(self.reference(key)), [])

        def one(kind, key, value):
            reference = self.reference(key)
            if kind == "read":
                return q.if_(q.exists(reference), values(key), [])
            created = q.create(reference, {"data": {"v": [value]}})
            appended = q.update(reference, {"data": {"v": q.append([value], values(key))}})
            return q.do(q.if_(q.exists(reference), appended, created), [])

        try:
            answers = client.query([one(*operation) for operation in operations])
        except HttpError as error:
            if error.request_result.status_code == 409:
                raise Failed from error
            raise
        return [(kind, key, value if kind == "append" else answer) for (kind, key, value), answer in zip(operations, answers)]

    def reference(self, key):
        return q.ref(q.collection("lists"), str(key + 1))


class KeyValue(Kind):
    """FoundationDB's binding on our library, which follows a server that comes back by itself. A list is one value."""

    LIBRARY = Path(os.environ.get("QUARTET_FDB_C", ROOT / "target" / "release" / "libfdb_c.so"))
    API_VERSION = 730
    # Nothing was committed: what was read has changed, or is gone.
    REFUSED = (1007, 1020)

    def __init__(self):
        ctypes.CDLL(str(self.LIBRARY), mode=ctypes.RTLD_GLOBAL)
        import fdb

        if not fdb.is_api_version_selected():
            fdb.api_version(self.API_VERSION)
        self.fdb = fdb
        self.databases = {}
        # Clients connect side by side: a file that one is still writing is not opened by another.
        self.lock = threading.Lock()
        self.folder = tempfile.TemporaryDirectory(prefix="quartet-clusters-")

    def connect(self, server: Server):
        address = f"{server.host}:{server.keyvalue_port}"
        with self.lock:
            if address not in self.databases:
                file = Path(self.folder.name) / address
                file.write_text(f"quartet:{server.root_key or 'dev'}@{address}\n")
                self.databases[address] = self.fdb.open(str(file))
            return self.databases[address]

    def run(self, client, operations):
        transaction = client.create_transaction()
        transaction.options.set_timeout(int(self.seconds * 1000))
        done = []
        try:
            for kind, key, value in operations:
                name = b"lists/%d" % key
                kept = transaction.get(name).wait()
                values = json.loads(bytes(kept)) if kept.present() else []
                if kind == "append":
                    transaction.set(name, json.dumps([*values, value]).encode())
                done.append((kind, key, value if kind == "append" else values))
            transaction.commit().wait()
        except self.fdb.FDBError as error:
            if error.code in self.REFUSED:
                raise Failed from error
            raise
        return done


ALL = {"multi": Multi, "watch": Watch, "script": Script, "dynamodb": DynamoDb, "fql": Fql, "keyvalue": KeyValue}
