"""Records what the original answers to the commands of search: `python record_commands.py`.

Writes crates/layer-redis/testdata/search.jsonl, which the tests of the layer compare with: a line a command, with its
replies in both protocols. Definitions and writes are asked once, in RESP2.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import redis
from oracle import Oracle
from record import free_port

TESTDATA = Path(__file__).resolve().parents[2] / "crates/layer-redis/testdata/search.jsonl"

# Vectors consist of bytes that are UTF-8: 2.0 is 00 00 00 40.
ZERO, TWO = "\0\0\0\0", "\0\0\0@"
PARAMETERS = f"PARAMS 2 q '{TWO}{ZERO}'"

COMMANDS = f"""
FT.CREATE i ON HASH PREFIX 1 d: SCHEMA t TEXT WEIGHT 2 SORTABLE g TAG SEPARATOR ; CASESENSITIVE n NUMERIC SORTABLE v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 m TEXT NOSTEM INDEXMISSING INDEXEMPTY SORTABLE UNF k TAG SORTABLE p AS price NUMERIC b TEXT
FT.CREATE i ON HASH SCHEMA t TEXT
HSET d:1 t 'hello world' g 'a;B' n 1.5 v '{ZERO}{TWO}' p 10 k Foo m Zed b 'running shoes'
HSET d:2 t 'Hello there' g B n 3 v '{TWO}{TWO}' p 5 x 9
HSET d:3 t bad n abc
HSET d:4 t 'nothing else' g c n 7 v '{TWO}{ZERO}' k bar b 'run the race'
HSET e:1 t hello
SET d:5 hello
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE WITHSCORES
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE NOCONTENT
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE NOCONTENT WITHSCORES LIMIT 0 1
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 2 t n
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 3 t AS title
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 1 price
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 0
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE WITHPAYLOADS WITHSCORES
FT.SEARCH i run DIALECT 2 SCORER DOCSCORE NOCONTENT
FT.SEARCH i run DIALECT 2 VERBATIM NOCONTENT
FT.SEARCH i 'the run' DIALECT 2 SCORER DOCSCORE NOCONTENT
FT.SEARCH i * DIALECT 2 SORTBY n ASC NOCONTENT
FT.SEARCH i hello DIALECT 2 SORTBY n DESC
FT.SEARCH i hello DIALECT 2 SORTBY t ASC WITHSORTKEYS
FT.SEARCH i hello DIALECT 2 SORTBY n ASC WITHSORTKEYS RETURN 1 g
FT.SEARCH i hello DIALECT 2 SORTBY n ASC WITHSORTKEYS NOCONTENT
FT.SEARCH i hello DIALECT 2 SORTBY m ASC WITHSORTKEYS NOCONTENT
FT.SEARCH i hello DIALECT 2 SORTBY k ASC WITHSORTKEYS NOCONTENT
FT.SEARCH i hello DIALECT 2 SORTBY k ASC WITHSORTKEYS RETURN 2 k n
FT.SEARCH i hello DIALECT 2 SORTBY price ASC NOCONTENT
FT.SEARCH i hello DIALECT 2 SORTBY price DESC NOCONTENT
FT.SEARCH i hello DIALECT 2 SORTBY g ASC NOCONTENT WITHSORTKEYS
FT.SEARCH i '*=>[KNN 2 @v $q AS dist]' {PARAMETERS} DIALECT 2 SORTBY dist RETURN 1 dist
FT.SEARCH i '*=>[KNN 2 @v $q AS dist]' {PARAMETERS} DIALECT 2 SORTBY dist NOCONTENT
FT.SEARCH i '*=>[KNN 3 @v $q AS dist]' {PARAMETERS} DIALECT 2 SORTBY dist RETURN 1 dist
FT.SEARCH i '*=>[KNN 3 @v $q AS dist]' {PARAMETERS} DIALECT 2 SORTBY dist DESC RETURN 1 dist WITHSORTKEYS
FT.SEARCH i '*=>[KNN 3 @v $q AS dist]' {PARAMETERS} DIALECT 2 SORTBY n RETURN 1 dist
FT.SEARCH i 'hello=>[KNN 3 @v $q]' {PARAMETERS} DIALECT 2 SORTBY __v_score
FT.SEARCH i 'hello=>[KNN 3 @v $q]' {PARAMETERS} DIALECT 2 SORTBY __v_score RETURN 1 t
FT.SEARCH i '*=>[KNN 2 @v $q]' PARAMS 2 q abc DIALECT 2
FT.SEARCH i '*=>[KNN 2 @v $q]' DIALECT 2
FT.SEARCH i '*=>[KNN 2 @v $q]' {PARAMETERS} DIALECT 2 LIMIT 0 0
FT.SEARCH i hello DIALECT 2 LIMIT 0 0
FT.SEARCH i hello DIALECT 2 LIMIT 5 10
FT.SEARCH i hello DIALECT 2 FILTER n 0 2 NOCONTENT
FT.SEARCH i hello DIALECT 2 FILTER n (1.5 inf NOCONTENT
FT.SEARCH i hello DIALECT 2 FILTER zz 0 2
FT.SEARCH i hello DIALECT 2 FILTER t 0 2
FT.SEARCH i hello DIALECT 2 FILTER n a 2
FT.SEARCH i hello DIALECT 2 FILTER n 1 b
FT.SEARCH i hello DIALECT 2 FILTER n 1
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE INKEYS 2 d:1 d:9 NOCONTENT
FT.SEARCH i hello DIALECT 2 INFIELDS 1 m NOCONTENT
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE INFIELDS 1 t NOCONTENT
FT.SEARCH i hello DIALECT 2 INFIELDS 1 zz NOCONTENT
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 2 zz t
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 1 x
FT.SEARCH i hello DIALECT 2 SCORER DOCSCORE RETURN 1 __key
FT.SEARCH i hello DIALECT 2 RETURN 2 x AS
FT.SEARCH i hello DIALECT 2 RETURN 1
FT.SEARCH i hello DIALECT 2 RETURN x t
FT.SEARCH i '@n:[1 2]' DIALECT 2 RETURN 1 n
FT.SEARCH i '@price:[5 5]' DIALECT 2 RETURN 1 n
FT.SEARCH i '@g:{{B}}' DIALECT 2 SORTBY n NOCONTENT
FT.SEARCH i '@g:{{b}}' DIALECT 2 NOCONTENT
FT.SEARCH i '@k:{{foo}}' DIALECT 2 NOCONTENT
FT.SEARCH i 'ismissing(@m)' DIALECT 2 SORTBY n NOCONTENT
FT.SEARCH i (hello DIALECT 2
FT.SEARCH i hello FOO
FT.SEARCH i hello DIALECT 5
FT.SEARCH i hello DIALECT
FT.SEARCH i hello LIMIT 0
FT.SEARCH i hello LIMIT -1 10
FT.SEARCH i hello LIMIT 0 2000000
FT.SEARCH i hello DIALECT 2 SORTBY zz
FT.SEARCH i hello DIALECT 2 SORTBY
FT.SEARCH i hello DIALECT 2 SORTBY n FOO
FT.SEARCH i hello DIALECT 2 SORTBY n ASC SORTBY t ASC
FT.SEARCH i hello SCORER NOPE
FT.SEARCH i hello SCORER
FT.SEARCH i hello LANGUAGE klingon
FT.SEARCH i hello LANGUAGE
FT.SEARCH i hello TIMEOUT x
FT.SEARCH i hello TIMEOUT
FT.SEARCH i hello INKEYS 5 a
FT.SEARCH i hello INKEYS a b
FT.SEARCH i hello INFIELDS
FT.SEARCH i hello PARAMS 1 a
FT.SEARCH i hello PARAMS 2 a b PARAMS 2 c d
FT.SEARCH i hello PARAMS
FT.SEARCH i hello PARAMS a
FT.SEARCH i
FT.AGGREGATE i * DIALECT 2 LOAD 2 @t @n
FT.AGGREGATE i * DIALECT 2 LOAD *
FT.AGGREGATE i * DIALECT 2 LOAD 3 @t AS x
FT.AGGREGATE i * DIALECT 2 LOAD 2 @__key @t
FT.AGGREGATE i * DIALECT 2 LOAD 1 @price SORTBY 2 @price DESC
FT.AGGREGATE i * DIALECT 2 GROUPBY 1 @t REDUCE COUNT 0 AS c SORTBY 2 @t ASC
FT.AGGREGATE i * DIALECT 2 GROUPBY 1 @g REDUCE COUNT 0 AS c REDUCE TOLIST 1 @n AS l SORTBY 2 @g ASC
FT.AGGREGATE i * DIALECT 2 GROUPBY 1 @k REDUCE MAX 1 @n AS l SORTBY 2 @l ASC
FT.AGGREGATE i * DIALECT 2 GROUPBY 0 REDUCE SUM 1 @n
FT.AGGREGATE i * DIALECT 2 GROUPBY 0 REDUCE SUM 1 @n REDUCE COUNT_DISTINCT 1 @n REDUCE FIRST_VALUE 3 @n BY @n
FT.AGGREGATE i * DIALECT 2 APPLY @n*2 AS d
FT.AGGREGATE i * DIALECT 2 APPLY @n*2
FT.AGGREGATE i * DIALECT 2 APPLY upper(@t) AS d SORTBY 2 @d ASC
FT.AGGREGATE i * DIALECT 2 LIMIT 0 1
FT.AGGREGATE i * DIALECT 2 SORTBY 1 @n
FT.AGGREGATE i * DIALECT 2 SORTBY 1 n
FT.AGGREGATE i * DIALECT 2 SORTBY 2 @n DESC MAX 1
FT.AGGREGATE i * DIALECT 2 SORTBY 2 @k DESC MAX 2
FT.AGGREGATE i * DIALECT 2 SORTBY 3 @n ASC @t
FT.AGGREGATE i * DIALECT 2 SORTBY 2 @zz DESC
FT.AGGREGATE i * DIALECT 2 FILTER '@n > 2'
FT.AGGREGATE i * DIALECT 2 LOAD 1 @x FILTER 'exists(@x)'
FT.AGGREGATE i * DIALECT 2 LOAD 1 @x FILTER '@x > 2'
FT.AGGREGATE i * DIALECT 2 FILTER '@nope > 2'
FT.AGGREGATE i hello DIALECT 2 SCORER DOCSCORE ADDSCORES SORTBY 2 @__score DESC
FT.AGGREGATE i '*=>[KNN 2 @v $q AS dist]' {PARAMETERS} DIALECT 2
FT.AGGREGATE i '*=>[KNN 3 @v $q AS dist]' {PARAMETERS} DIALECT 2 APPLY '@dist+1' AS e SORTBY 1 @dist
FT.AGGREGATE i '*=>[KNN 2 @v $q]' {PARAMETERS} DIALECT 2 LOAD 1 @n SORTBY 1 @n
FT.AGGREGATE i nothing2 DIALECT 2
FT.AGGREGATE i nothing2 DIALECT 2 GROUPBY 0 REDUCE COUNT 0 AS c
FT.AGGREGATE i * GROUPBY 1 @t REDUCE FOO 0
FT.AGGREGATE i * GROUPBY 1 @t REDUCE SUM 0
FT.AGGREGATE i * GROUPBY 1 t
FT.AGGREGATE i * GROUPBY 1 @t REDUCE COUNT 0 AS
FT.AGGREGATE i * LIMIT 0
FT.AGGREGATE i * APPLY
FT.AGGREGATE i * SORTBY 2 @n FOO
FT.AGGREGATE i * WITHCURSOR COUNT 0
FT.AGGREGATE i * WITHCURSOR MAXIDLE a
FT.AGGREGATE i * FOO
FT.CURSOR READ i 1
FT.CURSOR DEL i 1
FT.CURSOR FOO i 1
FT.TAGVALS i g
FT.TAGVALS i k
FT.TAGVALS i t
FT.TAGVALS i zz
FT.EXPLAIN i 'hello @n:[1 2]' DIALECT 2
FT.EXPLAINCLI i 'hello @n:[1 2]' DIALECT 2
FT.ALIASADD al i
FT.ALIASADD al i
FT.ALIASUPDATE al i
FT.ALIASDEL zz
FT.SEARCH al hello DIALECT 2 SCORER DOCSCORE NOCONTENT
FT.ALIASDEL al
FT.ALTER i SCHEMA ADD y TEXT z NUMERIC
FT.ALTER i SCHEMA ADD y TEXT
FT.ALTER i
FT._LIST
FT._DROPINDEXIFX nope
FT._CREATEIFNX i SCHEMA t TEXT
FT._ALTERIFNX i SCHEMA ADD t TEXT
FT._ALIASADDIFNX al i
FT._ALIASADDIFNX al i
FT._ALIASDELIFX alx
FT.CREATE
FT.CREATE x
FT.CREATE x SCHEMA
FT.CREATE x FOO SCHEMA t TEXT
FT.CREATE x SCHEMA t FOO
FT.CREATE x SCHEMA t TEXT FOO
FT.CREATE x SCHEMA t TEXT WEIGHT a
FT.CREATE x SCHEMA t TEXT t TEXT
FT.CREATE x SCHEMA t TAG SEPARATOR ab
FT.CREATE x SCHEMA t TAG SEPARATOR
FT.CREATE x ON FOO SCHEMA t TEXT
FT.CREATE x PREFIX a SCHEMA t TEXT
FT.CREATE x PREFIX 2 a: SCHEMA t TEXT
FT.CREATE x LANGUAGE foo SCHEMA t TEXT
FT.CREATE x SCORE 2 SCHEMA t TEXT
FT.CREATE x STOPWORDS a SCHEMA t TEXT
FT.CREATE x SCHEMA t TEXT SORTABLE NOSTEM
FT.CREATE x SCHEMA t TEXT INDEXMISSING NOINDEX
FT.CREATE x SCHEMA n NUMERIC INDEXEMPTY
FT.CREATE x SCHEMA v VECTOR
FT.CREATE x SCHEMA v VECTOR FOO 6
FT.CREATE x SCHEMA v VECTOR FLAT
FT.CREATE x SCHEMA v VECTOR FLAT 5 TYPE FLOAT32 DIM 2 DISTANCE_METRIC
FT.CREATE x SCHEMA v VECTOR FLAT 4 TYPE FLOAT32 DIM 2
FT.CREATE x SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DISTANCE_METRIC L2
FT.CREATE x SCHEMA v VECTOR FLAT 6 TYPE FOO DIM 2 DISTANCE_METRIC L2
FT.CREATE x SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 0 DISTANCE_METRIC L2
FT.CREATE x SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM a DISTANCE_METRIC L2
FT.CREATE x SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 2 DISTANCE_METRIC FOO
FT.CREATE x SCHEMA v VECTOR FLAT 8 TYPE FLOAT32 DIM 2 DISTANCE_METRIC L2 FOO 2
FT.CREATE f PREFIX 1 f: FILTER '@n>1' SCORE 0.5 SCORE_FIELD sc LANGUAGE_FIELD lang STOPWORDS 1 aa SCHEMA t TEXT n NUMERIC
HSET f:1 t 'häuser aa the' n 5 lang german sc 0.25
HSET f:2 t house n 0
FT.SEARCH f haus LANGUAGE german DIALECT 2 SCORER DOCSCORE NOCONTENT WITHSCORES
FT.SEARCH f the DIALECT 2 SCORER DOCSCORE NOCONTENT WITHSCORES
FT.SEARCH f house DIALECT 2 NOCONTENT
FT.DROPINDEX f DD
EXISTS f:1 f:2
FT.DROPINDEX i
EXISTS d:1
FT._LIST
""".strip().split("\n")


def show(value: object) -> str:
    """As the layer's tests show replies."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, set):
        return f"[{' '.join(sorted(map(show, value)))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(name)}: {show(item)}" for name, item in value.items()) + "}"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return "nil" if value is None else str(value)


def without_total(command: list[str], reply: object) -> object:
    """The original's totals of aggregations say how far it has come when it answers."""
    if command[0] != "FT.AGGREGATE":
        return reply
    if isinstance(reply, list):
        return [0, *reply[1:]]
    return {name: 0 if name == b"total_results" else item for name, item in reply.items()}


def answered(connection: redis.Connection, command: list[str]) -> str:
    connection.send_command(*command)
    try:
        reply = connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return f"!{error}"
    if command[0] in ("FT.TAGVALS", "FT._LIST"):
        reply = set(reply)
    return show(without_total(command, reply))


def main() -> None:
    port = free_port()
    with Oracle(port):
        resp2, resp3 = (redis.Connection(port=port, protocol=protocol) for protocol in (2, 3))
        with TESTDATA.open("w") as out:
            for line in COMMANDS:
                command = shlex.split(line)
                recorded = {"command": command, "resp2": answered(resp2, command)}
                if command[0] in ("FT.SEARCH", "FT.AGGREGATE", "FT.TAGVALS", "FT.EXPLAINCLI", "FT._LIST"):
                    recorded["resp3"] = answered(resp3, command)
                out.write(json.dumps(recorded, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
