"""Metrics and spans by OTLP: what a collector gets, what it costs when there is none, and that nothing of a client's data is in it.

The usual run decodes the messages with OpenTelemetry's own Python types. With OTELCOL naming the program that `go build` makes of
tests/server/collector, the OpenTelemetry collector itself receives them too.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from harness.admin import Admin
from harness.dynamodb import connect as dynamodb
from harness.server import Server, free_port
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

pytestmark = pytest.mark.quartet_only
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
NOT_SAMPLED = f"00-{TRACE}-{PARENT}-00"


class Receiver:
    """Takes what is sent to it, and answers with `status`."""

    def __init__(self, status: int = 200):
        self.spans: queue.Queue = queue.Queue()
        self.metrics: queue.Queue = queue.Queue()
        self.headers: dict[str, str] = {}
        self.status = status
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.headers["content-type"] == "application/x-protobuf"
                receiver.headers = {name.lower(): value for name, value in self.headers.items()}
                if receiver.status == 200:
                    receiver.take(self.path, body)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes):
        if path == "/v1/metrics":
            self.metrics.put(ExportMetricsServiceRequest.FromString(body))
        else:
            assert path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        self.spans.put((resource.resource, span))

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


def started(receiver_or_endpoint, *options) -> Server:
    endpoint = getattr(receiver_or_endpoint, "endpoint", receiver_or_endpoint)
    return Server(options=["--otlp-endpoint", endpoint, "--otlp-sampling-ratio", "0", "--otlp-metrics-seconds", "1", *options]).start()


def ask(port, method, path, body=None, **headers):
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asking.request(method, path, None if body is None else json.dumps(body), headers)
    answer = asking.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


def attributes(holder) -> dict:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in holder.attributes}


def counter(server, name) -> float:
    found = re.search(rf"^quartet_otlp_{name}_total (\S+)$", Admin(server).metrics(), re.MULTILINE)
    return float(found[1])


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_spans_of_every_http_protocol_belong_to_the_trace_of_their_caller(receiver):
    server = started(receiver)
    try:
        shop = Admin(server).create("shop")["credentials"]
        rest = {"Authorization": f"Bearer {shop['token']}", "traceparent": SAMPLED}
        assert ask(server.http_port, "GET", "/set/hidden/hidden", **rest)[0] == 200
        assert ask(server.http_port, "POST", "/pipeline", [["GET", "hidden"]], **rest)[0] == 200
        fauna = {"Authorization": "Bearer secret", "traceparent": SAMPLED}
        status, headers, _ = ask(server.fauna_port, "POST", "/", {"concat": ["hidden", "hidden"]}, **fauna)
        assert status == 200
        aws = dynamodb(server)
        aws.meta.events.register("before-send.dynamodb", lambda request, **_: request.headers.__setitem__("traceparent", SAMPLED))
        aws.list_tables(ExclusiveStartTableName="hidden")
        with httpx.Client(http1=False, http2=True, timeout=60) as client:
            answer = client.get(f"http://127.0.0.1:{server.http_port}/get/hidden", headers={"Authorization": "Bearer dev", "traceparent": SAMPLED})
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        spans = [receiver.spans.get(timeout=60) for _ in range(5)]
        named = {span.name: (resource, span) for resource, span in spans}
        assert sorted(span.name for _, span in spans) == ["dynamodb ListTables", "fauna query", "rest command", "rest command", "rest pipeline"]
        for resource, span in spans:
            assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
            assert span.kind == span.SPAN_KIND_SERVER and 0 < span.start_time_unix_nano <= span.end_time_unix_nano
            assert attributes(span)["http.response.status_code"] == 200
            assert attributes(resource)["service.name"] == "quartet"
            assert "hidden" not in str(span)
        assert len({span.span_id for _, span in spans}) == 5
        assert attributes(named["rest pipeline"][1])["db.namespace"] == "shop"
        assert attributes(named["fauna query"][1])["db.namespace"] == "default"
        # FaunaDB's answers name a trace and a span: it is the one that the collector has.
        assert headers["traceparent"] == f"00-{TRACE}-{named['fauna query'][1].span_id.hex()}-01"
        # Counted once the collector has answered, which is after it has them.
        until(lambda: counter(server, "spans_sent") == 5, "the spans are counted")
    finally:
        server.close()


def test_the_callers_decision_about_sampling_holds(receiver):
    server = started(receiver)
    try:
        token = {"Authorization": "Bearer dev"}
        ask(server.http_port, "GET", "/get/key", **token)
        ask(server.http_port, "GET", "/get/key", **token, traceparent=NOT_SAMPLED)
        ask(server.http_port, "GET", "/get/key", **token, traceparent="00-nonsense-01")
        # A stranger cannot have any.
        ask(server.fauna_port, "POST", "/", {"add": [1, 2]}, Authorization="Bearer wrong", traceparent=SAMPLED)
        ask(server.http_port, "GET", "/dbsize", **token, traceparent=SAMPLED)
        assert receiver.spans.get(timeout=60)[1].name == "rest command"
        assert receiver.spans.empty()
    finally:
        server.close()
    assert receiver.spans.empty(), "nor at the end"


def test_a_share_is_sampled_and_the_last_spans_are_sent_at_the_end(receiver):
    server = Server(options=["--otlp-endpoint", receiver.endpoint, "--otlp-sampling-ratio", "1"]).start()
    try:
        for _ in range(20):
            assert ask(server.http_port, "GET", "/get/key", Authorization="Bearer dev")[0] == 200
        server.stop()
        names = [receiver.spans.get(timeout=60)[1] for _ in range(20)]
        assert all(span.name == "rest command" and not span.parent_span_id for span in names)
    finally:
        server.close()


def test_metrics_are_those_of_the_page(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of the collector")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-database")
    server = started(receiver)
    try:
        # Commands that take more than a microsecond, in which time is counted, on any machine.
        for key in ("a", "b"):
            assert ask(server.http_port, "POST", "/", ["SET", key, key * 2000], Authorization="Bearer dev")[0] == 200
        for _ in range(3):
            assert ask(server.http_port, "GET", "/lcs/a/b/len", Authorization="Bearer dev")[2] == '{"result":0}'

        def found():
            message = receiver.metrics.get(timeout=60)
            [resource] = message.resource_metrics
            assert attributes(resource.resource)["service.name"] == "shop-database"
            return {metric.name: metric for metric in resource.scope_metrics[0].metrics}

        def of_lcs(metrics):
            points = metrics["quartet_request_duration_seconds"].histogram.data_points
            return [point for point in points if attributes(point) == {"layer": "redis", "operation": "lcs"} and point.count == 3]

        until(lambda: of_lcs(found()), "three commands")
        metrics = found()
        [point] = of_lcs(metrics)
        assert sum(point.bucket_counts) == 3 and len(point.bucket_counts) == len(point.explicit_bounds) + 1 and point.sum > 0
        epochs = metrics["quartet_log_epochs_total"].sum
        assert epochs.is_monotonic and epochs.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
        assert metrics["process_resident_memory_bytes"].unit == "By"
        assert metrics["process_resident_memory_bytes"].gauge.data_points[0].as_double > 1e6
        assert set(re.findall(r"^# TYPE (\S+)", Admin(server).metrics(), re.MULTILINE)) == set(metrics)
        assert receiver.headers["x-key"] == "of the collector"
    finally:
        server.close()


def test_a_collector_that_is_dead_slow_or_unwilling_costs_a_counter():
    unwilling = Receiver(status=503)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        # It takes connections and never says a word.
        dead = "http://127.0.0.1:1"
        for endpoint in (dead, unwilling.endpoint, f"http://127.0.0.1:{silent.getsockname()[1]}"):
            server = started(endpoint)
            try:
                asking = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
                for _ in range(3000):
                    asking.request("GET", "/get/key", headers={"Authorization": "Bearer dev", "traceparent": SAMPLED})
                    assert asking.getresponse().read()
                until(lambda: counter(server, "spans_dropped") > 0 and counter(server, "failures") > 0, "nothing was dropped")
                assert counter(server, "spans_sent") == 0
                told = lambda: [line for line in server.output if "does not take telemetry" in line]  # noqa: E731
                until(told, "the failure is told of")
                # Which has a bound of its own, and fails beyond it.
                server.stop()
                assert len(told()) == 1, "told of once"
            finally:
                server.close()
    unwilling.close()


def test_a_server_without_an_endpoint_has_none_of_it():
    server = Server().start()
    try:
        assert "otlp" not in Admin(server).metrics()
        names = {comm.read_text().strip() for comm in Path(f"/proc/{server.pid}/task").glob("*/comm")}
        assert "otlp" not in names
    finally:
        server.close()


COLLECTOR = """
receivers: { otlp: { protocols: { http: { endpoint: "127.0.0.1:%d" } } } }
exporters: { debug: { verbosity: detailed } }
service:
  telemetry: { metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], exporters: [debug] }
    metrics: { receivers: [otlp], exporters: [debug] }
"""


@pytest.mark.skipif("OTELCOL" not in os.environ, reason="the long form: OTELCOL names the collector's program")
def test_the_collector_of_opentelemetry_takes_it():
    port = free_port()
    collector = subprocess.Popen([os.environ["OTELCOL"], "--config", f"yaml:{COLLECTOR % port}"], stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    threading.Thread(target=lambda: lines.extend(collector.stderr), daemon=True).start()
    server = None
    try:
        until(lambda: any("Everything is ready" in line for line in lines), "the collector")
        server = started(f"http://127.0.0.1:{port}")
        assert ask(server.http_port, "GET", "/get/key", Authorization="Bearer dev", traceparent=SAMPLED)[0] == 200
        for wanted in (TRACE, "Name           : rest command", "Name: quartet_request_duration_seconds", "service.name: Str(quartet)"):
            until(lambda: any(wanted in line for line in lines), wanted)
        until(lambda: counter(server, "spans_sent") == 1, "the span is counted")
        assert counter(server, "failures") == 0
    finally:
        if server:
            server.close()
        collector.terminate()
        collector.wait(timeout=60)
