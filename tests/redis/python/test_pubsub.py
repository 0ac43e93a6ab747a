"""Messages, client-side caching and users through redis-py and over raw connections."""

import socket
import time

import pytest
import redis

from harness.resp import Connection, Push


def until(condition, seconds: float = 60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def test_redis_py_listens_to_channels_and_patterns(r):
    listener = r.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("n*")
    until(lambda: r.pubsub_numsub("news")[0][1] == 1 and r.pubsub_numpat() == 1)
    assert r.publish("news", "hello") == 2
    found = []
    until(lambda: found.append(listener.get_message(timeout=0.1)) or sum(message is not None for message in found) == 2)
    messages = [message for message in found if message]
    assert [message["type"] for message in messages] == ["message", "pmessage"]
    assert {message["data"] for message in messages} == {"hello"}
    listener.close()
    until(lambda: r.pubsub_channels() == [])


def test_a_resp3_listener_goes_on_with_commands(connect):
    listener, sender = connect(protocol=3), connect(protocol=2)
    assert listener.do("SUBSCRIBE", "c") == Push(["subscribe", "c", 1])
    assert sender.do("PUBLISH", "c", "1") == 1
    assert listener.read() == Push(["message", "c", "1"])
    assert listener.do("PING") == "PONG"
    # Its own message comes beside the reply: Redis sends it first, Quartet the reply.
    listener.send("PUBLISH", "c", "2")
    answers = [listener.read(), listener.read()]
    assert 1 in answers and Push(["message", "c", "2"]) in answers


def test_many_listeners_get_every_message_in_order(connect):
    listeners = [connect(protocol=2) for _ in range(100)]
    for listener in listeners:
        listener.do("SUBSCRIBE", "c")
    replies = connect(protocol=2).pipeline(*(["PUBLISH", "c", str(number)] for number in range(200)))
    assert replies == [100] * 200
    for listener in listeners:
        assert [listener.read()[2] for _ in range(200)] == [str(number) for number in range(200)]


def test_a_listener_that_does_not_read_is_cut_off(connect, raw):
    raw.do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 2mb 0 0")
    listener = connect(protocol=2)
    listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.do("SUBSCRIBE", "c")
    payload = "x" * 100_000
    until(lambda: raw.do("PUBLISH", "c", payload) == 0)
    raw.do("CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")
    until(lambda: "sub=1" not in raw.do("CLIENT", "LIST"))


def test_an_expired_key_is_announced_unasked(connect, raw):
    raw.do("CONFIG", "SET", "notify-keyspace-events", "Ex")
    listener = connect(protocol=2)
    listener.do("PSUBSCRIBE", "__keyevent@*__:expired")
    raw.do("SET", "k", "v", "PX", 50)
    assert listener.read() == ["pmessage", "__keyevent@*__:expired", "__keyevent@0__:expired", "k"]
    raw.do("CONFIG", "SET", "notify-keyspace-events", "")


def test_a_read_key_is_invalidated_once(connect):
    reader, writer = connect(protocol=3), connect(protocol=2)
    reader.do("CLIENT", "TRACKING", "ON")
    writer.do("SET", "k", 1)
    reader.do("GET", "k")
    writer.do("SET", "k", 2)
    assert reader.read() == Push(["invalidate", ["k"]])
    writer.do("SET", "k", 3)
    assert reader.do("GET", "k") == "3", "not told again before it was read again"
    writer.do("FLUSHALL")
    assert reader.read() == Push(["invalidate", None])


def test_keys_that_a_script_reads_are_tracked(connect):
    """Its declared keys were not, so that a client which caches a script's answer by them was never told."""
    reader, writer = connect(protocol=3), connect(protocol=2)
    reader.do("CLIENT", "TRACKING", "ON")
    reader.do("EVAL", "redis.call('set', 'c', 1)", 1, "a")
    reader.do("EVAL_RO", "redis.call('ping')", 1, "a")
    writer.do("SET", "a", 1)
    reader.do("EVAL", "return redis.call('get', 'c')", 1, "a")
    writer.do("SET", "a", 2)
    assert reader.read() == Push(["invalidate", ["a"]])
    reader.do("CLIENT", "TRACKING", "OFF")
    reader.do("CLIENT", "TRACKING", "ON", "OPTIN")
    reader.do("CLIENT", "CACHING", "YES")
    reader.do("EVAL", "return redis.call('get', 'c')", 1, "a")
    writer.do("SET", "a", 3)
    assert reader.read() == Push(["invalidate", ["a"]])
    assert reader.do("PING") == "PONG"


def test_expiry_invalidates(connect):
    reader = connect(protocol=3)
    reader.do("CLIENT", "TRACKING", "ON")
    # In one go, and for a second, so that the key is there when it is read.
    assert reader.pipeline(["SET", "k", 1, "PX", 1000], ["GET", "k"]) == ["OK", "1"]
    assert reader.read() == Push(["invalidate", ["k"]])


def test_invalidations_are_redirected(connect):
    reader, listener, writer = connect(protocol=2), connect(protocol=2), connect(protocol=2)
    listener_id = listener.do("CLIENT", "ID")
    listener.do("SUBSCRIBE", "__redis__:invalidate")
    assert reader.do("CLIENT", "TRACKING", "ON", "REDIRECT", listener_id) == "OK"
    assert reader.do("CLIENT", "GETREDIR") == listener_id
    reader.do("GET", "k")
    writer.do("SET", "k", 1)
    assert listener.read() == ["message", "__redis__:invalidate", ["k"]]


def test_broadcasts_come_by_prefix_and_not_from_oneself(connect):
    reader, writer = connect(protocol=3), connect(protocol=2)
    assert reader.do("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "b", "NOLOOP") == "OK"
    writer.do("MSET", "a1", 1, "a2", 2, "c", 3)
    assert reader.read() == Push(["invalidate", ["a1", "a2"]])
    assert reader.do("SET", "b", 1) == "OK"
    assert reader.do("PING") == "PONG"


@pytest.mark.quartet_only
def test_invalidations_wait_as_replies_do(connect):
    """A change is told after its transaction, and to a client that wrote itself behind the reply."""
    client = connect(protocol=3)
    client.do("CLIENT", "TRACKING", "ON")
    client.do("GET", "k")
    assert client.pipeline(["MULTI"], ["SET", "k", 1], ["GET", "k"])[0] == "OK"
    assert client.do("EXEC") == ["OK", "1"]
    assert client.read() == Push(["invalidate", ["k"]])


def test_redis_py_users(r, server):
    r.acl_setuser("app", enabled=True, passwords=["+secret"], keys=["app:*"], channels=["app:*"], categories=["+@all"], commands=["-flushall"])
    try:
        app = redis.Redis(port=server.port, username="app", password="secret", decode_responses=True)
        assert app.acl_whoami() == "app"
        assert app.set("app:1", "x")
        with pytest.raises(redis.exceptions.NoPermissionError):
            app.set("other", "x")
        with pytest.raises(redis.exceptions.NoPermissionError):
            app.flushall()
        with pytest.raises(redis.exceptions.NoPermissionError):
            app.publish("other", "x")
        with pytest.raises(redis.exceptions.AuthenticationError):
            redis.Redis(port=server.port, username="app", password="wrong").ping()
        assert "app:*" in str(r.acl_getuser("app")["keys"])
        assert r.acl_dryrun("app", "GET", "other") != "OK"
        assert r.acl_log(1)[0]["username"] == "app"
    finally:
        assert r.acl_deluser("app") == 1
        r.acl_log_reset()


def test_a_deleted_users_connections_are_closed(connect, raw):
    raw.do("ACL", "SETUSER", "gone", "on", "nopass", "+@all", "~*")
    connection = connect(protocol=2)
    assert connection.do("AUTH", "gone", "x") == "OK"
    assert raw.do("ACL", "DELUSER", "gone") == 1
    assert connection.read_to_close() == b""


def test_a_listener_is_closed_when_its_channel_is_forbidden(connect, raw):
    raw.do("ACL", "SETUSER", "ear", "on", "nopass", "+@all", "~*", "&a", "&b*")
    kept, closed = connect(protocol=2), connect(protocol=2)
    for connection, channel in [(kept, "a"), (closed, "b1")]:
        assert connection.do("AUTH", "ear", "x") == "OK"
        connection.do("SUBSCRIBE", channel)
    raw.do("ACL", "SETUSER", "ear", "resetchannels", "&a")
    assert closed.read_to_close() == b""
    assert kept.do("PING") == ["pong", ""]
    raw.do("ACL", "DELUSER", "ear")


@pytest.mark.quartet_only
def test_users_outlive_the_server_once_saved(connect, raw):
    raw.do("ACL", "SETUSER", "kept", "on", ">secret", "~a*", "+@read")
    assert raw.do("ACL", "SAVE") == "OK"
    raw.do("ACL", "SETUSER", "kept", "off")
    raw.do("ACL", "SETUSER", "extra")
    assert raw.do("ACL", "LOAD") == "OK"
    assert raw.do("ACL", "USERS") == ["default", "kept"]
    assert connect(protocol=2).do("AUTH", "kept", "secret") == "OK"
    raw.do("ACL", "DELUSER", "kept")
    raw.do("ACL", "SAVE")
