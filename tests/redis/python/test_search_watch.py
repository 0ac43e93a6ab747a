"""WATCH and a search: what is decided by a search is decided once, whoever else searches and writes."""

from __future__ import annotations

import threading
import time

import pytest

from harness.resp import NIL_ARRAY, Connection, ReplyError

pytestmark = pytest.mark.quartet_only
JOBS = 60
WORKERS = 6


@pytest.fixture
def clients(fresh_server):
    with Connection(fresh_server.port) as one, Connection(fresh_server.port) as other:
        # On a busy machine a search may take longer than half a second.
        assert one.do("FT.CONFIG", "SET", "TIMEOUT", "0") == "OK"
        assert one.do("FT.CREATE", "i", "PREFIX", 1, "job:", "SCHEMA", "state", "TAG", "by", "TAG", "n", "NUMERIC") == "OK"
        yield one, other


def free(connection: Connection) -> list:
    return connection.do("FT.SEARCH", "i", "@state:{free}", "NOCONTENT", "SORTBY", "n", "LIMIT", 0, 1)


@pytest.mark.parametrize("change", [("HSET", "job:1", "state", "free"), ("DEL", "job:1"), ("PEXPIRE", "job:1", 1), ("RENAME", "job:2", "job:1")])
def test_a_watched_key_that_changes_lets_no_search_be_answered(clients, change):
    one, other = clients
    one.pipeline(["HSET", "job:1", "state", "free", "n", 1], ["HSET", "job:2", "state", "free", "n", 2])
    assert one.do("WATCH", "job:1") == "OK"
    assert free(one)[0] == 2
    assert other.do(*change) in ("OK", 0, 1)
    deadline = time.monotonic() + 60
    while change[0] == "PEXPIRE" and other.do("EXISTS", "job:1"):
        assert time.monotonic() < deadline
    assert one.pipeline(["MULTI"], ["FT.SEARCH", "i", "*"], ["EXEC"])[2] == NIL_ARRAY


def test_a_watched_key_that_is_not_there_yet_is_no_phantom(clients):
    one, other = clients
    assert one.do("WATCH", "job:1") == "OK"
    assert free(one) == [0]
    assert other.do("HSET", "job:1", "state", "free", "n", 1) == 2
    assert one.pipeline(["MULTI"], ["FT.SEARCH", "i", "*"], ["EXEC"])[2] == NIL_ARRAY
    assert free(one) == [1, "job:1"]


def test_a_search_in_a_transaction_sees_its_own_writes_and_all_that_was_there(clients):
    one, other = clients
    one.do("HSET", "job:1", "state", "free", "n", 1)
    assert one.do("WATCH", "job:1") == "OK"
    # Nobody watches this one; it is there when the transaction begins.
    assert other.do("HSET", "job:2", "state", "free", "n", 2) == 2
    search = ["FT.SEARCH", "i", "@state:{free}", "NOCONTENT", "SORTBY", "n"]
    replies = one.pipeline(["MULTI"], search, ["HSET", "job:1", "state", "taken"], search, ["EXEC"])
    assert replies[-1] == [[2, "job:1", "job:2"], 0, [1, "job:2"]]


def test_each_job_that_is_found_by_a_search_is_taken_once(clients, fresh_server):
    one, _ = clients
    one.pipeline(*(["HSET", f"job:{number}", "state", "free", "n", number] for number in range(JOBS)))
    taken, failures = [[] for _ in range(WORKERS)], []

    def work(worker: int) -> None:
        try:
            with Connection(fresh_server.port) as connection:
                while (found := free(connection))[0]:
                    job = found[1]
                    assert connection.do("WATCH", job) == "OK"
                    # It may have been taken between the search and WATCH.
                    if free(connection)[1:] != [job]:
                        assert connection.do("UNWATCH") == "OK"
                        continue
                    replies = connection.pipeline(
                        ["MULTI"],
                        ["HSET", job, "state", "taken", "by", f"w{worker}"],
                        ["FT.SEARCH", "i", "@by:{w%d}" % worker, "NOCONTENT", "LIMIT", 0, 0],
                        ["EXEC"],
                    )[-1]
                    if replies != NIL_ARRAY:
                        taken[worker].append(job)
                        assert replies == [1, [len(taken[worker])]]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not failures, failures
    assert sorted(job for jobs in taken for job in jobs) == sorted(f"job:{number}" for number in range(JOBS))
    for worker, jobs in enumerate(taken):
        found = one.do("FT.SEARCH", "i", "@by:{w%d}" % worker, "NOCONTENT", "LIMIT", 0, JOBS)
        assert not isinstance(found, ReplyError) and sorted(found[1:]) == sorted(jobs)
