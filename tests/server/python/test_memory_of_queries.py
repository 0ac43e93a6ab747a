"""What one query of Fauna, its streams, the key-value protocol, and the console's requests to it can make the server take, in a control group of 256 MiB.

`LONGEST` are queries that somebody thought of; bounds came for those, and the neighbours of each had none: `drop` and `reverse` of one long array,
kept a thousand times, ended the server, as did a thousand refs of a name of 4 MB, each of which is written out, and a thousand `to_array` of an
object of 20,000 fields. So every function in the table of docs/compat/fauna.md gets every large value, a thousand times. A new function fails the
test by its name until it has a place in `FIRST`.

Left out, for the time that they take: values of a type that the function refuses, all but the first of a function's arguments that take the value,
and calls made once, which are the first of the thousand. `QUARTET_TEST_WHOLE_TABLE=1` asks them too: 9,952 queries, five minutes on a free machine.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.memory_bounds import GROUP, MIB, Watch, bounded_server, until
from harness.server import ROOT, Server

pytestmark = [pytest.mark.quartet_only, pytest.mark.slow, pytest.mark.timeout(1200)]

HEADERS = {"Authorization": "Bearer secret", "X-FaunaDB-API-Version": "4"}
KEPT = 56 * MIB
# Bytes of a query that an error repeats at most, and of an error beside them.
ERROR_BYTES_MAX = 64 << 10
IDENTITY = {"lambda": "x", "expr": {"var": "x"}}
LONG = {"repeat": "x" * 1000, "number": 1000}
RANGE = list(range(1000))


@pytest.fixture(scope="module")
def server():
    with bounded_server() as server:
        fill(server)
        yield server


def ask(server: Server, query, timeout_ms: int = 20_000) -> tuple[int, bytes]:
    """The status, and the start of the answer with its end."""
    connection = http.client.HTTPConnection("127.0.0.1", server.fauna_port, timeout=600)
    try:
        headers = HEADERS | {"X-Query-Timeout": str(timeout_ms)}
        body = json.dumps(query)
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        start, length = b"", 0
        while piece := answer.read(1 << 20):
            start, length = start + piece[: 2000 - len(start)], length + len(piece)
        assert answer.status < 300 or length < min(len(body), ERROR_BYTES_MAX) + ERROR_BYTES_MAX, (answer.status, length, start[:300])
        return answer.status, start
    finally:
        connection.close()


def is_answered(server: Server, watch: Watch, query, name: str, timeout_ms: int = 20_000) -> None:
    status, answer = ask(server, query, timeout_ms)
    assert status < 500 or status == 503 and b'"code":"' in answer, (name, status, answer[:300])
    assert server.alive(), name
    assert watch.most < GROUP, (name, watch.most >> 20)
    assert watch.thread.is_alive(), (name, "another client was not served")


def doubled(function: dict, start, times: int = 40):
    """The function of `a` on its own result, again and again."""
    return {"reduce": {"lambda": ["a", "x"], "expr": function}, "initial": start, "collection": list(range(times))}


def let(query) -> dict:
    return {"let": [{"b": {"repeat": "x" * 1000, "number": 4000}}], "in": query}


A, B = {"var": "a"}, {"var": "b"}
TIMES = {"map": {"lambda": "n", "expr": B}, "collection": RANGE}
LONGEST = {
    "repeat": {"repeat": "x" * MIB, "number": 1000},
    "space": {"space": 500_000_000},
    "map": {"map": {"lambda": "n", "expr": LONG}, "collection": RANGE},
    "foreach": {"foreach": {"lambda": "n", "expr": LONG}, "collection": RANGE},
    "filter": {"filter": {"lambda": "n", "expr": {"equals": [LONG, LONG]}}, "collection": RANGE},
    "one value many times": let(TIMES),
    "concat": let({"concat": TIMES}),
    "concat of doubles": doubled({"concat": [A, A]}, "x"),
    "append": doubled({"append": A, "collection": A}, [1]),
    "prepend": doubled({"prepend": A, "collection": A}, [1]),
    "union": doubled({"union": [A, {"map": {"lambda": "n", "expr": {"add": [{"var": "n"}, {"count": A}]}}, "collection": A}]}, [1]),
    "arrays of arrays": doubled([A, A], [1]),
    "objects of objects": doubled({"object": {"x": A, "y": A}}, 1),
    "merge": doubled({"merge": {"object": {"x": A}}, "with": {"object": {"y": A}}}, {"object": {}}),
    "to_array": doubled({"to_array": {"object": {"x": A, "y": A}}}, 1),
    "format": let({"format": "%s" * 1000, "values": TIMES}),
    "format widths": {"format": "%1000000d" * 1000, "values": RANGE},
    "ngram": let({"ngram": B, "min": 1, "max": 200}),
    "replacestr": let({"replacestr": B, "find": "x", "replace": "y" * 10_000}),
    "replacestrregex": let({"replacestrregex": B, "pattern": "x", "replace": "y" * 10_000}),
    "findstrregex": let({"findstrregex": B, "pattern": "x"}),
    "casefold": {"casefold": {"repeat": "\ufdfa" * 1000, "number": 4000}, "normalizer": "NFKD"},
    "uppercase": {"uppercase": {"repeat": "\u0390" * 1000, "number": 4000}},
    "regexescape": {"regexescape": {"repeat": "." * 1000, "number": 8000}},
    "to_string": {"map": {"lambda": "n", "expr": {"to_string": 1e300}}, "collection": list(range(100_000))},
    "select_all": let({"select_all": ["a"], "from": {"map": {"lambda": "n", "expr": {"object": {"a": B}}}, "collection": RANGE}}),
    "do": let({"do": [TIMES] * 100}),
    "reverse": let({"reverse": TIMES}),
    "distinct": let({"distinct": TIMES}),
    "take": let({"take": 1000, "collection": TIMES}),
    "documents": {"map": {"lambda": "x", "expr": {"get": {"var": "x"}}}, "collection": {"paginate": {"documents": {"collection": "large"}}, "size": 100_000}},
    "values of an index": {"paginate": {"match": {"index": "of_words"}}, "size": 100_000},
    "events": {"paginate": {"events": {"ref": {"collection": "large"}, "id": "1"}}, "size": 100_000},
    "a set of sets": {"paginate": {"union": [{"documents": {"collection": "large"}}] * 1000}, "size": 100_000},
    "a join": {"paginate": {"join": {"documents": {"collection": "large"}}, "with": {"lambda": "x", "expr": {"match": {"index": "of_words"}}}}, "size": 100_000},
    "to_array of a set": {"reduce": {"lambda": ["a", "x"], "expr": {"append": [{"get": {"var": "x"}}], "collection": A}}, "initial": [], "collection": {"documents": {"collection": "large"}}},
    "writes": {"map": {"lambda": "n", "expr": {"create": {"collection": "other"}, "params": {"object": {"data": {"object": {"v": LONG}}}}}}, "collection": RANGE},
    "definitions": {"map": {"lambda": "n", "expr": {"create_function": {"object": {"name": {"concat": ["f", {"to_string": {"var": "n"}}]}, "body": {"query": IDENTITY}, "data": {"object": {"v": LONG}}}}}}, "collection": RANGE},
}


# ---- Every argument of every function

OF_LARGE, OTHER = {"ref": {"collection": "large"}, "id": "1"}, {"ref": {"collection": "other"}, "id": "7"}
DOCUMENTS, NOW, T = {"documents": {"collection": "large"}}, {"time": "now"}, {"var": "t"}
# Each may name `t`, a text of 4 MB.
LARGE = {
    "a text": T,
    "texts": {"map": {"lambda": "m", "expr": T}, "collection": list(range(10))},
    "numbers": doubled({"append": A, "collection": A}, [1], 17),
    "pairs": doubled({"append": A, "collection": A}, [["x", 1]], 15),
    "refs": doubled({"append": A, "collection": A}, [OF_LARGE], 16),
    "arrays of arrays": doubled([A, A], [1], 18),
    "objects of objects": doubled({"object": {"x": A, "y": A}}, 1, 16),
    "many fields": {"to_object": {"map": {"lambda": "m", "expr": [{"to_string": {"var": "m"}}, 1]}, "collection": list(range(20_000))}},
    "long fields": {"to_object": {"map": {"lambda": "m", "expr": [{"to_string": {"var": "m"}}, T]}, "collection": [1, 2, 3]}},
    "sets": {"union": [DOCUMENTS] * 1000},
    "a page": {"map": {"lambda": "x", "expr": {"get": {"var": "x"}}}, "collection": {"paginate": DOCUMENTS, "size": 100_000}},
    "a document": {"get": OF_LARGE},
    "a ref": OF_LARGE,
    "a long ref": {"index": T},
    "a million": 1_000_000,
    "a lambda": {"query": {"lambda": "n", "expr": {"map": {"lambda": "k", "expr": {"var": "n"}}, "collection": RANGE}}},
}
# A small value of the type of each: a function that refuses it refuses the large one by its type.
SMALL = {
    "a text": "x", "texts": ["x"], "numbers": [1], "pairs": [["x", 1]], "refs": [OF_LARGE], "arrays of arrays": [[1]],
    **dict.fromkeys(["objects of objects", "many fields", "long fields"], {"object": {"x": 1}}), "sets": DOCUMENTS,
    "a page": {"paginate": DOCUMENTS, "size": 1}, "a document": {"get": OF_LARGE}, "a ref": OF_LARGE, "a long ref": {"index": "of_words"},
    "a million": 1, "a lambda": {"query": IDENTITY},
}  # fmt: skip


def each(names: str, usual) -> dict:
    return dict.fromkeys(names.split(), usual)


# What stands at a function's first key, by which it is known, while another of its arguments is large.
FIRST = {
    **each("let", [{"z": 1}]), **each("object", {"x": 1}), **each("if not and or", True), **each("do equals lt lte gt gte append prepend sum mean any all", [1]),
    **each("at to_micros to_millis to_seconds second minute hour day_of_month day_of_week day_of_year month year", NOW),
    **each("time_add time_subtract time_diff", NOW), **each("select select_all select_as_index contains_path contains", ["x"]),
    **each("abort contains_field concat casefold containsstr startswith endswith containsstrregex findstr findstrregex replacestr replacestrregex", "x"),
    **each("regexescape length lowercase uppercase titlecase ltrim rtrim trim ngram repeat substring time date to_string to_time to_date", "x"),
    **each("format", "%s"), **each("contains_value space epoch to_number to_integer to_double", 1), **each("call", "f"),
    **each("map foreach", IDENTITY), **each("filter", {"lambda": "x", "expr": True}), **each("reduce", {"lambda": ["a", "x"], "expr": A}),
    **each("take", 1000), **each("drop", 1), **each("is_empty is_nonempty count reverse distinct union intersection difference to_array", [1, 2]),
    **each("merge", {"object": {"x": 2}}), **each("to_object", [["x", 1]]),
    **each("get exists update replace delete singleton events login identify", OF_LARGE), **each("insert remove", OTHER),
    **each("first last paginate join range", DOCUMENTS), **each("match", {"index": "of_words"}), **each("documents create ref", {"collection": "large"}),
    **each("create_database create_collection create_class create_index create_function create_role create_key create_access_provider", {"object": {}}),
    **each("move_database database", "d"), **each("index collection class function role access_provider", "x"), **each("key_from_secret", "secret"),
    **each("logout", False), **each("identity current_identity has_identity has_current_identity current_token has_current_token", None),
    **each("databases indexes collections classes functions roles keys tokens credentials access_providers", None), **each("new_id next_id now", None),
    **each("add subtract multiply divide modulo bitand bitor bitxor max min", [1, 2]), **each("bitnot abs sign sqrt ceil floor round trunc", 1),
    **each("acos asin atan cos cosh degrees exp hypot ln log pow radians sin sinh tan tanh", 1),
    **each("is_number is_double is_integer is_boolean is_null is_bytes is_timestamp is_date is_uuid is_string is_array is_object is_ref is_set", 1),
    **each("is_doc is_lambda is_collection is_database is_index is_function is_key is_token is_credentials is_role", 1),
}  # fmt: skip
# The same for the keys that follow.
FOLLOWING = {
    "then": 1, "else": 1, "expr": 1, "in": {"object": {"x": 1}}, "from": {"object": {"x": 1}}, "default": 1, "all": True, "arguments": [1],
    "collection": [1, 2], "initial": [], "with": {"object": {"x": 1}}, "lambda": {"lambda": ["k", "l", "r"], "expr": {"var": "l"}},
    "ts": NOW, "size": 100_000, "events": True, "sources": True, "after": 1, "before": 1, "cursor": {"object": {}}, "terms": "x",
    "index": {"index": "of_words"}, "to": 1, "params": {"object": {}}, "action": "create", "password": "x", "id": "1", "scope": {"database": "d"},
    "separator": ",", "normalizer": "NFKD", "search": "x", "pattern": "x", "find": "x", "start": 0, "num_results": 1000, "replace": "y" * 100,
    "first": False, "min": 1, "max": 3, "number": 1000, "length": 10, "values": [1], "precision": 2, "b": 2, "exp": 2, "unit": "day", "offset": 1,
    "other": NOW,
}  # fmt: skip
OF_FUNCTION = {("join", "with"): {"lambda": "x", "expr": {"match": {"index": "of_words"}}}, ("let", "in"): {"var": "z"}}
# They make a result larger than without them; others that may be left out are given only when they are large.
GIVEN = ("size", "events", "sources", "number", "num_results", "min", "max", "separator", "arguments", "lambda", "terms")
# They take parts of the query, not values.
WRITTEN_IN_PLACE = ("var", "query", "quote")
TIMEOUT_MS = 1000
# The longest that a query of this limit or another client's request may take, in seconds. A debug build on a busy machine is slow.
SECONDS_MAX = 20.0
# The allocator of another machine may keep more; the kernel of the group counts more than a process's own bytes.
MARGIN = 24 * MIB


def functions() -> Iterator[list[tuple[str, bool]]]:
    """The keys of each function, and whether it needs them."""
    table = (ROOT / "docs" / "compat" / "fauna.md").read_text().split("<!-- functions -->\n")[1].split("<!-- end -->")[0]
    for row in table.splitlines()[2:]:
        keys = (key.strip() for key in row.split("|")[1].split(","))
        yield [(key.strip("`?"), not key.endswith("?")) for key in keys]


def usual_call(keys: list[tuple[str, bool]]) -> dict:
    first = keys[0][0]
    following = {key: OF_FUNCTION.get((first, key), FOLLOWING[key]) for key, is_needed in keys[1:] if is_needed or key in GIVEN}
    return {first: FIRST[first], **following}


def a_thousand_times(call: dict) -> dict:
    return {"map": {"lambda": "n", "expr": call}, "collection": RANGE}


def of_every_argument() -> Iterator[tuple[str, str, dict]]:
    """Each with the name of its large value."""
    for keys in functions():
        if keys[0][0] in WRITTEN_IN_PLACE:
            continue
        for name, _ in keys:
            call = usual_call(keys) | {name: B}
            for kind in LARGE:
                yield f"{kind} as {name} of {keys[0][0]}", kind, call
                yield f"{kind} as {name} of {keys[0][0]}, a thousand times", kind, a_thousand_times(call)


def of_every_function(server: Server) -> Iterator[tuple[str, str, dict]]:
    """Each function a thousand times with each large value, as the first of its arguments that takes the type."""
    for keys in functions():
        if keys[0][0] in WRITTEN_IN_PLACE:
            continue
        for kind in LARGE:
            calls = ((name, usual_call(keys) | {name: B}) for name, _ in keys)
            taken = next(((name, call) for name, call in calls if takes(server, call, kind)), None)
            if taken is not None:
                name, call = taken
                yield f"{kind} as {name} of {keys[0][0]}, a thousand times", kind, a_thousand_times(call)


def takes(server: Server, call: dict, kind: str) -> bool:
    """Whether a call with a small value of the kind as `b` has no argument of a wrong type."""
    status, answer = ask(server, {"let": [{"b": SMALL[kind]}], "in": call})
    return not (status == 400 and b'"invalid argument"' in answer and b" expected, " in answer)


def with_large(kind: str, query) -> dict:
    return {"let": [{"t": {"repeat": "x" * 1000, "number": 4000}}, {"b": LARGE[kind]}], "in": query}


def test_every_function_has_a_row():
    names, keys = {keys[0][0] for keys in functions()} - set(WRITTEN_IN_PLACE), {key for keys in functions() for key, _ in keys[1:]}
    assert names - FIRST.keys() == set(), "they need a usual argument"
    assert keys - FOLLOWING.keys() == set(), "they need a usual value"
    assert FIRST.keys() - names == set() and FOLLOWING.keys() - keys == set(), "no function has them"


def test_every_function_may_get_large_arguments(server):
    is_whole = os.environ.get("QUARTET_TEST_WHOLE_TABLE") == "1"
    queries, asked = of_every_argument() if is_whole else of_every_function(server), 0
    at_rest = server.anonymous_bytes()
    for kind in LARGE:
        assert ask(server, with_large(kind, 1)) == (200, b'{"resource":1}'), f"{kind}: no function gets it"
    with Watch(server) as watch:
        for name, kind, query in queries:
            began = time.monotonic()
            is_answered(server, watch, with_large(kind, query), name, TIMEOUT_MS)
            assert watch.most < GROUP - MARGIN, (name, watch.most >> 20)
            assert time.monotonic() - began < SECONDS_MAX, name
            asked += 1
        assert asked > (5000 if is_whole else 500) and watch.served > 100
    assert watch.longest_seconds < SECONDS_MAX
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def fill(server: Server) -> None:
    """Some 30 MB."""
    for query in [
        {"create_collection": {"object": {"name": "large", "history_days": 30}}},
        {"create_collection": {"object": {"name": "other"}}},
        {"create_index": {"object": {"name": "of_words", "source": {"collection": "large"}, "values": {"object": {"field": ["data", "w"]}}, "active": True}}},
    ]:
        status, answer = ask(server, query)
        assert status == 201, answer
    words = [{"repeat": f"{number}" + "w" * 96, "number": 100} for number in range(40)]
    for number in range(1, 31):
        data = {"object": {"data": {"object": {"v": {"repeat": "x" * 1000, "number": 500}, "w": words[number]}}}}
        status, answer = ask(server, {"create": {"ref": {"collection": "large"}, "id": str(number)}, "params": data})
        assert status == 201, answer
    for number in range(20):
        status, answer = ask(server, {"update": {"ref": {"collection": "large"}, "id": "1"}, "params": {"object": {"data": {"object": {"n": number}}}}})
        assert status == 200, answer


def test_the_largest_queries_fit_or_are_refused(server):
    at_rest = server.anonymous_bytes()
    with Watch(server) as watch:
        for name, query in LONGEST.items():
            is_answered(server, watch, query, name)
        assert watch.served > 100
    until(lambda: server.anonymous_bytes() < at_rest + KEPT)


def test_streams_that_nobody_reads_fit():
    """Each of 200 streams follows a document of 500 KB with all of its fields, and never reads an event."""
    with bounded_server() as server:
        fill(server)
        at_rest = server.anonymous_bytes()
        body = json.dumps({"ref": {"collection": "large"}, "id": "1"})
        head = f"POST /stream?fields=diff,prev,document,action HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nX-FaunaDB-API-Version: 4\r\nContent-Length: {len(body)}\r\n\r\n"
        followers = []
        for _ in range(200):
            follower = socket.socket()
            follower.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            follower.connect(("127.0.0.1", server.fauna_port))
            follower.sendall((head + body).encode())
            followers.append(follower)
        with Watch(server) as watch:
            for number in range(30):
                status, answer = ask(server, {"update": {"ref": {"collection": "large"}, "id": "1"}, "params": {"object": {"data": {"object": {"n": number + 100}}}}})
                assert status in (200, 503), answer
                assert server.alive() and watch.most < GROUP, (number, watch.most >> 20)
            assert watch.served > 10
        [follower.close() for follower in followers]
        until(lambda: server.anonymous_bytes() < at_rest + KEPT)


GET, GET_RANGE, READ_VERSION, COMMIT, HELLO = 5, 7, 2, 8, 1


class Wire:
    """The key-value protocol as bytes; `docs/keyvalue-protocol.md` draws it."""

    def __init__(self, server: Server):
        self.socket = socket.create_connection(("127.0.0.1", server.keyvalue_port), 60)
        self.socket.sendall(b"QuartKV1" + self.frame(0, HELLO, struct.pack("<H", 1) + bytes(16) + b"dev"))
        self.number = 1
        self.reply()

    def frame(self, number: int, code: int, body: bytes) -> bytes:
        return struct.pack("<IIB", 5 + len(body), number, code) + body

    def send(self, code: int, body: bytes = b"") -> None:
        self.number += 1
        self.socket.sendall(self.frame(self.number, code, body))

    def reply(self) -> tuple[int, bytes]:
        length, _, error = struct.unpack("<IIB", self.received(9))
        return error, self.received(length - 5)

    def received(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self.socket.recv(min(count - len(received), 1 << 20))
            if not piece:
                raise ConnectionError("ended")
            received += piece
        return bytes(received)

    def ask(self, code: int, body: bytes = b"") -> tuple[int, bytes]:
        self.send(code, body)
        return self.reply()

    def set(self, pairs: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
        sized = lambda content: struct.pack("<I", len(content)) + content  # noqa: E731
        written = b"".join(b"\0" + sized(key) + sized(value) for key, value in pairs)
        return self.ask(COMMIT, struct.pack("<QBB", 0, 0, 0) + sized(b"") + sized(b"") + written)


def key(number: int) -> bytes:
    return b"k%08d" % number


def test_ranges_and_commits_of_the_key_value_protocol_fit():
    """What is asked for on 24 connections without a look at the replies, and commits as long as they may be."""
    with bounded_server() as server:
        wire = Wire(server)
        for start in range(0, 300, 50):
            assert wire.set([(key(number), b"v" * 90_000) for number in range(start, start + 50)])[0] == 0
        version = struct.unpack("<Q", wire.ask(READ_VERSION)[1])[0]
        at_rest = server.anonymous_bytes()
        selector = lambda at: struct.pack("<Bi", 0, 1) + struct.pack("<I", len(at)) + at  # noqa: E731
        whole = struct.pack("<QIIBB", version, 0, 0, 0, 0) + selector(b"k") + selector(b"l")
        with Watch(server) as watch:
            asking = [Wire(server) for _ in range(24)]

            def ask_all(other: Wire) -> None:
                try:
                    for number in range(100):
                        other.send(GET_RANGE, whole)
                        other.send(GET, struct.pack("<QB", version, 0) + key(number))
                except (ConnectionError, TimeoutError, socket.timeout):
                    pass

            askers = [threading.Thread(target=ask_all, args=(other,)) for other in asking]
            [asker.start() for asker in askers]
            [asker.join(20) for asker in askers]
            assert server.alive() and watch.most < GROUP, watch.most >> 20
            [other.socket.close() for other in asking]
            [asker.join() for asker in askers]
            refused = 0
            for number in range(3):
                try:
                    error, _ = Wire(server).set([(key(1000 + pair), b"w" * 90_000) for pair in range(400 * (number + 1))])
                    refused += error != 0
                except (ConnectionError, TimeoutError):
                    refused += 1
                assert server.alive() and watch.most < GROUP, watch.most >> 20
            assert refused > 0, "120 MB are more than there is"
            wire = Wire(server)
            version = struct.unpack("<Q", wire.ask(READ_VERSION)[1])[0]
            error, rows = wire.ask(GET_RANGE, struct.pack("<QIIBB", version, 0, 0, 0, 0) + selector(b"k") + selector(b"l"))
            assert error == 0 and len(rows) > 500_000
            assert watch.served > 10
        until(lambda: server.anonymous_bytes() < at_rest + KEPT + 40 * MIB)


def repeated(write: str, length: int = 4 * MIB - 100) -> bytes:
    return b'{"write":[' + b",".join([write.encode()] * (length // (len(write) + 1))) + b"]}"


LONGEST_OF_CONSOLE = {
    "clears of nothing": repeated('{"clear":""}'),
    "clears": repeated('{"clear":"YQ=="}'),
    "clears of ranges": repeated('{"clear_range":["YQ==","Yg=="]}'),
    "small rows": repeated('{"set":["YQ==",""]}'),
    "long values": repeated(f'{{"set":["YQ==","{"A" * 120_000}"]}}'),
    "one value": repeated(f'{{"set":["YQ==","{"A" * (4 * MIB - 300)}"]}}'),
    "lists": b'{"write":' + b"[" * (4 * MIB - 100),
    "other fields": b'{"read":{"begin":"","end":"","rows":1,"other":[' + b"1," * (2 * MIB - 100) + b"1]}}",
    "a long key": b'{"read":{"begin":"' + b"A" * (4 * MIB - 100) + b'","end":"","rows":1}}',
    "a page of rows": b'{"read":{"begin":"aw==","end":"bA==","rows":1000000}}',
}


def test_the_longest_requests_of_the_console_to_the_key_value_layer_fit():
    """The values of a body of 4 MB took ten times its length and were not counted: 24 sessions together, as long as their bodies may be."""
    with bounded_server() as server:
        wire = Wire(server)
        for start in range(0, 100, 50):
            assert wire.set([(key(number), b"v" * 90_000) for number in range(start, start + 50)])[0] == 0
        at_rest = server.anonymous_bytes()
        statuses: dict[str, set[int]] = {name: set() for name in LONGEST_OF_CONSOLE}

        def ask_all() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=600)
            connection.request("POST", "/console/api/login", b'{"credential":""}')
            opened = connection.getresponse()
            headers = {"cookie": opened.headers["set-cookie"].split(";")[0], "x-quartet-proof": json.loads(opened.read())["proof"]}
            for name, body in LONGEST_OF_CONSOLE.items():
                connection.request("POST", "/console/api/keyvalue/default/", body, headers)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == 200 or len(text) < ERROR_BYTES_MAX and b'"error"' in text, (name, answer.status, text[:300])
                statuses[name].add(answer.status)
            connection.close()

        with Watch(server) as watch, ThreadPoolExecutor(24) as sessions:
            for session in [sessions.submit(ask_all) for _ in range(24)]:
                session.result()
            assert server.alive() and watch.most < GROUP, watch.most >> 20
            assert watch.served > 10 and watch.thread.is_alive()
        assert statuses["clears of nothing"] == {503}, statuses
        assert 200 in statuses["a page of rows"] and statuses["lists"] <= {400, 503}, statuses
        until(lambda: server.anonymous_bytes() < at_rest + KEPT)
