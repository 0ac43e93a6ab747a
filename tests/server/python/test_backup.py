"""Backups of a running server: taken, verified, restored as of any version, kept in a folder or an object store."""

import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
import redis
from harness.object_store import object_store
from harness.server import REST_READ_ONLY_TOKEN, Server, binary


@contextmanager
def serving(durability="always", **options):
    server = Server(durability, **options).start()
    try:
        yield server
    finally:
        server.close()


def run(*arguments, **environment):
    variables = {**os.environ, **environment}
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=300, env=variables)


def backup(server, target, *options, **environment):
    taken = run("backup", "--server", f"127.0.0.1:{server.http_port}", "--to", str(target), *options, **environment)
    assert taken.returncode == 0, taken.stderr
    return taken.stdout


def connect(server):
    return redis.Redis(port=server.port, decode_responses=True)


def contents(server):
    raw = redis.Redis(port=server.port)
    return {key: raw.dump(key) for key in raw.scan_iter(count=1000)}


def durable_version(server):
    metrics = urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=60).read().decode()
    return int(float(re.search(r"^quartet_durable_version (\S+)", metrics, re.M)[1]))


def restored(target, data, *options, **environment):
    done = run("restore", "--from", str(target), "--data", str(data), *options, **environment)
    assert done.returncode == 0, done.stderr
    with serving(data=str(data)) as server:
        return contents(server)


def fill(client, round_number):
    pipe = client.pipeline()
    for number in range(300):
        pipe.set(f"key:{number}", f"{round_number}" * (number % 50 + 1))
        pipe.zadd("sorted", {f"member:{number}": round_number * number, f"a long member:{number}" * 10: round_number + number})
        pipe.rpush(f"list:{round_number}", number)
    pipe.execute()


def test_a_backup_is_restored_as_of_any_version(tmp_path):
    target = tmp_path / "backups"
    with serving() as server:
        client = connect(server)
        fill(client, 1)
        # So long that no head of a request holds two.
        client.mset({"long" * 16_000 + str(number): number for number in range(100)})
        assert "all rows" in backup(server, target)
        states = []
        for number in range(2, 5):
            fill(client, number)
            states.append((durable_version(server), contents(server)))
        client.flushall()
        assert "all rows" not in backup(server, target)
        assert "nothing new" in backup(server, target)
        assert "all rows" in backup(server, target, "--full")
    checked = run("check", "--backup", str(target))
    assert checked.returncode == 0 and checked.stdout.endswith("sound\n"), checked.stdout + checked.stderr
    for number, (version, state) in enumerate(states):
        engine = ("memory", "ssd")[number % 2]
        data = tmp_path / f"at-{version}"
        assert restored(target, data, "--at", str(version), "--engine", engine) == state
    assert restored(target, tmp_path / "newest") == {}
    refused = run("restore", "--from", str(target), "--data", str(tmp_path / "newest"))
    assert refused.returncode != 0 and "is not empty" in refused.stderr
    refused = run("restore", "--from", str(target), "--data", str(tmp_path / "early"), "--at", "2020-01-01T00:00:00Z")
    assert refused.returncode != 0 and "the oldest version that is covered" in refused.stderr
    assert not (tmp_path / "early").exists()


def test_a_damaged_backup_is_refused_before_anything_is_written(tmp_path):
    target = tmp_path / "backups"
    with serving() as server:
        fill(connect(server), 1)
        backup(server, target)
    part = sorted(target.glob("part-*"))[0]
    whole = part.read_bytes()
    part.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    checked = run("check", "--backup", str(target))
    assert checked.returncode == 1 and f"{part.name}, at byte " in checked.stdout
    part.unlink()
    checked = run("check", "--backup", str(target))
    assert checked.returncode == 1 and "is missing" in checked.stdout
    refused = run("restore", "--from", str(target), "--data", str(tmp_path / "data"))
    assert refused.returncode != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backups"]


def test_one_database_is_restored_alone(tmp_path):
    target = tmp_path / "backups"
    with serving() as server:
        connect(server).set("of", "default")
        address = f"127.0.0.1:{server.http_port}"
        passwords = {}
        for name in ("shop", "blog"):
            made = run("admin", "--server", address, "create", name)
            assert made.returncode == 0, made.stderr
            passwords[name] = json.loads(made.stdout)["credentials"]["token"]
            redis.Redis(port=server.port, password=passwords[name]).set("of", name)
        backup(server, target)
        # A database of the same name is another.
        assert run("admin", "--server", address, "delete", "blog", "--yes").returncode == 0
        assert run("admin", "--server", address, "create", "blog").returncode == 0
        backup(server, target)
    data = tmp_path / "data"
    refused = run("restore", "--from", str(target), "--data", str(data), "--database", "blog")
    assert refused.returncode != 0 and "was deleted before the version" in refused.stderr
    assert not data.exists()
    done = run("restore", "--from", str(target), "--data", str(data), "--database", "shop")
    assert done.returncode == 0, done.stderr
    with serving(data=str(data)) as server:
        shop = redis.Redis(port=server.port, password=passwords["shop"], decode_responses=True)
        assert shop.get("of") == "shop"
        assert connect(server).get("of") is None
        listed = run("admin", "--server", f"127.0.0.1:{server.http_port}", "list").stdout
        assert '"shop"' in listed and '"blog"' not in listed


def test_a_backup_and_a_restore_that_are_killed_lose_nothing(tmp_path):
    target = tmp_path / "backups"
    with serving() as server:
        client = connect(server)
        for number in range(1, 30):
            fill(client, number)
        server_address = f"127.0.0.1:{server.http_port}"
        # The server keeps what they had begun for two minutes, and serves four.
        for pause in (0.1, 0.3, 0.6):
            slow = [binary(), "backup", "--server", server_address, "--to", str(target), "--full", "--bytes-per-second", "100000"]
            process = subprocess.Popen(slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(pause)
            # Others are served meanwhile.
            assert client.incr("served") > 0
            process.kill()
            process.wait()
        backup(server, target)
        state = contents(server)
    data = tmp_path / "data"
    for pause in (0.0, 0.05, 0.1):
        command = [binary(), "restore", "--from", str(target), "--data", str(data)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(pause)
        process.kill()
        if process.wait() == 0:
            break
        assert not data.exists() or os.listdir(data)
    if data.exists():
        data = tmp_path / "again"
    assert restored(target, data) == state


class Between:
    """Hands requests on to a server, and does something before the one of that number."""

    def __init__(self, server, number, act):
        self.server, self.left, self.act = server, number, act
        between = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                between.count()
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                url = f"http://127.0.0.1:{between.server.http_port}{self.path}"
                headers = {"authorization": self.headers["authorization"]}
                request = urllib.request.Request(url, body or None, headers, method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=60) as answer:
                        status, answered = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    status, answered = error.code, error.read()
                except OSError:
                    return self.connection.close()
                self.send_response(status)
                self.send_header("content-length", str(len(answered)))
                self.end_headers()
                self.wfile.write(answered)

            do_DELETE = do_POST

            def log_message(self, *_):
                pass

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def count(self):
        self.left -= 1
        if self.left == 0:
            self.act()

    @property
    def was_reached(self):
        return self.left <= 0

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()


@contextmanager
def between(server, number, act):
    proxy = Between(server, number, act)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize(("way", "numbers"), [("--full", (1, 2, 4)), ("--follow", (3,)), ("incremental", (2, 3))])
def test_a_server_that_is_killed_leaves_a_backup_that_is_whole_or_none(tmp_path, way, numbers):
    """The kill comes before a request whose number is known: while all rows are taken, in pieces of 2 MiB, and while the log is."""
    target = tmp_path / "backups"
    options = [] if way == "incremental" else [way]
    if way == "--follow":
        options += ["--interval-seconds", "1"]
    states = [{}]
    server = Server("always").start()
    try:
        if way == "incremental":
            backup(server, target)
        for number in numbers:
            fill(connect(server), number)
            connect(server).mset({f"large:{key}": str(number) * 60_000 for key in range(80)})
            states.append(contents(server))
            with between(server, number, server.kill) as proxy:
                ended = run("backup", "--server", proxy.address, "--to", str(target), *options)
                assert proxy.was_reached and ended.returncode != 0 and "server" in ended.stderr, ended.stderr
            assert not (target / "lock").exists()
            checked = run("check", "--backup", str(target))
            if list(target.glob("manifest-*")):
                assert checked.returncode == 0, checked.stdout
                assert restored(target, tmp_path / f"killed-{number}") in states
            else:
                assert "there is no backup" in checked.stderr
            server.start()
        backup(server, target)
        assert restored(target, tmp_path / "data") == contents(server) == states[-1]
    finally:
        server.close()


def test_written_rows_are_followed(tmp_path):
    target = tmp_path / "backups"
    with serving(options=["--engine", "ssd"]) as server:
        client = connect(server)
        command = [binary(), "backup", "--server", f"127.0.0.1:{server.http_port}", "--to", str(target), "--follow", "--interval-seconds", "1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert "all rows" in process.stdout.readline()
            refused = run("backup", "--server", f"127.0.0.1:{server.http_port}", "--to", str(target))
            assert refused.returncode != 0 and "another backup is being taken" in refused.stderr
            fill(client, 1)
            version, state = durable_version(server), contents(server)
            while int(process.stdout.readline().split()[-1]) < version:
                assert process.poll() is None
            client.flushall()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
    assert restored(target, tmp_path / "data", "--at", str(version)) == state


def test_an_object_store_keeps_backups(tmp_path):
    # What was acknowledged before a backup began is in it, also where nobody waits for the disk.
    with object_store() as store, serving(durability="none") as server:
        environment, bucket = store.environment, store.client()
        bucket.create_bucket(Bucket="safe")
        fill(connect(server), 1)
        backup(server, "s3://safe/quartet/main", **environment)
        fill(connect(server), 2)
        backup(server, "s3://safe/quartet/main", **environment)
        state = contents(server)
        names = [found["Key"] for found in bucket.list_objects_v2(Bucket="safe")["Contents"]]
        assert "quartet/main/manifest-0000000001.json" in names
        checked = run("check", "--backup", "s3://safe/quartet/main", **environment)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert restored("s3://safe/quartet/main", tmp_path / "data", **environment) == state
        part = next(name for name in names if "part-" in name)
        bucket.delete_object(Bucket="safe", Key=part)
        refused = run("restore", "--from", "s3://safe/quartet/main", "--data", str(tmp_path / "other"), **environment)
        assert refused.returncode != 0 and "is missing" in refused.stderr


def test_an_object_store_keeps_backups_of_several_partitions(tmp_path):
    with object_store() as store, serving(options=["--partitions", "2"]) as server:
        environment, bucket = store.environment, store.client()
        bucket.create_bucket(Bucket="safe")
        fill(connect(server), 1)
        backup(server, "s3://safe/all", **environment)
        fill(connect(server), 2)
        backup(server, "s3://safe/all", **environment)
        state = contents(server)
        names = {found["Key"] for found in bucket.list_objects_v2(Bucket="safe")["Contents"]}
        assert {"all/partitions.json", "all/manifest-0000000002.json", "all/partitions/1/manifest-0000000002.json"} <= names
        checked = run("check", "--backup", "s3://safe/all", **environment)
        assert checked.returncode == 0 and "partition 1:" in checked.stdout, checked.stdout + checked.stderr
        assert restored("s3://safe/all", tmp_path / "data", **environment) == state
        assert (tmp_path / "data" / "partitions" / "1").is_dir()


def test_one_of_two_backups_into_one_place_at_the_same_time_is_refused(tmp_path):
    with object_store() as store, serving() as server:
        environment, bucket = store.environment, store.client()
        bucket.create_bucket(Bucket="safe")
        folder = str(tmp_path / "backups")
        for target in ("s3://safe/backups", folder):
            fill(connect(server), 1)
            taken = []
            command = ["backup", "--to", target]

            def another():
                taken.append(run(*command, "--server", f"127.0.0.1:{server.http_port}", **environment))

            with between(server, 2, another) as proxy:
                first = run(*command, "--server", proxy.address, **environment)
            refused, whole = (taken[0], first) if target == folder else (first, taken[0])
            assert whole.returncode == 0 and "all rows" in whole.stdout, whole.stderr
            assert refused.returncode != 0 and "another backup" in refused.stderr, refused.stderr
            fill(connect(server), 2)
            backup(server, target, **environment)
            checked = run("check", "--backup", target, **environment)
            assert checked.returncode == 0 and checked.stdout.endswith("sound\n") and "belongs to no" not in checked.stdout
            assert restored(target, tmp_path / f"data-{target == folder}", **environment) == contents(server)
        assert not os.path.exists(f"{folder}/lock")


def test_only_who_has_the_root_key_takes_a_backup(tmp_path):
    with serving() as server:
        for path in ("", "/0/rows", "/0/log"):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {REST_READ_ONLY_TOKEN}"}):
                request = urllib.request.Request(
                    f"http://127.0.0.1:{server.http_port}/admin/v1/backups{path}", b"{}", headers, method="POST"
                )
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=60)
                assert refused.value.code in (401, 403), path
        made = run("admin", "--server", f"127.0.0.1:{server.http_port}", "create", "shop")
        token = json.loads(made.stdout)["credentials"]["token"]
        target = tmp_path / "backups"
        refused = run("backup", "--server", f"127.0.0.1:{server.http_port}", "--key", token, "--to", str(target))
        assert refused.returncode != 0 and "401" in refused.stderr
        assert not list(target.glob("manifest-*"))
        url, headers = f"http://127.0.0.1:{server.http_port}/admin/v1/backups", {"authorization": "Bearer dev"}
        for _ in range(4):
            request = urllib.request.Request(url, b"{}", headers, method="POST")
            begun = json.load(urllib.request.urlopen(request, timeout=60))
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, b"{}", headers, method="POST"), timeout=60)
        assert refused.value.code == 503
        urllib.request.urlopen(urllib.request.Request(f"{url}/{begun['id']}", headers=headers, method="DELETE"), timeout=60)
        assert "all rows" in backup(server, target)


def test_versions_that_no_backup_covers_are_named(tmp_path):
    target = tmp_path / "backups"
    with serving() as server:
        fill(connect(server), 1)
        backup(server, target)
        version = durable_version(server)
    with serving() as other:
        fill(connect(other), 2)
        command = ["backup", "--server", f"127.0.0.1:{other.http_port}", "--to", str(target)]
        taken = run(*command)
        assert taken.returncode == 0 and f"writes after version {version} and before version" in taken.stderr
        assert "warning" not in run(*command, "--full").stderr
        state = contents(other)
    checked = run("check", "--backup", str(target))
    assert checked.stdout.count("are in no backup") == 1 and checked.stdout.endswith("sound\n"), checked.stdout
    refused = run("restore", "--from", str(target), "--data", str(tmp_path / "between"), "--at", str(version + 1))
    assert refused.returncode != 0 and "versions are covered from" in refused.stderr
    assert restored(target, tmp_path / "newest") == state
