"""redis-py as applications use it, and the commands by which a server is watched."""

import socket
import threading
import time

import pytest
import redis

from harness.resp import Connection
from harness.target import OVER_A_CLUSTER


def test_handshake_and_ping(r):
    assert r.ping() is True
    assert r.client_id() > 0


def test_hello_describes_the_server(raw, protocol):
    reply = raw.do("HELLO", protocol)
    fields = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))
    assert fields["server"] == "redis" and fields["proto"] == protocol
    assert fields["mode"] == "standalone" and fields["role"] == "master" and "ReJSON" in str(fields["modules"])
    assert isinstance(fields["id"], int)
    assert list(fields) == ["server", "version", "proto", "id", "mode", "role", "modules"]


def test_hello_switches_both_ways(connect):
    connection = connect(protocol=2)
    connection.do("HSET", "h", "a", 1)
    assert connection.do("HGETALL", "h") == ["a", "1"]
    assert isinstance(connection.do("HELLO", 3, "SETNAME", "me"), dict)
    assert connection.do("HGETALL", "h") == {"a": "1"}
    assert connection.do("CLIENT", "GETNAME") == "me"
    assert isinstance(connection.do("HELLO", 2), list)
    assert connection.do("HGETALL", "h") == ["a", "1"]


def test_reset_forgets_everything(connect):
    connection = connect(protocol=3)
    connection.do("CLIENT", "SETNAME", "me")
    connection.pipeline(["SELECT", 3], ["WATCH", "k"], ["MULTI"])
    assert connection.do("RESET") == "RESET"
    assert connection.do("CLIENT", "GETNAME") is None
    assert connection.do("EXEC") == "ERR EXEC without MULTI"
    connection.do("HSET", "h", "a", 1)
    assert connection.do("HGETALL", "h") == ["a", "1"], "RESET returns to RESP2"
    assert "db=0" in connection.do("CLIENT", "INFO")


def test_quit_closes(raw):
    assert raw.do("QUIT") == "OK"
    assert raw.read_to_close() == b""


def test_pipeline_keeps_order(r):
    with r.pipeline(transaction=False) as pipe:
        for number in range(2000):
            pipe.incr("n") if number % 2 else pipe.echo(str(number))
        replies = pipe.execute()
    assert replies[::2] == [str(number) for number in range(0, 2000, 2)]
    assert replies[1::2] == list(range(1, 1001))


def test_pipeline_goes_on_after_an_error(r):
    r.set("s", "v")
    with r.pipeline(transaction=False) as pipe:
        pipe.set("a", 1).lpush("s", 1).get("a")
        replies = pipe.execute(raise_on_error=False)
    assert replies[0] is True and replies[2] == "1"
    assert isinstance(replies[1], redis.ResponseError) and str(replies[1]).startswith("WRONGTYPE")


def test_transaction_function_retries(r):
    r.set("n", 0)
    tries = []

    def add(pipe):
        value = int(pipe.get("n"))
        if not tries:
            r.incr("n")
        tries.append(value)
        pipe.multi()
        pipe.set("n", value + 10)

    assert r.transaction(add, "n") == [True]
    assert r.get("n") == "11" and tries == [0, 1]


def test_watched_counter_loses_no_update(server, protocol):
    def work():
        client = redis.Redis(port=server.port, protocol=protocol)
        for _ in range(25):
            client.transaction(lambda pipe: (lambda value: (pipe.multi(), pipe.set("n", value + 1)))(int(pipe.get("n") or 0)), "n")
        client.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Connection(server.port) as connection:
        assert connection.do("GET", "n") == "100"


def test_watched_key_which_expires_aborts(connect, raw):
    # In one go, and for a second, so that the key is there when it is watched.
    raw.pipeline(["SET", "k", "v", "PX", 1000], ["WATCH", "k"])
    other, deadline = connect(), time.monotonic() + 60
    while other.do("GET", "k") is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    raw.do("MULTI")
    raw.do("PING")
    assert not isinstance(raw.do("EXEC"), list)


def test_a_key_already_expired_when_watched_does_not_abort(raw):
    raw.do("SET", "k", "v", "PX", 20)
    time.sleep(0.04)
    raw.pipeline(["WATCH", "k"], ["MULTI"], ["PING"])
    assert raw.do("EXEC") == ["PONG"]


def test_a_dropped_connection_drops_its_transaction(connect, raw):
    other = connect()
    other.pipeline(["MULTI"], ["SET", "k", 1])
    other.close()
    assert raw.do("EXISTS", "k") == 0


def test_lock(r):
    if not server_has_scripts(r):
        pytest.skip("locks need EVALSHA")
    with r.lock("lock", timeout=60):
        assert not r.lock("lock", timeout=60).acquire(blocking=False)
    assert r.lock("lock", timeout=60).acquire(blocking=False)


def server_has_scripts(r) -> bool:
    try:
        return r.eval("return 1", 0) == 1
    except redis.ResponseError:
        return False


def test_blocking_client_call(r):
    timer = threading.Timer(0.05, lambda: r.rpush("q", "job"))
    timer.start()
    assert list(r.blpop(["q"], timeout=50)) == ["q", "job"]
    timer.join()
    assert r.blpop(["q"], timeout=0.02) is None


def test_info_holds_what_clients_parse(r):
    info = r.info()
    for name in (
        "redis_version redis_mode os arch_bits process_id run_id tcp_port uptime_in_seconds connected_clients blocked_clients "
        "used_memory used_memory_human used_memory_rss used_memory_peak maxmemory maxmemory_policy loading rdb_bgsave_in_progress "
        "rdb_changes_since_last_save aof_enabled total_connections_received total_commands_processed instantaneous_ops_per_sec "
        "keyspace_hits keyspace_misses expired_keys evicted_keys role connected_slaves master_replid cluster_enabled"
    ).split():
        assert name in info, name
    assert info["loading"] == 0 and info["role"] == "master" and info["redis_mode"] == "standalone"
    kind, offset, replicas = r.execute_command("ROLE")
    assert kind in ("master", b"master") and isinstance(offset, int)
    # Those of a cluster are its other nodes.
    assert all(len(replica) == 3 for replica in replicas) if OVER_A_CLUSTER else replicas == []


def test_info_sections(r, server):
    assert set(r.info("clients")) >= {"connected_clients", "blocked_clients"}
    assert "redis_version" not in r.info("clients")
    assert r.info("server")["process_id"] == server.pid
    r.set("k", 1), r.set("e", 1, ex=100)
    keyspace = r.info("keyspace")["db0"]
    assert keyspace["keys"] == 2 and keyspace["expires"] == 1


def test_keyspace_hits_and_misses(r):
    before = r.info("stats")
    r.set("k", 1), r.get("k"), r.get("none")
    after = r.info("stats")
    assert after["keyspace_hits"] - before["keyspace_hits"] == 1
    assert after["keyspace_misses"] - before["keyspace_misses"] == 1


def test_client_list_and_info(r, raw):
    raw.do("CLIENT", "SETNAME", "seen")
    mine = next(one for one in r.client_list() if one["name"] == "seen")
    assert {"id", "addr", "fd", "name", "age", "idle", "flags", "db", "sub", "multi", "cmd", "resp"} <= set(mine)
    text = raw.do("CLIENT", "INFO")
    assert f"id={mine['id']} " in text and "name=seen" in text
    raw.do("SELECT", 2)
    raw.do("MULTI")
    state = next(one for one in r.client_list() if one["name"] == "seen")
    assert state["db"] == "2" and state["multi"] == "0"


def test_client_kill_by_id(raw, connect):
    other = connect()
    assert raw.do("CLIENT", "KILL", "ID", other.do("CLIENT", "ID")) == 1
    assert other.read_to_close() == b""
    assert raw.do("PING") == "PONG"


def known(connection):
    """A node that passes a client on makes it known to the home with its first command."""
    if OVER_A_CLUSTER:
        connection.do("PING")


def test_client_kill_by_address(raw, connect):
    other = connect()
    known(other)
    name = "%s:%d" % other.socket.getsockname()
    assert raw.do("CLIENT", "KILL", name) == "OK"
    assert other.read_to_close() == b""


def test_client_kill_skips_me(raw, connect):
    other = connect()
    known(other)
    assert raw.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1
    assert other.read_to_close() == b""
    assert raw.do("PING") == "PONG"


def test_client_reply_off_skip_on(raw):
    raw.send("CLIENT", "REPLY", "OFF")
    raw.send("SET", "k", 1)
    raw.send("CLIENT", "REPLY", "ON")
    assert raw.read() == "OK"
    raw.send("CLIENT", "REPLY", "SKIP")
    raw.send("SET", "k", 2)
    assert raw.do("GET", "k") == "2"


def test_client_pause_holds_writes(raw, connect):
    other = connect()
    assert raw.do("CLIENT", "PAUSE", 60_000, "WRITE") == "OK"
    other.send("SET", "k", 1)
    time.sleep(0.05)
    assert raw.do("GET", "k") is None, "a paused write was executed"
    assert raw.do("CLIENT", "UNPAUSE") == "OK"
    assert other.read() == "OK"


def test_commands_are_described(r):
    table = r.command()
    assert len(table) > 150
    info = r.execute_command("COMMAND", "INFO", "get", "set", "blpop")
    described = {one["name"]: one for one in (info.values() if isinstance(info, dict) else info)} if not isinstance(info, list) else None
    if described is None:
        described = {one[0] if isinstance(one, list) else one["name"]: one for one in info}
    assert set(described) == {"get", "set", "blpop"}


@pytest.mark.parametrize(
    "name, arity, first, last, step",
    [("get", 2, 1, 1, 1), ("set", -3, 1, 1, 1), ("mset", -3, 1, -1, 2), ("blpop", -3, 1, -2, 1), ("ping", -1, 0, 0, 0), ("rename", 3, 1, 2, 1), ("multi", 1, 0, 0, 0)],
)
def test_command_info(raw, name, arity, first, last, step):
    entry = raw.do("COMMAND", "INFO", name)[0]
    assert entry[:2] == [name, arity] and entry[3:6] == [first, last, step]


def test_command_list_and_docs(raw, protocol):
    names = raw.do("COMMAND", "LIST")
    assert {"get", "set", "hset", "exec"} <= set(names)
    docs = raw.do("COMMAND", "DOCS", "get")
    assert (list(docs) if protocol == 3 else docs[::2]) == ["get"]


def test_slowlog_holds_slow_commands(raw):
    raw.do("CONFIG", "SET", "slowlog-log-slower-than", 0)
    raw.do("SLOWLOG", "RESET")
    raw.do("SET", "slow", "value")
    # Nothing more, however slow the machine.
    raw.do("CONFIG", "SET", "slowlog-log-slower-than", -1)
    entries = raw.do("SLOWLOG", "GET", -1)
    entry = next(one for one in entries if one[3] == ["SET", "slow", "value"])
    assert len(entry) == 6 and all(isinstance(number, int) for number in entry[:3])
    assert raw.do("SLOWLOG", "LEN") >= 1
    assert raw.do("SLOWLOG", "RESET") == "OK"
    assert raw.do("SLOWLOG", "LEN") == 0
    raw.do("CONFIG", "SET", "slowlog-log-slower-than", 10000)


def test_monitor_shows_commands_of_others(raw, connect):
    watching = connect()
    assert watching.do("MONITOR") == "OK"
    raw.do("SET", "k", "a b\r\n")
    line = watching.read()
    address = "%s:%d" % raw.socket.getsockname()
    assert line.endswith(f'[0 {address}] "SET" "k" "a b\\r\\n"'), line
    assert float(line.split()[0]) > 1e9


def test_monitor_shows_scripts_that_are_not_there(raw, connect):
    """ioredis' own suite counts what MONITOR shows. EVALSHA was not shown when its script was unknown, alone and in a transaction."""
    watching = connect()
    watching.do("MONITOR")
    digest = "0" * 40
    assert raw.do("EVALSHA", digest, 0).startswith("NOSCRIPT")
    raw.pipeline(["MULTI"], ["EVALSHA", digest, 0], ["EXEC"])
    shown = [watching.read().split('"')[1] for _ in range(4)]
    assert shown == ["EVALSHA", "MULTI", "EVALSHA", "EXEC"]


def test_monitor_hides_passwords(raw, connect):
    watching = connect()
    watching.do("MONITOR")
    raw.do("AUTH", "default", "secret-word")
    raw.do("SET", "k", 1)
    line = watching.read()
    assert "secret-word" not in line


def test_requirepass_is_asked_for(fresh_server):
    with Connection(fresh_server.port) as admin, Connection(fresh_server.port) as _:
        assert admin.do("CONFIG", "SET", "requirepass", "secret") == "OK"
        with Connection(fresh_server.port) as other:
            assert other.do("GET", "k") == "NOAUTH Authentication required."
            assert other.do("HELLO", 3).startswith("NOAUTH HELLO must be called with the client already authenticated")
            assert other.do("AUTH", "wrong") == "WRONGPASS invalid username-password pair or user is disabled."
            assert other.do("AUTH", "secret") == "OK"
            assert other.do("GET", "k") is None
        with Connection(fresh_server.port) as other:
            assert isinstance(other.do("HELLO", 3, "AUTH", "default", "secret"), dict)
        assert admin.do("CONFIG", "SET", "requirepass", "") == "OK"


@pytest.mark.parametrize(
    "name, value", [("maxmemory-policy", "allkeys-lru"), ("slowlog-max-len", "77"), ("timeout", "0"), ("latency-tracking", "no"), ("hash-max-listpack-entries", "64")]
)
def test_config_round_trip(r, name, value):
    old = r.config_get(name)[name]
    try:
        assert r.config_set(name, value) is True
        assert r.config_get(name)[name] == value
    finally:
        r.config_set(name, old)


def test_config_get_by_patterns(r):
    assert {"maxmemory", "maxmemory-policy"} <= set(r.config_get("maxmemory*"))
    assert {"timeout", "maxclients"} <= set(r.config_get("timeout", "maxclients"))


def test_databases_through_the_client(server, protocol):
    clients = [redis.Redis(port=server.port, db=number, protocol=protocol) for number in range(16)]
    for number, client in enumerate(clients):
        client.set("k", number)
    assert [int(client.get("k")) for client in clients] == list(range(16))
    with pytest.raises(redis.ResponseError, match="DB index is out of range"):
        redis.Redis(port=server.port, db=16, protocol=protocol).ping()
    clients[3].flushdb()
    assert [client.exists("k") for client in clients] == [1, 1, 1, 0] + [1] * 12
    clients[0].flushall()
    assert sum(client.dbsize() for client in clients) == 0
    for client in clients:
        client.close()


def test_inline_commands(server):
    with socket.create_connection(("127.0.0.1", server.port), 60) as plain:
        plain.sendall(b'SET k "a b"\r\n\r\nGET k\nECHO \'it\\\'s\'\r\n')
        expected = b"+OK\r\n$3\r\na b\r\n$4\r\nit's\r\n"
        data = b""
        while len(data) < len(expected):
            data += plain.recv(100)
        assert data == expected


def test_large_values(r):
    # A node of a cluster takes transactions of up to 4 MiB.
    value = "x" * (4_000_000 if OVER_A_CLUSTER else 5_000_000)
    r.set("k", value)
    assert r.get("k") == value and r.strlen("k") == len(value)
    r.rpush("l", *range(50_000))
    assert r.lrange("l", 0, -1) == [str(number) for number in range(50_000)]


def test_binary_names_and_values(server, protocol):
    client = redis.Redis(port=server.port, protocol=protocol)
    name, value = bytes(range(256)), bytes(reversed(range(256)))
    client.set(name, value)
    client.hset(b"\x00h", name, value)
    assert client.get(name) == value and client.hgetall(b"\x00h") == {name: value}
    assert set(client.keys()) == {name, b"\x00h"}
    client.close()


def test_many_connections(server):
    opened = [Connection(server.port) for _ in range(300)]
    try:
        for one in opened:
            one.send("PING")
        assert {one.read() for one in opened} == {"PONG"}
    finally:
        for one in opened:
            one.close()
