"""Everything that decides who may log in is rows: a backup has it, and so has the folder that it is restored into."""

import re
import subprocess
from contextlib import contextmanager

from harness import dynamodb
from harness.admin import Admin
from harness.resp import Connection
from harness.server import Server, binary, free_port


class Production(Server):
    """A server that asks for credentials."""

    def _spawn(self, command):
        super()._spawn([word for word in command if word != "--dev"])

    def shown(self, pattern):
        found = re.search(pattern, "".join(self.output))
        return found and found.group(1)


@contextmanager
def serving(data):
    server = Production("always", data=str(data), fixed_port=free_port()).start()
    server.port = server.fixed_port
    try:
        yield server
    finally:
        server.close()


def logged_in(server, password, user="default"):
    with Connection(server.port) as client:
        return client.do("AUTH", user, password) == "OK"


def test_credentials_outlive_the_server_and_its_folder(tmp_path):
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(data) as server:
        root = server.shown(r"root key, shown this once: (\S+)")
        name, secret = re.search(r"DynamoDB access key (\S+), secret, shown this once: (\S+)", "".join(server.output)).groups()
        with Connection(server.port) as client:
            client.do("AUTH", root)
            client.do("ACL", "SETUSER", "kept", "on", ">a", "~*", "+@all")
            assert client.do("ACL", "SAVE") == "OK"
            # ACL SAVE was the last word about users: this one goes with the process.
            client.do("ACL", "SETUSER", "unsaved", "on", ">a", "~*", "+@all")
        (tmp_path / "key").write_text(root)
        command = [binary(), "backup", "--server", f"127.0.0.1:{server.http_port}", "--to", str(tmp_path / "backup"), "--key-file", str(tmp_path / "key")]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        assert not {path.name for path in data.iterdir()} & {"root-key.sha256", "dynamodb-access-key", "users.acl"}
    subprocess.run([binary(), "restore", "--from", str(tmp_path / "backup"), "--data", str(copy)], check=True, capture_output=True, timeout=120)
    for folder in (data, copy):
        with serving(folder) as server:
            assert "shown this once" not in "".join(server.output)
            assert logged_in(server, root) and logged_in(server, "a", "kept") and not logged_in(server, "a", "unsaved")
            assert dynamodb.connect(server, key=(name, secret)).list_tables()["TableNames"] == []
            assert Admin(server, root).show("default")["name"] == "default"
        checked = subprocess.run([binary(), "check", "--data", str(folder)], capture_output=True, text=True, timeout=120)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_key_that_was_lost_is_replaced(tmp_path):
    data = tmp_path / "data"
    with serving(data) as server:
        lost = server.shown(r"root key, shown this once: (\S+)")
    reset = subprocess.run([binary(), "admin", "reset-key", "--data", str(data)], check=True, capture_output=True, text=True, timeout=60)
    new = re.search(r"shown this once: (\S+)", reset.stdout).group(1)
    for _ in range(2):
        with serving(data) as server:
            assert logged_in(server, new) and not logged_in(server, lost)


def test_a_file_of_users_is_taken_in_once(tmp_path):
    """Users stood in `users.acl` before they were rows; what is written there by hand is still taken."""
    data = tmp_path / "data"
    with serving(data):
        pass
    (data / "users.acl").write_text("user default on nopass ~* &* +@all\nuser old on >b ~* +@all\n")
    with serving(data) as server:
        assert logged_in(server, "b", "old")
        assert not (data / "users.acl").exists() and "user old" in (data / "users.acl.imported").read_text()
    with serving(data) as server:
        assert logged_in(server, "b", "old")
    (data / "users.acl").write_text("user default on\nuser broken on +nosuchcommand\n")
    command = [binary(), "serve", "--data", str(data), "--listen-redis", "127.0.0.1:0", "--listen-http", "off", "--listen-dynamodb", "off", "--listen-fauna", "off", "--listen-keyvalue", "off"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "users.acl" in refused.stderr, refused.stderr
    (data / "users.acl").unlink()
    with serving(data) as server:
        assert logged_in(server, "b", "old")


def test_a_load_of_users_closes_the_connections_of_those_who_went(tmp_path):
    """Also the one that asked, once it has its answer."""
    with serving(tmp_path / "data") as server:
        root = server.shown(r"root key, shown this once: (\S+)")
        with Connection(server.port) as client, Connection(server.port) as own, Connection(server.port) as other:
            client.do("AUTH", root)
            assert client.do("ACL", "LOAD").startswith("ERR There is no ACL file yet")
            assert client.do("ACL", "SAVE") == "OK"
            client.do("ACL", "SETUSER", "brief", "on", ">c", "~*", "+@all")
            assert own.do("AUTH", "brief", "c") == other.do("AUTH", "brief", "c") == "OK"
            assert own.do("ACL", "LOAD") == "OK"
            assert own.read_to_close() == b"" and other.read_to_close() == b""
            assert client.do("ACL", "USERS") == ["default"]
