"""Several logical databases in one server, through redis-py, boto3 and the faunadb driver."""

from __future__ import annotations

import base64
import http.client
import json
import re
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import redis
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import FaunaError, Unauthorized
from harness import certificates, dynamodb, fauna
from harness.admin import Admin, Refused
from harness.issuer import EllipticKey, Issuer
from harness.resp import Connection
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only

DAY_SECONDS = 86_400


@pytest.fixture(scope="module")
def host():
    server = Server(durability="always").start()
    yield server
    server.close()


@pytest.fixture
def admin(host):
    # Daily counts begin anew at midnight.
    until_midnight = DAY_SECONDS - time.time() % DAY_SECONDS
    if until_midnight < 60:
        time.sleep(until_midnight)
    admin = Admin(host)
    yield admin
    for database in admin.ask("GET", "")["databases"]:
        if database["name"] != "default":
            admin.delete(database["name"])
    assert host.alive()


def connect(host, database, user=None, password=None, **options) -> redis.Redis:
    user, password = user or database["name"], password or database["credentials"]["token"]
    return redis.Redis(port=host.port, username=user, password=password, decode_responses=True, socket_timeout=60, **options)


def access_key(database):
    credentials = database["credentials"]
    return credentials["access_key_id"], credentials["secret_access_key"]


def make_table(client):
    client.create_table(
        TableName="table",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_same_keys_in_two_databases_of_redis(host, admin, protocol):
    shop, news = admin.create("shop"), admin.create("news")
    with connect(host, shop, protocol=protocol) as one, connect(host, news, protocol=protocol) as other:
        default = redis.Redis(port=host.port, decode_responses=True, protocol=protocol)
        default.delete("k")
        one.set("k", "of shop")
        other.rpush("k", "of", "news")
        assert one.get("k") == "of shop"
        assert other.lrange("k", 0, -1) == ["of", "news"]
        assert default.get("k") is None
        one.flushall()
        assert (one.dbsize(), other.dbsize()) == (0, 1)
        assert len(other.client_list()) == 1
        listener = other.pubsub()
        listener.subscribe("news")
        assert listener.get_message(timeout=60)["type"] == "subscribe"
        assert one.publish("news", "x") == 0
        assert other.publish("news", "x") == 1
        default.close()


def test_a_connection_goes_on_in_the_database_of_its_password(host, admin):
    shop, news = admin.create("shop"), admin.create("news")
    connection = redis.Redis(port=host.port, decode_responses=True, single_connection_client=True)
    connection.execute_command("CLIENT", "SETNAME", "wanderer")
    connection.execute_command("AUTH", shop["credentials"]["token"])
    connection.set("k", "shop")
    connection.execute_command("AUTH", "news", news["credentials"]["token"])
    assert connection.get("k") is None
    assert connection.execute_command("CLIENT", "GETNAME") == "wanderer"
    connection.execute_command("AUTH", "default", shop["credentials"]["token"])
    assert connection.get("k") == "shop"
    connection.close()
    with Connection(host.port) as raw:
        tokens = {database["name"]: database["credentials"]["token"] for database in (shop, news)}
        script = [("AUTH", tokens["shop"]), ("SET", "k", "2"), ("AUTH", tokens["news"]), ("GET", "k"), ("AUTH", "wrong", "x")]
        script += [("GET", "k"), ("AUTH", "shop", tokens["shop"]), ("GET", "k")]
        replies = raw.pipeline(*script)
        assert replies[:4] == ["OK", "OK", "OK", None] and replies[5:] == [None, "OK", "2"]
        assert "WRONGPASS" in repr(replies[4])


def test_wrong_credentials(host, admin):
    shop = admin.create("shop")
    token = shop["credentials"]["token"]
    for user, password in [("shop", "wrong"), ("shop/default", "wrong"), ("news", token), ("shop", shop["credentials"]["fauna_key"])]:
        with pytest.raises(redis.AuthenticationError), connect(host, shop, user, password) as client:
            client.ping()
    default_ro = connect(host, shop, "default_ro", shop["credentials"]["read_only_token"])
    assert default_ro.get("k") is None
    for command in [("SET", "k", "v"), ("KEYS", "*"), ("EVAL", "return 1", "0"), ("FLUSHALL",), ("ACL", "LIST")]:
        with pytest.raises(redis.exceptions.NoPermissionError):
            default_ro.execute_command(*command)
    stranger = dynamodb.connect(host, key=(access_key(shop)[0], "wrong"))
    with pytest.raises(ClientError) as refused:
        stranger.list_tables()
    assert refused.value.response["Error"]["Code"] == "InvalidSignatureException"
    with pytest.raises(Unauthorized):
        fauna.connect(host, "qf_wrong").query(q.now())
    for key in ["", "wrong"]:
        with pytest.raises(Refused) as denied:
            Admin(host, key).ask("GET", "")
        assert denied.value.status == 401


def test_commands_for_operators_alone(host, admin):
    shop = admin.create("shop")
    with connect(host, shop) as client:
        for command in [("SHUTDOWN", "NOSAVE"), ("DEBUG", "SLEEP", "0"), ("SAVE",), ("CONFIG", "REWRITE"), ("ACL", "LOAD")]:
            with pytest.raises(redis.ResponseError, match="Command is not available"):
                client.execute_command(*command)
        with pytest.raises(redis.ResponseError, match="protected config"):
            client.config_set("maxmemory", "1gb")
        client.config_set("notify-keyspace-events", "KEA")


def test_the_same_table_in_two_databases_of_dynamodb(host, admin):
    shop, news = admin.create("shop"), admin.create("news")
    one, other = (dynamodb.connect(host, key=access_key(database)) for database in (shop, news))
    for client, value in [(one, "1"), (other, "2")]:
        make_table(client)
        client.put_item(TableName="table", Item={"k": {"S": "k"}, "v": {"S": value}})
    for client, value in [(one, "1"), (other, "2")]:
        assert client.get_item(TableName="table", Key={"k": {"S": "k"}})["Item"]["v"]["S"] == value
    assert dynamodb.connect(host).list_tables()["TableNames"] == []


def test_the_same_collection_in_two_databases_of_fauna(host, admin):
    shop, news = admin.create("shop"), admin.create("news")
    one, other = (fauna.connect(host, database["credentials"]["fauna_key"]) for database in (shop, news))
    for client, value in [(one, 1), (other, 2)]:
        client.query(q.create_collection({"name": "c"}))
        client.query(q.create(q.ref(q.collection("c"), "1"), {"data": {"v": value}}))
    for client, value in [(one, 1), (other, 2)]:
        assert client.query(q.select(["data", "v"], q.get(q.ref(q.collection("c"), "1")))) == value
    server_key = one.query(q.create_key({"role": "server"}))["secret"]
    assert fauna.connect(host, server_key).query(q.exists(q.ref(q.collection("c"), "1"))) is True
    assert fauna.connect(host).query(q.exists(q.collection("c"))) is False
    admin.delete("shop")
    with pytest.raises(Unauthorized):
        fauna.connect(host, server_key).query(q.now())


def test_a_token_of_an_issuer_opens_the_database_that_its_audience_names(tmp_path):
    made, key, tokens = certificates.make(tmp_path), EllipticKey("one"), {}
    server, issuer = Server(options=["--fauna-issuer-roots", str(made.root)]).start(), Issuer(made)
    try:
        issuer.keys = [key]
        for name in ["shop", "news"]:
            tree = fauna.connect(server, Admin(server).create(name)["credentials"]["fauna_key"])
            tree.query(q.create_collection({"name": name}))
            tree.query(q.create_role({"name": "reader", "privileges": [{"resource": q.collections(), "actions": {"read": True}}]}))
            definition = {"name": "p", "issuer": "https://issuer/", "jwks_uri": issuer.uri("keys"), "roles": [q.role("reader")]}
            provider = tree.query(q.create_access_provider(definition))
            claims = {"iss": "https://issuer/", "aud": provider["audience"], "exp": int(time.time()) + 600, "sub": "amy"}
            tokens[name] = issuer.token(key, claims)
        for name, other in [("shop", "news"), ("news", "shop")]:
            found = fauna.connect(server, tokens[name]).query([q.exists(q.collection(name)), q.exists(q.collection(other))])
            assert found == [True, False]
        Admin(server).delete("shop")
        with pytest.raises(Unauthorized):
            fauna.connect(server, tokens["shop"]).query(q.now())
    finally:
        issuer.close()
        server.close()


def test_a_long_request_is_counted_once(host, admin):
    shop = admin.create("shop")
    tree = fauna.connect(host, shop["credentials"]["fauna_key"])
    tree.query(q.create_collection({"name": "c"}))
    user = tree.query(q.create(q.collection("c"), {"credentials": {"password": "sesame"}}))
    before = admin.usage("shop")
    for _ in range(3):
        secret = tree.query(q.login(user["ref"], {"password": "sesame"}))["secret"]
    after = admin.usage("shop")
    assert after["commands"] - before["commands"] == 3
    assert after["bytes_out"] - before["bytes_out"] > 3 * len(secret)
    assert tree.query(q.identify(user["ref"], "sesame")) is True


def test_quotas_of_redis(host, admin):
    shop = admin.create("shop", quotas={"request_bytes": 1000, "stored_bytes": 20_000, "connections": 2})
    with connect(host, shop) as client:
        with pytest.raises(redis.ResponseError, match=r"^max request size exceeded. Limit: 1000 bytes, Actual: \d+ bytes"):
            client.set("k", "x" * 1000)
        with pytest.raises(redis.ResponseError, match=r"^DB capacity quota exceeded. Limit: 20000 bytes, Usage: \d+ bytes"):
            for number in range(100):
                client.set(f"k{number}", "x" * 900)
        assert client.get("k1") == "x" * 900
        assert client.delete("k1", "k2", "k3") == 3
        client.set("k", "fits again")
        with connect(host, shop) as second, connect(host, shop) as third:
            assert second.ping()
            with pytest.raises(redis.RedisError, match="max concurrent connections exceeded. Limit: 2, Usage: 2"):
                third.ping()
        admin.change("shop", quotas={"commands_per_day": admin.usage("shop")["commands_of_day"] + 2, "stored_bytes": None})
        client.get("a"), client.get("b")
        assert client.ping()
        with pytest.raises(redis.ResponseError, match=r"^max daily request limit exceeded. Limit: (\d+), Usage: \1"):
            client.get("c")
        pipeline = client.pipeline()
        pipeline.set("k", "1").get("k")
        with pytest.raises(redis.ResponseError, match="max daily request limit exceeded"):
            pipeline.execute()
        admin.change("shop", quotas={"commands_per_day": None, "commands_per_second": 5})
        with pytest.raises(redis.ResponseError, match="max commands per second exceeded. Limit: 5$"):
            pipeline = client.pipeline(transaction=False)
            for _ in range(50):
                pipeline.get("k")
            pipeline.execute()


def test_quotas_of_dynamodb_and_fauna(host, admin):
    shop = admin.create("shop")
    client = dynamodb.connect(host, key=access_key(shop))
    tree = fauna.connect(host, shop["credentials"]["fauna_key"])
    make_table(client)
    client.put_item(TableName="table", Item={"k": {"S": "k"}})

    def refusal(**quotas):
        absent = dict.fromkeys(["commands_per_second", "commands_per_day", "request_bytes", "stored_bytes"])
        admin.change("shop", quotas=absent | quotas)
        with pytest.raises(ClientError) as refused:
            for _ in range(20):
                client.put_item(TableName="table", Item={"k": {"S": "k"}, "v": {"S": "v" * 200}})
        with pytest.raises(FaunaError) as limited:
            for _ in range(20):
                tree.query(q.create_collection({"name": "c"}) if "stored_bytes" in quotas else q.now())
        return refused.value.response["Error"]["Code"], limited.value.request_result.status_code

    assert refusal(commands_per_second=0) == ("ThrottlingException", 429)
    assert refusal(commands_per_day=1) == ("RequestLimitExceeded", 429)
    assert refusal(request_bytes=1) == ("LimitExceededException", 429)
    assert refusal(stored_bytes=1) == ("LimitExceededException", 429)
    assert client.get_item(TableName="table", Key={"k": {"S": "k"}})["Item"]["k"]["S"] == "k"
    client.delete_item(TableName="table", Key={"k": {"S": "k"}})


def test_metering_and_metrics(host, admin):
    shop, _ = admin.create("shop"), admin.create("quiet")
    with connect(host, shop) as client:
        for number in range(10):
            client.set(f"k{number}", "v" * 100)
        client.get("k1")
        client.ping()
        client.eval("redis.call('set', KEYS[1], '1') return redis.call('get', KEYS[1])", 1, "k1")
        usage = admin.usage("shop")
        # One for each SET and GET, also of the script, and one for EVAL itself.
        assert (usage["commands"], usage["commands_of_day"]) == (14, 14)
        assert (usage["write_units"], usage["read_units"]) == (11.0, 3.0)
        assert 9 * 100 < usage["stored_bytes"] < 9 * 100 + 1000
        assert usage["bytes_in"] > 1000 and usage["bytes_out"] > 100
        assert usage["connections"] == 1
        metrics = admin.metrics()
        assert 'quartet_database_commands_total{database="shop"} 14\n' in metrics
        assert 'quartet_database_commands_total{database="quiet"} 0\n' in metrics
        assert f'quartet_database_stored_bytes{{database="shop"}} {usage["stored_bytes"]}\n' in metrics
        # Strangers are told nothing of who is there.
        for key in ("", "wrong"):
            public = Admin(host, key).metrics()
            assert "quartet_transactions_total" in public and "shop" not in public and "quiet" not in public
    table = dynamodb.connect(host, key=access_key(shop))
    make_table(table)
    table.put_item(TableName="table", Item={"k": {"S": "k"}, "v": {"S": "v" * 3000}})
    written = admin.usage("shop")
    assert written["commands"] == 16 and written["write_units"] == 11.0 + 1.0 + 3.0 + (written["write_units"] - 15.0)
    tree = fauna.connect(host, shop["credentials"]["fauna_key"])
    tree.query(q.create_collection({"name": "c"}))
    tree.query(q.create(q.collection("c"), {"data": {}}))
    assert admin.usage("shop")["commands"] == 18
    assert admin.usage("shop")["write_units"] > written["write_units"]


def test_a_restart_keeps_catalogue_users_and_counters(host, admin):
    shop = admin.create("shop", durability="interval", quotas={"commands_per_day": 1000})
    with connect(host, shop) as client:
        client.set("k", "v")
        client.acl_setuser("alice", enabled=True, passwords=["+sesame"], categories=["+@all"], keys=["*"])
    host.restart()
    shown = admin.show("shop")
    assert shown["durability"] == "interval" and shown["quotas"] == {"commands_per_day": 1000}
    assert shown["usage"]["commands_of_day"] == 2
    with connect(host, shop) as client, connect(host, shop, "shop/alice", "sesame") as alice:
        assert client.get("k") == "v"
        assert alice.get("k") == "v"
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
    # Nothing else is written, so the next epoch of its partition has the counters.
    number = admin.show("shop")["partition"]
    epochs = lambda: float(re.search(rf'^quartet_log_epochs_total(?:{{partition="{number}"}})? (\S+)$', admin.metrics(), re.MULTILINE)[1])  # noqa: E731
    before, deadline = (admin.usage("shop")["commands"], epochs()), time.monotonic() + 120
    while epochs() == before[1]:
        assert time.monotonic() < deadline, "the counters are not kept"
        time.sleep(0.05)
    host.kill()
    host.start()
    assert admin.usage("shop")["commands"] >= before[0]


def test_new_credentials_and_deletion(host, admin):
    shop = admin.create("shop")
    client = connect(host, shop, single_connection_client=True)
    client.set("k", "v")
    renewed = admin.ask("POST", "/shop/credentials")
    with pytest.raises(redis.RedisError):
        client.get("k")
        client.get("k")
    with pytest.raises(redis.AuthenticationError), connect(host, shop) as old:
        old.ping()
    with connect(host, renewed) as new:
        assert new.get("k") == "v"
        admin.delete("shop")
        with pytest.raises(redis.RedisError):
            new.get("k")
            new.get("k")
    again = admin.create("shop")
    assert again["id"] != shop["id"]
    with connect(host, again) as fresh:
        assert fresh.dbsize() == 0
    with pytest.raises(Refused) as unknown:
        admin.delete("nosuch")
    assert unknown.value.status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "Shop"}, 400),
        ({"name": "default"}, 400),
        ({}, 400),
        ({"name": "a", "quota": {}}, 400),
        ({"name": "a", "quotas": {"x": 1}}, 400),
        ({"name": "a", "durability": "often"}, 400),
        ({"name": "a", "eviction": True}, 400),
        ([], 400),
    ],
)
def test_requests_that_are_refused(admin, body, status):
    with pytest.raises(Refused) as refused:
        admin.ask("POST", "", body)
    assert refused.value.status == status


def test_a_script_that_takes_too_long_is_taken_back(host, admin):
    shop = admin.create("shop")
    with connect(host, shop) as client:
        with pytest.raises(redis.ResponseError, match="max script duration exceeded"):
            client.eval("redis.call('set', KEYS[1], '1') while true do end", 1, "k")
        assert client.get("k") is None


def test_state_of_a_library_is_its_databases_alone(host, admin):
    """A library was known by its code alone in the interpreters that all databases share, so its local variables were shared by
    every database that had loaded the same code: one read what another had put there."""
    code = """#!lua name=memory
    local last = false
    redis.register_function('exchange', function(_, arguments) local was = last last = arguments[1] return was end)"""
    databases = [admin.create(name) for name in ("one", "two")]
    seen = {database["name"]: set() for database in databases}
    for database in databases:
        with connect(host, database) as client:
            client.function_load(code)
    # Connections come to all threads, and each of these has an interpreter.
    for _ in range(20):
        for database in databases:
            name = database["name"]
            with connect(host, database) as client:
                seen[name].add(client.fcall("exchange", 0, name))
    assert seen == {"one": {None, "one"}, "two": {None, "two"}}


def test_a_transaction_that_takes_too_long_is_taken_back(host, admin):
    shop = admin.create("shop")
    with connect(host, shop) as client:
        transaction = client.pipeline(transaction=True)
        transaction.set("k", "1")
        for _ in range(1000):
            transaction.eval("for i = 1, 1e7 do end", 0)
        with pytest.raises(redis.ResponseError, match="max transaction duration exceeded"):
            transaction.execute()
        assert client.get("k") is None


def test_the_command_line_asks_the_same(host, admin):
    def run(*words):
        command = [binary(), "admin", "--server", f"127.0.0.1:{host.http_port}", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    made = json.loads(run("create", "shop", "--quota", "connections=7", "--durability", "none").stdout)
    assert made["quotas"] == {"connections": 7} and made["durability"] == "none"
    assert json.loads(run("change", "shop", "--quota", "connections=").stdout)["quotas"] == {}
    assert [database["name"] for database in json.loads(run("list").stdout)["databases"]] == ["default", "shop"]
    refused = run("create", "shop")
    assert refused.returncode != 0 and "409" in refused.stderr
    assert run("delete", "shop", "--yes").returncode == 0
    assert run("show", "shop").returncode != 0


def test_eviction_makes_room_and_tells(host, admin):
    shop = admin.create("shop", eviction=True, quotas={"stored_bytes": 50_000})
    with connect(host, shop) as client:
        client.config_set("notify-keyspace-events", "Ee")
        listener = client.pubsub()
        listener.psubscribe("__keyevent@0__:evicted")
        assert listener.get_message(timeout=60)["type"] == "psubscribe"
        client.set("lasting", "x" * 1000)
        for number in range(100):
            client.set(f"k{number}", "x" * 1000, ex=1000)
        assert client.get("lasting") == "x" * 1000
        assert 30 < client.dbsize() < 60
        assert client.info("stats")["evicted_keys"] == 101 - client.dbsize()
        assert listener.get_message(timeout=60)["channel"] == "__keyevent@0__:evicted"
        assert admin.usage("shop")["stored_bytes"] < 52_000


def test_many_databases_cost_little(host, admin):
    for number in range(30):
        admin.create(f"d{number}", durability="none")
    databases = admin.ask("GET", "")["databases"]
    assert len(databases) == 31
    before = host.rss_bytes()
    with connect(host, admin.ask("POST", "/d7/credentials")) as client:
        client.set("k", "v")
    assert host.rss_bytes() - before < 32 << 20


def rest(host, token, *commands, path=""):
    """Sends one command, or a pipeline, over REST."""
    body = list(commands[0]) if len(commands) == 1 and not path else [list(command) for command in commands]
    request = urllib.request.Request(
        f"http://127.0.0.1:{host.http_port}{path}", data=json.dumps(body).encode(), headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.loads(error.read())}


def test_a_database_over_rest(host, admin):
    shop, news = admin.create("shop"), admin.create("news")
    token, reader = shop["credentials"]["token"], shop["credentials"]["read_only_token"]
    assert rest(host, token, ["SET", "k", "of shop"]) == {"result": "OK"}
    assert rest(host, news["credentials"]["token"], ["GET", "k"]) == {"result": None}
    assert rest(host, reader, ["GET", "k"]) == {"result": "of shop"}
    assert rest(host, reader, ["SET", "k", "v"])["error"].startswith("NOPERM")
    pipeline = rest(host, token, ["INCR", "n"], ["SHUTDOWN", "NOSAVE"], ["INCR", "n"], path="/pipeline")
    assert [reply.get("result") for reply in pipeline] == [1, None, 2]
    assert pipeline[1] == {"error": "ERR Command is not available: 'SHUTDOWN'"}
    transaction = rest(host, token, ["INCR", "n"], ["GET", "k"], path="/multi-exec")
    assert transaction == [{"result": 3}, {"result": "of shop"}]
    assert rest(host, token, *[["INCR", "many"]] * 3000, path="/pipeline")[-1] == {"result": 3000}
    with connect(host, shop) as client:
        assert client.get("n") == "3"
        client.execute_command("ACL", "SETUSER", "alice", "on", ">secret", "~a*", "+@all")
        hers = client.execute_command("ACL", "RESTTOKEN", "alice", "secret")
    assert rest(host, hers, ["SET", "a", "1"]) == {"result": "OK"}
    assert rest(host, hers, ["SET", "b", "1"])["error"].startswith("NOPERM")
    wrong = base64.b64encode(b"shop/alice:wrong").decode()
    assert rest(host, wrong, ["GET", "a"]) == {"status": 401, "error": "WRONGPASS invalid or missing auth token"}
    admin.ask("POST", "/shop/credentials")
    with redis.Redis(port=host.port, decode_responses=True) as default:
        assert default.get("k") is None
    assert len(rest(host, news["credentials"]["token"], ["CLIENT", "LIST"]).get("result", "")) == 0


def test_quotas_and_metering_over_rest(host, admin):
    shop = admin.create("shop", quotas={"request_bytes": 1000, "commands_per_day": 5, "connections": 1})
    token = shop["credentials"]["token"]
    assert rest(host, token, ["SET", "k", "x" * 2000])["error"].startswith("ERR max request size exceeded. Limit: 1000 bytes")
    replies = rest(host, token, *[["INCR", "n"]] * 7, path="/pipeline")
    assert [reply.get("result") for reply in replies] == [1, 2, 3, 4, 5, None, None]
    assert replies[5] == {"error": "ERR max daily request limit exceeded. Limit: 5, Usage: 5"}
    usage = admin.usage("shop")
    assert (usage["commands"], usage["write_units"], usage["refused"], usage["connections"]) == (5, 5, 3, 0)


def test_a_subscriber_over_rest_hears_its_database_and_ends_with_it(host, admin):
    shop, news = admin.create("shop", quotas={"connections": 2}), admin.create("news")
    token = shop["credentials"]["token"]

    def subscribe():
        stream = http.client.HTTPConnection("127.0.0.1", host.http_port, timeout=60)
        stream.request("GET", "/subscribe/c", headers={"Authorization": f"Bearer {token}", "Accept": "text/event-stream"})
        return stream.getresponse()

    streams = [subscribe(), subscribe()]
    for stream in streams:
        assert stream.readline() == b"data: subscribe,c,1\n" and stream.readline() == b"\n"
    assert b"max concurrent connections exceeded" in subscribe().read()
    assert rest(host, news["credentials"]["token"], ["PUBLISH", "c", "to nobody"]) == {"result": 0}
    assert rest(host, token, ["PUBLISH", "c", "to both"]) == {"result": 2}
    for stream in streams:
        assert stream.readline() == b"data: message,c,to both\n"
    admin.delete("shop")
    for stream in streams:
        assert stream.read() == b"\n"
    # With --dev nobody's token is the default database's.
    assert rest(host, token, ["GET", "k"]) == {"result": None}
