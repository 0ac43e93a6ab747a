"""/metrics: well-formed, bounded, with the names that dashboards for redis_exporter ask for; redis_exporter itself reads the server."""

import http.client
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from harness.admin import Admin
from harness.dynamodb import connect as dynamodb
from harness.resp import Connection
from harness.server import ROOT, Server, binary, free_port

pytestmark = pytest.mark.quartet_only
DASHBOARD = ROOT / "packaging" / "grafana" / "quartet.json"
ALERTS = ROOT / "packaging" / "grafana" / "alerts.yaml"
LINE = re.compile(r'^([a-z_][a-z0-9_]*)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')

# What the queries of the dashboards 763 and 14091 of grafana.com ask redis_exporter for.
OF_DASHBOARDS = """
redis_up redis_uptime_in_seconds redis_connected_clients redis_blocked_clients redis_memory_used_bytes redis_memory_max_bytes
redis_commands_processed_total redis_keyspace_hits_total redis_keyspace_misses_total redis_net_input_bytes_total
redis_net_output_bytes_total redis_db_keys redis_db_keys_expiring redis_expired_keys_total redis_evicted_keys_total
redis_commands_total redis_commands_duration_seconds_total redis_connected_slaves redis_config_maxclients
redis_memory_used_rss_bytes redis_instance_info redis_rejected_connections_total redis_slowlog_length
redis_cpu_sys_seconds_total redis_cpu_user_seconds_total redis_mem_fragmentation_ratio redis_start_time_seconds
""".split()


@pytest.fixture(scope="module")
def host():
    server = Server().start()
    with Connection(server.port) as client:
        client.do("SET", "key", "value")
        client.do("SET", "passing", "value", "EX", 1000)
        client.do("GET", "key")
        client.do("SELECT", 3)
        client.do("SET", "other", "value")
    yield server
    server.close()


def scraped(server, path="/metrics") -> str:
    asking = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    asking.request("GET", path, headers={"Authorization": "Bearer dev"})
    return asking.getresponse().read().decode()


def samples(text) -> dict[str, dict[str, float]]:
    """Values by name and labels. Every line must be one of the format, and every name typed once, before its values."""
    found, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, f"{name} is typed twice"
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            name, labels, value = LINE.fullmatch(line).groups()
            base = re.sub("_(bucket|sum|count)$", "", name)
            assert name in kinds or kinds.get(base) in ("histogram", "summary"), f"{name} has no type"
            assert (labels or "") not in found.setdefault(name, {}), line
            found[name][labels or ""] = float(value)
    return found


def test_every_line_is_typed_and_dashboards_find_their_names(host):
    found, deadline = samples(scraped(host)), time.monotonic() + 60
    # A scrape does not wait for a thread that keeps the partition; on a machine under load any may. It says so, and tells what was counted last.
    while found["redis_db_keys_are_late"] == {"": 1}:
        assert time.monotonic() < deadline
        found = samples(scraped(host))
    assert [name for name in OF_DASHBOARDS if name not in found] == []
    assert found["redis_db_keys"] == {'db="db0"': 2, 'db="db3"': 1}
    assert found["redis_db_keys_expiring"] == {'db="db0"': 1, 'db="db3"': 0}
    assert found["redis_keyspace_hits_total"][""] >= 1


def test_keys_are_counted_while_a_script_keeps_the_partition():
    """They were left out of such a scrape, so a dashboard showed a gap where the server was busiest."""
    server = Server().start()
    try:
        with Connection(server.port) as client, Connection(server.port) as busy:
            client.do("SET", "key", "value")
            client.do("CONFIG", "SET", "busy-reply-threshold", 200)
            assert samples(scraped(server))["redis_db_keys"] == {'db="db0"': 1}
            # Several times: a scrape that came before anybody had noticed the script waited for it without end, on the
            # thread that was to receive SCRIPT KILL.
            for _ in range(10):
                busy.send("EVAL", "while true do end", 0)
                found, deadline = samples(scraped(server)), time.monotonic() + 60
                while found["redis_db_keys_are_late"] == {"": 0}:
                    assert time.monotonic() < deadline
                    # A request that waits in vain for the partition announces that it is kept.
                    client.do("GET", "key")
                    found = samples(scraped(server))
                assert found["redis_db_keys"] == {'db="db0"': 1}
                assert found["redis_db_keys_expiring"] == {'db="db0"': 0}
                # It may have been another that kept the partition, before the script began.
                while client.do("SCRIPT", "KILL") != "OK":
                    assert time.monotonic() < deadline
                busy.read()
    finally:
        server.close()


def test_histograms_count_every_request(host):
    def count(layer, operation):
        found = samples(scraped(host)).get("quartet_request_duration_seconds_count", {})
        return found.get(f'layer="{layer}",operation="{operation}"', 0)

    with Connection(host.port) as client:
        before = count("redis", "strlen")
        for _ in range(7):
            client.do("STRLEN", "key")
        assert count("redis", "strlen") - before == 7
    before = count("dynamodb", "ListTables")
    dynamodb(host).list_tables()
    assert count("dynamodb", "ListTables") - before == 1
    before = count("fauna", "query")
    asking = http.client.HTTPConnection("127.0.0.1", host.fauna_port, timeout=60)
    asking.request("POST", "/", json.dumps({"add": [1, 2]}), {"Authorization": "Bearer secret"})
    assert asking.getresponse().status == 200
    assert count("fauna", "query") - before == 1
    for operation, path, body in (("command", "/strlen/key", None), ("pipeline", "/pipeline", [["GET", "key"]] * 3), ("transaction", "/multi-exec", [["GET", "key"]])):
        before, commands = count("rest", operation), count("redis", "get")
        assert asked(host, path, body)[0] == 200
        assert count("rest", operation) - before == 1
        assert count("redis", "get") - commands == len(body or [])
    found = samples(scraped(host))
    for labels, value in found["quartet_request_duration_seconds_count"].items():
        assert found["quartet_request_duration_seconds_bucket"][labels + ',le="+Inf"'] == value


def asked(server, path, body=None, token="dev") -> tuple[int, str]:
    asking = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    method = "GET" if body is None else "POST"
    asking.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {token}"})
    answer = asking.getresponse()
    return answer.status, answer.read().decode()


def test_each_database_has_a_histogram_of_its_requests_of_all_layers(host):
    def count(database, suffix="count"):
        labels = f'database="{database}"' + (',le="+Inf"' if suffix == "bucket" else "")
        return samples(scraped(host)).get(f"quartet_database_request_seconds_{suffix}", {}).get(labels)

    made = Admin(host).create("measured")
    assert count("measured") is None, "nothing was asked of it yet"
    with Connection(host.port) as client:
        client.do("AUTH", "measured", made["credentials"]["token"])
        for _ in range(5):
            client.do("GET", "key")
    assert count("measured") == 6, "AUTH is answered by the database that it opens"
    assert asked(host, "/pipeline", [["GET", "key"], ["SET", "key", "value"]], made["credentials"]["token"])[0] == 200
    assert count("measured") == 8, "commands over REST count once"
    asking = http.client.HTTPConnection("127.0.0.1", host.fauna_port, timeout=60)
    asking.request("POST", "/", json.dumps({"add": [1, 2]}), {"Authorization": f"Bearer {made['credentials']['fauna_key']}"})
    assert asking.getresponse().status == 200
    assert count("measured") == count("measured", "bucket") == 9
    before = count("default")
    dynamodb(host).list_tables()
    assert count("default") - before == 1


def test_latency_histogram_counts_exactly(host):
    with Connection(host.port) as client:
        client.do("CONFIG", "RESETSTAT")
        for _ in range(9):
            client.do("APPEND", "log", "x")
        [name, fields] = client.do("LATENCY", "HISTOGRAM", "append")
        assert name == "append" and fields[:2] == ["calls", 9]
        steps = fields[3]
        assert steps[-1] == 9 and all(bound & (bound - 1) == 0 for bound in steps[::2])


def test_many_databases_stay_small_and_quick():
    """A thousand of them; fewer in the usual run."""
    count = int(os.environ.get("METRICS_DATABASES", "200"))
    server = Server().start()
    try:
        admin = Admin(server)
        with Connection(server.port) as client:
            for number in range(count):
                made = admin.create(f"tenant-{number:04}")
                client.do("AUTH", f"tenant-{number:04}", made["credentials"]["token"])
                client.do("SET", "key", "value")
        before = server.cpu_seconds()
        for _ in range(5):
            text = scraped(server)
        took = (server.cpu_seconds() - before) / 5
        found = samples(text)
        assert len(text) < min(1_000_000, 1200 * count + 50_000)
        # Those that have no room are told of together, so that nothing is missing from the sums.
        assert sum(found["quartet_database_commands_total"].values()) == count
        histograms = found["quartet_database_request_seconds_count"]
        assert sum(value for labels, value in histograms.items() if labels != 'database="default"') == 2 * count
        assert len(found["quartet_database_stored_bytes"]) >= min(count, 700)
        print(f"{count} databases: {len(text)} bytes in {took * 1000:.1f} ms of the processor")
        assert took < 2.0
    finally:
        server.close()


def test_the_dashboard_and_the_alerts_ask_for_what_is_there(host):
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    queries += re.findall(r"^\s*expr: (.*)$", ALERTS.read_text(), re.MULTILINE)
    assert len(queries) > 10
    # A server alone has none of a cluster's; the program lists them.
    listed = subprocess.run([binary(), "config", "metrics"], capture_output=True, text=True, check=True).stdout
    there = set(samples(scraped(host))) | set(re.findall(r"\bquartet_[a-z_]+", listed))
    asked = {name for query in queries for name in re.findall(r"\b(?:quartet|redis|process)_[a-z_]+", query)}
    assert asked and asked <= there | {"quartet_database_connections", "quartet_database_commands_total", "quartet_database_stored_bytes", "quartet_otlp_failures_total"}, asked - there


def exporter() -> str | None:
    return os.environ.get("REDIS_EXPORTER") or shutil.which("prometheus-redis-exporter")


@pytest.mark.skipif(exporter() is None, reason="prometheus-redis-exporter is not installed")
def test_redis_exporter_reads_the_server_without_an_error(host):
    port = free_port()
    options = ["-redis.addr", f"redis://127.0.0.1:{host.port}", "-web.listen-address", f"127.0.0.1:{port}"]
    options += ["-include-system-metrics", "-export-client-list", "-check-keys", "db0=*", "-count-keys", "db0=*"]
    process = subprocess.Popen([exporter(), *options], stderr=subprocess.PIPE, text=True)
    try:
        text = None
        deadline = time.monotonic() + 60
        while text is None:
            assert time.monotonic() < deadline and process.poll() is None
            try:
                asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                asking.request("GET", "/metrics")
                text = asking.getresponse().read().decode()
            except OSError:
                time.sleep(0.05)
    finally:
        process.terminate()
        said = process.communicate(timeout=60)[1]
    told = {line.split(" ")[0].split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    assert "redis_up 1\n" in text and "redis_exporter_last_scrape_error{err=\"\"} 0\n" in text
    assert 'redis_db_keys{db="db3"} 1\n' in text
    assert not re.search("level=(error|warning|fatal)", said), said
    assert [name for name in OF_DASHBOARDS if name not in told] == []


def test_slow_requests_of_every_layer_are_logged_with_their_shape_and_without_values():
    server = Server(options=["--slow-request-milliseconds", "1"]).start()
    try:
        with Connection(server.port) as client:
            client.do("CONFIG", "SET", "slowlog-log-slower-than", 0)
            client.do("DEBUG", "SLEEP", "0.01", "hidden")
            client.do("EVAL", "for i = 1, 3000000 do end return 'hidden'", 0)
        asking = http.client.HTTPConnection("127.0.0.1", server.fauna_port, timeout=60)
        query = {"map": {"lambda": "hidden", "expr": {"add": [1, {"var": "hidden"}]}}, "collection": list(range(100_000))}
        asking.request("POST", "/", json.dumps(query), {"Authorization": "Bearer secret"})
        asking.getresponse().read()
        aws = dynamodb(server)
        aws.create_table(
            TableName="hidden",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        put = [{"PutRequest": {"Item": {"id": {"S": f"hidden{number}"}, "note": {"S": "hidden" * 60_000}}}} for number in range(25)]
        aws.batch_write_item(RequestItems={"hidden": put})
        asked(server, "/pipeline", [["EVAL", "for i = 1, 30000000 do end return 'hidden'", "0"], ["hidden", "hidden"]])
        aws.scan(TableName="hidden", FilterExpression="contains(note, :part)", ExpressionAttributeValues={":part": {"S": "nowhere"}})

        def lines(layer):
            plain = (re.sub(r"\x1b\[[0-9;]*m", "", line) for line in server.output)
            return [line for line in plain if "slow request" in line and f'layer="{layer}"' in line]

        for layer in ("redis", "fauna", "dynamodb", "rest"):
            deadline = time.monotonic() + 60
            while not lines(layer):
                assert time.monotonic() < deadline, f"nothing was told of {layer}: {server.output[-20:]}"
                time.sleep(0.05)
        assert any('"FilterExpression":?' in line.replace("\\", "") or '"RequestItems":' in line.replace("\\", "") for line in lines("dynamodb"))
        assert any("eval 2, ? 1" in line for line in lines("rest"))
        shapes = [line.split("shape=")[1] for layer in ("redis", "fauna", "rest") for line in lines(layer)]
        assert not any("hidden" in shape for shape in shapes)
        # The API has them too, the newest first.
        api = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
        api.request("GET", "/admin/v1/slow-requests", headers={"Authorization": "Bearer dev"})
        described = json.load(api.getresponse())
        latest = described["slow_requests"]
        assert described["slower_than_milliseconds"] == 1 and {row["layer"] for row in latest} >= {"redis", "fauna", "dynamodb", "rest"}
        assert all(row["milliseconds"] >= 1 and row["database"] == "default" for row in latest)
        # A shape of DynamoDB names its tables.
        assert not any("hidden" in row["shape"].replace('"hidden"', "") for row in latest)
        assert [row["at_seconds"] for row in latest] == sorted((row["at_seconds"] for row in latest), reverse=True)
        api.request("GET", "/admin/v1/slow-requests")
        assert api.getresponse().status == 401
    finally:
        server.close()
