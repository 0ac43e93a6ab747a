"""The commands of Redis by what their cost grows with: one table for the test and for the benchmark.

A line is a command on a key that is small or large. `{i}` is the number of the call, `{k}` the key. What stands in CONSTANT costs about the
same on both; what stands in GROWS does not, for the reason given, which docs/limits.md has. Every command that the server knows is in one of
them, in WITHOUT_KEYS, or begins like one of GROUPS.
"""

from __future__ import annotations

import json

STRING_BYTES = {False: 2_000, True: 4_000_000}
ELEMENTS = {False: 1_000, True: 300_000}
# Most documents of an index and vectors of a set, which take long to add.
INDEXED_MAX = 20_000
# Of an array and of an object: documents of 4 kB and 4 MB.
DOCUMENT_MEMBERS = {False: 120, True: 110_000}

CONSTANT = {
    "string": """
        GETRANGE {k} 5 9; SUBSTR {k} 5 9; SETRANGE {k} 7 abc; GETBIT {k} 9; SETBIT {k} {i} 1; BITFIELD {k} SET u8 #{i} 7; BITFIELD_RO {k} GET u8 0
        STRLEN {k}; APPEND {k} x; TYPE {k}; EXISTS {k}; TTL {k}; PTTL {k}; EXPIRETIME {k}; PEXPIRETIME {k}; OBJECT ENCODING {k}
    """,
    "list": """
        LLEN {k}; LINDEX {k} 500; LINDEX {k} -1; LPUSH {k} {i}; RPUSH {k} {i}; LPUSHX {k} {i}; RPUSHX {k} {i}; LPOP {k}; RPOP {k}; LSET {k} 400 {i}
        LRANGE {k} 490 499; LMOVE {k} {k} LEFT RIGHT; RPOPLPUSH {k} {k}; LMPOP 1 {k} LEFT COUNT 2; BLPOP {k} 1; BRPOP {k} 1; LTRIM {k} 1 -1
        BLMOVE {k} {k} LEFT RIGHT 1; BRPOPLPUSH {k} {k} 1; BLMPOP 1 1 {k} LEFT; SORT {k} BY nosort LIMIT 0 5; SORT_RO {k} BY nosort LIMIT 0 5
    """,
    "hash": """
        HLEN {k}; HGET {k} m7; HSET {k} m7 {i}; HSETNX {k} new{i} v; HDEL {k} m{i}; HEXISTS {k} m7; HINCRBY {k} n 1; HINCRBYFLOAT {k} f 1.5
        HMGET {k} m7 m8 m9; HMSET {k} m7 a m8 b; HSTRLEN {k} m7; HRANDFIELD {k} 3; HSCAN {k} 0 COUNT 10; HGETDEL {k} FIELDS 1 new{i}
        HGETEX {k} FIELDS 1 m7; HSETEX {k} FIELDS 1 e v; HEXPIRE {k} 1000 FIELDS 1 m8; HPEXPIRE {k} 900000 FIELDS 1 m8; HTTL {k} FIELDS 1 m8
        HPTTL {k} FIELDS 1 m8; HEXPIRETIME {k} FIELDS 1 m8; HPEXPIRETIME {k} FIELDS 1 m8; HPERSIST {k} FIELDS 1 m8
        HEXPIREAT {k} 99999999999 FIELDS 1 m8; HPEXPIREAT {k} 99999999999000 FIELDS 1 m8
    """,
    "set": """
        SCARD {k}; SISMEMBER {k} m7; SMISMEMBER {k} m7 m8; SADD {k} new{i}; SREM {k} new{i}; SPOP {k}; SRANDMEMBER {k} 3; SSCAN {k} 0 COUNT 10
        SMOVE {k} {k}other m{i}; SINTERCARD 2 {k} {k} LIMIT 5; SORT {k} BY nosort LIMIT 0 5
    """,
    "sorted set": """
        ZCARD {k}; ZSCORE {k} m7; ZMSCORE {k} m7 m8; ZADD {k} {i} new{i}; ZREM {k} new{i}; ZINCRBY {k} 1 m7; ZRANK {k} m7; ZREVRANK {k} m7
        ZCOUNT {k} -inf 700; ZRANGE {k} 490 499; ZREVRANGE {k} 490 499; ZRANGEBYSCORE {k} 10 +inf LIMIT 0 5
        ZREVRANGEBYSCORE {k} +inf 10 LIMIT 0 5; ZRANDMEMBER {k} 3
        ZSCAN {k} 0 COUNT 10; ZPOPMIN {k}; ZPOPMAX {k}; ZMPOP 1 {k} MIN; BZPOPMIN {k} 1; BZPOPMAX {k} 1; BZMPOP 1 1 {k} MIN
        ZREMRANGEBYRANK {k} 0 1; ZREMRANGEBYSCORE {k} -inf 2; ZRANGESTORE {k}other {k} 0 5; ZINTERCARD 2 {k} {k} LIMIT 5
        SORT {k} BY nosort LIMIT 0 5
    """,
    # All of one score.
    "names": """
        ZLEXCOUNT {k} - +; ZRANGEBYLEX {k} - + LIMIT 0 5; ZREVRANGEBYLEX {k} + - LIMIT 0 5; ZREMRANGEBYLEX {k} [a [b
    """,
    "places": """
        GEOADD {k} 13.{i} 38 new{i}; GEODIST {k} m7 m8; GEOHASH {k} m7; GEOPOS {k} m7; GEOSEARCH {k} FROMLONLAT 99 -80 BYRADIUS 1 m
        GEORADIUS {k} 99 -80 1 m; GEORADIUS_RO {k} 99 -80 1 m; GEOSEARCHSTORE {k}other {k} FROMLONLAT 99 -80 BYRADIUS 1 m
    """,
    "stream": """
        XLEN {k}; XADD {k} * f {i}; XRANGE {k} - + COUNT 5; XREVRANGE {k} + - COUNT 5; XREAD COUNT 5 STREAMS {k} 0; XDEL {k} 1-{i}; XINFO STREAM {k}
        XTRIM {k} MAXLEN 1000000; XGROUP CREATE {k} g{i} 0; XREADGROUP GROUP g1 c COUNT 2 STREAMS {k} >; XACK {k} g1 1-3; XPENDING {k} g1
        XCLAIM {k} g1 c 0 1-4; XAUTOCLAIM {k} g1 c 0 0 COUNT 2; XINFO GROUPS {k}; XINFO CONSUMERS {k} g1; XACKDEL {k} g1 IDS 1 1-5; XDELEX {k} IDS 1 1-6
        XGROUP SETID {k} g1 0; XGROUP CREATECONSUMER {k} g1 c{i}; XGROUP DELCONSUMER {k} g1 c{i}; XGROUP DESTROY {k} g{i}; XSETID {k} 9999999999999-1
    """,
    "keys": """
        SET {k} {i}; GET {k}; DEL {k}; UNLINK {k}; EXPIRE {k} 100; PEXPIRE {k} 100000; PERSIST {k}; EXPIREAT {k} 99999999999
        PEXPIREAT {k} 99999999999000; RANDOMKEY; DBSIZE; SCAN 0 COUNT 10; TOUCH {k}; INCR {k}n; DECR {k}n; INCRBY {k}n 2; DECRBY {k}n 2
        INCRBYFLOAT {k}f 1.5; GETSET {k} v; GETEX {k}; GETDEL {k}; SETEX {k} 100 v; PSETEX {k} 100000 v; SETNX {k} v; MSET {k} a {k}2 b; MSETNX {k} a {k}2 b
        MGET {k} {k}2; RENAME {k} {k}3; RENAMENX {k}3 {k}; COPY {k} {k}4; MOVE {k} 3; DUMP {k}; OBJECT FREQ {k}; OBJECT IDLETIME {k}; OBJECT REFCOUNT {k}
        MEMORY USAGE {k}; PFADD {k}p {i}; PFCOUNT {k}p; PFMERGE {k}p2 {k}p; WATCH {k}; UNWATCH; PUBLISH {k} {i}; SPUBLISH {k} {i}; SUBSCRIBE {k}{i}
        UNSUBSCRIBE {k}{i}; EVAL return(1) 1 {k}; EVAL_RO return(1) 1 {k}
    """,
    "document": """
        JSON.GET {k} $.name; JSON.GET {k} .items[70]; JSON.GET {k} $.wide.m70 $.name; JSON.MGET {k} $.name; JSON.TYPE {k} $.items; JSON.STRLEN {k} $.name
        JSON.ARRLEN {k} $.items; JSON.OBJLEN {k} $.wide; JSON.OBJKEYS {k} $.items[70]; JSON.RESP {k} $.items[70]; JSON.DEBUG MEMORY {k} $.items[70]
        JSON.ARRINDEX {k} $.items 5 0 20; JSON.SET {k} $.name "other"; JSON.SET {k} $.new{i} {i}; JSON.SET {k} $.wide.new{i} {i}; JSON.SET {k} $.items[70] [{i}]
        JSON.NUMINCRBY {k} $.n 1; JSON.NUMMULTBY {k} $.n 1; JSON.NUMPOWBY {k} $.n 1; JSON.STRAPPEND {k} $.name "x"; JSON.TOGGLE {k} $.flag; JSON.ARRAPPEND {k} $.items {i}
        JSON.ARRINSERT {k} $.items 70 {i}; JSON.ARRPOP {k} $.items; JSON.ARRPOP {k} $.items 70; JSON.ARRTRIM {k} $.items 0 -2; JSON.CLEAR {k} $.wide.new{i}
        JSON.MERGE {k} $.wide.m70 {i}; JSON.DEL {k} $.new{i}; JSON.FORGET {k} $.wide.new{i}; JSON.DEL {k} $.items[70]; JSON.MSET {k} $.n 1 {k} $.name "a"
    """,
    # Hashes of which each has a tag, a word and a number of its own.
    "search index": """
        FT.SEARCH {k}index @t:{{tag7}}; FT.SEARCH {k}index word7; FT.SEARCH {k}index @n:[7,9]; FT.SEARCH {k}index @n:[5,19] SORTBY n LIMIT 0 5
        FT.SEARCH {k}index word7 RETURN 1 w; FT.SEARCH {k}index word7 NOCONTENT; FT.AGGREGATE {k}index @t:{{tag7}} GROUPBY 1 @t; FT.INFO {k}index
        FT.PROFILE {k}index SEARCH QUERY word7; FT.EXPLAIN {k}index word7; FT.SYNUPDATE {k}index s{i} a{i} b{i}; FT.SYNDUMP {k}index
        FT.ALIASADD {k}alias{i} {k}index; FT.ALIASDEL {k}alias{i}; FT.SUGADD {k}other entry{i} 1; FT.SUGGET {k}other entry5; FT.SUGLEN {k}other
        FT.SUGDEL {k}other entry{i}; FT.DICTADD {k}dictionary term{i}; FT.DICTDEL {k}dictionary term{i}; FT._LIST; HSET {k}:{i} w other{i} n {i}
        FT.GET {k}index {k}:7; FT.MGET {k}index {k}:7 {k}:8; FT.ADD {k}index {k}:new{i} 1 FIELDS w other{i} n {i}; FT.SAFEADD {k}index {k}:more{i} 1 FIELDS n {i}
        FT.DEL {k}index {k}:new{i}; FT.SYNADD {k}index
        DEL {k}:{i}
    """,
    "vectors": """
        VSIM {k} VALUES 4 1 2 3 4 COUNT 5; VSIM {k} ELE m7 COUNT 5; VADD {k} VALUES 4 5 {i} 6 7 new{i}; VREM {k} new{i}; VCARD {k}; VDIM {k}; VEMB {k} m7
        VLINKS {k} m7; VSETATTR {k} m7 {{"a":{i}}}; VGETATTR {k} m7; VISMEMBER {k} m7; VRANDMEMBER {k} 3; VRANGE {k} [m7 + 5; VINFO {k}
    """,
    # Samples of one series, with the label of its key.
    "series": """
        TS.ADD {k}series * {i}; TS.MADD {k}series * {i}; TS.INCRBY {k}series 1; TS.DECRBY {k}series 1; TS.GET {k}series; TS.MGET FILTER of={k}
        TS.QUERYINDEX of={k}; TS.QUERYLABELS VALUES of FILTER of={k}; TS.RANGE {k}series 100 120; TS.REVRANGE {k}series 100 120
        TS.RANGE {k}series - + COUNT 5; TS.REVRANGE {k}series - + COUNT 5; TS.MRANGE 100 120 FILTER of={k}; TS.MREVRANGE 100 120 FILTER of={k}
        TS.NRANGE 1 {k}series 100 120; TS.NREVRANGE 1 {k}series 100 120; TS.READ {k}series + MAX_COUNT 5; TS.CREATE {k}series{i}
        TS.CREATERULE {k}series{i} {k}target AGGREGATION avg 1000; TS.DELETERULE {k}series{i} {k}target; TS.ALTER {k}series{i} LABELS a {i}
        TS.DEL {k}series 100 110
    """,
    # One key of each family, with items in proportion to its size.
    "sketches": """
        BF.ADD {k}bloom {i}; BF.MADD {k}bloom {i} a; BF.INSERT {k}bloom ITEMS b{i}; BF.EXISTS {k}bloom 7; BF.MEXISTS {k}bloom 7 8; BF.CARD {k}bloom
        BF.INFO {k}bloom; BF.DEBUG {k}bloom; CF.ADD {k}cuckoo {i}; CF.ADDNX {k}cuckoo a{i}; CF.INSERT {k}cuckoo ITEMS b{i}; CF.INSERTNX {k}cuckoo ITEMS c{i}
        CF.EXISTS {k}cuckoo 7; CF.MEXISTS {k}cuckoo 7 8; CF.COUNT {k}cuckoo 7; CF.DEL {k}cuckoo {i}; CF.INFO {k}cuckoo; CF.DEBUG {k}cuckoo
        CMS.INCRBY {k}counts {i} 2; CMS.QUERY {k}counts 7 8; CMS.INFO {k}counts; TOPK.ADD {k}top {i}; TOPK.INCRBY {k}top {i} 2; TOPK.QUERY {k}top 7
        TOPK.COUNT {k}top 7; TOPK.LIST {k}top; TOPK.INFO {k}top; TDIGEST.ADD {k}digest {i}; TDIGEST.QUANTILE {k}digest 0.5; TDIGEST.CDF {k}digest 7
        TDIGEST.RANK {k}digest 7; TDIGEST.REVRANK {k}digest 7; TDIGEST.BYRANK {k}digest 7; TDIGEST.BYREVRANK {k}digest 7; TDIGEST.MIN {k}digest
        TDIGEST.MAX {k}digest; TDIGEST.TRIMMED_MEAN {k}digest 0.1 0.9; TDIGEST.INFO {k}digest; BF.RESERVE {k}bloom{i} 0.01 100000
        CF.RESERVE {k}cuckoo{i} 100000; CMS.INITBYDIM {k}counts{i} 10000 5; CMS.INITBYPROB {k}more{i} 0.001 0.01; TOPK.RESERVE {k}top{i} 10
        TDIGEST.CREATE {k}digest{i}; TDIGEST.MERGE {k}merged 1 {k}digest; TDIGEST.RESET {k}digest
    """,
    # A large key of another kind, as a whole.
    "large key": """
        RENAME {k} {k}; EXPIRE {k} 1000; PERSIST {k}; TYPE {k}; TOUCH {k}; OBJECT ENCODING {k}; MEMORY USAGE {k}; EXISTS {k}
    """,
}

GROWS = {
    "GET GETSET GETEX GETDEL SET SETEX PSETEX SETNX MGET MSET MSETNX MSETEX DIGEST DELEX DELIFEQ": "the value is the request or the reply",
    "BITCOUNT BITPOS BITOP LCS": "looks at every byte of its range; LCS at each pair",
    "LINSERT LREM LPOS LRANGE LTRIM": "looks for an element from an end, or answers or removes as many as asked",
    "HGETALL HKEYS HVALS SMEMBERS": "answers all elements",
    "SINTER SUNION SDIFF SINTERSTORE SUNIONSTORE SDIFFSTORE SINTERCARD": "walks the smallest, the first or all sets",
    "ZUNION ZINTER ZDIFF ZUNIONSTORE ZINTERSTORE ZDIFFSTORE ZINTERCARD": "walks the smallest, the first or all sets",
    "ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREMRANGEBYLEX": "removes as many as asked",
    "ZLEXCOUNT ZRANGEBYLEX ZREVRANGEBYLEX ZREMRANGEBYLEX": "walks a set whose members have different scores, for which Redis promises nothing",
    "SORT SORT_RO": "sorts all elements, without BY nosort",
    "GEORADIUS GEORADIUSBYMEMBER GEORADIUS_RO GEORADIUSBYMEMBER_RO GEOSEARCH GEOSEARCHSTORE": "looks at all places of the cells of its area",
    "COPY DUMP RESTORE RESTORE-ASKING MIGRATE MOVE": "the whole value",
    "KEYS FLUSHDB FLUSHALL": "looks at every key",
    "SWAPDB": "writes the rows of every key of both databases anew",
    "BF.SCANDUMP BF.LOADCHUNK CF.SCANDUMP CF.LOADCHUNK": "a part of the sketch, up to 16 MiB",
    "CMS.MERGE CF.COMPACT": "the whole sketch",
    "TS.INFO": "counts the samples of each chunk",
    "XCFGSET": "drops the identifiers that it remembers",
    "HIMPORT": "the whole value",
}

# Known by what they are given, or about the server: their cost does not depend on what a key holds.
WITHOUT_KEYS = set(
    """
    ACL ASKING AUTH BGREWRITEAOF BGSAVE CLIENT CLUSTER COMMAND COMMANDLOG CONFIG DEBUG DISCARD ECHO EVAL EVALSHA EVALSHA_RO EVAL_RO EXEC FAILOVER FCALL FCALL_RO
    FUNCTION HELLO INFO LASTSAVE LATENCY LOLWUT MEMORY MODULE MONITOR MULTI OBJECT PFDEBUG PFSELFTEST PING PSUBSCRIBE PSYNC PUBSUB PUNSUBSCRIBE QUIT
    READONLY READWRITE REPLCONF REPLICAOF RESET ROLE SAVE SCRIPT SELECT SHUTDOWN SLAVEOF SLOWLOG SSUBSCRIBE SUNSUBSCRIBE SYNC TIME WAIT WAITAOF XGROUP
    XINFO SUBSTR
    """.split()
)

# Their commands on few results are in the table. SORTBY costs what its matches do. An index or a graph costs what its page says, a document at a path to many values what
# docs/limits.md does.
GROUPS = ("FT.", "SEARCH.", "JSON.", "V", "_FT.", "TIMESERIES.", "HYBRID.")


def lines(kind: str) -> list[str]:
    return [line.strip() for line in CONSTANT[kind].replace("\n", ";").split(";") if line.strip()]


def unnamed(commands) -> set[str]:
    """The commands that stand in no part of the table."""
    named = {line.split()[0] for kind in CONSTANT for line in lines(kind)} | WITHOUT_KEYS
    for names in GROWS:
        named |= set(names.split())
    known = {name.upper().split("|")[0] for name in commands}
    return {name for name in known if name not in named and not name.startswith(GROUPS)}


def fill(do_all, kind: str, key: str, large: bool, elements: dict | None = None) -> None:
    """Makes a key of this kind. `do_all` sends requests, given as lists of words."""
    count = (elements or ELEMENTS)[large]
    do_all([["DEL", key, key + "other"]])
    if kind == "string":
        do_all([["SETRANGE", key, STRING_BYTES[large], "x"]])
        return
    if kind == "document":
        members = range(DOCUMENT_MEMBERS[large])
        document = {"name": "a", "n": 1, "flag": True, "items": [{"a": number, "b": "xyz"} for number in members]}
        document["wide"] = {f"m{number}": number for number in members}
        do_all([["JSON.SET", key, "$", json.dumps(document, separators=(",", ":"))]])
        return
    if kind == "search index":
        do_all([["FT.DROPINDEX", f"{key}index"], f"FT.CREATE {key}index PREFIX 1 {key}: SCHEMA n NUMERIC SORTABLE t TAG w TEXT".split()])
        do_all([["HSET", f"{key}:{number}", "n", number, "t", f"tag{number}", "w", f"word{number}"] for number in range(min(count, INDEXED_MAX))])
        return
    if kind == "vectors":
        values = lambda number: (number % 97 + 1, number % 89, number % 83, number % 79)  # noqa: E731
        do_all([["VADD", key, "VALUES", 4, *values(number), f"m{number}"] for number in range(min(count, INDEXED_MAX))])
        return
    if kind == "sketches":
        create = ("BF.RESERVE {k}bloom 0.01 {n}", "CF.RESERVE {k}cuckoo {n}", "CMS.INITBYDIM {k}counts {n} 5", "TOPK.RESERVE {k}top 50 {n} 7 0.9")
        do_all([line.format(k=key, n=count).split() for line in (*create, "TDIGEST.CREATE {k}digest")])
        for at in range(0, count, 500):
            items = range(at, min(at + 500, count))
            do_all([[command, key + name, *items] for command, name in (("BF.MADD", "bloom"), ("TOPK.ADD", "top"), ("TDIGEST.ADD", "digest"))])
            do_all([["CF.INSERT", key + "cuckoo", "ITEMS", *items], ["CMS.INCRBY", key + "counts", *(word for item in items for word in (item, 1))]])
        return
    if kind == "series":
        do_all([["TS.CREATE", key + "target"], ["TS.CREATE", key + "series", "DUPLICATE_POLICY", "LAST", "LABELS", "of", key]])
        for at in range(1, count + 1, 500):
            do_all([["TS.MADD", *(word for number in range(at, min(at + 500, count + 1)) for word in (key + "series", number, number % 97))]])
        return
    words = {
        "list": lambda number: [f"m{number}"],
        "hash": lambda number: [f"m{number}", "v"],
        "set": lambda number: [f"m{number}"],
        "sorted set": lambda number: [number, f"m{number}"],
        "names": lambda number: [0, f"m{number}"],
        "places": lambda number: [number % 3600 / 20 - 90, number // 3600 % 160 - 80, f"m{number}"],
        "keys": lambda number: [f"filler{number}", number],
    }
    command = {"list": "RPUSH", "hash": "HSET", "set": "SADD", "sorted set": "ZADD", "names": "ZADD", "places": "GEOADD"}
    if kind == "stream":
        do_all([["XADD", key, f"1-{number}", "f", number] for number in range(1, count + 1)] + [["XGROUP", "CREATE", key, "g1", "0"]])
    elif kind == "keys":
        do_all([["MSET", *(word for number in range(at, min(at + 500, count)) for word in words["keys"](number))] for at in range(0, count, 500)])
    else:
        kind = "hash" if kind == "large key" else kind
        do_all([[command[kind], key, *(word for number in range(at, min(at + 500, count)) for word in words[kind](number))] for at in range(0, count, 500)])


def calls(line: str, key: str, times: int) -> list[list[str]]:
    """The requests of one line of the table."""
    return [[word.format(k=key, i=number) for word in line.split()] for number in range(2, 2 + times)]
