"""What a query may take: of time, of an I/O thread, and of what its credential may use in a second."""

from __future__ import annotations

import http.client
import json
import threading
import time

import httpx
import pytest
from faunadb import query as q

from harness.fauna import connect
from harness.server import Server

SECRET = {"Authorization": "Bearer secret", "X-FaunaDB-API-Version": "4"}
NUMBERS = list(range(1000))


def counted(expression: str) -> str:
    """The expression a thousand times, of which nothing but their number is kept."""
    return '{"count":{"map":{"lambda":"x","expr":%s},"collection":%s}}' % (expression, NUMBERS)


# A query is refused at 600,000 function calls, which a fast machine reaches in less than the time that a test gives it. So
# each of these million calls takes long for its kind: it looks through 600,000 characters, and makes nothing.
LONG = counted(counted('{"containsstrregex":"%s","pattern":"a[ab]*c"}' % ("ab" * 300_000)))
TIMED_OUT = {"errors": [{"code": "time out", "description": "Query timed out."}]}


def ask(server: Server, body: str, secret: str = "secret", **headers) -> httpx.Response:
    url = f"http://127.0.0.1:{server.fauna_port}/"
    return httpx.post(url, content=body, headers={"Authorization": f"Bearer {secret}", "X-FaunaDB-API-Version": "4", **headers}, timeout=60)


def test_a_query_has_its_time(server):
    reply = ask(server, LONG, **{"X-Query-Timeout": "30"})
    assert (reply.status_code, reply.json()) == (503, TIMED_OUT)
    assert ask(server, '{"add":[1,2]}', **{"X-Query-Timeout": "30000"}).json() == {"resource": 3}
    assert ask(server, "1", **{"X-Query-Timeout": "600001"}).status_code == 400


def test_a_query_that_times_out_writes_nothing(server):
    assert ask(server, '{"create_collection":{"object":{"name":"left"}}}').status_code == 201
    query = '{"do":[{"create":{"collection":"left"}},%s]}' % LONG
    reply = ask(server, query, **{"X-Query-Timeout": "40"})
    assert (reply.status_code, reply.json()) == (503, TIMED_OUT)
    assert ask(server, '{"count":{"documents":{"collection":"left"}}}').json() == {"resource": 0}
    assert ask(server, '{"delete":{"collection":"left"}}').status_code == 200


def test_a_long_query_stops_nobody(server):
    """One I/O thread serves all; a query that takes long leaves it."""
    long, is_answered, answers, count = http.client.HTTPConnection("127.0.0.1", server.fauna_port, timeout=60), threading.Event(), [], 0
    long.request("POST", "/", LONG, {**SECRET, "X-Query-Timeout": "5000"})
    thread = threading.Thread(target=lambda: (answers.append(json.loads(long.getresponse().read())), is_answered.set()))
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.fauna_port}", headers=SECRET, timeout=60) as client:
        while not is_answered.is_set():
            assert client.post("/", content='{"add":[1,2]}').json() == {"resource": 3}
            count += 1
    thread.join()
    long.close()
    assert answers == [TIMED_OUT]
    # The long query holds up one of the first two at most, however slow the machine.
    assert count > 5


def test_passwords_are_checked_beside_the_others(server):
    client = connect(server)
    client.query(q.create_collection({"name": "people"}))
    person = client.query(q.create(q.collection("people"), {"credentials": {"password": "sesame"}}))["ref"]
    client.query(q.create_function({"name": "enter", "body": q.query(q.lambda_("p", q.login(person, {"password": q.var("p")})))}))
    threads = [threading.Thread(target=lambda: [client.query(q.call("enter", "sesame")) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert client.query(q.identify(person, "wrong")) is False
    for thread in threads:
        thread.join()
    assert client.query(q.count(q.documents(q.tokens()))) == 20
    client.query(q.delete(q.collection("people")))


@pytest.mark.parametrize("http2", [False, True])
def test_a_secret_is_judged_before_the_body(server, http2):
    """Who shows a wrong secret is told that, and nothing about the body."""
    url, broken = f"http://127.0.0.1:{server.fauna_port}/", '{"add":['

    def ask_anew(secret: str, body: str) -> httpx.Response:
        """On a connection that has shown nothing yet."""
        with httpx.Client(http1=not http2, http2=http2, timeout=60) as client:
            return client.post(url, content=body, headers={**SECRET, "Authorization": f"Bearer {secret}"})

    refused = ask_anew("wrong", broken)
    assert (refused.status_code, refused.json()["errors"][0]["code"]) == (401, "unauthorized")
    assert ask_anew("wrong", "1").json() == refused.json()
    assert ask_anew("secret", broken).status_code == 400
    assert ask_anew("secret", '{"add":[1,2]}').json() == {"resource": 3}


@pytest.fixture(scope="module")
def limited():
    server = Server(options=["--fauna-rate-limits", "1000,20,1000"]).start()
    yield server
    server.close()


def test_each_credential_has_its_own_rate(limited):
    client = connect(limited)
    client.query(q.create_collection({"name": "notes"}))
    key, other = (client.query(q.create_key({"role": "server"}))["secret"] for _ in range(2))
    # It is paid for in ten seconds.
    write = '{"create":{"collection":"notes"},"params":{"object":{"data":{"object":{"text":"%s"}}}}}' % ("x" * 200_000)
    assert ask(limited, write, key).status_code == 201
    refused = ask(limited, "1", key)
    assert refused.status_code == 429
    assert refused.json() == {"errors": [{"code": "too many requests", "description": "Rate limit for write exceeded"}]}
    assert (refused.headers["x-rate-limited-ops"], refused.headers["retry-after"]) == ("write", "1")
    assert ask(limited, "1", other).status_code == 200
    assert ask(limited, "1", key + ":server").status_code in (401, 429)
    deadline = time.monotonic() + 60
    while ask(limited, "1", key).status_code == 429:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert ask(limited, "1", "nonsense").status_code == 401
