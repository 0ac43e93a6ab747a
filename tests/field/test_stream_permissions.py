"""Users who may only write keys produce into streams, users who may only read them consume.

Reported of Redis as surprises in what ACL asks for; the key specifications of 7.0.15 decide: what adds to, trims or acknowledges a stream
returns none of its data, so it needs the right to write alone, and XREADGROUP needs the right to read alone.
"""

from __future__ import annotations

import pytest

from harness.resp import ReplyError

WRITES = [
    "XADD stream 1-2 field value",
    "XTRIM stream MAXLEN 9",
    "XDEL stream 9-9",
    "XACK stream group 1-1",
    "XCLAIM stream group consumer 0 1-1",
    "XAUTOCLAIM stream group consumer 0 0",
    "XSETID stream 9-9",
    "XGROUP CREATE stream other 0",
    "XGROUP CREATECONSUMER stream group consumer",
    "XGROUP SETID stream group 0",
    "XGROUP DELCONSUMER stream group consumer",
    "XGROUP DESTROY stream group",
]


@pytest.fixture
def as_user(open_connection):
    """A connection of a user with the right to write, or to read, the keys that begin with `s`."""
    admin = open_connection()
    admin.do("XADD", "stream", "1-1", "field", "value")
    admin.do("XGROUP", "CREATE", "stream", "group", "0")

    def log_in(right: str):
        assert admin.do("ACL", "SETUSER", "user", "reset", "on", "nopass", "+@all", f"%{right}~s*") == "OK"
        connection = open_connection()
        assert connection.do("AUTH", "user", "any") == "OK"
        return connection

    yield log_in
    admin.do("ACL", "DELUSER", "user")


def is_refused(reply) -> bool:
    return isinstance(reply, ReplyError) and reply.startswith("NOPERM")


@pytest.mark.parametrize("command", WRITES)
def test_a_writer_may(as_user, command):
    reply = as_user("W").do(*command.split())
    assert not isinstance(reply, ReplyError), reply


@pytest.mark.parametrize("command", ["XRANGE stream - +", "XREADGROUP GROUP group consumer STREAMS stream >"])
def test_a_writer_may_not(as_user, command):
    assert is_refused(as_user("W").do(*command.split()))


@pytest.mark.parametrize("command", ["XREADGROUP GROUP group consumer STREAMS stream >", "XRANGE stream - +"])
def test_a_reader_may(as_user, command):
    assert [entry[0] for entry in entries(as_user("R").do(*command.split()))] == ["1-1"]


def entries(reply: list) -> list:
    """Those of XRANGE, or of the only stream of XREADGROUP."""
    return reply[0][1] if reply[0][0] == "stream" else reply


@pytest.mark.parametrize("command", WRITES)
def test_a_reader_may_not(as_user, command):
    assert is_refused(as_user("R").do(*command.split()))
