"""Users reach, and hear of, the keys that their rules cover, whatever a request looks like.

Faults that Redis mended in 2026, tried here: keys that SORT, GEORADIUS and XREAD really touch (redis/redis#15478; here `SORT k STORE by
STORE other` was judged by the key `by` and wrote `other`), commands queued before a right was revoked (#15673), names told by
invalidations in BCAST mode (#15371), and line breaks in the text of an error.
"""

from __future__ import annotations

import pytest

from harness.resp import ReplyError

# Keys that are also words of options may be named anywhere.
ALLOWED = ["~ok*", "~by", "~get", "~store", "~storedist", "~streams", "~limit", "~count", "~block", "~nosort"]
REFUSED = [
    "SORT ok STORE secret",
    "SORT ok STORE by STORE secret",
    "SORT ok STORE get STORE secret",
    "SORT ok STORE limit STORE secret",
    "SORT ok STORE store STORE secret",
    "SORT ok BY nosort STORE ok STORE secret",
    "SORT ok BY STORE STORE secret",
    "SORT ok LIMIT 0 1 STORE secret",
    "SORT secret BY nosort STORE ok",
    "SORT_RO secret",
    "GEORADIUS places 0 0 1 km STORE secret",
    "GEORADIUS places 0 0 1 km STORE ok STORE secret",
    "GEORADIUS places 0 0 1 km STORE ok STOREDIST secret",
    "GEORADIUS places 0 0 1 km STOREDIST storedist STORE secret",
    "GEORADIUS places 0 0 1 km STORE store STORE secret",
    "GEORADIUSBYMEMBER places here 1 km STOREDIST store STOREDIST secret",
    "GEORADIUSBYMEMBER places here 1 km COUNT 1 STORE secret",
    "XREAD STREAMS secret 0",
    "XREAD COUNT 1 STREAMS streams secret 0 0",
    "XREAD STREAMS streams secret 0 0",
    "XREAD COUNT 1 BLOCK 1 STREAMS secret 0",
    "XREADGROUP GROUP streams streams STREAMS secret >",
    "XREADGROUP GROUP g streams COUNT 1 STREAMS streams secret > >",
    "COPY ok secret",
    "LMPOP 2 ok secret LEFT",
    "ZUNIONSTORE secret 1 ok",
    "ZUNIONSTORE ok 2 ok secret",
    "MSETEX 2 ok 1 secret 2",
]
# A pattern may mean any key.
PATTERNS = ["SORT ok BY s*", "SORT ok GET secret*", "SORT_RO ok GET #", "SORT ok BY nosort GET s*->field STORE ok"]


@pytest.fixture
def admin(open_connection):
    connection = open_connection()
    connection.do("FLUSHALL")
    connection.do("RPUSH", "ok", "2", "1")
    connection.do("GEOADD", "places", "0", "0", "here")
    yield connection
    connection.do("ACL", "DELUSER", "user")
    connection.do("FLUSHALL")


@pytest.fixture
def as_user(admin, open_connection):
    def log_in(*rules: str, **options):
        assert admin.do("ACL", "SETUSER", "user", "reset", "on", "nopass", *rules) == "OK"
        connection = open_connection(**options)
        assert connection.do("AUTH", "user", "any") == "OK"
        return connection

    return log_in


def is_refused(reply) -> bool:
    return isinstance(reply, ReplyError) and reply.startswith("NOPERM")


@pytest.mark.parametrize("command", REFUSED)
def test_the_key_that_is_touched_is_the_one_that_is_judged(as_user, admin, command):
    user = as_user("+@all", "~places", *ALLOWED)
    assert is_refused(user.do(*command.split())), command
    assert admin.do("EXISTS", "secret") == 0


@pytest.mark.parametrize("command", PATTERNS)
def test_a_pattern_needs_the_right_to_read_all_keys(as_user, command):
    for rules in (["+@all", *ALLOWED], ["+@all", *ALLOWED, "(~* +get)"], ["-@all", "(~* -@all +get)", "(~ok +@all)"]):
        reply = as_user(*rules).do(*command.split())
        assert isinstance(reply, ReplyError) and "denied due to insufficient ACL permissions" in reply
    assert not isinstance(as_user("+@all", "%R~*", "~ok").do(*command.split()), ReplyError)


def test_what_was_queued_is_judged_again_when_it_runs(as_user, admin):
    admin.do("SET", "key", "kept")
    user = as_user("+@all", "~*", "&*")
    for command in ("MULTI", "GET key", "SET key changed", "PUBLISH channel message", "PING"):
        user.do(*command.split())
    admin.do("ACL", "SETUSER", "user", "-get", "resetchannels", "resetkeys", "%R~key")
    replies = user.do("EXEC")
    assert [is_refused(reply) for reply in replies] == [True, True, True, False]
    assert all("ACLs rules changed" in reply for reply in replies[:3])
    assert admin.do("GET", "key") == "kept"


def test_what_only_reads_was_queued_and_is_judged_again(as_user, admin):
    admin.do("SET", "key", "hidden")
    user = as_user("+@all", "~*")
    for command in ("MULTI", "GET key", "EXISTS key"):
        user.do(*command.split())
    admin.do("ACL", "SETUSER", "user", "resetkeys", "~other")
    assert [is_refused(reply) for reply in user.do("EXEC")] == [True, True]


def test_whoever_waited_is_judged_again(as_user, admin):
    user = as_user("+@all", "~*")
    user.send("BLPOP", "waited", "0")
    while "blocked_clients:1" not in admin.do("INFO", "clients"):
        pass
    admin.do("ACL", "SETUSER", "user", "resetkeys", "~other")
    admin.do("RPUSH", "waited", "hidden")
    assert is_refused(user.read())
    assert admin.do("LLEN", "waited") == 1


def test_broadcast_invalidations_name_keys_that_one_may_read(as_user, admin):
    user = as_user("+@all", "%R~ok*", "(~more* +get)", "%W~written*", "&*", protocol=3)
    assert user.do("CLIENT", "TRACKING", "ON", "BCAST") == "OK"
    for name in ("secret:1", "ok1", "more1", "written1", "ok2"):
        admin.do("SET", name, "value")
    told = []
    while "ok2" not in told:
        told += user.read()[1]
    assert told == ["ok1", "more1", "ok2"]


@pytest.mark.parametrize(
    "request_words",
    [
        ["NO\r\n+OK\r\nSUCH"],
        ["GET", "a", "b\r\n+OK\r\n"],
        ["CONFIG", "SET", "no\r\n+OK\r\nsuch", "value"],
        ["ACL", "SETUSER", "someone", "+no\r\n+OK\r\nsuch"],
        ["CLIENT", "NO\r\n+OK\r\n"],
        ["EVAL", "return redis.error_reply('ERR a\\r\\n+OK\\r\\nb')", "0"],
        ["EVAL", "error('a\\r\\n+OK\\r\\nb')", "0"],
        ["EVAL", "return redis.call('no\\r\\n+OK\\r\\nsuch')", "0"],
        ["EVAL", "return {ok='fine\\r\\n+OK\\r\\n'}", "0"],
        ["FT.SEARCH", "no\r\n+OK\r\nsuch", "*"],
        ["JSON.SET", "key", "$[\r\n+OK\r\n", "1"],
        ["XGROUP", "CREATE", "none\r\n", "group\r\n+OK\r\n", "no\r\n+OK\r\n"],
    ],
)
def test_line_breaks_in_an_error_do_not_end_it(open_connection, request_words):
    connection = open_connection()
    connection.send(*request_words)
    connection.send("ECHO", "in step")
    first = connection.read()
    assert "\r" not in first and "\n" not in first
    assert connection.read() == "in step"
