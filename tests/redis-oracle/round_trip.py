"""Carries documents, suggestions, sketches, indexes, synonyms, aliases and dictionaries between the original and Quartet, every way there is.

`python round_trip.py`, with PYTHONPATH=tests, starts both, and compares what both answer: after RESTORE of each other's DUMP, after
`quartet import redis` from a file and from the live original, as each other's replica, and after the original has loaded what
`quartet export redis` has written. Ends with an error at the first difference.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import redis
from oracle import Oracle

from harness.server import Server, binary, free_port

WAIT_SECONDS_MAX = 30.0
IMPORT_SECONDS_MAX = 60.0

DOCUMENTS = {
    "j:1": '{"tag":["red","blue"],"number":[1,-2,2.5],"text":"a fox","empty":{},"none":null,"yes":true,"v":[1,2]}',
    "j:2": '{"tag":"blue","number":7,"text":"Ünïcode \\u0001 \\"quoted\\"","v":[3,4.5]}',
    "j:large": '{"tag":"large","rows":[' + ",".join(f'{{"n":{n},"text":"row {n}"}}' for n in range(2000)) + "]}",
    "j:number": "1e300",
    "j:text": '"text"',
}
SETUP = [
    "FT.CREATE plain SCHEMA title TEXT",
    "FT.CREATE words ON HASH PREFIX 2 a: b: LANGUAGE french SCORE 0.5 SCORE_FIELD score STOPWORDS 2 le la SCHEMA title TEXT WEIGHT 2.5 NOSTEM"
    " SORTABLE body TEXT PHONETIC dm:en WITHSUFFIXTRIE colour AS tag TAG SEPARATOR | CASESENSITIVE n AS number NUMERIC SORTABLE NOINDEX place GEO",
    "FT.CREATE documents ON JSON PREFIX 1 j: SCHEMA $.tag[*] AS tag TAG $.tag AS missing TAG INDEXMISSING $.text AS text TEXT $.number AS number NUMERIC",
    "FT.CREATE filtered PREFIX 1 a: FILTER @number>3 LANGUAGE_FIELD language PAYLOAD_FIELD payload NOFREQS NOFIELDS SCHEMA n AS number NUMERIC t TEXT INDEXEMPTY",
    "FT.CREATE shapes PREFIX 1 s: NOOFFSETS MAXTEXTFIELDS SCHEMA flat GEOSHAPE FLAT round GEOSHAPE SPHERICAL u TEXT SORTABLE UNF",
    "FT.CREATE vectors PREFIX 1 v: SCHEMA flat VECTOR FLAT 6 TYPE FLOAT64 DIM 2 DISTANCE_METRIC L2"
    " graph VECTOR HNSW 12 TYPE FLOAT32 DIM 2 DISTANCE_METRIC COSINE M 20 EF_CONSTRUCTION 100 EF_RUNTIME 30",
    "FT.CREATE document_vectors ON JSON PREFIX 1 j: SCHEMA $.v AS v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2",
    "FT.CREATE brief TEMPORARY 3000 PREFIX 1 none: STOPWORDS 0 SCHEMA t TEXT",
    "FT.ALTER plain SCHEMA ADD later TAG",
    "FT.ALIASADD alias words",
    "FT.ALIASADD other words",
    "FT.SYNUPDATE words g1 boy child",
    "FT.SYNUPDATE words g2 child kid",
    "FT.DICTADD colours red green blue",
    "FT.DICTADD numbers one",
    "FT.SUGADD s hello 1.5",
    "FT.SUGADD s help 0.1 PAYLOAD more",
    "FT.SUGADD s Über 3",
    "HSET a:1 title fox body night colour red|Blue n 5 place 13.3,38.1 score 0.7",
    "HSET b:1 title boy body knight colour red n 2",
    "HSET a:2 title kid n 9 t x",
    "HSET s:1 flat 'POLYGON((0 0,0 9,9 9,9 0,0 0))' u Word",
    "SET plain:string value",
    "BF.INSERT bloom CAPACITY 3 ITEMS a b c d e f g h",
    "CF.INSERT cuckoo CAPACITY 8 ITEMS a b c a",
    "CMS.INITBYDIM counts 20 3",
    "CMS.INCRBY counts a 5 b 2",
    "TOPK.RESERVE top 3 20 3 1",
    "TOPK.ADD top a b a c a d",
    "TDIGEST.CREATE digest COMPRESSION 20",
    "TDIGEST.ADD digest 1 2 2 3 3 3 9",
]
LATER = [
    "JSON.SET j:1 $.text '\"later\"'",
    "JSON.NUMINCRBY j:2 $.number 5",
    "JSON.ARRAPPEND j:large $.rows 1",
    "JSON.DEL j:text",
    "FT.SUGADD s help 1 INCR",
    "FT.SUGDEL s hello",
    "BF.MADD bloom x y",
    "CF.DEL cuckoo a",
    "CMS.INCRBY counts b 7",
    "CMS.MERGE counts 1 counts WEIGHTS 2",
    "TOPK.INCRBY top d 9",
    "TDIGEST.ADD digest 100 200",
    "TDIGEST.MERGE digests 1 digest",
    "FT.CREATE late PREFIX 1 a: SCHEMA n NUMERIC",
    "FT.DICTADD numbers two",
    "FT.SYNUPDATE words g1 lad",
    "FT.ALIASDEL other",
    "FT.DROPINDEX plain",
    "FT.DROPINDEX shapes DD",
    "HSET a:3 title lad n 1",
    "RENAME j:number j:renamed",
]
QUERIES = [
    ("words", "fox"),
    ("alias", "child"),
    ("words", "@tag:{Blue}"),
    ("words", "@body:nite"),
    ("words", "@number:[1 5]"),
    ("documents", "@tag:{blue}"),
    ("documents", "@number:[2 8]"),
    ("filtered", "*"),
    ("shapes", "*"),
    ("vectors", "*"),
    ("document_vectors", "*=>[KNN 2 @v $q]"),
]
SKETCHES = {
    b"MBbloom--": ["BF.INFO", "BF.DEBUG", "BF.MEXISTS a b x z", "BF.SCANDUMP 1"],
    b"MBbloomCF": ["CF.INFO", "CF.COUNT a", "CF.MEXISTS b z", "CF.SCANDUMP 1"],
    b"CMSk-TYPE": ["CMS.INFO", "CMS.QUERY a b z"],
    b"TopK-TYPE": ["TOPK.INFO", "TOPK.LIST WITHCOUNT", "TOPK.COUNT a d z"],
    b"TDIS-TYPE": ["TDIGEST.MIN", "TDIGEST.QUANTILE 0 0.5 1", "TDIGEST.RANK 2 3 200"],
}
DEFINING = ("index_options", "index_definition", "attributes", "stopwords_list")


def run(client: redis.Redis, lines: list[str]) -> None:
    for line in lines:
        client.execute_command(*shlex.split(line))


def fill(client: redis.Redis) -> None:
    for name, text in DOCUMENTS.items():
        client.execute_command("JSON.SET", name, "$", text)
    run(client, SETUP)
    client.hset("v:1", mapping={"flat": bytes(16), "graph": bytes(range(8))})
    client.pexpireat("j:2", 4_000_000_000_000)


def answer(client: redis.Redis, *words):
    try:
        return client.execute_command(*words)
    except redis.ResponseError as error:
        return f"an error: {type(error).__name__}"


def state(client: redis.Redis) -> dict:
    """What clients can ask for."""
    found: dict = {}
    for name in sorted(client.keys("*")):
        kind = client.type(name)
        found[name] = [kind, client.execute_command("PEXPIRETIME", name)]
        if kind == b"ReJSON-RL":
            found[name].append(json.loads(client.execute_command("JSON.GET", name)))
        for line in SKETCHES.get(kind, []):
            command, *words = line.split(" ")
            found[name].append(client.execute_command(command, name, *words))
    for start in ("h", "x"):
        found["suggested", start] = answer(client, "FT.SUGGET", "s", start, "WITHSCORES", "WITHPAYLOADS")
    found["suggested", "Ü"] = answer(client, "FT.SUGGET", "s", "Ü")
    for index in sorted(client.execute_command("FT._LIST")):
        told = client.execute_command("FT.INFO", index)
        told = dict(zip(told[::2], told[1::2]))
        found["index", index] = [told.get(name.encode()) for name in DEFINING]
        synonyms = client.execute_command("FT.SYNDUMP", index)
        found["synonyms", index] = sorted((word, sorted(groups)) for word, groups in zip(synonyms[::2], synonyms[1::2]))
    for dictionary in ("colours", "numbers"):
        found["dictionary", dictionary] = sorted(answer(client, "FT.DICTDUMP", dictionary))
    for index, query in QUERIES:
        told = answer(client, "FT.SEARCH", index, query, "NOCONTENT", "PARAMS", 2, "q", bytes(8), "DIALECT", 2)
        found["search", index, query] = told if isinstance(told, str) else [told[0], *sorted(told[1:])]
    return found


def is_filled(client: redis.Redis) -> bool:
    for index in client.execute_command("FT._LIST"):
        told = client.execute_command("FT.INFO", index)
        if int(dict(zip(told[::2], told[1::2]))[b"indexing"]):
            return False
    return True


def differences(one: dict, other: dict) -> list[str]:
    return [f"{key!r}: {one.get(key)!r} / {other.get(key)!r}" for key in sorted({*one, *other}, key=repr) if one.get(key) != other.get(key)]


def agree(what: str, original: redis.Redis, other: redis.Redis) -> None:
    """Waits until both answer the same: copies follow, and indexes are filled, in the background."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        with contextlib.suppress(redis.exceptions.BusyLoadingError):
            if is_filled(original) and is_filled(other):
                found = differences(state(original), state(other))
                if not found:
                    print(f"{what}: alike", flush=True)
                    return
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: the original / Quartet\n" + "\n".join(found))
        time.sleep(0.1)


@contextlib.contextmanager
def quartet():
    with Server(durability="none") as server:
        client = redis.Redis(port=server.port, protocol=2)
        try:
            yield server, client
        finally:
            client.close()


@contextlib.contextmanager
def original():
    port = free_port()
    with Oracle(port, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1") as oracle:
        yield oracle, port


def command(*words) -> None:
    done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=IMPORT_SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")


def exchange_payloads(there: redis.Redis) -> None:
    with quartet() as (_, here):
        for name in there.keys("*"):
            here.restore(name, 0, there.dump(name))
            there.restore(name, 0, here.dump(name), replace=True)
    there.pexpireat("j:2", 4_000_000_000_000)
    print("payloads: exchanged", flush=True)


def follow(replica: redis.Redis, port: int) -> None:
    replica.execute_command("REPLICAOF", "127.0.0.1", port)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while replica.info("replication").get("master_link_status") != "up":
        if time.monotonic() > deadline:
            raise SystemExit("the replica does not attach")
        time.sleep(0.05)


def main() -> None:
    with original() as (oracle, port):
        there = oracle.client
        fill(there)
        exchange_payloads(there)
        there.save()
        with quartet() as (server, here):
            command("import", "redis", "--from", str(Path(oracle.data) / "dump.rdb"), "--to", f"redis://127.0.0.1:{server.port}")
            agree("import from a file", there, here)
        with quartet() as (server, here):
            command("import", "redis", "--from", f"redis://127.0.0.1:{port}", "--to", f"redis://127.0.0.1:{server.port}")
            agree("import from the live original", there, here)
        with quartet() as (server, here):
            follow(here, port)
            agree("Quartet as a replica", there, here)
            run(there, LATER)
            agree("Quartet as a replica, later", there, here)
            here.execute_command("REPLICAOF", "NO", "ONE")
            agree("Quartet, promoted", there, here)
    with quartet() as (server, here), original() as (oracle, _):
        there = oracle.client
        fill(here)
        written = Path(oracle.data) / "written.rdb"
        command("export", "redis", "--from", f"redis://127.0.0.1:{server.port}", "--to", str(written))
        oracle.process.terminate()
        oracle.process.wait()
        shutil.move(written, Path(oracle.data) / "dump.rdb")
        oracle.start()
        agree("the original with what was exported", there, here)
        follow(there, server.port)
        agree("the original as a replica", there, here)
        run(here, LATER)
        agree("the original as a replica, later", there, here)


if __name__ == "__main__":
    sys.exit(main())
