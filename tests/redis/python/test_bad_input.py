"""Input nobody should send. The rule: that connection may be closed, the others never notice.

The cases follow published faults of RESP servers (announced sizes, output which
nobody reads, parser state after an empty request, extreme integers, requests
of another protocol).
"""

import random
import socket
import threading
import time

import pytest

from harness.resp import Closed, Connection, encode
from harness.server import Server

MIB = 1 << 20


@pytest.fixture
def wire(server):
    """A plain socket."""
    opened = []

    def dial() -> socket.socket:
        one = socket.create_connection(("127.0.0.1", server.port), 60)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.append(one)
        return one

    yield dial
    for one in opened:
        one.close()


@pytest.fixture(autouse=True)
def others_unharmed(server):
    """A connection opened before the bad input works after it, and so does a new one."""
    with Connection(server.port) as bystander:
        bystander.do("SET", "bystander", "here")
        yield
        assert bystander.do("GET", "bystander") == "here"
        with Connection(server.port) as late:
            assert late.do("PING") == "PONG"


def read_to_close(one: socket.socket, seconds: float = 60) -> bytes:
    one.settimeout(seconds)
    data = b""
    try:
        while piece := one.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize(
    "sent, answer",
    [
        (b"*1048577\r\n", None),
        (b"*2147483647\r\n", None),
        (b"*2147483648\r\n", b"invalid multibulk length"),
        (b"*9223372036854775807\r\n", b"invalid multibulk length"),
        (b"*9223372036854775808\r\n", b"invalid multibulk length"),
        (b"*99999999999999999999999999\r\n", b"invalid multibulk length"),
        (b"*x\r\n", b"invalid multibulk length"),
        (b"*\r\n", b"invalid multibulk length"),
        (b"* 1\r\n", b"invalid multibulk length"),
        (b"*1 \r\n", b"invalid multibulk length"),
        (b"*+1\r\n", b"invalid multibulk length"),
        (b"*01\r\n", b"invalid multibulk length"),
        (b"*1.0\r\n", b"invalid multibulk length"),
        (b"*1\r\n$-1\r\n", b"invalid bulk length"),
        (b"*1\r\n$-2\r\n", b"invalid bulk length"),
        (b"*1\r\n$x\r\n", b"invalid bulk length"),
        (b"*1\r\n$\r\n", b"invalid bulk length"),
        (b"*1\r\n$ 4\r\n", b"invalid bulk length"),
        (b"*1\r\n$4 \r\n", b"invalid bulk length"),
        (b"*1\r\n$+4\r\n", b"invalid bulk length"),
        (b"*1\r\n$04\r\n", b"invalid bulk length"),
        (b"*1\r\n$0512\r\n", b"invalid bulk length"),
        (b"*1\r\n$2147483648\r\n", b"invalid bulk length"),
        (b"*1\r\n$9223372036854775807\r\n", b"invalid bulk length"),
        (b"*1\r\n$9223372036854775808\r\n", b"invalid bulk length"),
        (b"*1\r\n$-9223372036854775808\r\n", b"invalid bulk length"),
        (b"*1\r\n+PING\r\n", b"expected '$', got '+'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", b"expected '$', got '*'"),
        (b"*1\r\n:4\r\n", b"expected '$', got ':'"),
        (b"*" + b"1" * 70000, b"too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 70000, b"too big bulk count string"),
        (b'SET "unbalanced\r\n', b"unbalanced quotes in request"),
        (b"SET 'a'b c\r\n", b"unbalanced quotes in request"),
        (b"A" * 70000, b"too big inline request"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_protocol_errors_close_after_one_answer(wire, server, sent, answer):
    """Redis accepts counts up to 2^31-1; a smaller bound is as good when it is said."""
    before = server.rss_bytes()
    one = wire()
    try:
        one.sendall(sent)
        if answer is None:
            one.sendall(b"$1\r\na\r\n")
            time.sleep(0.02)
        else:
            data = read_to_close(one)
            if data:  # A reset may overtake the answer when input was left unread.
                assert data == b"-ERR Protocol error: " + answer + b"\r\n"
    except (ConnectionResetError, BrokenPipeError):
        pass
    # Other work of the server may take some for a while.
    deadline = time.monotonic() + 60
    while (grown := server.rss_bytes() - before) >= 16 * MIB:
        assert time.monotonic() < deadline, f"{grown // MIB} MiB for one connection"
        time.sleep(0.01)


def test_announced_sizes_reserve_nothing(wire, server):
    wire().sendall(b"*1\r\n")
    before = server.rss_bytes()
    for _ in range(50):
        wire().sendall(b"*2\r\n$3\r\nGET\r\n$536870912\r\nx")
        wire().sendall(b"*1048576\r\n$4\r\nMGET\r\n")
    time.sleep(0.2)
    with Connection(server.port) as other:
        assert other.do("PING") == "PONG"
    grown = server.rss_bytes() - before
    assert grown < 100 * MIB, f"{grown // MIB} MiB for 100 connections"


def stream() -> tuple[bytes, list[bytes]]:
    """A valid stream of every request form, and its parts."""
    parts = [
        encode("SET", "k", "a\r\nb"),
        b"*0\r\n",
        b"*-1\r\n",
        b"\r\n",
        b"PING\r\n",
        encode("GET", "k"),
        b"ECHO 'in line'\n",
        encode("RPUSH", "l", "", "$3", "*1\r\n$4\r\nPING\r\n"),
        encode("LRANGE", "l", 0, -1),
        encode("NOSUCH", "x"),
        encode("MULTI"),
        encode("INCR", "n"),
        encode("EXEC"),
        encode("DEL", "k", "l", "n"),
    ]
    return b"".join(parts), parts


EXPECTED = (
    b"+OK\r\n+PONG\r\n$4\r\na\r\nb\r\n$7\r\nin line\r\n:3\r\n*3\r\n$0\r\n\r\n$2\r\n$3\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n"
    b"-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n:3\r\n"
)


def read_exactly(one: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = one.recv(65536)
        assert piece, f"closed after {data!r}"
        data += piece
    return data


def test_a_valid_stream_split_at_every_byte(wire):
    whole, _ = stream()
    for at in range(1, len(whole)):
        one = wire()
        one.sendall(whole[:at])
        time.sleep(0.0005)
        one.sendall(whole[at:])
        assert read_exactly(one, len(EXPECTED)) == EXPECTED, f"split at {at}"
        one.close()


def test_a_valid_stream_byte_by_byte(wire):
    whole, _ = stream()
    one = wire()
    for at in range(len(whole)):
        one.sendall(whole[at : at + 1])
        time.sleep(0.0003)
    assert read_exactly(one, len(EXPECTED)) == EXPECTED


@pytest.mark.parametrize("seed", range(10))
def test_a_valid_stream_in_random_pieces(wire, seed):
    chance = random.Random(seed)
    whole, _ = stream()
    whole *= 20
    one, at = wire(), 0
    while at < len(whole):
        size = chance.choice([1, 2, 3, 7, 50, 4096])
        one.sendall(whole[at : at + size])
        at += size
    assert read_exactly(one, len(EXPECTED) * 20) == EXPECTED * 20


def test_closing_at_every_byte(wire, server):
    whole, _ = stream()
    for at in range(1, len(whole)):
        one = wire()
        one.sendall(whole[:at])
        one.close()


@pytest.mark.parametrize("empty", [b"*0\r\n", b"*-1\r\n", b"\r\n", b"\n", b"   \r\n", b"*-10\r\n"], ids=repr)
def test_empty_requests_are_ignored(wire, empty):
    one = wire()
    one.sendall(empty * 1000 + encode("PING") + empty + b"PING\r\n" + empty)
    assert read_exactly(one, 14) == b"+PONG\r\n+PONG\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 24\r\n\r\nSET smuggled 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\n\r\nSET smuggled 1\r\n",
        b"post / HTTP/1.1\r\nx: y\r\n\r\nSET smuggled 1\r\n",
        b"x\r\nhOsT: evil\r\nSET smuggled 1\r\n",
    ],
    ids=["POST", "GET", "lower", "Host"],
)
def test_http_on_the_resp_port_closes(wire, server, sent):
    one = wire()
    one.sendall(sent)
    read_to_close(one)
    with Connection(server.port) as other:
        assert other.do("EXISTS", "smuggled") == 0


def test_tls_hello_on_the_resp_port(wire):
    one = wire()
    one.sendall(bytes.fromhex("16030100c8010000c40303") + bytes(range(190)) + b"\r\n")
    one.settimeout(1)
    try:
        one.recv(1000)
    except (TimeoutError, ConnectionResetError):
        pass


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(wire, seed):
    chance = random.Random(seed)
    one = wire()
    try:
        for _ in range(50):
            kind = chance.randrange(4)
            if kind == 0:
                piece = chance.randbytes(chance.randrange(1, 200))
            elif kind == 1:
                piece = bytes(chance.choice(b"*$+-:\r\n 0123456789ab\"'\\") for _ in range(chance.randrange(1, 80)))
            elif kind == 2:
                piece = bytearray(encode("SET", "random", "value"))
                piece[chance.randrange(len(piece))] = chance.randrange(256)
            else:
                piece = encode(*[chance.randbytes(chance.randrange(12)) for _ in range(chance.randrange(1, 5))])
            one.sendall(piece)
    except (ConnectionResetError, BrokenPipeError):
        pass


def test_a_million_commands_without_reading():
    """A server of its own: replies of 1 KiB each would be a gigabyte. It may close the connection."""
    server = Server().start()
    try:
        with Connection(server.port) as bystander:
            bystander.do("CONFIG", "SET", "client-output-buffer-limit", "normal 67108864 0 0")
            bystander.do("SET", "big", "x" * 1024)
            before = peak = server.rss_bytes()
            flood = socket.create_connection(("127.0.0.1", server.port), 3)
            block = encode("GET", "big") * 1000
            for _ in range(1000):
                try:
                    flood.sendall(block)
                except (TimeoutError, ConnectionResetError, BrokenPipeError):
                    break  # The server stopped reading, or closed: both bound its memory.
                assert bystander.do("PING") == "PONG", "another client waits"
                peak = max(peak, server.rss_bytes())
            time.sleep(0.1)
            peak = max(peak, server.rss_bytes())
            flood.close()
            assert peak - before < 400 * MIB, f"{(peak - before) // MIB} MiB held for one reader who does not read"
            assert bystander.do("GET", "big") == "x" * 1024
    finally:
        server.close()


def test_ten_thousand_commands_before_the_first_read(wire):
    """What benchmarks and task queues do is no abuse: never refused, never a deadlock."""
    one = wire()
    sender = threading.Thread(target=one.sendall, args=(encode("ECHO", "x" * 100) * 10_000,))
    sender.start()
    time.sleep(0.1)
    reply = b"$100\r\n" + b"x" * 100 + b"\r\n"
    assert read_exactly(one, len(reply) * 10_000) == reply * 10_000
    sender.join()


def test_many_arguments(server):
    with Connection(server.port, timeout_seconds=60) as one:
        assert one.do("DEL", *["k"] * 200_000) == 0
        assert one.do("RPUSH", "l", *range(200_000)) == 200_000
        assert one.do("LLEN", "l") == 200_000


def test_a_large_transaction(server):
    with Connection(server.port, timeout_seconds=60) as one:
        replies = one.pipeline(["MULTI"], *[["INCR", "n"]] * 20_000, ["EXEC"])
        assert replies[-1] == list(range(1, 20_001))


def test_long_and_odd_command_names(server):
    with Connection(server.port) as one:
        assert one.do("A" * 100_000).startswith("ERR unknown command 'AAAA")
        for name in ("", "\x00", "get\x00", "\r\n", "config|get", "client|kill", "%s%n", "GET ", "é" * 50):
            reply = one.do(name)
            assert reply.startswith("ERR unknown command") and "\n" not in reply and "\r" not in reply


EXTREMES = ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "-1", "0", "18446744073709551616", "1e308", "nan", "-inf", ""]
# They end the server or the session by design, wait on purpose, or change who else may be heard.
LEFT_OUT = {
    "shutdown", "quit", "debug", "monitor", "subscribe", "psubscribe", "ssubscribe", "sync", "psync", "replicaof", "slaveof",
    "failover", "cluster", "module", "config", "client", "acl", "bgsave", "save", "bgrewriteaof", "flushall", "flushdb",
    "swapdb", "replconf", "reset", "hello", "auth", "restore-asking", "pfselftest", "pfdebug",
}  # fmt: skip
BLOCKING = {"blpop", "brpop", "brpoplpush", "blmove", "blmpop", "bzpopmin", "bzpopmax", "bzmpop", "xread", "xreadgroup", "wait", "waitaof"}


def extreme_requests(table: list) -> list[list[str]]:
    """For each command: every argument position beyond the key in turn extreme, over keys of each type."""
    chance, requests = random.Random(1), []
    for entry in table:
        name, arity, first = entry[0], entry[1], entry[3]
        if name.split("|")[0] in LEFT_OUT or name in BLOCKING:
            continue
        needed = max(abs(arity) - 1, 1)
        for length in {needed, *([needed + 1, needed + 2, needed + 3] if arity < 0 else [])}:
            for position in range(length):
                for extreme in EXTREMES:
                    arguments = [chance.choice(["1", "a", "string", "0"]) for _ in range(length)]
                    if 0 < first <= length:
                        arguments[first - 1] = chance.choice(["string", "list", "hash", "set", "zset", "none"])
                    arguments[position] = extreme
                    requests.append([name, *arguments])
    return requests


FAMILIES = [
    ["SETRANGE", "string", None, "x"], ["GETRANGE", "string", None, None], ["SETBIT", "string", None, "1"], ["GETBIT", "string", None],
    ["BITFIELD", "string", "SET", "i64", None, None], ["BITFIELD", "string", "INCRBY", "u8", None, None], ["BITCOUNT", "string", None, None],
    ["BITPOS", "string", "1", None, None, "BIT"], ["SET", "none", "v", "EX", None], ["SET", "none", "v", "PXAT", None], ["GETEX", "string", "PX", None],
    ["EXPIRE", "string", None, "GT"], ["PEXPIRE", "none", None], ["LRANGE", "list", None, None], ["LPOP", "list", None], ["LINDEX", "list", None],
    ["LTRIM", "none", None, None], ["LREM", "list", None, "zz"], ["LPOS", "list", "a", "RANK", None], ["LPOS", "list", "a", "COUNT", None],
    ["LPOS", "list", "a", "MAXLEN", None], ["LMPOP", None, "none", "LEFT"], ["LMPOP", "1", "none", "LEFT", "COUNT", None], ["SPOP", "none", None],
    ["SRANDMEMBER", "none", None], ["HRANDFIELD", "none", None, "WITHVALUES"], ["ZRANDMEMBER", "none", None, "WITHSCORES"], ["SINTERCARD", None, "set"],
    ["SINTERCARD", "1", "set", "LIMIT", None], ["ZRANGE", "zset", None, None], ["ZRANGE", "zset", "-inf", "+inf", "BYSCORE", "LIMIT", None, None],
    ["ZRANGEBYSCORE", "zset", None, None], ["ZADD", "zset", "INCR", None, "m"], ["ZINCRBY", "zset", None, "m"], ["ZPOPMIN", "none", None],
    ["ZUNION", None, "zset"], ["ZUNION", "1", "zset", "WEIGHTS", None, "WITHSCORES"], ["ZMPOP", None, "zset", "MIN"], ["HINCRBY", "hash", "n", None],
    ["HINCRBYFLOAT", "hash", "n", None], ["INCRBYFLOAT", "number", None], ["INCRBY", "number", None], ["DECRBY", "number", None],
    ["SORT", "list", "ALPHA", "LIMIT", None, None], ["SCAN", None], ["SCAN", "0", "COUNT", None], ["HSCAN", "hash", None, "COUNT", None],
    ["SELECT", None], ["MOVE", "none", None], ["COPY", "none", "x", "DB", None], ["RESTORE", "none", None, "x"], ["OBJECT", "FREQ", None],
    ["LCS", "string", "number", "IDX", "MINMATCHLEN", None], ["SLOWLOG", "GET", None], ["COMMAND", "GETKEYS", "ZUNIONSTORE", "d", None, "k"],
    ["COMMAND", "GETKEYS", "LMPOP", None, "k", "LEFT"], ["COMMAND", "GETKEYS", "EVAL", "x", None, "k"], ["CLIENT", "UNBLOCK", None],
    ["CLIENT", "KILL", "ID", None], ["BLPOP", "list", None], ["BLMPOP", "1", None, "list", "LEFT"], ["HEXPIRE", "hash", None, "FIELDS", "1", "n"],
    ["HEXPIRE", "hash", "10", "FIELDS", None, "n"], ["HTTL", "hash", "FIELDS", None, "n"], ["HGETDEL", "hash", "FIELDS", None, "n"],
]  # fmt: skip


def sample_keys(one: Connection) -> None:
    one.pipeline(
        ["FLUSHALL"], ["SELECT", 0], ["SET", "bystander", "here"], ["SET", "string", "value"], ["SET", "number", "7"], ["RPUSH", "list", "a", "b", "c"],
        ["HSET", "hash", "n", "1", "a", "x"], ["SADD", "set", "1", "2"], ["ZADD", "zset", "1", "m", "2", "a"],
    )  # fmt: skip


def reply_or_reconnect(server, one: Connection, request: list[str]) -> Connection:
    """Any reply will do; so will a closed connection. A server which ended, or answers nobody, will not."""
    try:
        one.do(*request)
        return one
    except Closed:
        assert server.alive(), f"the server ended on {request}"
        return Connection(server.port)
    except TimeoutError:
        raise AssertionError(f"no reply to {request}") from None


@pytest.mark.slow
def test_extreme_integers_in_every_command(server):
    with Connection(server.port) as admin:
        requests = extreme_requests(admin.do("COMMAND"))
    assert len(requests) > 5000
    one = Connection(server.port)
    sample_keys(one)
    for number, request in enumerate(requests):
        one = reply_or_reconnect(server, one, request)
        if number % 500 == 0:
            one = reply_or_reconnect(server, one, ["DISCARD"])
            sample_keys(one)
    one.close()
    with Connection(server.port) as admin:
        sample_keys(admin)


def test_extreme_integers_where_an_integer_belongs(server):
    one = Connection(server.port)
    for request in FAMILIES:
        holes = [at for at, part in enumerate(request) if part is None]
        for first in EXTREMES:
            for second in EXTREMES if len(holes) > 1 else [first]:
                sample_keys(one)
                filled = list(request)
                filled[holes[0]] = first
                for hole in holes[1:]:
                    filled[hole] = second
                if filled[0] == "BLPOP" and first == "0":
                    continue
                one = reply_or_reconnect(server, one, filled)
    sample_keys(one)
    one.close()


def test_duplicate_keys_and_aliases(server):
    with Connection(server.port) as one:
        assert one.do("MSETNX", "d", 1, "d", 2) == 1
        assert one.do("SUNIONSTORE", "s", "s", "s") == 0
        one.do("SADD", "s", 1)
        assert one.do("SINTERSTORE", "s", "s", "s") == 1
        assert one.do("SDIFFSTORE", "s", "s", "s") == 0 and one.do("EXISTS", "s") == 0
        one.do("RPUSH", "l", 1, 2)
        assert one.do("LMOVE", "l", "l", "LEFT", "LEFT") == "1"
        assert one.do("BLPOP", "l", "l", "l", 1) == ["l", "1"]
        one.do("ZADD", "z", 1, "a")
        assert one.do("ZUNIONSTORE", "z", 3, "z", "z", "z") == 1 and one.do("ZSCORE", "z", "a") == "3"
        one.do("PFADD", "h", 1)
        assert one.do("PFMERGE", "h", "h", "h") == "OK" and one.do("PFCOUNT", "h", "h") == 1
        assert one.do("DEL", "d", "d", "d") == 1


def test_malformed_restore_payloads(server):
    chance = random.Random(5)
    with Connection(server.port) as one:
        one.do("RPUSH", "l", *range(50))
        payload = one.do("DUMP", "l").encode("utf-8", "surrogateescape")
        for _ in range(300):
            broken = bytearray(payload)
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            reply = one.do("RESTORE", "x", 0, bytes(broken))
            assert reply.startswith("ERR "), f"a damaged payload was accepted: {reply!r}"
        for length in range(len(payload)):
            assert one.do("RESTORE", "x", 0, payload[:length]).startswith("ERR ")


def test_malformed_hyperloglogs(server):
    chance = random.Random(6)
    with Connection(server.port) as one:
        one.do("PFADD", "h", *range(100))
        body = one.do("GET", "h").encode("utf-8", "surrogateescape")
        for _ in range(500):
            broken = bytearray(body)
            for _ in range(chance.randrange(1, 4)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            one.do("SET", "b", bytes(broken[: chance.choice([len(broken), chance.randrange(len(broken))])]))
            one.pipeline(["PFCOUNT", "b"], ["PFADD", "b", "x"], ["PFMERGE", "d", "b", "h"], ["DEL", "d"])


def test_blocked_clients_leave_in_every_way(server):
    """Kills, disconnects, unblocks, transactions and pushes: each element is delivered or kept, once."""
    chance, found, pushed = random.Random(3), [], 0
    with Connection(server.port) as one:
        for _ in range(60):
            waiting = [Connection(server.port) for _ in range(6)]
            ids = [each.do("CLIENT", "ID") for each in waiting]
            for each in waiting:
                each.send("BLPOP", "q", 0)
            while "blocked_clients:6\r" not in one.do("INFO", "clients"):
                pass
            # Whoever leaves does so before the pushes, so that nobody may be served and then lost.
            one.do("CLIENT", "KILL", "ID", ids[chance.randrange(3)])
            one.do("CLIENT", "UNBLOCK", ids[chance.randrange(3)], chance.choice(["TIMEOUT", "ERROR"]))
            for _ in range(chance.randrange(8)):
                if chance.randrange(2):
                    one.pipeline(["MULTI"], ["LPUSH", "q", "gone"], ["LPOP", "q"], ["RPUSH", "q", pushed], ["EXEC"])
                else:
                    one.do("RPUSH", "q", pushed)
                pushed += 1
            for ident in ids:
                one.do("CLIENT", "UNBLOCK", ident)
            for each in waiting:
                try:
                    reply = each.read()
                    found += reply[1:] if type(reply) is list else []
                except Closed:
                    pass
                each.close()
            found += one.do("LRANGE", "q", 0, -1)
            one.do("DEL", "q")
    assert sorted(found, key=int) == [str(number) for number in range(pushed)]
