"""Commands that wait: who is served, when, and that no element is ever lost."""

import threading
import time

import pytest

from harness.resp import NIL_ARRAY, ReplyError


@pytest.fixture
def waiter(connect):
    """Sends a command which blocks and returns once the server counts it as blocked."""
    observer = connect(protocol=2)
    count = [0]

    def blocked() -> int:
        text = observer.do("INFO", "clients")
        return int(next(line for line in text.splitlines() if line.startswith("blocked_clients:")).split(":")[1])

    def start(*command):
        connection = connect()
        connection.id = connection.do("CLIENT", "ID")
        connection.send(*command)
        count[0] += 1
        until(lambda: blocked() >= count[0])
        return connection

    start.blocked = blocked
    return start


def until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.002)


def silent(connection, seconds: float = 0.1) -> bool:
    connection.timeout(seconds)
    try:
        connection.read()
    except TimeoutError:
        return True
    finally:
        connection.timeout(60)
    return False


NIL = (None, NIL_ARRAY)


def test_a_push_wakes_a_waiter(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    assert raw.do("RPUSH", "l", "a") == 1
    assert waiting.read() == ["l", "a"]
    assert raw.do("EXISTS", "l") == 0


def test_waiters_are_served_in_order_of_arrival(waiter, raw):
    waiting = [waiter("BLPOP", "l", 0) for _ in range(5)]
    for number in range(5):
        raw.do("RPUSH", "l", number)
    assert [one.read() for one in waiting] == [["l", str(number)] for number in range(5)]


def test_one_push_of_many_serves_many(waiter, raw):
    waiting = [waiter("BLPOP", "l", 0) for _ in range(3)]
    assert raw.do("RPUSH", "l", "a", "b", "c", "d") == 4
    assert [one.read()[1] for one in waiting] == ["a", "b", "c"]
    assert raw.do("LRANGE", "l", 0, -1) == ["d"]


def test_lpush_is_served_after_the_whole_command(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    raw.do("LPUSH", "l", "a", "b", "c")
    assert waiting.read() == ["l", "c"]
    assert raw.do("LRANGE", "l", 0, -1) == ["b", "a"]


def test_brpop_takes_the_tail(waiter, raw):
    waiting = waiter("BRPOP", "l", 0)
    raw.do("RPUSH", "l", "a", "b", "c")
    assert waiting.read() == ["l", "c"]


def test_the_pushed_key_of_several_is_named(waiter, raw):
    waiting = waiter("BLPOP", "a", "b", "c", 0)
    raw.do("RPUSH", "b", "x")
    assert waiting.read() == ["b", "x"]


def test_a_waiter_on_the_same_key_twice_is_served_once(waiter, raw):
    waiting = waiter("BLPOP", "a", "a", 0)
    raw.do("RPUSH", "a", "x", "y")
    assert waiting.read() == ["a", "x"]
    assert raw.do("LRANGE", "a", 0, -1) == ["y"]


def test_served_after_the_whole_transaction(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    raw.pipeline(["MULTI"], ["RPUSH", "l", "a"], ["DEL", "l"], ["RPUSH", "l", "b", "c"], ["EXEC"])
    assert waiting.read() == ["l", "b"]
    assert raw.do("LRANGE", "l", 0, -1) == ["c"]


def test_push_and_pop_in_one_transaction_is_seen_by_nobody(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    raw.pipeline(["MULTI"], ["RPUSH", "l", "a"], ["LPOP", "l"], ["EXEC"])
    assert silent(waiting)
    assert waiter.blocked() == 1


def test_keys_of_one_transaction_in_the_order_of_the_pushes(waiter, raw):
    waiting = waiter("BLPOP", "a", "b", 0)
    raw.pipeline(["MULTI"], ["RPUSH", "b", "2"], ["RPUSH", "a", "1"], ["EXEC"])
    assert waiting.read() == ["b", "2"]
    assert raw.do("LRANGE", "a", 0, -1) == ["1"]


def test_a_wrong_type_does_not_wake(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    raw.do("SET", "l", "v")
    assert silent(waiting)
    raw.do("DEL", "l")
    raw.do("RPUSH", "l", "a")
    assert waiting.read() == ["l", "a"]


@pytest.mark.parametrize(
    "command", [("BLPOP", "l", 0.05), ("BRPOP", "l", 0.05), ("BLMPOP", 0.05, 1, "l", "LEFT"), ("BZPOPMIN", "l", 0.05), ("BZMPOP", 0.05, 1, "l", "MAX")]
)
def test_timeout_answers_nil(raw, command):
    started = time.monotonic()
    assert raw.do(*command) in NIL
    assert time.monotonic() - started > 0.03


def test_a_waiter_who_gave_up_takes_nothing(connect, raw):
    # Nobody looks whether it waits: on a slow machine it would be over by then.
    waiting = connect()
    assert waiting.do("BLPOP", "l", 0.05) in NIL
    raw.do("RPUSH", "l", "a")
    assert raw.do("LRANGE", "l", 0, -1) == ["a"]
    assert waiting.do("PING") == "PONG"


def test_client_unblock(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    assert raw.do("CLIENT", "UNBLOCK", waiting.id) == 1
    assert waiting.read() in NIL
    assert raw.do("CLIENT", "UNBLOCK", waiting.id) == 0
    raw.do("RPUSH", "l", "a")
    assert raw.do("LLEN", "l") == 1


def test_client_unblock_with_error(waiter, raw):
    waiting = waiter("BRPOP", "l", 0)
    assert raw.do("CLIENT", "UNBLOCK", waiting.id, "ERROR") == 1
    assert waiting.read() == ReplyError("UNBLOCKED client unblocked via CLIENT UNBLOCK")


def test_a_disconnected_waiter_loses_no_element(waiter, raw):
    first = waiter("BLPOP", "l", 0)
    second = waiter("BLPOP", "l", 0)
    first.close()
    until(lambda: waiter.blocked() == 1)
    raw.do("RPUSH", "l", "a", "b")
    assert second.read() == ["l", "a"]
    assert raw.do("LRANGE", "l", 0, -1) == ["b"]


def test_a_killed_waiter_loses_no_element(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    assert raw.do("CLIENT", "KILL", "ID", waiting.id) == 1
    until(lambda: waiter.blocked() == 0)
    raw.do("RPUSH", "l", "a")
    assert raw.do("LRANGE", "l", 0, -1) == ["a"]


def test_commands_behind_a_blocked_one_wait(connect, raw):
    waiting = connect()
    waiting.send("BLPOP", "l", 0)
    waiting.send("SET", "after", "1")
    time.sleep(0.1)
    assert raw.do("EXISTS", "after") == 0
    raw.do("RPUSH", "l", "a")
    assert waiting.read() == ["l", "a"]
    assert waiting.read() == "OK"


def test_blmove_moves_and_answers(waiter, raw):
    waiting = waiter("BLMOVE", "a", "b", "LEFT", "RIGHT", 0)
    raw.do("RPUSH", "a", "1", "2")
    assert waiting.read() == "1"
    assert raw.do("LRANGE", "a", 0, -1) == ["2"]
    assert raw.do("LRANGE", "b", 0, -1) == ["1"]


def test_blmove_chain_wakes_the_next(waiter, raw):
    last = waiter("BLPOP", "c", 0)
    middle = waiter("BLMOVE", "b", "c", "LEFT", "LEFT", 0)
    first = waiter("BRPOPLPUSH", "a", "b", 0)
    raw.do("RPUSH", "a", "x")
    assert (first.read(), middle.read(), last.read()) == ("x", "x", ["c", "x"])
    assert raw.do("DBSIZE") == 0


def test_blmove_onto_a_wrong_type_keeps_the_element(waiter, raw):
    raw.do("SET", "b", "v")
    waiting = waiter("BLMOVE", "a", "b", "LEFT", "LEFT", 0)
    raw.do("RPUSH", "a", "x")
    assert waiting.read().startswith("WRONGTYPE")
    assert raw.do("LRANGE", "a", 0, -1) == ["x"]


def test_blmpop_count(waiter, raw):
    waiting = waiter("BLMPOP", 0, 2, "a", "b", "RIGHT", "COUNT", 2)
    raw.do("RPUSH", "b", "1", "2", "3")
    assert waiting.read() == ["b", ["3", "2"]]


def test_bzpopmin_is_woken(waiter, raw, protocol):
    waiting = waiter("BZPOPMIN", "z", 0)
    raw.do("ZADD", "z", 2, "b", 1, "a")
    assert waiting.read() == (["z", "a", 1.0] if protocol == 3 else ["z", "a", "1"])
    assert raw.do("ZCARD", "z") == 1


def test_bzpopmax_order_of_arrival(waiter, raw):
    waiting = [waiter("BZPOPMAX", "z", 0) for _ in range(3)]
    raw.do("ZADD", "z", 1, "a", 2, "b", 3, "c")
    assert [one.read()[1] for one in waiting] == ["c", "b", "a"]


def test_bzmpop(waiter, raw, protocol):
    waiting = waiter("BZMPOP", 0, 1, "z", "MIN", "COUNT", 2)
    raw.do("ZADD", "z", 1, "a", 2, "b", 3, "c")
    score = (lambda x: x) if protocol == 3 else (lambda x: str(int(x)))
    assert waiting.read() == ["z", [["a", score(1.0)], ["b", score(2.0)]]]


@pytest.mark.parametrize(
    "setup, create",
    [
        (("RPUSH", "src", "a"), ("RENAME", "src", "l")),
        (("RPUSH", "src", "a"), ("COPY", "src", "l")),
        (("RPUSH", "src", "a"), ("SORT", "src", "ALPHA", "STORE", "l")),
        (("RPUSH", "src", "a"), ("LMOVE", "src", "l", "LEFT", "LEFT")),
    ],
)
def test_whatever_creates_the_list_wakes(waiter, raw, setup, create):
    waiting = waiter("BLPOP", "l", 0)
    raw.do(*setup)
    raw.do(*create)
    assert waiting.read() == ["l", "a"]


def test_zunionstore_wakes(waiter, raw):
    waiting = waiter("BZPOPMIN", "z", 0)
    raw.do("ZADD", "src", 1, "a")
    raw.do("ZUNIONSTORE", "z", 1, "src")
    assert waiting.read()[:2] == ["z", "a"]


def test_swapdb_and_move_wake(waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    raw.pipeline(["SELECT", 1], ["RPUSH", "l", "a"], ["MOVE", "l", 0])
    assert waiting.read() == ["l", "a"]
    waiting.send("BLPOP", "m", 0)
    until(lambda: waiter.blocked() == 1)
    raw.pipeline(["RPUSH", "m", "b"], ["SWAPDB", 0, 1])
    assert waiting.read() == ["m", "b"]


def test_a_waiter_in_another_database_is_not_served(connect, waiter, raw):
    waiting = waiter("BLPOP", "l", 0)
    raw.do("SELECT", 1)
    raw.do("RPUSH", "l", "a")
    assert silent(waiting)


def test_many_producers_and_consumers_lose_and_double_nothing(connect, server):
    per_producer, producers, consumers = 200, 4, 4
    taken: list[list[str]] = [[] for _ in range(consumers)]

    def produce(name):
        connection = connect()
        for number in range(per_producer):
            connection.do("RPUSH", "queue", f"{name}-{number}")

    def consume(mine):
        connection = connect()
        while (reply := connection.do("BLPOP", "queue", 0))[1] != "stop":
            mine.append(reply[1])

    readers = [threading.Thread(target=consume, args=(mine,)) for mine in taken]
    writers = [threading.Thread(target=produce, args=(name,)) for name in range(producers)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    last = connect()
    for _ in readers:
        last.do("RPUSH", "queue", "stop")
    for thread in readers:
        thread.join(60)
    everything = [item for mine in taken for item in mine]
    assert sorted(everything) == sorted(f"{name}-{number}" for name in range(producers) for number in range(per_producer))
    for mine in taken:
        for name in range(producers):
            numbers = [int(item.split("-")[1]) for item in mine if item.startswith(f"{name}-")]
            assert numbers == sorted(numbers), "one consumer saw one producer's elements out of order"
