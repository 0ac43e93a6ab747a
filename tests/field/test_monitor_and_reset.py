"""After RESET has ended MONITOR no line of its feed follows, or a pooled connection is a reply out of step for good.

Reported by a client's author who pairs replies with requests; redis-server 7.0.15 answers so.
"""

from __future__ import annotations


def test_replies_after_reset_are_in_step(open_connection):
    connection = open_connection()
    assert connection.do("MONITOR") == "OK"
    assert connection.pipeline(["RESET"], ["PING"], ["ECHO", "text"]) == ["RESET", "PONG", "text"]


def test_lines_from_others_end_with_it(open_connection):
    watcher, other = open_connection(), open_connection()
    for _ in range(20):
        assert watcher.do("MONITOR") == "OK"
        other.send("SET", "key", "value")
        watcher.send("RESET")
        other.read()
        other.do("SET", "key", "later")
        while (reply := watcher.read()) != "RESET":
            assert '"key" "value"' in reply or '"key" "later"' in reply or '"RESET"' in reply, reply
        assert watcher.do("PING") == "PONG"
