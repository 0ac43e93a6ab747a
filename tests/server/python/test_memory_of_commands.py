"""What any one command of Redis can make the server take, at the largest request and the largest reply that its bounds allow.

Bounds came one by one, for the commands that somebody had tried, and the neighbours of each had none. So the commands are asked for from the server:
each gets one long word and many short ones without a line here, and each needs either requests here for its longest replies, or a place among those
whose replies are short. A new command fails the test by its name until it has one.
"""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator

import pytest
from harness.memory_bounds import GROUP, MIB, REFUSALS, Watch, bounded_server, until
from harness.resp import Connection, encode
from harness.server import Server

pytestmark = [pytest.mark.quartet_only, pytest.mark.slow, pytest.mark.timeout(1200)]

MARK = b"no-command-answers-this"
LONG_WORD = "w" * (16 * MIB)
MANY = 300_000
# Bytes that stay allocated, of memory that was given back.
KEPT = 56 * MIB
# Each is sent with its words as they are documented only: anything else would take its connection, its server or its data away.
SENT_AS_DOCUMENTED = {"replicaof", "slaveof", "psync", "sync", "shutdown", "monitor", "debug", "quit", "flushall", "flushdb", "swapdb", "client|reply"}
SENT_AS_DOCUMENTED |= {"replconf", "client|pause", "hello", "auth", "reset", "multi", "script|debug", "acl|deluser", "select"}


def leaves(rows) -> Iterator[tuple[str, int]]:
    """Names with the least number of words; `config|get` for a subcommand."""
    for row in rows:
        if row[9]:
            yield from leaves(row[9])
        else:
            yield row[0], abs(row[1])


class Asker:
    """Sends a request and reads past its whole reply, of which it keeps the start."""

    def __init__(self, server: Server):
        self.server = server
        self.connect()

    def connect(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.server.port), 600)
        assert self.take(encode("HELLO", 3)).startswith(b"%")

    def take(self, request: bytes) -> bytes:
        """The start of the reply; empty if the connection was closed instead."""
        try:
            self.socket.sendall(request + encode("ECHO", MARK))
            start, end = b"", b""
            while MARK not in end:
                piece = self.socket.recv(1 << 20)
                if not piece:
                    return b""
                start += piece[: 8192 - len(start)]
                end = end[-2 * len(MARK) :] + piece
            return start
        except (ConnectionResetError, BrokenPipeError):
            return b""

    def ask(self, name: str, words: list) -> bytes:
        return self.ask_bytes(name, encode(*name.split("|"), *words))

    def ask_bytes(self, name: str, request: bytes) -> bytes:
        self.socket.close()
        self.connect()
        reply = self.take(request)
        assert self.server.alive(), name
        assert reply, f"{name} closed the connection without an answer"
        line = reply.partition(b"\r\n")[0]
        assert not line.startswith((b"-ERR ERR", b"-EXECABORT ERR")), (name, line[:300])
        assert len(line) < 4300, (name, line[:300])
        return line


# What commands take away, all or in part.
TAKEN = "long k h fields members scores l j".split()


def put_back(connection: Connection) -> None:
    """Some 12 MB of what the requests multiply."""
    connection.do("DEL", *TAKEN)
    connection.do("SET", "long", "v" * (10 * MIB))
    connection.do("SET", "k", "v" * 500_000)
    connection.do("HSET", "h", "f", "v" * MIB)
    for number in range(100):
        connection.do("RPUSH", "l", "e" * 30_000)
        connection.do("HSET", "fields", f"f{number}", "v" * 30_000)
        connection.do("SADD", "members", f"{number}" + "m" * 30_000)
        connection.do("ZADD", "scores", number, f"{number}" + "m" * 30_000)
    document = {"a": "x" * 500_000, "b": {str(number): 1 for number in range(5000)}, "c": [1] * 5000}
    connection.do("JSON.SET", "j", "$", json.dumps(document))


def fill(connection: Connection) -> None:
    """Some 20 MB with what is taken."""
    put_back(connection)
    connection.do("SET", "text", "ab" * 8000)
    connection.do("SADD", "s", "m" * 60_000)
    connection.do("ZADD", "z", 1, "m" * 60_000)
    connection.do("GEOADD", "geo", 13, 38, "m" * 60_000)
    for number in range(100):
        connection.do("XADD", "x", f"1-{number + 1}", "f", "v" * 30_000)
    connection.do("XGROUP", "CREATE", "x", "g", 0)
    connection.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
    for number in range(5000):
        connection.send("SET", f"many:{number}:{'n' * 100}", number)
        connection.read()
    connection.do("VADD", "v", "VALUES", 2, 1, 1, "one")
    connection.do("VSETATTR", "v", "one", json.dumps({"a": "x" * 100_000}))
    connection.do(*"FT.CREATE i PREFIX 1 doc: SCHEMA t TEXT g TAG big TEXT NOINDEX e VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2".split())
    for number in range(100):
        vector = b"\0\0\0\0"
        connection.do("HSET", f"doc:{number}", "t", "abc word " * 100, "g", f"{number}" + "g" * 3000, "big", "x" * 30_000, "e", vector)
    connection.do("FT.DICTADD", "words", *(f"{number:0>500}" for number in range(4000)))
    for number in range(100):
        connection.do("FT.SUGADD", "sug", f"a{number:0>1000}", 1, "PAYLOAD", "p" * 30_000)
    connection.do("FT.SYNUPDATE", "i", "group", *(f"{number:0>500}" for number in range(2000)))
    library = "#!lua name=lib\n--" + "x" * MIB + "\nredis.register_function('f', function() return string.rep('x', 1024 * 1024) end)"
    connection.do("FUNCTION", "LOAD", library)
    connection.do("BF.RESERVE", "bloom", "0.001", 10_000)
    connection.do("CF.RESERVE", "cuckoo", 10_000)
    connection.do("CMS.INITBYDIM", "counts", 10_000, 10)
    connection.do("TOPK.RESERVE", "top", 100)
    connection.do("TOPK.ADD", "top", *(f"{number}" + "i" * 3000 for number in range(100)))
    connection.do("TDIGEST.CREATE", "digest", "COMPRESSION", 1000)
    connection.do("TDIGEST.ADD", "digest", *range(10_000))
    connection.do("TS.CREATE", "series", "LABELS", "l", "v", *(word for number in range(200) for word in (f"{number}", "v" * 2000)))
    for start in range(1, 200_000, 10_000):
        connection.do("TS.MADD", *(word for at in range(start, start + 10_000) for word in ("series", at, 1)))
    connection.do("SEARCH.CREATE", "up", "ON", "hash", "PREFIX", 1, "doc:", "SCHEMA", "t", "TEXT")
    for number in range(100):
        connection.do("ACL", "SETUSER", f"user{number}", *(f"~{number}:{pattern}" + "p" * 90 for pattern in range(100)))
    connection.do("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 10_000)


def many(words: list, count: int) -> list:
    return words * count


# The longest replies. {} stands for each of the requests' own names; a request gets all of the data anew where it takes data away.
LONGEST = {
    "get": [["long"]], "getset": [["long", "v"]], "getdel": [["long"]], "getex": [["long"]], "set": [["long", "v", "GET"]],
    "getrange": [["long", 0, -1]], "substr": [["long", 0, -1]], "mget": [many(["k"], 1800)], "lcs": [["text", "text"], ["text", "text", "IDX"], ["long", "long"]],
    "setrange": [["grown", (1 << 29) - 2, "x"]], "append": [["long", "a" * (12 * MIB)]],
    "setbit": [["grown", (1 << 32) - 1, 1]], "bitfield": [["k", *many(["GET", "u8", 0], 100_000)], ["grown", "SET", "u8", (1 << 32) - 8, 1]],
    "bitfield_ro": [["k", *many(["GET", "u8", 0], 100_000)]], "bitop": [["OR", "grown", *many(["long"], 100)]],
    "hmget": [["h", *many(["f"], 900)]], "hget": [["h", "f"]], "hgetall": [["fields"]], "hkeys": [["fields"]], "hvals": [["fields"]],
    "hrandfield": [["h", -1000, "WITHVALUES"], ["h", -(1 << 22)]], "hscan": [["fields", 0, "COUNT", 1 << 30]],
    "hgetdel": [["h", "FIELDS", 900, *many(["f"], 900)]], "hgetex": [["h", "FIELDS", 900, *many(["f"], 900)]],
    "httl": [["h", "FIELDS", 100_000, *many(["f"], 100_000)]], "hpttl": [["h", "FIELDS", 100_000, *many(["f"], 100_000)]],
    "hexpiretime": [["h", "FIELDS", 100_000, *many(["f"], 100_000)]], "hpexpiretime": [["h", "FIELDS", 100_000, *many(["f"], 100_000)]],
    "hpersist": [["h", "FIELDS", 100_000, *many(["f"], 100_000)]],
    "hexpire": [["h", 100, "FIELDS", 100_000, *many(["f"], 100_000)]], "hpexpire": [["h", 10**6, "FIELDS", 100_000, *many(["f"], 100_000)]],
    "hexpireat": [["h", 4 * 10**9, "FIELDS", 100_000, *many(["f"], 100_000)]], "hpexpireat": [["h", 4 * 10**12, "FIELDS", 100_000, *many(["f"], 100_000)]],
    "lrange": [["l", 0, -1]], "lpop": [["l", 1000]], "rpop": [["l", 1000]], "lindex": [["l", 0]], "lpos": [["l", "e" * 30_000, "COUNT", 0]],
    "lmpop": [[2, "l", "l", "LEFT", "COUNT", 1000]], "blmpop": [[1, 1, "l", "LEFT", "COUNT", 1000]], "lmove": [["l", "l", "LEFT", "RIGHT"]],
    "rpoplpush": [["l", "l"]], "blpop": [["l", 1]], "brpop": [["l", 1]], "blmove": [["l", "l", "LEFT", "LEFT", 1]], "brpoplpush": [["l", "l", 1]],
    "sort": [["l", "BY", "nosort", *many(["GET", "#"], 400)], ["l", "ALPHA", *many(["GET", "long"], 20)], ["l", "ALPHA", *many(["GET", "#"], 50), "STORE", "grown"]],
    "sort_ro": [["l", "BY", "nosort", *many(["GET", "#"], 400)]],
    "smembers": [["members"]], "srandmember": [["s", -15_000], ["s", -(1 << 22)]], "spop": [["members", 1000]], "sscan": [["members", 0, "COUNT", 1 << 30]],
    "sinter": [many(["members"], 200)], "sunion": [many(["members"], 200)], "sdiff": [["members", *many(["s"], 200)]],
    "smismember": [["members", *many(["x"], 300_000)]],
    "sinterstore": [["grown", *many(["members"], 200)]], "sunionstore": [["grown", *many(["members"], 200)]], "sdiffstore": [["grown", *many(["members"], 200)]],
    "zrandmember": [["z", -15_000, "WITHSCORES"], ["z", -(1 << 22)]], "zscan": [["scores", 0, "COUNT", 1 << 30]],
    "zmscore": [["scores", *many(["x"], 300_000)]], "zrange": [["scores", 0, -1, "WITHSCORES"]], "zrevrange": [["scores", 0, -1]],
    "zrangestore": [["grown", "scores", 0, -1]], "zrangebyscore": [["scores", "-inf", "+inf"]], "zrevrangebyscore": [["scores", "+inf", "-inf"]],
    "zrangebylex": [["scores", "-", "+"]], "zrevrangebylex": [["scores", "+", "-"]], "zpopmin": [["scores", 1000]], "zpopmax": [["scores", 1000]],
    "bzpopmin": [["scores", 1]], "bzpopmax": [["scores", 1]], "zmpop": [[1, "scores", "MIN", "COUNT", 1000]], "bzmpop": [[1, 1, "scores", "MIN", "COUNT", 1000]],
    "zunion": [[200, *many(["scores"], 200), "WITHSCORES"]], "zinter": [[200, *many(["scores"], 200)]], "zdiff": [[2, "scores", "none"]],
    "zunionstore": [["grown", 200, *many(["scores"], 200)]], "zinterstore": [["grown", 200, *many(["scores"], 200)]], "zdiffstore": [["grown", 2, "scores", "none"]],
    "xrange": [["x", "-", "+"]], "xrevrange": [["x", "+", "-"]], "xread": [["STREAMS", *many(["x"], 1000), *many([0], 1000)]],
    "xreadgroup": [["GROUP", "g", "c", "STREAMS", *many(["x"], 1000), *many([0], 1000)]], "xpending": [["x", "g", "-", "+", 1 << 30]],
    "xclaim": [["x", "g", "c", 0, *many(["1-1"], 5000)]], "xautoclaim": [["x", "g", "c", 0, 0, "COUNT", 1 << 20]],
    "xinfo|stream": [["x", "FULL", "COUNT", 0]], "xinfo|consumers": [["x", "g"]], "xinfo|groups": [["x"]],
    "xdelex": [["x", "IDS", 100_000, *many(["5-5"], 100_000)]], "xackdel": [["x", "g", "IDS", 100_000, *many(["5-5"], 100_000)]],
    "geopos": [["geo", *many(["m" * 20], 100_000)]], "geohash": [["geo", *many(["m" * 20], 100_000)]],
    "geosearch": [["geo", "FROMLONLAT", 13, 38, "BYRADIUS", 1, "km", "WITHCOORD", "WITHDIST", "WITHHASH"]],
    "georadius": [["geo", 13, 38, 1, "km", "WITHCOORD"]], "georadius_ro": [["geo", 13, 38, 1, "km"]],
    "georadiusbymember": [["geo", "m" * 60_000, 1, "km"]], "georadiusbymember_ro": [["geo", "m" * 60_000, 1, "km"]],
    "keys": [["*"]], "scan": [[0, "COUNT", 1 << 30]], "dump": [["long"], ["l"], ["fields"]], "copy": [["long", "grown", "REPLACE"]],
    "config|get": [many(["*"], 5000)], "info": [many(["all"], 5000)], "command|docs": [[], many(["get"], 100_000)], "command|info": [[], many(["get"], 100_000)],
    "command|list": [[]], "command|getkeys": [["MGET", *many(["k"], 300_000)]], "command|getkeysandflags": [["MGET", *many(["k"], 300_000)]],
    "acl|list": [[]], "acl|getuser": [["user1"]], "acl|users": [[]], "acl|log": [[1 << 30]], "acl|cat": [[]], "client|list": [[]],
    "client|info": [[]], "slowlog|get": [[-1]], "commandlog|get": [[-1, "large-request"], [-1, "large-reply"], [-1, "slow"]],
    "latency|histogram": [[], many(["get"], 100_000)], "latency|history": [["command"]], "latency|latest": [[]], "latency|doctor": [[]], "latency|graph": [["command"]],
    "memory|stats": [[]], "memory|doctor": [[]], "memory|malloc-stats": [[]], "lolwut": [["VERSION", 5, 1 << 30, 1 << 30, 1 << 30], ["VERSION", 6, 10_000, 10_000]],
    "pubsub|channels": [["*"]], "pubsub|shardchannels": [["*"]], "pubsub|numsub": [many(["c"], 300_000)], "pubsub|shardnumsub": [many(["c"], 300_000)],
    "subscribe": [many(["c"], 100_000)], "psubscribe": [many(["c"], 100_000)], "ssubscribe": [many(["c"], 100_000)],
    "unsubscribe": [many(["c"], 100_000)], "punsubscribe": [many(["c"], 100_000)], "sunsubscribe": [many(["c"], 100_000)],
    "eval": [["return string.rep('x', 20 * 1024 * 1024)", 0], ["local t = {} for i = 1, 400 do t[i] = redis.call('GET', KEYS[1]) end return t", 1, "k"],
             ["local t = {} for i = 1, 1e9 do t[i] = i end return t", 0]],
    "eval_ro": [["local t = {} for i = 1, 400 do t[i] = redis.call('GET', KEYS[1]) end return t", 1, "k"]],
    "script|exists": [many(["c"], 300_000)], "fcall": [["f", 0]], "function|list": [["WITHCODE"]], "function|dump": [[]], "function|stats": [[]],
    "script|load": [["return '" + "x" * (16 * MIB) + "'"]], "function|load": [["#!lua name=big\nredis.register_function('g', function() end) --" + "x" * (16 * MIB)]],
    "json.get": [["j", "INDENT", "i" * 8000, "$"], ["j", *many(["$.a"], 200)], ["j", "$..*"]], "json.mget": [[*many(["j"], 200), "$"]],
    "json.resp": [["j", "$[" + ",".join(["*"] * 300) + "]"]], "json.objkeys": [["j", "$[" + ",".join(["*"] * 300) + "]"]],
    "json.type": [["j", "$..*"]], "json.arrlen": [["j", "$..*"]], "json.objlen": [["j", "$..*"]], "json.strlen": [["j", "$..*"]],
    "json.toggle": [["j", "$..*"]], "json.numincrby": [["j", "$..*", 1]], "json.nummultby": [["j", "$..*", 2]], "json.numpowby": [["j", "$..*", 1]], "json.arrpop": [["j", "$..*"]],
    "json.arrindex": [["j", "$..*", "1"]], "json.arrtrim": [["j", "$..*", 0, 10_000]], "json.debug|memory": [["j", "$..*"]],
    "json.strappend": [["j", "$.a", json.dumps("a" * 20 * MIB)]], "json.arrappend": [["j", "$.c", *many(["1"], 100_000)]],
    "json.arrinsert": [["j", "$.c", 0, *many(["1"], 100_000)]], "json.set": [*(["j", "$..*", json.dumps("y" * size)] for size in (500, 50_000)), *(["grown", "$", json.dumps([1] * count)] for count in (200_000, 2_000_000))], "json.merge": [["j", "$..*", json.dumps("y" * size)] for size in (500, 50_000)],
    "json.mset": [[*many(["j", "$.a", json.dumps("y" * 500_000)], 30)]], "json.clear": [["j", "$..*"]],
    "ft.search": [["i", "word", "RETURN", 900, *itertools.chain.from_iterable(("big", "AS", f"n{number}") for number in range(300))],
                  ["i", "word", "LIMIT", 0, 1000], ["i", "abc", "LIMIT", 0, 1000, "HIGHLIGHT", "TAGS", "<" * 100_000, ">" * 100_000],
                  ["i", "word", "SUMMARIZE", "FRAGS", 1000, "SEPARATOR", "." * MIB], ["i", "abc " * 2_000_000]],
    "ft.aggregate": [["i", "*", "LOAD", "*"], ["i", "*", "LOAD", 1, "@big", "GROUPBY", 0, "REDUCE", "TOLIST", 1, "@big"],
                     ["i", "*", "LOAD", 1, "@big", *itertools.chain.from_iterable(("APPLY", "format('%s%s%s', @big, @big, @big)", "AS", f"a{n}") for n in range(50))],
                     ["i", "*", "APPLY", "1+" * 4_000_000 + "1", "AS", "x"]],
    "ft.hybrid": [["i", "SEARCH", "word", "VSIM", "@e", "$q", "LOAD", "*", "LIMIT", 0, 200, "PARAMS", 2, "q", b"\0\0\0\0"]],
    "ft.profile": [["i", "SEARCH", "QUERY", "word", "LIMIT", 0, 1000], ["i", "SEARCH", "QUERY", "(word|abc) " * 3000]],
    "ft.explain": [["i", "(" * 8_000_000], ["i", "abc " * 3000]], "ft.explaincli": [["i", "(" * 8_000_000], ["i", "abc " * 3000]],
    "ft.spellcheck": [["i", "a|" * 4_000_000], ["i", "abd", "DISTANCE", 4, *many(["TERMS", "INCLUDE", "words"], 100)]],
    "ft.tagvals": [["i", "g"]], "ft.dictdump": [["words"]], "ft.syndump": [["i"]], "ft.info": [["i"]], "ft._list": [[]], "ft.aliaslist": [["i"]],
    "ft.sugget": [["sug", "a", "MAX", 1 << 30, "WITHPAYLOADS", "WITHSCORES", "FUZZY"], ["sug", "a", "MAX", 1 << 30, "WITHPAYLOADS"]],
    "ft.get": [["i", "doc:1"]], "ft.mget": [["i", *many(["doc:1"], 5000)]], "ft.add": [["i", "grown", 1, "FIELDS", *many(["f", "v"], 100_000)]],
    "ft.safeadd": [["i", "grown", 1, "FIELDS", *itertools.chain.from_iterable((f"f{n}", "v") for n in range(100_000))]],
    "ft.config": [["GET", "*"]], "ft.cursor": [["READ", "i", 1, "COUNT", 1 << 30]],
    "search.query": [["up", json.dumps({"t": "word"}), "LIMIT", 1000]], "search.aggregate": [["up", "{}", json.dumps({"a": {"$count": {"field": "t"}}})]],
    "search.describe": [["up"]], "search.listindexes": [[]], "search.listaliases": [[]],
    "vsim": [["v", "ELE", "one", "WITHATTRIBS", "COUNT", 1 << 30], ["v", "VALUES", 2, 1, 1, "FILTER", "(" * 8_000_000]], "vrandmember": [["v", -(1 << 22)]],
    "vgetattr": [["v", "one"]], "vemb": [["v", "one", "RAW"]], "vlinks": [["v", "one", "WITHSCORES"]], "vrange": [["v", "-", "+", -1]], "vinfo": [["v"]],
    "vadd": [["grown", "VALUES", 32_768, *many(["1"], 32_768), "e"]],
    "vector.query": [["none", "VALUES", 2, 1, 1]], "vector.get": [["none", *many(["x"], 100_000)]], "vector.info": [["none"]],
    "bf.reserve": [["grown", "0.000001", 1 << 40]], "bf.madd": [["bloom", *many(["i"], 300_000)]], "bf.mexists": [["bloom", *many(["i"], 300_000)]],
    "bf.insert": [["bloom", "ITEMS", *many(["i"], 300_000)], ["grown", "CAPACITY", 1 << 40, "ITEMS", "i"]], "bf.scandump": [["bloom", 0], ["bloom", 1]],
    "bf.loadchunk": [["grown", 1, b"\0" * (16 * MIB)]], "bf.debug": [["bloom"]],
    "cf.reserve": [["grown", 1 << 40]], "cf.insert": [["cuckoo", "ITEMS", *many(["i"], 300_000)]], "cf.insertnx": [["cuckoo", "ITEMS", *many(["i"], 300_000)]],
    "cf.mexists": [["cuckoo", *many(["i"], 300_000)]], "cf.scandump": [["cuckoo", 0], ["cuckoo", 1]], "cf.loadchunk": [["grown", 1, b"\0" * (16 * MIB)]],
    "cms.initbydim": [["grown", 1 << 31, 1 << 31], ["grown", 1 << 20, 100]], "cms.initbyprob": [["grown", "0.000000001", "0.000000001"]],
    "cms.incrby": [["counts", *many(["i", 1], 150_000)]], "cms.query": [["counts", *many(["i"], 300_000)]],
    "cms.merge": [["counts", 100_000, *many(["counts"], 100_000)], ["counts", 1, "counts"]],
    "topk.reserve": [["grown", 1 << 31, 1 << 31, 1 << 31, "0.9"]], "topk.add": [["top", *many(["i"], 300_000)]], "topk.incrby": [["top", *many(["i", 1], 150_000)]],
    "topk.query": [["top", *many(["i"], 300_000)]], "topk.count": [["top", *many(["i"], 300_000)]], "topk.list": [["top", "WITHCOUNT"]],
    "tdigest.create": [["grown", "COMPRESSION", 1 << 62]], "tdigest.add": [["digest", *many(["1"], 300_000)]],
    "tdigest.merge": [["grown", 30_000, *many(["digest"], 30_000)]], "tdigest.quantile": [["digest", *many(["0.5"], 300_000)]],
    "tdigest.cdf": [["digest", *many(["1"], 300_000)]], "tdigest.rank": [["digest", *many(["1"], 300_000)]], "tdigest.revrank": [["digest", *many(["1"], 300_000)]],
    "tdigest.byrank": [["digest", *many(["1"], 300_000)]], "tdigest.byrevrank": [["digest", *many(["1"], 300_000)]],
    "ts.range": [["series", "-", "+"], ["series", "-", "+", "AGGREGATION", "avg", 1, "EMPTY"]], "ts.revrange": [["series", "-", "+"], ["series", "-", "+", "AGGREGATION", "avg", 1]],
    "ts.mrange": [["-", "+", "WITHLABELS", "FILTER", "l=v"], ["-", "+", "FILTER", "l=v", "GROUPBY", "l", "REDUCE", "sum"]],
    "ts.mrevrange": [["-", "+", "WITHLABELS", "FILTER", "l=v"], ["-", "+", "FILTER", "l=v", "GROUPBY", "l", "REDUCE", "sum"]],
    "ts.nrange": [[50, *many(["series"], 50), "-", "+"]], "ts.nrevrange": [[50, *many(["series"], 50), "-", "+"]],
    "ts.read": [["series", "-"]], "ts.mget": [["WITHLABELS", "FILTER", "l=v"]], "ts.queryindex": [["l=v"]], "ts.querylabels": [["LABELS"], ["VALUES", "1"]],
    "ts.info": [["series", "DEBUG"]], "ts.madd": [[*many(["series", 1, 1], 100_000)]],
    "restore": [["grown", 0, b"\0" * (16 * MIB)]], "restore-asking": [["grown", 0, b"\0" * (16 * MIB)]],
    "echo": [["e" * (16 * MIB)]], "ping": [["e" * (16 * MIB)]], "publish": [["c", "e" * (16 * MIB)]], "spublish": [["c", "e" * (16 * MIB)]],
}  # fmt: skip

# Replies of a few numbers, words or lines, whatever the request and the data are.
SHORT = """
setnx setex psetex incr decr incrby decrby incrbyfloat mset msetex msetnx strlen delex delifeq digest getbit bitcount bitpos
hset hmset hsetnx hdel hexists hlen hstrlen hincrby hincrbyfloat hsetex
lpush rpush lpushx rpushx linsert lset lrem ltrim llen
sadd srem sismember scard smove sintercard zadd zincrby zrem zscore zcard zrank zrevrank zcount zlexcount zremrangebyrank zremrangebyscore
zremrangebylex zintercard pfadd pfcount pfmerge pfdebug pfselftest
xadd xtrim xdel xsetid xlen xack xgroup|create xgroup|createconsumer xgroup|delconsumer xgroup|destroy xgroup|setid geoadd geodist geosearchstore
json.del json.forget
ft.create ft._createifnx ft.alter ft._alterifnx ft.dropindex ft._dropindexifx ft.aliasadd ft._aliasaddifnx ft.aliasupdate ft.aliasdel ft._aliasdelifx
ft.dictadd ft.dictdel ft.del ft.drop ft._dropifx ft.synadd ft.synupdate ft.sugadd ft.sugdel ft.suglen
search.create search.reindex search.drop search.waitindexing search.count search.aliasadd search.aliasdel
vector.create vector.add vector.del vector.drop vector.count vrem vdim vcard vsetattr vismember
bf.add bf.card bf.exists bf.info cf.add cf.addnx cf.compact cf.count cf.debug cf.del cf.exists cf.info cms.info topk.info
tdigest.info tdigest.max tdigest.min tdigest.reset tdigest.trimmed_mean
ts.create ts.alter ts.add ts.incrby ts.decrby ts.del ts.get ts.createrule ts.deleterule
del unlink exists touch type rename renamenx move randomkey object|encoding object|freq object|idletime object|refcount expire pexpire expireat
pexpireat ttl pttl expiretime pexpiretime persist migrate wait waitaof
dbsize flushdb flushall swapdb time role replicaof slaveof psync sync replconf monitor module|list acl|deluser acl|dryrun acl|genpass acl|gentoken
acl|load acl|resttoken acl|save acl|setuser acl|whoami command|count commandlog|len commandlog|reset config|resetstat config|rewrite config|set debug
latency|reset memory|purge memory|usage save bgsave bgrewriteaof lastsave shutdown failover slowlog|len slowlog|reset
multi exec discard watch unwatch evalsha evalsha_ro script|flush script|kill script|show script|debug fcall_ro function|delete function|flush
function|restore function|kill
quit select auth hello reset client|capa client|caching client|getredir client|tracking client|trackinginfo client|getname client|id client|kill
client|no-evict client|no-touch client|pause client|reply client|setinfo client|setname client|unblock client|unpause pubsub|numpat
asking cluster|slots cluster|shards cluster|nodes cluster|links cluster|getkeysinslot cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports cluster|countkeysinslot cluster|delslots
cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget cluster|info cluster|keyslot cluster|meet cluster|myid cluster|myshardid
cluster|replicas cluster|replicate cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot cluster|slaves cluster|slot-stats readonly readwrite
"""

# What these took away is put back before the next command.
TAKES = {"getset", "getdel", "set", "append", "lpop", "rpop", "lmpop", "blmpop", "spop", "zpopmin", "zpopmax", "zmpop", "bzmpop", "hgetdel"}
TAKES |= {"json.set", "json.merge", "json.clear", "json.arrpop", "json.mset"}

# Named refusals; searches may also take too long on a slow machine.
NAMED = (*(word.encode() for word in REFUSALS), b"SEARCH_TIMEOUT", b"ERR the request names the same large key too often", b"ERR the document exceeds the maximum size")
# Their requests meet another bound, or nothing.
EXPLAINED = {"lcs", "eval", "restore", "restore-asking", "latency|graph", "lolwut", "ft.cursor", "search.aggregate", "vector.query", "vector.get"}
EXPLAINED |= {"vector.info", "vsim", "script|load"}
EXPLAINED |= {"bf.reserve", "bf.insert", "bf.loadchunk", "cf.reserve", "cf.insertnx", "cf.loadchunk", "cms.initbydim", "cms.initbyprob", "cms.merge", "topk.reserve", "tdigest.create"}


@pytest.fixture(scope="module")
def server():
    with bounded_server() as server:
        yield server


@pytest.fixture(scope="module")
def commands(server) -> list[tuple[str, int]]:
    with Connection(server.port) as connection:
        return list(leaves(connection.do("COMMAND")))


def test_every_command_has_its_longest_replies_here_or_short_ones(commands):
    names = {name for name, _ in commands}
    helps = {name for name in names if name.endswith("|help")}
    short = set(SHORT.split())
    assert names - set(LONGEST) - short - helps == set(), "new commands: how long are their replies?"
    assert set(LONGEST) & short == set()
    assert (set(LONGEST) | short) - names == set(), "these are gone"


def many_words(name: str) -> bytes:
    head = encode(*name.split("|"))
    count, _, rest = head.partition(b"\r\n")
    return b"*%d\r\n" % (int(count[1:]) + MANY) + rest + b"$1\r\n1\r\n" * MANY


def is_bounded(server: Server, watch: Watch, name: str) -> None:
    assert watch.most < GROUP, (name, watch.most >> 20)
    assert watch.thread.is_alive(), (name, "another client was not served")


def test_a_long_word_and_many_words_are_answered_by_every_command(server, commands):
    at_rest, asker = server.anonymous_bytes(), Asker(server)
    with Watch(server) as watch:
        for name, least in commands:
            if name in SENT_AS_DOCUMENTED:
                continue
            words = least - name.count("|") - 1
            for request in [["1", *["1"] * (words - 2), LONG_WORD][-max(words, 1) :], [LONG_WORD]]:
                asker.ask(name, request)
            asker.ask_bytes(name, many_words(name))
            asker.ask("del", ["1"])
            is_bounded(server, watch, name)
        assert watch.served > 100
    asker.socket.close()
    with Connection(server.port) as connection:
        connection.do("FLUSHALL")
        connection.do("SCRIPT", "FLUSH")
        connection.do("FUNCTION", "FLUSH")
        connection.do("ACL", "DELUSER", LONG_WORD)
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def test_the_longest_reply_of_every_command_fits_or_is_refused(server, commands):
    asker = Asker(server)
    with Connection(server.port) as connection:
        connection.do("FLUSHALL")
        fill(connection)
        at_rest = server.anonymous_bytes()
        with Watch(server) as watch:
            for name, requests in LONGEST.items():
                for request in requests:
                    line = asker.ask(name, request)
                    assert line[:1] != b"-" or line[1:].startswith(NAMED) or name in EXPLAINED, (name, line[:300])
                    is_bounded(server, watch, name)
                connection.do("DEL", "grown")
                if name in TAKES:
                    put_back(connection)
            assert watch.served > 100
        asker.socket.close()
        connection.do("SCRIPT", "FLUSH")
        until(lambda: server.anonymous_bytes() < at_rest + KEPT)

