"""The ssd engine through the command line: which engine opens a folder, converting, checking, opening with much data."""

import subprocess
from contextlib import contextmanager

import redis
from harness.server import Server, binary


@contextmanager
def serving(**options):
    server = Server(**options).start()
    try:
        yield server
    finally:
        server.close()


def connect(server):
    return redis.Redis(port=server.port, decode_responses=True)


def run(*arguments):
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=300)


def contents(client):
    found = {key: client.dump(key) for key in client.scan_iter(count=1000)}
    assert client.dbsize() == len(found)
    return found


def fill(client):
    pipe = client.pipeline(transaction=False)
    for number in range(3000):
        pipe.set(f"key:{number}", "v" * (number % 200))
        pipe.zadd("sorted", {f"member:{number}": number})
        pipe.rpush("list", number)
        pipe.hset("hash", f"field:{number}", number)
        pipe.sadd("set", number)
        pipe.xadd("stream", {"number": number}, id=f"{number + 1}-0")
    pipe.execute()


def test_a_folder_is_one_engines_and_can_be_converted(tmp_path):
    data = str(tmp_path / "data")
    with serving(data=data, options=["--engine", "memory"]) as server:
        client = connect(server)
        raw = redis.Redis(port=server.port)
        fill(client)
        before = contents(raw)
        server.stop()
    refused = run("serve", "--dev", "--data", data, "--engine", "ssd", "--listen-redis", "127.0.0.1:0")
    assert refused.returncode != 0
    assert "quartet convert --to ssd" in refused.stderr + refused.stdout
    for engine in ("ssd", "memory"):
        converted = run("convert", "--data", data, "--to", engine)
        assert converted.returncode == 0, converted.stderr
        assert f"the {engine} engine's now" in converted.stdout
        checked = run("check", "--data", data)
        assert checked.returncode == 0 and "sound" in checked.stdout, checked.stdout + checked.stderr
        with serving(data=data, options=["--engine", engine]) as server:
            assert contents(redis.Redis(port=server.port)) == before
            server.stop()


def test_the_ssd_engine_keeps_everything_and_counts_it(tmp_path):
    options = ["--engine", "ssd", "--unflushed-bytes", "65536", "--cache-bytes", "1048576"]
    with serving(durability="always", data=str(tmp_path / "data"), options=options) as server:
        client = connect(server)
        fill(client)
        before = contents(redis.Redis(port=server.port))
        client.bgsave()
        assert client.zrank("sorted", "member:1500") == 1500
        assert client.lindex("list", 2000) == "2000"
        server.kill()
        server.start()
        client = connect(server)
        assert contents(redis.Redis(port=server.port)) == before
        assert (client.zcard("sorted"), client.llen("list"), client.scard("set")) == (3000, 3000, 3000)
        assert client.srandmember("set") is not None and client.xlen("stream") == 3000
        client.flushall()
        assert client.dbsize() == 0 and client.randomkey() is None
        server.stop()
        server.start()
        assert connect(server).dbsize() == 0


def test_a_flipped_byte_of_the_base_is_found(tmp_path):
    data = tmp_path / "data"
    with serving(data=str(data), options=["--engine", "ssd"]) as server:
        fill(connect(server))
        server.stop()
    newest = max(data.glob("base-*"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    checked = run("check", "--data", str(data))
    assert checked.returncode == 1 and newest.name in checked.stdout, checked.stdout + checked.stderr


def test_a_damaged_row_is_an_error_and_no_answer(tmp_path):
    data = tmp_path / "data"
    with serving(data=str(data), options=["--engine", "ssd"]) as server:
        client = connect(server)
        for number in range(200):
            client.set(f"key:{number}", f"{number}." * 1500)
        server.stop()
        newest = max(data.glob("base-*"))
        content = bytearray(newest.read_bytes())
        at = content.index(b"77.77.77.")
        content[at] ^= 1
        newest.write_bytes(content)
        server.start()
        client = connect(server)
        failed = None
        try:
            client.get("key:77")
        except redis.ResponseError as error:
            failed = str(error)
        assert failed == "the disk could not be read, see the server's log"
        assert client.get("key:78").startswith("78.") and client.set("more", 1)
        assert server.alive()
