"""Settings: secrets in files, SIGHUP, and the sample of the configuration file."""

import http.client
import signal
import subprocess
import time

import pytest
from harness.resp import Connection
from harness.server import Server, binary, free_port

pytestmark = pytest.mark.quartet_only


def eventually(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.05)


def said(server, *words):
    return any(all(word in line for word in words) for line in server.output)


def test_the_sample_starts_a_server(tmp_path):
    sample = subprocess.run([binary(), "config", "sample"], capture_output=True, text=True, timeout=30, check=True).stdout
    (tmp_path / "quartet.toml").write_text(sample)
    server = Server(options=["--config", str(tmp_path / "quartet.toml")]).start()
    server.close()


def test_sighup_says_what_is_in_force_and_what_needs_a_restart(tmp_path):
    file = tmp_path / "quartet.toml"
    file.write_text("io-threads = 1\n[redis]\nslowlog-max-len = 10\n")
    server = Server(options=["--config", str(file)]).start()
    try:
        with Connection(server.port) as operator:
            slowlog = lambda: operator.do("CONFIG", "GET", "slowlog-max-len")[1]  # noqa: E731
            assert slowlog() == "10"
            file.write_text("io-threads = 2\n[redis]\nslowlog-max-len = 20\nmaxmemory-policy = 'nonsense'\n")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: slowlog() == "20")
            eventually(lambda: said(server, "io-threads", "needs a restart"))
            eventually(lambda: said(server, "redis.slowlog-max-len", "in force"))
            eventually(lambda: said(server, "redis.maxmemory-policy", "is unchanged"))
            file.write_text("unknown = 2\n")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: said(server, "the settings stay as they were", "unknown"))
            assert slowlog() == "20"
        assert server.stop() == 0
    finally:
        server.close()


class Production(Server):
    """A server that asks for credentials."""

    def _spawn(self, command):
        super()._spawn([word for word in command if word not in ("--dev",)])


def test_secrets_come_from_files_and_are_shown_nowhere(tmp_path, monkeypatch):
    (tmp_path / "key").write_text("a-root-key-of-ours\n")
    (tmp_path / "token").write_text("a-token-of-ours\n")
    monkeypatch.setenv("QUARTET_REST_TOKEN_FILE", str(tmp_path / "token"))
    server = Production(fixed_port=free_port(), options=["--root-key-file", str(tmp_path / "key")]).start()
    server.port = server.fixed_port
    try:
        with Connection(server.port) as client:
            assert client.do("GET", "key").startswith("NOAUTH")
            assert client.do("AUTH", "a-root-key-of-ours") == "OK"

        def status(token):
            asking = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
            asking.request("GET", "/ping", headers={"Authorization": f"Bearer {token}"})
            return asking.getresponse().status

        assert (status("a-token-of-ours"), status("another")) == (200, 401)
        text = "".join(server.output)
        assert "of-ours" not in text and "root key, shown this once" not in text
        # The harness gives the read-only token on the command line.
        assert "--rest-read-only-token is on the command line" in text and "read-only " not in text
    finally:
        server.close()


def test_a_secret_is_given_once(tmp_path):
    (tmp_path / "token").write_text("one\n")
    command = [binary(), "serve", "--rest-token", "two", "--rest-token-file", str(tmp_path / "token")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "rest-token and rest-token-file are both given" in ended.stderr


def test_users_come_from_a_file_that_is_named(tmp_path):
    users = tmp_path / "secret" / "users"
    users.parent.mkdir()
    users.write_text("user default on nopass ~* &* +@all\nuser reader on >first ~* resetchannels -@all +@read\n")
    server = Server(options=["--redis-users-file", str(users)]).start()
    try:
        with Connection(server.port) as client, Connection(server.port) as other:
            assert client.do("CONFIG", "GET", "aclfile")[1] == str(users)
            assert other.do("AUTH", "reader", "first") == "OK"
            assert other.do("SET", "key", "value").startswith("NOPERM")
            # Whoever keeps the file changes it, as Kubernetes does with a secret.
            users.write_text("user default on nopass ~* &* +@all\nuser reader on >second ~* resetchannels -@all +@read\n")
            assert client.do("ACL", "LOAD") == "OK"
            assert client.do("AUTH", "reader", "first").startswith("WRONGPASS")
            assert client.do("ACL", "SETUSER", "third", "on", ">third", "+ping") == "OK"
            assert client.do("ACL", "SAVE") == "OK"
        assert "user third" in users.read_text() and "second" not in users.read_text()
        assert [path.name for path in users.parent.iterdir()] == ["users"]
    finally:
        server.close()


def test_a_file_of_users_that_is_named_has_to_be_there(tmp_path):
    command = [binary(), "serve", "--dev", "--data", tmp_path / "data", "--redis-users-file", tmp_path / "missing"]
    for listener in ("redis", "http", "dynamodb", "fauna", "keyvalue"):
        command += [f"--listen-{listener}", "127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and str(tmp_path / "missing") in ended.stderr


def test_an_operators_command_takes_the_root_key_from_a_file(tmp_path):
    (tmp_path / "key").write_text("a-root-key-of-ours\n")
    server = Production(fixed_port=free_port(), options=["--root-key-file", str(tmp_path / "key")]).start()
    try:
        ask = [binary(), "admin", "--server", f"127.0.0.1:{server.http_port}"]

        def run(*options):
            return subprocess.run([*ask, *options, "list"], capture_output=True, text=True, timeout=60)

        assert run("--key-file", str(tmp_path / "key")).returncode == 0
        assert run().returncode != 0
        both = run("--key-file", str(tmp_path / "key"), "--key", "another")
        assert both.returncode != 0 and "key and key-file are both given" in both.stderr
    finally:
        server.close()
