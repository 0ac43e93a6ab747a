"""A first request over a new connection: what it waits for, with TLS and a credential, in each protocol that has clients which wake up.

TLS runs in memory here, so that a wait is counted and not timed: the client has sent all that it can and needs an answer to go on.
One wait is the handshake's, one the request's, and TCP's own is the third.
"""

import json
import os
import socket
import ssl
import subprocess

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from harness import certificates
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only

TCP = 1
ROUND_TRIPS_MAX = 3
PASSWORD = "cold-and-in-a-hurry"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(made):
    options = ["--tls-certificate", str(made.certificate), "--tls-key", str(made.key), "--rest-token", PASSWORD, "--dynamodb-access-keys", f"id:{PASSWORD}"]
    started = Server(options=options).start()
    yield started
    started.close()


class Cold:
    """A client that just woke up: no session of TLS to go on with."""

    def __init__(self, port, made):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.waits, self.has_sent = 0, False
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(made.root))
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def flush(self):
        if ready := self.outgoing.read():
            self.socket.sendall(ready)
            self.has_sent = True

    def wait(self):
        """However many pieces an answer comes in, it is waited for once."""
        self.flush()
        self.waits += self.has_sent
        self.has_sent = False
        received = self.socket.recv(65536)
        assert received, "the server closed the connection"
        self.incoming.write(received)

    def when_possible(self, act):
        while True:
            try:
                return act()
            except ssl.SSLWantReadError:
                self.wait()

    def ask(self, request: bytes, is_whole) -> bytes:
        self.when_possible(self.tls.do_handshake)
        assert self.tls.version() == "TLSv1.3"
        self.tls.write(request)
        answer = b""
        while not is_whole(answer):
            answer += self.when_possible(lambda: self.tls.read(65536))
        self.socket.close()
        return answer


def http(port, body, headers):
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(["POST / HTTP/1.1", f"host: localhost:{port}", f"content-length: {len(body)}", *lines, "", body]).encode()


def redis(server):
    request = f"*2\r\n$4\r\nAUTH\r\n${len(PASSWORD)}\r\n{PASSWORD}\r\n*4\r\n$9\r\nZREVRANGE\r\n$5\r\nWorld\r\n$1\r\n0\r\n$1\r\n9\r\n".encode()
    # With --dev the default user has no password, which is an answer of the same length of way.
    return server.port, request, lambda answer: answer.count(b"\r\n") >= 2, b"*0\r\n"


def rest(server):
    headers = {"authorization": f"Bearer {PASSWORD}", "content-type": "application/json"}
    return server.http_port, http(server.http_port, '["ZREVRANGE","World","0","9"]', headers), ended_with(b'{"result":[]}'), b"200 OK"


def dynamodb(server):
    body = '{"TableName":"news","Key":{"id":{"S":"a"}}}'
    host = f"localhost:{server.dynamodb_port}"
    headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.GetItem", "host": host}
    signed = AWSRequest("POST", f"https://{host}/", headers, body)
    SigV4Auth(Credentials("id", PASSWORD), "dynamodb", "us-east-1").add_auth(signed)
    headers = {name: value for name, value in signed.headers.items() if name.lower() != "host"}
    return server.dynamodb_port, http(server.dynamodb_port, body, headers), ended_with(b"}"), b"ResourceNotFoundException"


def fauna(server):
    headers = {"authorization": "Bearer secret", "x-faunadb-api-version": "4", "content-type": "application/json"}
    return server.fauna_port, http(server.fauna_port, '{"add":[1,2]}', headers), ended_with(b"}"), b'{"resource":3}'


def ended_with(ending):
    return lambda answer: b"\r\n\r\n" in answer and answer.endswith(ending)


@pytest.mark.parametrize("protocol", [redis, rest, dynamodb, fauna])
def test_a_cold_request_takes_three_round_trips(server, made, protocol):
    port, request, is_whole, expected = protocol(server)
    client = Cold(port, made)
    answer = client.ask(request, is_whole)
    assert expected in answer
    assert TCP + client.waits <= ROUND_TRIPS_MAX, f"{TCP + client.waits} round trips"


def test_the_count_finds_an_extra_round_trip(server, made):
    """TLS 1.2 needs one more, so a server that had fallen back to it would be found."""
    port, request, is_whole, _ = rest(server)
    client = Cold(port, made)
    context = ssl.create_default_context(cafile=str(made.root))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    client.tls = context.wrap_bio(client.incoming, client.outgoing, server_hostname="localhost")
    client.when_possible(client.tls.do_handshake)
    client.tls.write(request)
    answer = b""
    while not is_whole(answer):
        answer += client.when_possible(lambda: client.tls.read(65536))
    assert TCP + client.waits == ROUND_TRIPS_MAX + 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["redis", "rest", "dynamodb", "fauna"])
def test_the_benchmark_asks_each_protocol_over_tls_with_a_connection_for_each_request(protocol, tmp_path):
    command = [binary(), "bench", "news", "--protocol", protocol, "--tls", "--connections", "per-request", "--seconds", "1", "--parallelism", "1"]
    done = subprocess.run([*command, "--report", tmp_path], capture_output=True, text=True, timeout=280, env={**os.environ, "QUARTET_DURABILITY": "none"})
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "news.json").read_text())
    (cell,) = results["cells"]
    assert cell["test"] == "top ten, cold" and cell["errors"] == 0 and cell["requests"] > 0
    scheme = {"redis": "rediss", "rest": "rests", "dynamodb": "dynamodbs", "fauna": "faunas"}[protocol]
    assert results["target"]["address"].startswith(f"{scheme}://127.0.0.1:")
