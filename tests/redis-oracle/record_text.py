"""Records what the original answers about text: `python record_text.py`.

Writes crates/redis-search/testdata/search_text.jsonl, in the form of record_commands.py. Every change is asked once, in RESP2; what reads
is asked in both protocols. Score-dependent answers name a scorer that 2.10 and 8.x share, and replies name their fields, since the
original answers fields in the order in which searches met them.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import redis
from oracle import Oracle
from record import free_port
from record_commands import answered

TESTDATA = Path(__file__).resolve().parents[2] / "crates/redis-search/testdata/search_text.jsonl"
REDIS = "Redis is an open source in-memory data structure store. It is used as a database, cache and message broker. "
REDIS += "Redis provides data structures such as strings, hashes, lists, sets, sorted sets with range queries, bitmaps, "
REDIS += "hyperloglogs, geospatial indexes, and streams. Redis has built-in replication, Lua scripting, eviction of least "
REDIS += "recently used keys, transactions and different levels of persistence on disk. It provides high availability."
WRITES = {"FT.CREATE", "FT.ALTER", "FT.SYNUPDATE", "FT.DICTADD", "FT.DICTDEL", "FT.SUGADD", "FT.SUGDEL", "FT.DROPINDEX", "HSET", "SET", "DEL", "TYPE"}

COMMANDS = f"""
FT.CREATE i PREFIX 1 d: SCHEMA t TEXT b TEXT n NUMERIC SORTABLE g TAG s TEXT NOSTEM SORTABLE
HSET d:1 t 'hello world of redis' b '{REDIS}' n 1 g a,b s zebra
HSET d:2 t 'Hello there' b 'MySQL is a database; databases are stores of data.' n 2 g b s yak
HSET d:3 t 'a help desk' b 'Nothing at all' n 3 g c s 'running zoo'
FT.SEARCH i database RETURN 1 b SUMMARIZE DIALECT 2 SCORER TFIDF
FT.SEARCH i database RETURN 1 b SUMMARIZE FIELDS 1 b FRAGS 1 LEN 4 DIALECT 2 SCORER TFIDF
FT.SEARCH i database RETURN 1 b SUMMARIZE FIELDS 1 b FRAGS 2 LEN 4 SEPARATOR ' | ' DIALECT 2 SCORER TFIDF
FT.SEARCH i database RETURN 2 b t HIGHLIGHT DIALECT 2 SCORER TFIDF
FT.SEARCH i database RETURN 1 b HIGHLIGHT FIELDS 1 b TAGS <i> </i> DIALECT 2 SCORER TFIDF
FT.SEARCH i '"data structure"' RETURN 1 b HIGHLIGHT FIELDS 1 b DIALECT 2
FT.SEARCH i '@n:[1 1]' RETURN 1 b SUMMARIZE FIELDS 1 b LEN 3 DIALECT 2
FT.SEARCH i '@n:[3 3]' RETURN 4 t b n g SUMMARIZE DIALECT 2
FT.SEARCH i '@n:[2 2] hello' RETURN 4 t b n g SUMMARIZE HIGHLIGHT LEN 1 DIALECT 2
FT.SEARCH i database RETURN 1 b SUMMARIZE FRAGS 0 DIALECT 2 SCORER TFIDF
FT.SEARCH i database RETURN 1 b SUMMARIZE LEN 0 DIALECT 2 SCORER TFIDF
FT.SEARCH i '@n:[1 1] ~persistence ~strings ~source ~availability' RETURN 1 b SUMMARIZE FRAGS 2 LEN 6 HIGHLIGHT DIALECT 2
FT.SEARCH i '@n:[1 1] ~redis ~lua' RETURN 1 b SUMMARIZE FRAGS 1 LEN 6 HIGHLIGHT DIALECT 2
FT.SEARCH i '@n:[1 1] ~disk' RETURN 1 b SUMMARIZE FRAGS 5 LEN 10 DIALECT 2
FT.SEARCH i '@n:[1 1] @g:{{a}}' RETURN 1 b SUMMARIZE FRAGS 1 LEN 3 DIALECT 2
FT.SEARCH i database SUMMARIZE FIELDS 1 zz DIALECT 2
FT.SEARCH i database SUMMARIZE FRAGS x DIALECT 2
FT.SEARCH i database SUMMARIZE FIELDS 2 b
FT.SEARCH i database HIGHLIGHT TAGS a
FT.SEARCH i database HIGHLIGHT LEN 3
FT.SEARCH i hello HIGHLIGHT NOCONTENT DIALECT 2 SORTBY n
FT.SEARCH i hello NOCONTENT EXPLAINSCORE
FT.SEARCH i hello NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF DIALECT 2
FT.SEARCH i 'hello world' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF DIALECT 2
FT.SEARCH i 'hello|world' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF DIALECT 2
FT.SEARCH i 'hello|world' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF.DOCNORM DIALECT 2
FT.SEARCH i 'hello|world' NOCONTENT WITHSCORES EXPLAINSCORE SCORER BM25 DIALECT 2
FT.SEARCH i 'hello|world' NOCONTENT WITHSCORES EXPLAINSCORE SCORER DISMAX DIALECT 2
FT.SEARCH i 'hello|world' NOCONTENT WITHSCORES EXPLAINSCORE SCORER DOCSCORE DIALECT 2
FT.SEARCH i '(hello world)=>{{$weight:2}} ~zz' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF DIALECT 2
FT.SEARCH i '@n:[1 2] hello -foo' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF DIALECT 2
FT.SEARCH i '@n:[1 2] hello' NOCONTENT WITHSCORES EXPLAINSCORE SCORER DISMAX DIALECT 2
FT.SEARCH i 'hello ~there*' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF DIALECT 2
FT.SEARCH i '*' NOCONTENT WITHSCORES EXPLAINSCORE SCORER TFIDF.DOCNORM DIALECT 2
FT.SEARCH i '*' NOCONTENT WITHSCORES EXPLAINSCORE SCORER BM25 DIALECT 2
FT.CREATE pay PREFIX 1 p: PAYLOAD_FIELD pay SCORE_FIELD sc SCHEMA t TEXT
HSET p:1 t hello pay abcd sc 0.5
HSET p:2 t 'hello hello world' pay abce sc 0.75
HSET p:3 t 'hello there my friend' pay abcdef
FT.SEARCH pay hello WITHSCORES NOCONTENT SCORER HAMMING PAYLOAD abcd DIALECT 2
FT.SEARCH pay hello WITHSCORES NOCONTENT SCORER HAMMING PAYLOAD abcd DIALECT 2 LIMIT 1 1
FT.SEARCH pay hello WITHSCORES NOCONTENT SCORER HAMMING PAYLOAD abcd EXPLAINSCORE DIALECT 2
FT.SEARCH pay hello WITHPAYLOADS NOCONTENT SCORER DOCSCORE DIALECT 2
FT.SEARCH pay hello SCORER HAMMING PAYLOAD
FT.DICTADD d1 a b c
FT.DICTADD d1 a d
FT.DICTDUMP d1
FT.DICTDEL d1 a zz
FT.DICTDUMP d1
FT.DICTDUMP nope
FT.DICTDEL nope a
FT.DICTADD d1
FT.DICTADD d2 Hello ''
FT.DICTDUMP d2
FT.DICTADD slang lulz redis worldx
FT.SPELLCHECK i 'helo wrld'
FT.SPELLCHECK i 'hello wrld' DISTANCE 2
FT.SPELLCHECK i 'helo wrld' TERMS INCLUDE slang
FT.SPELLCHECK i 'worldy' TERMS INCLUDE slang
FT.SPELLCHECK i 'lulz helo' TERMS EXCLUDE slang
FT.SPELLCHECK i 'helo' FULLSCOREINFO
FT.SPELLCHECK i 'hello'
FT.SPELLCHECK i '@b:helo'
FT.SPELLCHECK i '"helo world"'
FT.SPELLCHECK i 'hel* %helo%'
FT.SPELLCHECK i '-helo' DIALECT 2
FT.SPELLCHECK i '~helo|wrld' DIALECT 2
FT.SPELLCHECK i 'helo' DISTANCE 5
FT.SPELLCHECK i 'helo' DISTANCE
FT.SPELLCHECK i 'helo' TERMS
FT.SPELLCHECK i 'helo' TERMS FOO slang
FT.SPELLCHECK i 'Xyzabc'
FT.SPELLCHECK i
FT.SUGADD s 'hello world' 1
FT.SUGADD s 'hello there' 2 PAYLOAD pp
FT.SUGADD s help 1 INCR
FT.SUGADD s help 3 INCR
FT.SUGADD s Hello 3
FT.SUGADD s Hello x
FT.SUGADD s Hello 1 FOO
FT.SUGADD s '' 1
FT.SUGADD s zero 0
FT.SUGADD s neg -1
FT.SUGLEN s
FT.SUGLEN nope
FT.SUGGET s hel
FT.SUGGET s hel WITHSCORES
FT.SUGGET s hel WITHSCORES WITHPAYLOADS
FT.SUGGET s hel MAX 1
FT.SUGGET s hlo FUZZY WITHSCORES
FT.SUGGET s hell FUZZY WITHSCORES
FT.SUGGET s '' WITHSCORES
FT.SUGGET s n WITHSCORES
FT.SUGGET s help WITHSCORES
FT.SUGGET s hel FOO
FT.SUGGET s hel MAX
FT.SUGGET s hel MAX 0
FT.SUGDEL s help
FT.SUGDEL s help
FT.SUGDEL nope help
FT.SUGLEN s
TYPE s
SET str x
FT.SUGADD str a 1
FT.SUGLEN str
FT.SUGADD
FT.CREATE w PREFIX 1 w: SCHEMA ph TEXT PHONETIC dm:en pn TEXT PHONETIC dm:en NOSTEM q TEXT
HSET w:1 ph 'Jon Smith' pn 'Knight thomas'
HSET w:2 ph 'John Smythe schmidt' pn night
FT.EXPLAINCLI w smith DIALECT 2
FT.EXPLAINCLI w '@ph|q:smith' DIALECT 2
FT.EXPLAINCLI w '@q:smith' DIALECT 2
FT.EXPLAINCLI w '@ph:smith=>{{$phonetic:false}}' DIALECT 2
FT.EXPLAINCLI w '@q:smith=>{{$phonetic:true}}' DIALECT 2
FT.EXPLAINCLI w '@ph:smith=>{{$phonetic:x}}' DIALECT 2
FT.EXPLAINCLI w 'jon 2024 jo' DIALECT 2
FT.SEARCH w smith NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2
FT.SEARCH w @pn:knight NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2
FT.SEARCH w @pn:tomas NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2
FT.CREATE w2 SCHEMA ph TEXT PHONETIC dm:xx
FT.CREATE w2 SCHEMA ph TEXT PHONETIC
FT.CREATE syn PREFIX 1 y: SCHEMA t TEXT WEIGHT 3 NOSTEM s TEXT NOSTEM
FT.CREATE no NOHL SCHEMA t TEXT
FT.SEARCH no foo SUMMARIZE
FT.DROPINDEX no
FT.SYNUPDATE syn
FT.SYNUPDATE syn g1
FT.SYNUPDATE syn g1 boy Child offspring
FT.SYNUPDATE syn g2 SKIPINITIALSCAN child kid
HSET y:1 t 'the boy is a kid' s offspring
HSET y:2 s 'the boy'
FT.EXPLAINCLI syn child DIALECT 2
FT.EXPLAINCLI syn boys DIALECT 2
FT.EXPLAINCLI syn '-boy ~boy "boy toy"' DIALECT 2
FT.SEARCH syn child NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2
FT.SEARCH syn offspring NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2
FT.SEARCH syn offspring NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2 EXPANDER SYNONYM
FT.SEARCH syn child NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2 EXPANDER FOO
FT.SEARCH syn child NOCONTENT WITHSCORES SCORER TFIDF DIALECT 2 VERBATIM
FT.AGGREGATE i * DIALECT 2 SORTBY 1 @n APPLY timefmt(@n) AS r
FT.AGGREGATE i * DIALECT 2 SORTBY 1 @n APPLY 'parsetime("2024-02-29","%Y-%m-%d")' AS r
FT.AGGREGATE i world DIALECT 2 APPLY 'matched_terms()' AS r
FT.AGGREGATE i '@n:[1 2]' DIALECT 2 SORTBY 1 @n APPLY 'matched_terms()' AS r
FT.AGGREGATE i * DIALECT 2 GROUPBY 0 REDUCE RANDOM_SAMPLE 2 @n 0 AS r
FT.AGGREGATE i * DIALECT 2 GROUPBY 0 REDUCE RANDOM_SAMPLE 2 @n 1001 AS r
FT.AGGREGATE i * DIALECT 2 GROUPBY 0 REDUCE QUANTILE 2 @n x AS r
FT.AGGREGATE i * DIALECT 2 GROUPBY 1 @n LOAD 1 @t
FT.EXPLAINCLI i 'hello world|foo bar' DIALECT 1
FT.EXPLAINCLI i '@t:hello world @b:foo' DIALECT 1
FT.EXPLAINCLI i '@t:hello|world' DIALECT 1
FT.EXPLAINCLI i '-hello world @b:xx foo' DIALECT 1
FT.EXPLAINCLI i 'foo -hello|bar' DIALECT 1
FT.EXPLAINCLI i '@t:(hello world) foo' DIALECT 1
FT.EXPLAINCLI i '@n:[1 2] hello|foo' DIALECT 1
FT.EXPLAINCLI i '(hello foo)=>{{$weight:2}} bar' DIALECT 1
FT.EXPLAINCLI i 'hello foo => {{$weight:2}}' DIALECT 1
FT.EXPLAINCLI i '(*)' DIALECT 1
FT.EXPLAINCLI i '*' DIALECT 1
FT.EXPLAINCLI i 'he* %foo% *lo' DIALECT 1
FT.EXPLAINCLI i '"hello world" foo' DIALECT 1
FT.EXPLAINCLI i '@zz:hello' DIALECT 1
FT.EXPLAINCLI i '@t|b:hello foo' DIALECT 1
FT.EXPLAINCLI i '@t:-hello foo' DIALECT 1
FT.EXPLAINCLI i '--hello' DIALECT 1
FT.EXPLAINCLI i '2020 hello' DIALECT 1
FT.EXPLAINCLI i 'xx yy | zz ww' DIALECT 1
FT.EXPLAINCLI i 'a1 b1 @t:c1 d1 | e1 f1' DIALECT 1
FT.EXPLAINCLI i '@t:(a1)|b1 c1' DIALECT 1
FT.EXPLAINCLI i '@t:"a1 b1" c1' DIALECT 1
FT.EXPLAINCLI i '(a1 @t:b1 c1) d1' DIALECT 1
FT.EXPLAINCLI i 'hello foo|bar baz|qux' DIALECT 1
FT.EXPLAINCLI i 'hello (foo|bar) baz' DIALECT 1
FT.EXPLAINCLI i the DIALECT 1
FT.PROFILE i SEARCH hello
""".strip().split("\n")


def main() -> None:
    port = free_port()
    with Oracle(port):
        resp2, resp3 = (redis.Connection(port=port, protocol=protocol) for protocol in (2, 3))
        with TESTDATA.open("w") as out:
            for line in COMMANDS:
                command = shlex.split(line)
                recorded = {"command": command, "resp2": answered(resp2, command)}
                if command[0] not in WRITES:
                    recorded["resp3"] = answered(resp3, command)
                out.write(json.dumps(recorded, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
