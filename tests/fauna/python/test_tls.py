"""TLS, HTTP/1.1 and HTTP/2 in clear text: three ways to speak on one port."""

from __future__ import annotations

import socket
import ssl
import threading

import httpx
import pytest
from faunadb import query as q

from harness import certificates
from harness.fauna import connect
from harness.server import Server

PAYLOAD = '{"add":[1,2]}'
SECRET = {"Authorization": "Bearer secret", "X-FaunaDB-API-Version": "4"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(made):
    server = Server(options=["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]).start()
    yield server
    server.close()


@pytest.fixture
def trust(made) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(made.root))


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_every_way_on_one_port(secured, trust, scheme, version):
    two = version == "HTTP/2"
    with httpx.Client(http1=not two, http2=two, verify=trust, timeout=60) as client:
        reply = client.post(f"{scheme}://localhost:{secured.fauna_port}/", content=PAYLOAD, headers=SECRET)
    assert (reply.http_version, reply.json()) == (version, {"resource": 3})


@pytest.mark.parametrize("offered, chosen", [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)])
def test_the_handshake_agrees_on_a_version(secured, trust, offered, chosen):
    if offered:
        trust.set_alpn_protocols(offered)
    with socket.create_connection(("localhost", secured.fauna_port), 60) as plain:
        with trust.wrap_socket(plain, server_hostname="localhost") as encrypted:
            assert encrypted.selected_alpn_protocol() == chosen


def test_the_driver_and_its_stream_over_https(secured, made, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(made.root))
    client = connect(secured, scheme="https", domain="localhost")
    client.session.verify = str(made.root)
    client.query(q.create_collection({"name": "notes"}))
    note = client.query(q.create(q.collection("notes"), {"data": {"n": 0}}))["ref"]
    started, told = threading.Event(), threading.Event()
    stream = client.stream(note, on_start=lambda _: started.set(), on_version=lambda _: (told.set(), stream.close()))
    threading.Thread(target=stream.start, daemon=True).start()
    assert started.wait(60)
    client.query(q.update(note, {"data": {"n": 1}}))
    assert told.wait(60)


def test_large_bodies_go_both_ways(secured, trust):
    text = "x" * (4 << 20)
    with httpx.Client(http2=True, verify=trust, timeout=60) as client:
        reply = client.post(f"https://localhost:{secured.fauna_port}/", content=f'"{text}"', headers=SECRET)
    assert reply.json()["resource"] == text


def test_the_other_http_listener_too(secured, trust):
    with httpx.Client(verify=trust, timeout=60) as client:
        assert client.get(f"https://localhost:{secured.dynamodb_port}/").text.startswith("healthy")


@pytest.mark.parametrize("bytes_sent", [b"\x16", b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000, b"\x16" * 100, b"\x00\x01\x02"], ids=["a byte", "a long record", "no record", "no request"])
def test_a_broken_handshake_harms_nobody(secured, bytes_sent):
    with socket.create_connection(("localhost", secured.fauna_port), 60) as broken:
        try:
            broken.sendall(bytes_sent)
            broken.shutdown(socket.SHUT_WR)
            while broken.recv(65536):
                pass
        except OSError:
            pass
    assert connect(secured).query(q.add(1, 2)) == 3


def test_without_a_certificate_a_handshake_is_a_bad_request(server):
    with socket.create_connection(("127.0.0.1", server.fauna_port), 60) as plain:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    assert connect(server).query(1) == 1


def test_half_a_certificate_is_refused(made, monkeypatch):
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    with pytest.raises(RuntimeError, match="go together"):
        Server(options=["--tls-certificate", str(made.certificate)]).start()
    with pytest.raises(RuntimeError, match="certificate"):
        Server(options=["--tls-certificate", str(made.key), "--tls-key", str(made.key)]).start()
