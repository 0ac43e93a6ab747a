"""TLS on every listener: beside clear text or alone, with clients' certificates, and with certificates that are replaced while it runs."""

import base64
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
import redis
from harness import certificates
from harness.resp import Connection
from harness.server import Server, free_port

pytestmark = pytest.mark.quartet_only


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def host(made):
    options = ["--tls-certificate", made.certificate, "--tls-key", made.key, "--tls-client-roots", made.root]
    server = Server(options=[*map(str, options), "--tls-clients", "optional"]).start()
    yield server
    server.close()


def trusting(made, own=None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(made.root))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def shake_hands(port, context) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", port), 60)
    return context.wrap_socket(raw, server_hostname="localhost")


def shown_certificate(port, made) -> bytes:
    with shake_hands(port, trusting(made)) as stream:
        return stream.getpeercert(binary_form=True)


def ping(stream) -> bytes:
    stream.sendall(b"PING\r\n")
    return stream.recv(100)


def eventually(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.05)


def test_clear_text_and_tls_share_the_port(host, made):
    client = redis.Redis(port=host.port, ssl=True, ssl_ca_certs=str(made.root), socket_timeout=60)
    assert client.set("key", b"x" * 3_000_000) and client.strlen("key") == 3_000_000
    with Connection(host.port) as clear:
        assert clear.do("GET", "key") == "x" * 3_000_000
    pipeline = client.pipeline(transaction=False)
    for number in range(5000):
        pipeline.set(f"key:{number}", number)
    assert pipeline.execute() == [True] * 5000
    assert len(client.get("key")) == 3_000_000
    assert int(client.config_get("tls-port")["tls-port"]) == host.port
    assert client.config_get("tls-auth-clients") == {"tls-auth-clients": "optional"}


@pytest.mark.parametrize("encrypted", [True, False])
def test_replies_in_pieces_arrive_whole(host, made, encrypted):
    """The pieces of a reply differ, two replies follow each other, and the reader takes them a little at a time."""
    value = random.Random(1).randbytes(3_000_000)
    client = redis.Redis(port=host.port, ssl=True, ssl_ca_certs=str(made.root), socket_timeout=60)
    client.set("large", value)

    def exchanged(port, request):
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            raw.settimeout(60)
            raw.connect(("127.0.0.1", port))
            with trusting(made).wrap_socket(raw, server_hostname="localhost") if encrypted else raw as stream:
                stream.sendall(request)
                received = bytearray()
                while part := stream.recv(40_000):
                    received += part
                return bytes(received)

    reply = b"$%d\r\n%s\r\n" % (len(value), value)
    assert exchanged(host.port, b"GET large\r\nGET large\r\nQUIT\r\n") == 2 * reply + b"+OK\r\n"
    head = b"GET /get/large HTTP/1.1\r\nAuthorization: Bearer dev\r\nUpstash-Encoding: base64\r\n"
    first, second = exchanged(host.http_port, head + b"\r\n" + head + b"Connection: close\r\n\r\n").split(b"HTTP/1.1 200 ")[1:]
    body = b'{"result":"%s"}' % base64.b64encode(value)
    assert first.endswith(b"\r\n\r\n" + body) and second.endswith(b"\r\n\r\n" + body)


def test_messages_reach_a_subscriber_over_tls(host, made):
    client = redis.Redis(port=host.port, ssl=True, ssl_ca_certs=str(made.root), socket_timeout=60)
    with client.pubsub(ignore_subscribe_messages=True) as listening:
        listening.subscribe("channel")
        eventually(lambda: client.pubsub_numsub("channel") == [(b"channel", 1)])
        # Long enough idle for the connection to have given its buffers back.
        time.sleep(3)
        client.publish("channel", "hello")
        message = None
        while message is None:
            message = listening.get_message(timeout=60)
        assert message["data"] == b"hello"


def test_redis_cli(host, made):
    command = ["redis-cli", "-p", str(host.port), "--tls", "--cacert", str(made.root), "SET", "from", "redis-cli"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "OK\n"


def test_addresses_are_shown_with_the_scheme_of_tls(host):
    """Those of REST and the console were shown for clear text, so that a token that was pasted went in it."""
    shown = "".join(host.output)
    for name in ("http", "console", "dynamodb", "fauna", "rest +UPSTASH_REDIS_REST_URL="):
        assert re.search(rf"^{name} *https://", shown, re.MULTILINE), (name, shown)


def test_a_client_that_says_nothing_keeps_its_connection(host):
    """The first byte tells whether a peer wants TLS; a pool opens connections long before it uses them."""
    with socket.create_connection(("127.0.0.1", host.port), 60) as silent:
        with Connection(host.port) as other:
            time.sleep(11)
            assert "addr=127.0.0.1:%d " % silent.getsockname()[1] in other.do("CLIENT", "LIST")
        assert ping(silent) == b"+PONG\r\n"


def test_a_silent_connection_can_be_killed_and_does_not_hold_up_the_end(made, tmp_path):
    server = Server(options=["--tls-certificate", str(made.certificate), "--tls-key", str(made.key)]).start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), 60) as silent, Connection(server.port) as other:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            eventually(lambda: address in other.do("CLIENT", "LIST"))
            assert other.do("CLIENT", "KILL", "ADDR", address) == 1
            assert silent.recv(1) == b""
        with socket.create_connection(("127.0.0.1", server.port), 60):
            assert server.stop() == 0
    finally:
        server.close()


def test_client_certificates(host, made, tmp_path):
    strange = certificates.make(tmp_path)
    with shake_hands(host.port, trusting(made, own=made)) as stream:
        assert ping(stream) == b"+PONG\r\n"
    with pytest.raises(OSError):
        with shake_hands(host.port, trusting(made, own=strange)) as stream:
            assert ping(stream) == b"", "a stranger's certificate"
            raise ConnectionResetError
    with Connection(host.port) as clear:
        assert clear.do("CONFIG", "SET", "tls-auth-clients", "yes") == "OK"
        try:
            for port in (host.port, host.http_port):
                with pytest.raises(OSError):
                    with shake_hands(port, trusting(made)) as stream:
                        assert ping(stream) == b"", "no certificate"
                        raise ConnectionResetError
            with shake_hands(host.port, trusting(made, own=made)) as stream:
                assert ping(stream) == b"+PONG\r\n"
        finally:
            assert clear.do("CONFIG", "SET", "tls-auth-clients", "optional") == "OK"


def test_a_listener_of_tls_alone(made):
    port = free_port()
    options = ["--tls-certificate", str(made.certificate), "--tls-key", str(made.key), "--listen-redis-tls", f"127.0.0.1:{port}"]
    server = Server(options=options).start()
    try:
        with shake_hands(port, trusting(made)) as stream:
            assert ping(stream) == b"+PONG\r\n"
        with socket.create_connection(("127.0.0.1", port), 60) as clear:
            clear.sendall(b"PING\r\n")
            assert b"PONG" not in clear.recv(100)
        with Connection(server.port) as other:
            assert other.do("CONFIG", "GET", "tls-port")[1] == str(port)
    finally:
        server.close()


@pytest.fixture
def replaceable(made, tmp_path):
    """A server whose certificate lies where a test may replace it."""
    paths = [shutil.copy(path, tmp_path) for path in (made.certificate, made.key)]
    server = Server(options=["--tls-certificate", paths[0], "--tls-key", paths[1]]).start()
    yield server, paths
    server.close()


def replace(paths, other):
    for path, source in zip(paths, (other.certificate, other.key)):
        shutil.copy(source, path + ".new")
        os.replace(path + ".new", path)


def test_a_certificate_that_is_replaced_is_shown_by_every_listener(replaceable, made, tmp_path_factory):
    server, paths = replaceable
    other = certificates.make(tmp_path_factory.mktemp("other"))
    ports = [server.port, server.http_port, server.dynamodb_port, server.fauna_port, server.keyvalue_port]
    before = shown_certificate(server.port, made)
    with shake_hands(server.port, trusting(made)) as old:
        replace(paths, other)

        def is_new(port):
            try:
                return shown_certificate(port, other) != before
            except ssl.SSLCertVerificationError:
                return False

        for port in ports:
            eventually(lambda: is_new(port))
        assert ping(old) == b"+PONG\r\n", "who is connected stays so"


def test_a_bad_certificate_keeps_the_old_one_and_says_so(replaceable, made, tmp_path):
    server, paths = replaceable
    before = shown_certificate(server.port, made)
    with open(paths[0], "w") as broken:
        broken.write("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: any("the certificate is unchanged" in line and paths[0] in line for line in server.output))
    assert shown_certificate(server.port, made) == before
    shutil.copy(made.certificate, paths[0])
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: any("the certificate was read again" in line for line in server.output))


def test_config_set_changes_the_certificate_or_nothing(replaceable, made, tmp_path_factory):
    server, paths = replaceable
    other = certificates.make(tmp_path_factory.mktemp("other"))
    with Connection(server.port) as operator:
        refused = operator.do("CONFIG", "SET", "tls-cert-file", str(other.certificate))
        assert refused.startswith("ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - Unable to update TLS")
        assert operator.do("CONFIG", "GET", "tls-cert-file")[1] == paths[0]
        changed = operator.do("CONFIG", "SET", "tls-cert-file", str(other.certificate), "tls-key-file", str(other.key))
        assert changed == "OK"
        assert operator.do("CONFIG", "GET", "tls-cert-file")[1] == str(other.certificate)
    assert shown_certificate(server.port, other)


def test_tls_can_be_turned_on_while_the_server_runs(made):
    server = Server().start()
    try:
        with Connection(server.port) as operator:
            assert operator.do("CONFIG", "SET", "tls-cert-file", str(made.certificate)) == "OK"
            assert operator.do("CONFIG", "SET", "tls-key-file", str(made.key)) == "OK"
            assert operator.do("CONFIG", "SET", "tls-cert-file", "").startswith("ERR CONFIG SET failed")
        with shake_hands(server.port, trusting(made)) as stream:
            assert ping(stream) == b"+PONG\r\n"
    finally:
        server.close()


def test_a_peer_that_does_not_take_its_replies_is_not_kept_over_tls(made):
    options = ["--tls-certificate", str(made.certificate), "--tls-key", str(made.key), "--output-stall-seconds", "1"]
    server = Server(options=options).start()
    try:
        with shake_hands(server.port, trusting(made)) as greedy, Connection(server.port) as other:
            address = "127.0.0.1:%d " % greedy.getsockname()[1]
            other.do("SET", "large", "x" * 50_000_000)
            greedy.sendall(b"GET large\r\n")
            eventually(lambda: address not in other.do("CLIENT", "LIST"))
    finally:
        server.close()
