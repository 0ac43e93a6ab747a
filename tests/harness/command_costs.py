"""The commands of Redis by what their cost grows with: one table for the test and for the benchmark.

A line is a command on a key that is small or large. `{i}` is the number of the call, `{k}` the key. What stands in CONSTANT costs about the
same on both; what stands in GROWS does not, for the reason given, which docs/limits.md has. Every command that the server knows is in one of
them, in WITHOUT_KEYS, or begins like one of GROUPS.
"""

from __future__ import annotations

STRING_BYTES = {False: 2_000, True: 4_000_000}
ELEMENTS = {False: 1_000, True: 300_000}

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

# Documented on pages of their own: an index, a graph or a document costs what its page says.
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
