"""`--data memory`: a server without a folder."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
import redis
from faunadb import query as q

from harness import dynamodb, fauna
from harness.server import Server, binary

TABLE = {
    "TableName": "kept",
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
LOUD = "DATA ARE IN MEMORY ONLY"

pytestmark = pytest.mark.quartet_only


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = Server(durability="always", data="memory").start()
    yield server
    server.close()


def test_every_layer_works_and_nothing_is_left(server, tmp_path):
    database = redis.Redis(port=server.port)
    database.set("kept", "yes")
    dynamodb.connect(server).create_table(**TABLE)
    fauna.connect(server).query(q.create_collection({"name": "kept"}))
    assert database.save() and database.info("server")["quartet_data"] == "memory"
    assert sum(LOUD in line for line in server.output) == 2, "told to the reader of the output and to the log"
    assert os.listdir(tmp_path) == []
    assert server.stop() == 0
    server.start()
    assert redis.Redis(port=server.port).get("kept") is None
    assert dynamodb.connect(server).list_tables()["TableNames"] == []
    assert fauna.connect(server).query(q.exists(q.collection("kept"))) is False
    assert os.listdir(tmp_path) == []


def test_a_folder_says_so(tmp_path):
    server = Server(data=str(tmp_path)).start()
    try:
        assert redis.Redis(port=server.port).info("server")["quartet_data"] == "folder"
        assert not any(LOUD in line for line in server.output)
    finally:
        server.close()


def test_writing_the_same_over_and_over_takes_no_more_memory(server):
    database, value = redis.Redis(port=server.port), "x" * (1 << 20)
    for _ in range(20):
        database.set("key", value)
    before = server.rss_bytes()
    for _ in range(400):
        database.set("key", value)
    assert server.rss_bytes() - before < 150 << 20


def test_keys_are_made_anew_at_each_start(tmp_path):
    """Without `--dev` a key is needed, and there is no place to keep one."""
    keys = set()
    for _ in range(2):
        listeners = [part for name in ("redis", "http", "dynamodb", "fauna") for part in (f"--listen-{name}", "127.0.0.1:0")]
        process = subprocess.Popen([binary(), "serve", "--data", "memory", *listeners], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            told = "".join(iter(process.stdout.readline, "ready\n"))
        finally:
            process.kill()
            process.wait()
        keys.add(re.search(r"root key, shown this once: (\S+)", told).group(1))
        keys.add(re.search(r"DynamoDB access key (\S+),", told).group(1))
    assert len(keys) == 4 and os.listdir(tmp_path) == []
