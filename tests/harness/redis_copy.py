"""What the tests of copying between Redis and Quartet share: data of every kind, how both sides read it, and the command."""

from __future__ import annotations

import subprocess
import time

from harness.resp import Connection
from harness.server import Server, binary

WAIT_SECONDS_MAX = 60


def url(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}"


def start_import(source, target: Server, *options) -> subprocess.Popen:
    command = [binary(), "import", "redis", "--from", str(source), "--to", url(target), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.PIPE, text=True)


def run_import(source, target: Server, *options, code: int = 0) -> str:
    process = start_import(source, target, *options)
    output, _ = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert process.returncode == code, output
    return output


def until(condition, seconds: float = WAIT_SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)


def fill(port: int) -> None:
    """Keys of every kind and size, in two databases."""
    later = int(time.time() * 1000) + 3_600_000
    with Connection(port) as connection:
        for db in (0, 9):
            connection.do("SELECT", db)
            connection.do("SET", "string", "value")
            connection.do("SET", "number", "-12345")
            connection.do("SET", "long", "abc" * 50_000)
            connection.do("SET", "expiring", "x", "PXAT", later)
            connection.do("SET", b"\x00binary\xff", b"\r\n\x00")
            connection.do("RPUSH", "list", *range(3000), "y" * 9000)
            connection.do("RPUSH", "small list", "a", "1", "-70000")
            connection.do("SADD", "integers", *range(-5, 5))
            connection.do("SADD", "set", *[f"member {n}" for n in range(2000)])
            connection.do("SADD", "small set", "a", "b")
            connection.do("ZADD", "zset", *[word for n in range(2000) for word in (n / 8, f"m{n}")])
            connection.do("ZADD", "small zset", "-inf", "a", "2.5", "b", "inf", "c")
            connection.do("HSET", "hash", *[word for n in range(2000) for word in (f"f{n}", n)])
            connection.do("HSET", "small hash", "f", "v", "g", "1")
            connection.do("PEXPIREAT", "hash", later)
            for n in range(500):
                connection.do("XADD", "stream", f"{n + 1}-0", "a", n, "b", "x" * (n % 7))
            connection.do("XDEL", "stream", "7-0", "500-0")
            connection.do("XGROUP", "CREATE", "stream", "group", "0")
            connection.do("XREADGROUP", "GROUP", "group", "me", "COUNT", 5, "STREAMS", "stream", ">")
            connection.do("XACK", "stream", "group", "2-0")
            connection.do("PFADD", "hll", *range(1000))
            connection.do("GEOADD", "geo", "13.3", "38.1", "Palermo")
        connection.do("SELECT", 0)
        connection.do("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function('f', function() return 7 end)")


def contents(port: int) -> dict:
    """Every key's value by its canonical reading, and its deadline."""
    found = {}
    with Connection(port) as connection:
        for db in (0, 9):
            connection.do("SELECT", db)
            for name in connection.do("KEYS", "*"):
                kind = str(connection.do("TYPE", name))
                value = {
                    "string": lambda: connection.do("GET", name),
                    "list": lambda: connection.do("LRANGE", name, 0, -1),
                    "set": lambda: sorted(connection.do("SMEMBERS", name)),
                    "zset": lambda: scored(connection.do("ZRANGE", name, 0, -1, "WITHSCORES")),
                    "hash": lambda: sorted(pairs(connection.do("HGETALL", name))),
                    "stream": lambda: [connection.do("XRANGE", name, "-", "+"), groups(connection, name)],
                }[kind]()
                found[db, name] = (kind, value, connection.do("PEXPIRETIME", name))
    return found


def scored(words: list) -> list:
    """Redis 7.0 prints a score with more digits than are needed."""
    return [(member, float(score)) for member, score in pairs(words)]


def pairs(words: list) -> list:
    return list(zip(words[::2], words[1::2]))


def groups(connection: Connection, name) -> list:
    """Each group's name, last ID and lag, and what is pending."""
    told = [dict(pairs(group)) for group in connection.do("XINFO", "GROUPS", name)]
    pending = [connection.do("XPENDING", name, group["name"], "-", "+", 100) for group in told]
    return [sorted(group.items()) for group in told] + [[row[:2] + row[3:] for row in rows] for rows in pending]
