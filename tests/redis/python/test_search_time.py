"""What a search does whose time is over, indexes that go when they were idle, and the metrics of both, through redis-py."""

from __future__ import annotations

import time

import pytest
import redis
from redis.commands.search.aggregation import AggregateRequest
from redis.commands.search.field import NumericField, TextField
from redis.commands.search.query import Query

from harness.admin import Admin
from harness.server import Server

WAIT_SECONDS_MAX = 60
DOCUMENTS = 2_000
# The functions that an expression makes one of the other: each goes over 16,000 bytes for each document. All documents are more than
# two gigabytes of it, of which the first look at the time sees an eighth: no machine does that within a millisecond.
LEVELS = 60
EXPRESSION = "upper(" * LEVELS + '"' + "a" * 16_000 + '"' + ")" * LEVELS


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        yield server


@pytest.fixture(params=[2, 3])
def client(server, request):
    with redis.Redis(port=server.port, protocol=request.param, decode_responses=True) as client:
        client.flushall()
        client.config_set("search-on-timeout", "fail")
        client.config_set("search-timeout", 500)
        yield client


def filled(client: redis.Redis) -> None:
    client.ft("i").create_index([NumericField("n")])
    pipe = client.pipeline(transaction=False)
    for number in range(DOCUMENTS):
        pipe.hset(f"k{number}", mapping={"n": number})
    pipe.execute()


def until(is_so) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def values(server: Server, start: str) -> list[float]:
    lines = Admin(server).metrics().splitlines()
    return [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start)]


def metric(server: Server, start: str) -> float:
    (value,) = values(server, start)
    return value


def long_aggregation() -> AggregateRequest:
    return AggregateRequest("*").apply(x=f"strlen({EXPRESSION})").load("n").limit(0, DOCUMENTS)


def test_the_setting_has_two_names_and_two_values(client):
    assert client.config_get("search-on-timeout") == {"search-on-timeout": "fail"}
    older = lambda: client.execute_command("FT.CONFIG", "GET", "ON_TIMEOUT")  # noqa: E731
    assert older() in ([["ON_TIMEOUT", "fail"]], {"ON_TIMEOUT": "fail"})
    assert client.execute_command("FT.CONFIG", "SET", "ON_TIMEOUT", "return") == "OK"
    assert client.config_get("search-on-timeout") == {"search-on-timeout": "return"}
    assert client.config_set("search-on-timeout", "fail")
    assert older() in ([["ON_TIMEOUT", "fail"]], {"ON_TIMEOUT": "fail"})
    with pytest.raises(redis.ResponseError, match="argument"):
        client.config_set("search-on-timeout", "never")


def test_an_aggregation_whose_time_is_over_is_an_error_or_a_part(server, client):
    filled(client)
    client.config_set("search-timeout", 1)
    errors, parts = (metric(server, f'quartet_search_timeouts_total{{answer="{answer}"}}') for answer in ("error", "part"))
    with pytest.raises(redis.ResponseError, match="SEARCH_TIMEOUT Timeout limit was reached"):
        client.ft("i").aggregate(long_aggregation())
    client.config_set("search-on-timeout", "return")
    found = client.ft("i").aggregate(long_aggregation())
    if isinstance(found, dict):
        assert found["warning"] == ["Timeout limit was reached"]
        rows = found["results"]
    else:
        rows = found.rows
    assert len(rows) < DOCUMENTS
    until(lambda: metric(server, 'quartet_search_timeouts_total{answer="error"}') == errors + 1)
    until(lambda: metric(server, 'quartet_search_timeouts_total{answer="part"}') == parts + 1)


def test_a_search_in_time_is_whole(client):
    filled(client)
    client.config_set("search-on-timeout", "return")
    found = client.ft("i").search(Query("*").paging(0, DOCUMENTS).timeout(60_000))
    if isinstance(found, dict):
        assert found["warning"] == []
        assert (found["total_results"], len(found["results"])) == (DOCUMENTS, DOCUMENTS)
    else:
        assert (found.total, len(found.docs)) == (DOCUMENTS, DOCUMENTS)


def test_the_metrics_of_an_index(server, client):
    client.ft("i").create_index([NumericField("n"), TextField("t")])
    client.hset("k1", mapping={"n": 1, "t": "hello world"})
    client.hset("k2", mapping={"n": "none"})
    labels = '{index="i",commands="ft"'
    # While somebody keeps the lock they are those of an earlier answer.
    until(lambda: values(server, f'quartet_search_failures_total{labels},type="NUMERIC"}}') == [1])
    until(lambda: values(server, "quartet_search_indexes ") == [1])
    until(lambda: values(server, f"quartet_search_documents{labels}}}") == [1])
    until(lambda: sum(values(server, f"quartet_search_index_bytes{labels}}}")) > len("hello world"))
    until(lambda: values(server, f"quartet_search_keys_left{labels}}}") == [0])
    until(lambda: values(server, f"quartet_search_time_left_seconds{labels}}}") == [0])
    searches = 'quartet_redis_commands_total{command="ft.search"}'
    durations = 'quartet_request_duration_seconds_count{layer="redis",operation="ft.search"}'
    before = [sum(values(server, name)) for name in (searches, durations)]
    client.ft("i").search("hello")
    # A request is counted behind its reply, that of another test perhaps only now.
    until(lambda: all(sum(values(server, name)) > count for name, count in zip((searches, durations), before)))
    until(lambda: values(server, f"quartet_search_unsettled_documents{labels}}}") == [0])
    assert float(client.ft("i").info()["total_index_memory_sz_mb"]) > 0


def test_a_temporary_index_goes_with_its_keys_and_stays_gone(tmp_path):
    with Server("always", data=str(tmp_path / "data")) as server:
        with redis.Redis(port=server.port, decode_responses=True) as client:
            client.hset("k", mapping={"n": 1})
            client.set("other", "value")
            client.execute_command("FT.CREATE", "long", "TEMPORARY", 100_000, "PREFIX", 1, "long", "SCHEMA", "n", "NUMERIC")
            client.ft("short").create_index([NumericField("n")], temporary=1)
            until(lambda: client.execute_command("FT._LIST") in (["long"], {"long"}))
            assert client.keys() == ["other"]
        server.kill()
        server.restart()
        with redis.Redis(port=server.port, decode_responses=True) as client:
            assert list(client.execute_command("FT._LIST")) == ["long"]
            assert client.keys() == ["other"]


def test_a_replica_drops_a_temporary_index_when_its_source_does():
    with Server() as source, Server() as replica:
        with redis.Redis(port=source.port, decode_responses=True) as here, redis.Redis(port=replica.port, decode_responses=True) as there:
            there.replicaof("127.0.0.1", source.port)
            until(lambda: there.info("replication")["master_link_status"] == "up")
            here.hset("k", mapping={"n": 1})
            here.ft("i").create_index([NumericField("n")], temporary=1)
            until(lambda: not here.execute_command("FT._LIST"))
            here.set("end", 1)
            until(lambda: there.get("end") == "1")
            assert not there.execute_command("FT._LIST")
            assert there.keys() == ["end"]
