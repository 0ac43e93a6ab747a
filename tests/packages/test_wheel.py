"""The wheel `quartet-server`: installed into an empty environment, used by pytest and by programs."""

from __future__ import annotations

import signal
import subprocess
import zipfile

from harness.installed import CLIENTS, is_alive, run, until

FOUR_URLS = """
import boto3, redis, urllib.request
from faunadb import query as q
from faunadb.client import FaunaClient
from urllib.parse import urlsplit


def test_every_layer_answers(quartet):
    database = redis.Redis.from_url(quartet.redis_url)
    assert database.set("greeting", "hello")

    asked = urllib.request.Request(quartet.rest_url + "/get/greeting", headers={"Authorization": f"Bearer {quartet.rest_token}"})
    assert urllib.request.urlopen(asked).read() == b'{"result":"hello"}'

    tables = boto3.client("dynamodb", endpoint_url=quartet.dynamodb_url, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    assert tables.list_tables()["TableNames"] == []

    fauna = urlsplit(quartet.fauna_url)
    client = FaunaClient(quartet.fauna_secret, domain=fauna.hostname, port=fauna.port, scheme=fauna.scheme)
    assert client.query(q.add(1, 2)) == 3

    assert open(quartet.cluster_file).read().startswith("quartet:dev@127.0.0.1:")


def test_each_test_has_a_server_of_its_own(quartet):
    assert redis.Redis.from_url(quartet.redis_url).dbsize() == 0


def test_the_variables_are_those_that_clients_read(quartet, monkeypatch):
    for name, value in quartet.environment.items():
        monkeypatch.setenv(name, value)
    assert boto3.client("dynamodb").list_tables()["TableNames"] == []


def test_a_server_for_the_session(quartet_session):
    assert redis.Redis.from_url(quartet_session.redis_url).ping()
"""


def test_the_wheel_says_for_which_platform_it_is(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.name.split("-")[2:4] == ["py3", "none"] and "linux" in wheel.name.split("-")[4]
    assert {"quartet_server/bin/quartet", "quartet_server/lib/libfdb_c.so"} <= set(zipfile.ZipFile(wheel).namelist())


def test_foundationdb_s_binding_takes_the_library_of_the_package(clean_python):
    program = """
import ctypes, quartet_server
library = ctypes.CDLL(quartet_server.library())
import fdb
fdb.api_version(730)
with quartet_server.start_quartet() as quartet:
    database = fdb.open(quartet.cluster_file)
    database[b"greeting"] = b"hello"
    print(database[b"greeting"])
"""
    assert run([clean_python, "-c", program], PYTHONPATH=CLIENTS).strip() == "b'hello'"


def test_pytest_finds_the_fixture(clean_python, tmp_path):
    (tmp_path / "test_application.py").write_text(FOUR_URLS)
    told = run([clean_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path], PYTHONPATH=CLIENTS)
    assert "4 passed" in told


def test_the_command_is_the_binary(clean_python):
    assert run([clean_python.parent / "quartet", "--version"]).startswith("quartet 0.")


def test_the_server_ends_however_its_program_ends(clean_python):
    program = "from quartet_server import start_quartet\nprint(start_quartet().pid, flush=True)\ninput()"
    process = subprocess.Popen([clean_python, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server = int(process.stdout.readline())
    assert is_alive(server)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not is_alive(server))


def test_a_server_that_cannot_start_says_why(clean_python):
    program = "from quartet_server import start_quartet\ntry: start_quartet(arguments=['--durability', 'sometimes'])\nexcept RuntimeError as e: print(e)"
    told = run([clean_python, "-c", program])
    assert "ended before it was ready" in told and "sometimes" in told
