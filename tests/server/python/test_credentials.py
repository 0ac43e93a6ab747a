"""Wrong passwords wait, for nobody else; what --dev gives to everybody is not for pages of other sites; MIGRATE goes where operators say."""

import base64
import http.client
import time

import pytest
from harness.admin import Admin
from harness.resp import Connection, ReplyError
from harness.server import Server

pytestmark = pytest.mark.quartet_only


@pytest.fixture(scope="module")
def host():
    server = Server().start()
    yield server
    server.close()


def ask(port, method, path, body=None, **headers):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = client.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        client.close()


def seconds_to(step):
    started = time.monotonic()
    step()
    return time.monotonic() - started


def test_wrong_passwords_wait_longer_each_time_and_others_do_not(host):
    """One connection could try 424,000 passwords a second."""
    with Connection(host.port) as operator, Connection(host.port) as guesser:
        operator.do("ACL", "SETUSER", "alice", "on", ">right")
        operator.do("ACL", "SETUSER", "bob", "on", ">right")

        def log_in(user, connection=None):
            with Connection(host.port) as own:
                assert (connection or own).do("AUTH", user, "right") == "OK"

        log_in("alice")
        started, attempts = time.monotonic(), 0
        while time.monotonic() - started < 2.0:
            assert guesser.do("AUTH", "alice", f"guess{attempts}").startswith("WRONGPASS")
            attempts += 1
        # Eight that are free, and then 10 ms, 20 ms, 40 ms...
        assert attempts <= 20
        # Another connection of the guesser's waits as well, and learns nothing by hanging up.
        with Connection(host.port) as impatient:
            impatient.send("AUTH", "alice", "another guess")
            guesser.send("AUTH", "alice", "guess")
            # Others, and who came in with this password before, do not wait.
            assert seconds_to(lambda: log_in("bob")) < 0.5
            assert seconds_to(lambda: log_in("alice")) < 0.5
        assert guesser.read().startswith("WRONGPASS")
        with Connection(host.port) as greeter:
            assert greeter.do("HELLO", 2, "AUTH", "bob", "wrong").startswith("WRONGPASS")


def test_wrong_keys_of_the_admin_api_wait(host):
    def wrong():
        assert ask(host.http_port, "GET", "/admin/v1/databases", Authorization="Bearer wrong")[0] == 401

    seconds = [seconds_to(wrong) for _ in range(15)]
    assert seconds[-1] > 0.3, seconds
    assert seconds_to(lambda: Admin(host).ask("GET", "")) < 0.3


def test_pages_of_other_sites_may_not_use_what_dev_gives_to_everybody(host):
    secret = {"Authorization": "Basic " + base64.b64encode(b"secret:").decode()}
    signed = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
        "X_Amz_Target": "DynamoDB_20120810.ListTables",
        "Content_Type": "application/x-amz-json-1.0",
    }
    admin = {"Authorization": "Bearer dev"}
    requests = [
        (host.fauna_port, "POST", "/", b"1", secret),
        (host.dynamodb_port, "POST", "/", b"{}", signed),
        (host.http_port, "GET", "/admin/v1/databases", None, admin),
        (host.http_port, "GET", "/get/k", None, {}),
    ]
    for port, method, path, body, headers in requests:
        for foreign in ({"Origin": "https://example.com"}, {"Host": "rebound.example.com"}, {"Sec_Fetch_Site": "cross-site"}):
            status, text, answered = ask(port, method, path, body, **headers, **foreign)
            assert status in (400, 401, 403) and "another site" in text, (path, foreign, status, text)
            assert answered["access-control-allow-credentials"] is None
        status, text, _ = ask(port, method, path, body, **headers, Origin="http://localhost:3000")
        assert "another site" not in text, (path, text)


def test_migrate_is_for_operators_and_listed_targets(host):
    shop = Admin(host).create("shop")
    with Connection(host.port) as tenant:
        tenant.do("AUTH", "shop", shop["credentials"]["token"])
        tenant.do("SET", "k", "v")
        assert tenant.do("MIGRATE", "127.0.0.1", host.port, "k", 0, 100) == ReplyError("ERR Command is not available: 'MIGRATE'")
    Admin(host).delete("shop")
    assert "needs a connection of its own" in ask(host.http_port, "GET", f"/migrate/127.0.0.1/{host.port}/k/0/100")[1]
    listing = Server(options=["--migrate-targets", f"localhost:1,127.0.0.1:{host.port}"]).start()
    try:
        with Connection(listing.port) as operator, Connection(host.port) as there:
            operator.do("SET", "migrated", "v")
            refused = operator.do("MIGRATE", "127.0.0.1", 1, "migrated", 0, 100)
            assert refused.startswith("ERR MIGRATE to 127.0.0.1:1 is not allowed")
            assert operator.do("MIGRATE", "127.0.0.1", host.port, "migrated", 0, 5000) == "OK"
            assert there.do("GETDEL", "migrated") == "v"
    finally:
        listing.close()
