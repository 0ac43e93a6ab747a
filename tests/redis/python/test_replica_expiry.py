"""Replicas hold what their home holds, although keys and fields of hashes expire between commands.

Story: within some 100 ms after a field's deadline HINCRBY, HSETNX and HDEL met the expired field, made it anew or removed the hash, and
were sent to replicas as they came. There the old field was in the way: the two sides kept different hashes. A field that was met expired
is sent as HDEL before the command, and a hash whose last field has expired is gone for every command, as DEL.

Random commands with deadlines of a few milliseconds, alone, in MULTI and in scripts; when every deadline has passed, both sides must be
the same. Replicas are a Quartet, and for what it knows a redis-server 7.0; `QUARTET_NEWER_REDIS=PATH` adds a server of 7.4 or later.
"""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from harness.redis_copy import contents, until
from harness.resp import Connection
from harness.server import Server, free_port

SEEDS = range(3)
# Short rounds: what differs is healed by the next command that is sent as the state of its key.
ROUNDS = 40
STEPS = 50
# `E`: milliseconds until something expires.
SOON = ["1", "2", "3", "5", "8", "13", "30"]

OF_KEYS = """
PEXPIRE K E; PEXPIRE K E; PEXPIRE K E NX|XX|GT|LT; SET K V PX E; SET K V PX E NX|XX; SET K V XX KEEPTTL; GETEX K PX E; PSETEX K E V; PERSIST K
SETNX K V; MSETNX K V K V; COPY K K REPLACE; RENAMENX K K; PFMERGE K K K; PFADD K M; LMOVE K K LEFT RIGHT; RPOPLPUSH K K; SMOVE K K M
SPOP K; SPOP K 2; LMPOP 2 K K LEFT; ZMPOP 2 K K MIN; XADD K * M V; XADD K MAXLEN ~ 3 * M V; INCRBYFLOAT K F; HINCRBYFLOAT K M F
BITFIELD K INCRBY u8 0 7; SETRANGE K 3 V; APPEND K V; SUNIONSTORE K K K; ZUNIONSTORE K 2 K K; SORT K ALPHA STORE K; GETDEL K; LPUSHX K M
HSET K M V; HSETNX K M V; HINCRBY K M I; HDEL K M; SADD K M; RPUSH K M; ZADD K F M; ZINCRBY K F M; XGROUP CREATE K g 0 MKSTREAM
XREADGROUP GROUP g M STREAMS K >; XACK K g G; LTRIM K 0 2; ZADD K GT F M; INCR K; DECR K; MOVE K 9; COPY K K DB 9; EXPIREAT K 1
"""
OF_FIELDS = """
HPEXPIRE K E FIELDS 1 M; HPEXPIRE K E FIELDS 2 M M; HPEXPIRE K E NX|XX|GT|LT FIELDS 1 M; HPERSIST K FIELDS 1 M; HSET K M V; HSET K M V M V
HSET K M V; HPEXPIRE K E FIELDS 1 M; HSETNX K M V; HINCRBY K M I; HINCRBYFLOAT K M F; HDEL K M; HDEL K M M M; HGETDEL K FIELDS 1 M
HGETEX K PX E FIELDS 1 M; HGETEX K PERSIST FIELDS 1 M; HSETEX K PX E FIELDS 1 M V; HSETEX K FNX|FXX KEEPTTL FIELDS 1 M V
COPY K K REPLACE; RENAME K K; RENAMENX K K; SADD K M; SETNX K V; EXISTS K; HGET K M; HGETALL K; MOVE K 9; PEXPIRE K E; LPUSHX K M
HRANDFIELD K 1; HMSET K M V; DEL K; XADD K * M V; RPUSH K M; APPEND K V; PERSIST K; HPEXPIRE K E FIELDS 1 M
"""
LARGE = 300
PLACES = {
    "K": [f"k{number}" for number in range(6)],
    "M": ["a", "b", "c", "d", "e"],
    "V": ["1", "2", "value", "3.5", "-7"],
    "I": ["1", "-3"],
    "F": ["1", "2.5", "-1"],
    "G": ["1-1", "2-1"],
    "E": SOON,
}


def made(rng: random.Random, texts: list[list[str]]) -> list[str]:
    return [rng.choice(PLACES.get(token) or token.split("|")) for token in rng.choice(texts)]


def split(text: str) -> list[list[str]]:
    return [template.split() for line in text.strip().splitlines() for template in line.split(";")]


def run(rng: random.Random, connection: Connection, texts: list[list[str]]) -> None:
    commands = [made(rng, texts) for _ in range(rng.randint(1, 4))]
    match rng.randrange(4):
        case 0:
            connection.pipeline(["MULTI"], *commands, ["EXEC"])
        case 1:
            calls = "".join(f"redis.pcall({','.join(repr(word) for word in command)}) " for command in commands)
            connection.do("EVAL", calls, 0)
        case _:
            connection.pipeline(*commands)


def fill_large(connection: Connection) -> None:
    """A hash of rows, beside the small ones that the commands make."""
    words = [word for n in range(LARGE) for word in (f"field {n}", n)]
    connection.do("HSET", "k0", *words)


def state(port: int) -> dict:
    found = contents(port)
    with Connection(port) as connection:
        # Redis counts fields that are hidden because they have expired.
        lengths = {name: connection.do("HLEN", name) for (db, name), (kind, *_) in found.items() if kind == "hash" and db == 0}
    return {"lengths": lengths, **found}


def info(connection: Connection, field: str) -> str:
    lines = str(connection.do("INFO", "replication")).splitlines()
    return next((line.split(":", 1)[1] for line in lines if line.startswith(field + ":")), "")


def is_settled(connection: Connection) -> bool:
    """Every deadline has passed, and the cycle has done its work."""
    lines = [line for line in str(connection.do("INFO", "keyspace")).splitlines() if line.startswith("db")]
    return all("expires=0," in line and "subexpiry=0" in line for line in lines)


class Newer:
    """A redis-server that is not the installed one."""

    def __init__(self, path: str, folder):
        self.port = free_port()
        self.process = subprocess.Popen([path, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)])

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def replica_of_kind(kind: str, folder):
    if kind == "newer":
        replica = Newer(os.environ["QUARTET_NEWER_REDIS"], folder)
        until(lambda: is_listening(replica.port))
        return replica
    return Server(target=kind).start()


def is_listening(port: int) -> bool:
    try:
        Connection(port).close()
        return True
    except OSError:
        return False


CASES = [("quartet", OF_FIELDS), ("quartet", OF_KEYS), ("redis", OF_KEYS)]
if "QUARTET_NEWER_REDIS" in os.environ:
    CASES += [("newer", OF_FIELDS), ("newer", OF_KEYS)]


@pytest.mark.quartet_only
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "texts"), CASES, ids=[f"{kind}-{'fields' if texts is OF_FIELDS else 'keys'}" for kind, texts in CASES])
def test_a_replica_is_what_its_home_is_once_everything_has_expired(kind, texts, seed, tmp_path):
    home, replica = Server().start(), replica_of_kind(kind, tmp_path)
    try:
        with Connection(home.port) as here, Connection(replica.port) as there:
            there.do("REPLICAOF", "127.0.0.1", home.port)
            until(lambda: info(there, "master_link_status") == "up")
            rng = random.Random(seed)
            for number in range(ROUNDS):
                here.do("FLUSHALL")
                if texts is OF_FIELDS and number % 2:
                    fill_large(here)
                for _ in range(STEPS):
                    run(rng, here, split(texts))
                until(lambda: is_settled(here))
                until(lambda: info(here, "master_repl_offset") == info(there, "slave_repl_offset"))
                assert state(replica.port) == state(home.port)
    finally:
        replica.close()
        home.close()
