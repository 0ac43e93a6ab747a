"""The habits of a service: what systemd is told, how it ends, what it says when a port is taken, and that it may be process 1."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from harness.resp import Connection
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only
OFF = [word for name in ("http", "dynamodb", "fauna", "keyvalue") for word in (f"--listen-{name}", "off")]


class Manager:
    """What systemd is to a service: a socket that takes messages."""

    def __init__(self, address, monkeypatch):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", address.replace("\0", "@"))

    def told(self) -> list[str]:
        return self.socket.recv(65536).decode().splitlines()

    def wait_for(self, line) -> list[str]:
        """Every line until this one."""
        lines = []
        while line not in lines:
            lines += self.told()
        return lines


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_systemd_hears_when_the_server_serves_reloads_and_stops(kind, tmp_path, monkeypatch):
    address = str(tmp_path / "notify") if kind == "file" else f"\0quartet-test-{os.getpid()}"
    manager = Manager(address, monkeypatch)
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    server = Server().start()
    try:
        assert "READY=1" in manager.wait_for("READY=1")
        with Connection(server.port) as client:
            assert client.do("PING") == "PONG"
        manager.wait_for("WATCHDOG=1")
        manager.wait_for("WATCHDOG=1")
        server.process.send_signal(signal.SIGHUP)
        reloading = manager.wait_for("RELOADING=1")
        manager.wait_for("READY=1")
        assert reloading
        server.process.send_signal(signal.SIGTERM)
        manager.wait_for("STOPPING=1")
        assert server.process.wait(60) == 0
    finally:
        server.close()


def test_ready_is_said_after_recovery_and_progress_before_it(tmp_path, monkeypatch):
    data = str(tmp_path / "data")
    server = Server(data=data).start()
    with Connection(server.port) as client:
        client.pipeline(*[("SET", f"key:{number}", "x" * 1000) for number in range(2000)])
    server.kill()
    manager = Manager(str(tmp_path / "notify"), monkeypatch)
    server.start()
    try:
        lines = manager.wait_for("READY=1")
        assert lines[0].startswith("STATUS=opening ") and lines.index("READY=1") > 0
        assert any(re.fullmatch(r"STATUS=replaying the log: \d+ of \d+ bytes", line) for line in lines), lines
        assert "STATUS=serving" in lines
    finally:
        server.close()


def test_a_stop_ends_with_a_checkpoint(tmp_path):
    server = Server(data=str(tmp_path)).start()
    try:
        with Connection(server.port) as client:
            client.do("SET", "key", "value")
        assert server.stop() == 0
        assert any("wrote a checkpoint" in line for line in server.output)
        server.start()
        with Connection(server.port) as client:
            assert client.do("GET", "key") == "value"
        assert server.stop() == 0
        assert not any("wrote a checkpoint" in line for line in server.output), "nothing was written"
    finally:
        server.close()


def test_a_peer_that_does_not_read_does_not_hold_up_the_end_for_longer_than_the_limit(tmp_path):
    server = Server(data=str(tmp_path), durability="interval", options=["--stop-seconds", "1"]).start()
    try:
        with Connection(server.port) as client, socket.create_connection(("127.0.0.1", server.port)) as greedy:
            client.do("SET", "large", "x" * 50_000_000)
            greedy.sendall(b"GET large\r\n")
            greedy.recv(1)
            client.do("SET", "last", "written")
            started = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - started < 30
        server.start()
        with Connection(server.port) as client:
            assert client.do("GET", "last") == "written"
    finally:
        server.close()


def test_a_taken_port_names_the_option_and_the_owner():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [binary(), "serve", "--dev", "--data", "memory", "--listen-redis", f"127.0.0.1:{port}", *OFF]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert re.search(rf"127\.0\.0\.1:{port} \(--listen-redis\).*{taken_by()}", ended.stderr), ended.stderr


def taken_by() -> str:
    with open("/proc/self/comm") as name:
        return re.escape(f"{name.read().strip()} (process {os.getpid()})")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_process_1_collects_the_children_that_others_leave(tmp_path):
    """In a container, what runs beside the server hands its orphans over to it."""
    script = f"""
      exec {binary()} serve --dev --data memory --listen-redis 127.0.0.1:0 {" ".join(OFF)}
    """
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"RUST_LOG": "off"})
    try:
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None
        (server,) = children_of(process.pid)
        enter = ["nsenter", "--target", str(server), "--pid", "sh", "-c", "(sh -c 'sleep 0.2' &) ; exit 0"]
        subprocess.run(enter, check=True, timeout=60)
        deadline = time.monotonic() + 60
        while children_of(server):
            assert time.monotonic() < deadline, "an orphan is left as a zombie"
            time.sleep(0.05)
        os.kill(server, signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def children_of(pid) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]
