"""Strict reads of DynamoDB, FaunaDB and of Redis over REST at nodes that are not home: what was acknowledged or read before, at any node, is in
the answer."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time

import pytest
from botocore.exceptions import ClientError
from faunadb import query as q
from faunadb.errors import NotFound, Unauthorized
from harness import fauna
from harness.admin import Admin
from harness.cluster import Cluster, until
from harness.dynamodb import connect
from harness.slow_etcd import SlowWay

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]

TABLE = "readings"
READS = "quartet_replica_reads_total"


@pytest.fixture(scope="module")
def cluster():
    # Without keys of its own a server in development accepts any.
    with Cluster(options=["--dynamodb-access-keys", "test:test"]) as cluster:
        make_table(connect(cluster.home()))
        yield cluster


def make_table(client) -> None:
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def item(id: str, value: int) -> dict:
    return {"id": {"S": id}, "value": {"N": str(value)}}


def value(client, id: str) -> int | None:
    found = client.get_item(TableName=TABLE, Key={"id": {"S": id}}, ConsistentRead=True).get("Item")
    return found and int(found["value"]["N"])


def access_key(database) -> tuple[str, str]:
    credentials = database["credentials"]
    return credentials["access_key_id"], credentials["secret_access_key"]


def answers_here(node, client, id: str) -> bool:
    """A read at the node is answered by it. The node may not know yet of the home that it is strict."""
    before = node.metrics()[READS]
    value(client, id)
    return node.metrics()[READS] > before


def rest(node, *command, token: str = "any", path: str = "/", method: str = "POST"):
    """The status and the result of a request over REST: of one command, or of those in the words of another path."""
    connection = http.client.HTTPConnection(node.host, node.http_port, timeout=60)
    try:
        body = json.dumps(command) if method == "POST" else None
        connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def result(node, *command, **options):
    status, answer = rest(node, *command, **options)
    assert status == 200, answer
    return answer["result"]


def is_answered_here(node, ask) -> bool:
    before = node.metrics()[READS]
    ask()
    return node.metrics()[READS] > before


def until_read_here(node, token: str = "any") -> None:
    """The node may not know yet of the home that it is strict, or may not have read its catalogue again."""
    until(lambda: is_answered_here(node, lambda: result(node, "GET", "none", token=token)), "it answers reads over REST")


def test_commands_over_rest_that_only_read_are_answered_at_a_follower(cluster):
    def are_answered():
        home = cluster.home()
        result(home, "FLUSHALL")
        result(home, "SET", "a", "1")
        result(home, "HSET", "h", "f", "v")
        result(home, "FT.CREATE", "i", "PREFIX", "1", "h", "SCHEMA", "f", "TAG")
        for node in cluster.others():
            until_read_here(node)
            for ask, expected in (
                (lambda node=node: result(node, path="/get/a", method="GET"), "1"),
                (lambda node=node: result(node, "MGET", "a", "none"), ["1", None]),
                (lambda node=node: result(node, "HGETALL", "h"), ["f", "v"]),
                (lambda node=node: sorted(result(node, "KEYS", "*")), ["a", "h"]),
                (lambda node=node: rest(node, ["GET", "a"], ["DBSIZE"], path="/pipeline")[1], [{"result": "1"}, {"result": 2}]),
                (lambda node=node: rest(node, ["GET", "a"], ["HLEN", "h"], path="/multi-exec")[1], [{"result": "1"}, {"result": 1}]),
                (lambda node=node: rest(node, "HGET", "a", "f")[1]["error"].split()[0], "WRONGTYPE"),
            ):
                before = node.metrics()[READS]
                assert ask() == expected
                assert node.metrics()[READS] > before, expected
            # Writes, what is wrong, and what the home has in memory are the home's.
            before = node.metrics()[READS]
            assert result(node, "SET", "a", "1") == "OK"
            assert rest(node, ["GET", "a"], ["SET", "a", "1"], path="/pipeline")[1] == [{"result": "1"}, {"result": "OK"}]
            assert rest(node, ["GET", "a"], ["SET", "a", "1"], path="/multi-exec")[1] == [{"result": "1"}, {"result": "OK"}]
            assert rest(node, "GET")[0] == 400 and rest(node, "NOSUCH")[0] == 400
            assert result(node, "EVAL_RO", "return redis.call('GET', 'a')", "0") == "1"
            assert result(node, "OBJECT", "FREQ", "none") is None
            assert result(node, "FT.SEARCH", "i", "@f:{v}", "NOCONTENT") == [1, "h"]
            assert result(node, "PING") == "PONG"
            assert node.metrics()[READS] == before

    cluster.at_one_home(are_answered)


def test_a_follower_leaves_deadlines_that_are_near_to_the_home(cluster):
    """Clocks differ: each node would decide differently whether such a key has expired. What one node has shown as expired, none shows later."""

    def are_left():
        home, node = cluster.home(), cluster.others()[0]
        until_read_here(node)
        result(home, "SET", "far", "1", "EX", "1000")
        result(home, "SET", "near", "1", "PX", "600")
        result(home, "HSET", "fields", "f", "1", "g", "2")
        result(home, "HPEXPIRE", "fields", "600", "FIELDS", "1", "f")
        assert is_answered_here(node, lambda: result(node, "GET", "far"))
        assert 990 <= result(node, "TTL", "far") <= 1000
        for ask in (("GET", "near"), ("MGET", "far", "near"), ("KEYS", "*"), ("HGET", "fields", "g")):
            assert not is_answered_here(node, lambda ask=ask: result(node, *ask)), ask
        until(lambda: result(node, "GET", "near") is None, "it has expired")
        for at in [*cluster.nodes, *cluster.nodes]:
            assert result(at, "GET", "near") is None and "near" not in result(at, "KEYS", "*")
        until(lambda: result(node, "HGET", "fields", "f") is None, "the field has expired")
        assert result(node, "HGETALL", "fields") == ["g", "2"]
        # It is removed by the home soon, and then the node answers.
        until(lambda: is_answered_here(node, lambda: result(node, "KEYS", "*")), "nothing near is left")

    cluster.at_one_home(are_left)


def opens(node, token: str, turn: int) -> bool:
    """Whether the token opens the shop. A server in development lets an unknown one into its default database."""
    return rest(node, "GET", "a", token=token)[1].get("result") == f"of shop {turn}"


def test_a_token_that_was_revoked_opens_nothing_at_a_follower(cluster):
    """Users change in the home's memory, and their row follows later, if at all. Followers that knew only the row let in users whose rights the
    home had taken away before; now a row of the change says that the home has to judge."""

    def opens_nothing():
        admin = Admin(cluster.home())
        for turn in range(4):
            name = f"tokens-{turn}-{time.monotonic_ns()}"
            home, shop = cluster.home(), admin.create(name)
            token, reader = shop["credentials"]["token"], shop["credentials"]["read_only_token"]
            result(home, "SET", "a", f"of shop {turn}", token=token)
            for node in cluster.others():
                until_read_here(node, token=token)
                assert opens(node, token, turn) and opens(node, reader, turn)
            if turn < 2:
                renewed = admin.ask("POST", f"/{name}/credentials") if turn else admin.delete(name)
                for node in cluster.others():
                    assert not any(opens(node, one, turn) for one in (token, reader))
                if renewed:
                    assert all(opens(node, renewed["credentials"]["token"], turn) for node in cluster.others())
                continue
            result(home, "ACL", "SETUSER", "guest", "on", ">word", "+get", "~*", token=token)
            guest = result(home, "ACL", "RESTTOKEN", "guest", "word", token=token)
            assert all(opens(node, guest, turn) for node in cluster.others())
            change = ("ACL", "DELUSER", "guest") if turn == 2 else ("ACL", "SETUSER", "guest", "-get")
            result(home, *change, token=token)
            assert not any(opens(node, guest, turn) for node in cluster.others())
            result(home, "ACL", "SETUSER", "default", "-get", token=token)
            for node in cluster.others():
                status, answer = rest(node, "GET", "a", token=token)
                assert status == 400 and answer["error"].startswith("NOPERM"), answer

    cluster.at_one_home(opens_nothing)


def never_goes_back(cluster, seconds: float, clients: list, start: int = 0, least: int = 10) -> None:
    """Each of `clients` makes a function that asks a node and returns what the answer shows the number to be at least; None: it was refused. At any node
    that is no less than what others had been answered when the request began."""
    deadline, failures, known, lock = time.monotonic() + seconds, [], [start], threading.Lock()
    before = sum(node.metrics()[READS] for node in cluster.nodes)

    def act(seed: int) -> None:
        try:
            client, choose = clients[seed](), random.Random(seed)
            while time.monotonic() < deadline and not failures:
                required, at = known[0], choose.randrange(len(cluster.nodes))
                number = client(at)
                if number is None:
                    time.sleep(0.05)
                    continue
                if number < required:
                    failures.append(f"node {at} answered {number}, {required} was known")
                with lock:
                    known[0] = max(known[0], number)
        except Exception as failure:  # noqa: BLE001
            failures.append(f"client {seed}: {failure!r}")

    threads = [threading.Thread(target=act, args=(seed,)) for seed in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert known[0] > least and sum(node.metrics()[READS] for node in cluster.nodes) > before + least


def test_a_counter_over_rest_never_goes_back_at_any_node(cluster):
    """It is counted and read at all nodes at once."""
    result(cluster.home(), "DEL", "counter")

    def asks(*command: str):
        def ask(at: int) -> int | None:
            status, answer = rest(cluster.nodes[at], *command)
            return int(answer["result"] or 0) if status == 200 else None

        return lambda: ask

    never_goes_back(cluster, 4, [asks("INCR", "counter")] * 2 + [asks("GET", "counter")] * 3)


def library(home) -> tuple:
    """A collection with a document of two versions, and an index; the reference, and the time of the first version."""
    client, name = fauna.connect(home), f"books{time.monotonic_ns()}"
    client.query(q.create_collection({"name": name}))
    terms = [{"field": ["data", "title"]}]
    client.query(q.create_index({"name": f"{name}_by_title", "source": q.collection(name), "terms": terms}))
    first = client.query(q.create(q.collection(name), {"data": {"title": "a", "read": 1}}))
    client.query(q.update(first["ref"], {"data": {"read": 2}}))
    return name, first["ref"], first["ts"]


def test_queries_that_only_read_are_answered_at_a_follower(cluster):
    def are_answered():
        home = cluster.home()
        name, ref, first = library(home)
        for node in cluster.others():
            client = fauna.connect(node)
            until(lambda node=node, client=client: is_answered_here(node, lambda: client.query(q.exists(ref))), "it answers queries")
            match = q.match(q.index(f"{name}_by_title"), "a")
            for query, expected in (
                (q.select(["data", "read"], q.get(ref)), 2),
                (q.select("data", q.paginate(match)), [ref]),
                (q.at(first, q.select(["data", "read"], q.get(ref))), 1),
                (q.count(q.documents(q.collection(name))), 1),
                (q.let({"one": q.get(match)}, q.if_(True, q.select(["data", "title"], q.var("one")), 0)), "a"),
                (q.map_(q.lambda_("x", q.add(q.var("x"), 1)), [1, 2]), [2, 3]),
            ):
                before = node.metrics()[READS]
                assert client.query(query) == expected
                assert node.metrics()[READS] == before + 1, query
            before = node.metrics()[READS]
            with pytest.raises(NotFound):
                client.query(q.get(q.ref(q.collection(name), "1")))
            assert node.metrics()[READS] == before + 1
            # What writes, shows the present, or is wrong is the home's.
            before = node.metrics()[READS]
            client.query(q.update(ref, {"data": {"read": 2}}))
            now = client.query(q.now())
            assert client.query(q.lt(q.time_subtract(now, 10, "seconds"), q.time("now")))
            assert client.query(q.new_id()) != client.query(q.new_id())
            with pytest.raises(Unauthorized):
                fauna.connect(node, "wrong").query(q.get(ref))
            assert node.metrics()[READS] == before
            assert client.query(q.at(now, q.select(["data", "read"], q.get(ref)))) == 2

    cluster.at_one_home(are_answered)


def test_what_one_node_has_shown_as_expired_no_other_shows(cluster):
    """Clocks differ, and a follower removes nothing. The home writes ahead which times it has shown, so a follower's present is not before them."""

    def is_expired_everywhere():
        home = cluster.home()
        name, _, _ = library(home)
        clients = {node: fauna.connect(node) for node in cluster.nodes}
        for _ in range(3):
            ttl = q.time_add(q.now(), 300, "milliseconds")
            ref = clients[home].query(q.create(q.collection(name), {"ttl": ttl, "data": {"title": "ttl"}}))["ref"]
            shown = {node: True for node in cluster.nodes}
            deadline = time.monotonic() + 20
            while any(shown.values()) and time.monotonic() < deadline:
                for node, client in clients.items():
                    is_there = client.query(q.exists(ref))
                    assert not is_there or all(shown.values()), "it was expired at another node before"
                    shown[node] = shown[node] and is_there
            assert not any(shown.values())

    cluster.at_one_home(is_expired_everywhere)


def test_a_key_of_fauna_that_was_deleted_opens_nothing_at_a_follower(cluster):
    def opens_nothing():
        home = cluster.home()
        _, ref, _ = library(home)
        admin = fauna.connect(home)
        for _ in range(4):
            key = admin.query(q.create_key({"role": "server"}))
            for node in cluster.others():
                client = fauna.connect(node, key["secret"])
                until(lambda node=node, client=client: is_answered_here(node, lambda: client.query(q.exists(ref))), "it answers queries")
            admin.query(q.delete(key["ref"]))
            for node in cluster.others():
                with pytest.raises(Unauthorized):
                    fauna.connect(node, key["secret"]).query(q.exists(ref))

    cluster.at_one_home(opens_nothing)


def test_a_counter_of_fauna_never_goes_back_at_any_node(cluster):
    """Two clients count, three read. The home answered from before a record that a follower had shown already, as it read what it knew to be
    durable."""
    _, ref, _ = library(cluster.home())
    read = q.select(["data", "read"], q.get(ref))
    count = q.select(["data", "read"], q.update(ref, {"data": {"read": q.add(read, 1)}}))

    def asks(query):
        def client():
            clients = [fauna.connect(node) for node in cluster.nodes]
            return lambda at: clients[at].query(query)

        return client

    never_goes_back(cluster, 4, [asks(count)] * 2 + [asks(read)] * 3, start=2)


def test_each_read_is_answered_at_a_follower(cluster):
    def each_is():
        home = connect(cluster.home())
        home.put_item(TableName=TABLE, Item=item("each", 1))
        key = {"id": {"S": "each"}}
        for node in cluster.others():
            client = connect(node)
            until(lambda node=node, client=client: answers_here(node, client, "each"), "it answers reads")
            for read in (
                lambda client=client: client.get_item(TableName=TABLE, Key=key)["Item"],
                lambda client=client: client.batch_get_item(RequestItems={TABLE: {"Keys": [key]}})["Responses"][TABLE][0],
                lambda client=client: client.transact_get_items(TransactItems=[{"Get": {"TableName": TABLE, "Key": key}}])["Responses"][0]["Item"],
                lambda client=client: client.scan(TableName=TABLE, FilterExpression="id = :id", ExpressionAttributeValues={":id": {"S": "each"}})["Items"][0],
                lambda client=client: client.query(TableName=TABLE, KeyConditionExpression="id = :id", ExpressionAttributeValues={":id": {"S": "each"}})["Items"][0],
            ):
                before = node.metrics()[READS]
                assert read() == item("each", 1)
                assert node.metrics()[READS] == before + 1
            # Writes, and what is wrong, are the home's.
            before = node.metrics()[READS]
            client.put_item(TableName=TABLE, Item=item("each", 1))
            with pytest.raises(client.exceptions.ResourceNotFoundException):
                client.get_item(TableName="none", Key=key)
            assert node.metrics()[READS] == before + 1

    cluster.at_one_home(each_is)


def test_statements_and_descriptions_are_answered_at_a_follower(cluster):
    def are_answered():
        home = connect(cluster.home())
        home.put_item(TableName=TABLE, Item=item("each", 1))
        statement = {"Statement": f"\n select * FROM {TABLE} WHERE id = 'each'"}
        arn = home.describe_table(TableName=TABLE)["Table"]["TableArn"]
        for node in cluster.others():
            client = connect(node)
            until(lambda node=node, client=client: answers_here(node, client, "each"), "it answers reads")
            for read, expected in (
                (lambda client=client: client.execute_statement(**statement)["Items"], [item("each", 1)]),
                (lambda client=client: client.batch_execute_statement(Statements=[statement])["Responses"][0]["Item"], item("each", 1)),
                (lambda client=client: client.execute_transaction(TransactStatements=[statement])["Responses"], [{"Item": item("each", 1)}]),
                (lambda client=client: client.describe_table(TableName=TABLE)["Table"]["TableStatus"], "ACTIVE"),
                (lambda client=client: client.list_tables()["TableNames"], [TABLE]),
                (lambda client=client: client.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]["TimeToLiveStatus"], "DISABLED"),
                (lambda client=client: client.list_tags_of_resource(ResourceArn=arn)["Tags"], []),
                (lambda client=client: client.list_backups()["BackupSummaries"], []),
                (lambda client=client: client.list_exports()["ExportSummaries"], []),
            ):
                before = node.metrics()[READS]
                assert read() == expected
                assert node.metrics()[READS] == before + 1, expected
            # Writes, and what follows from the home's clock.
            before = node.metrics()[READS]
            client.execute_statement(Statement=f"UPDATE {TABLE} SET seen = 1 WHERE id = 'each'")
            client.batch_execute_statement(Statements=[{"Statement": f"DELETE FROM {TABLE} WHERE id = 'each'"}])
            assert client.describe_continuous_backups(TableName=TABLE)["ContinuousBackupsDescription"]["ContinuousBackupsStatus"] == "ENABLED"
            assert node.metrics()[READS] == before
            home.put_item(TableName=TABLE, Item=item("each", 1))

    cluster.at_one_home(are_answered)


def test_a_read_has_what_was_acknowledged_or_read_at_another_node_before(cluster):
    """A register is written and read at all nodes at once."""
    numbers, taking = iter(range(1, 1_000_000)), threading.Lock()

    def writes():
        clients = [connect(node) for node in cluster.nodes]

        def write(at: int) -> int | None:
            with taking:
                number = next(numbers)
            try:
                # A later number is never overwritten by an earlier one.
                clients[at].put_item(
                    TableName=TABLE,
                    Item=item("register", number),
                    ConditionExpression="attribute_not_exists(id) OR #value < :number",
                    ExpressionAttributeNames={"#value": "value"},
                    ExpressionAttributeValues={":number": {"N": str(number)}},
                )
                return number
            except ClientError as error:
                # Refused by the condition: a later number is there.
                return number if error.response["Error"]["Code"] == "ConditionalCheckFailedException" else None

        return write

    def reads():
        clients = [connect(node) for node in cluster.nodes]

        def read(at: int) -> int | None:
            try:
                return value(clients[at], "register") or 0
            except ClientError:
                return None

        return read

    never_goes_back(cluster, 15, [writes] * 2 + [reads] * 4, least=20)


def test_a_revoked_credential_opens_nothing_at_a_follower(cluster):
    def opens_nothing():
        admin = Admin(cluster.home())
        for turn in range(5):
            name = f"shop-{turn}-{time.monotonic_ns()}"
            shop = admin.create(name)
            first = connect(cluster.home(), key=access_key(shop))
            make_table(first)
            first.put_item(TableName=TABLE, Item=item("a", turn))
            clients = [connect(node, key=access_key(shop)) for node in cluster.others()]
            assert [value(client, "a") for client in clients] == [turn, turn]
            renewed = admin.ask("POST", f"/{name}/credentials") if turn % 2 else admin.delete(name)
            for client in clients:
                with pytest.raises(ClientError) as refused:
                    value(client, "a")
                assert refused.value.response["Error"]["Code"] == "UnrecognizedClientException"
            if renewed:
                assert [value(connect(node, key=access_key(renewed)), "a") for node in cluster.others()] == [turn, turn]

    cluster.at_one_home(opens_nothing)


def test_a_database_with_relaxed_durability_is_read_at_its_home(cluster):
    def is_read_at_its_home():
        admin = Admin(cluster.home())
        for durability in ("interval", "always"):
            name = f"{durability}-{time.monotonic_ns()}"
            database = admin.create(name, durability=durability)
            key = access_key(database)
            first = connect(cluster.home(), key=key)
            make_table(first)
            first.put_item(TableName=TABLE, Item=item("a", 7))
            node = cluster.others()[0]
            client = connect(node, key=key)
            token = database["credentials"]["token"]
            result(cluster.home(), "SET", "a", "7", token=token)
            for read, expected in ((lambda client=client: value(client, "a"), 7), (lambda token=token: result(node, "GET", "a", token=token), "7")):
                assert read() == expected
                if durability == "always":
                    until(lambda read=read: is_answered_here(node, read), "it has read its catalogue again")
                else:
                    assert not is_answered_here(node, read)

    cluster.at_one_home(is_read_at_its_home)


def settled_usage(admin, name: str) -> dict:
    """The usage after all nodes have reported theirs, which each does every few seconds."""
    time.sleep(3)
    return admin.usage(name)


def test_reads_are_counted_in_the_account_of_the_database(cluster):
    def are_counted():
        admin = Admin(cluster.home())
        name = f"counted-{time.monotonic_ns()}"
        database = admin.create(name)
        key = access_key(database)
        first = connect(cluster.home(), key=key)
        make_table(first)
        first.put_item(TableName=TABLE, Item=item("a", 7))
        node = cluster.others()[0]
        client = connect(node, key=key)
        before, here = admin.usage(name), node.metrics()[READS]
        for _ in range(20):
            value(client, "a")
        assert node.metrics()[READS] == here + 20
        until(lambda: admin.usage(name)["commands"] >= before["commands"] + 20, "they are counted", 20)
        usage = admin.usage(name)
        assert usage["commands"] == before["commands"] + 20
        assert usage["read_units"] == before["read_units"] + 20
        assert usage["bytes_out"] > before["bytes_out"]
        # Of Redis a command that is passed on is counted at the home alone.
        token = database["credentials"]["token"]
        result(cluster.home(), "SET", "near", "1", "PX", "1000", token=token)
        until_read_here(node, token=token)
        before = settled_usage(admin, name)
        for _ in range(5):
            result(node, "GET", "none", token=token)
            result(node, "GET", "near", token=token)
        until(lambda: admin.usage(name)["commands"] >= before["commands"] + 10, "they are counted", 20)
        assert settled_usage(admin, name)["commands"] == before["commands"] + 10

    cluster.at_one_home(are_counted)


def test_a_follower_that_is_cut_off_from_etcd_passes_reads_on():
    """It cannot learn how far the log has come: the home answers, and what was acknowledged there is in the answer."""
    cluster = Cluster(options=["--dynamodb-access-keys", "test:test"])
    way, node = SlowWay(cluster.etcd.clients), cluster.nodes[-1]
    node.options[node.options.index("--log") + 1] = f"etcd://{','.join(way.endpoints)}/test"
    try:
        with cluster:
            if node.is_home():
                cluster.nodes[0].hand_over()
            home, client = connect(cluster.home()), connect(node)
            make_table(home)
            home.put_item(TableName=TABLE, Item=item("cut", 1))
            until(lambda: answers_here(node, client, "cut"), "it answers reads")
            way.seconds = 60
            for number in range(2, 6):
                home.put_item(TableName=TABLE, Item=item("cut", number))
                before, began = node.metrics()[READS], time.monotonic()
                assert value(client, "cut") == number
                assert time.monotonic() - began < 3 and node.metrics()[READS] == before
    finally:
        way.close()


def test_while_etcd_does_not_answer_a_read_ends_in_time_and_later_succeeds(cluster):
    """A follower without the log's end passes reads on to the home, which answers what it can, or refuses with an error after which
    SDKs try again."""
    cluster.home()
    node = cluster.others()[0]
    client = connect(node, seconds=30)
    until(lambda: value(client, "each") is not None or True, "it is read")
    members = range(len(cluster.etcd.processes))
    for member in members:
        cluster.etcd.pause(member)
    try:
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(ClientError) as refused:
                value(client, "each")
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] in (500, 503)
            assert time.monotonic() - began < 10
    finally:
        for member in members:
            cluster.etcd.go_on(member)

    def reads_again() -> bool:
        try:
            return answers_here(node, client, "each") or node.is_home()
        except ClientError:
            return False

    until(reads_again, "it answers reads again")
