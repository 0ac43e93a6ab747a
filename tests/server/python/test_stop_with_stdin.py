"""`--stop-with-stdin`: a server that does not outlive whoever started it."""

from __future__ import annotations

import subprocess

import pytest

from harness.server import binary

pytestmark = pytest.mark.quartet_only

COMMAND = ["serve", "--dev", "--data", "memory", "--listen-redis", "127.0.0.1:0"]
OFF = [f"--listen-{name}=off" for name in ("http", "dynamodb", "fauna", "keyvalue")]


def test_it_stops_in_order_when_its_input_ends():
    server = started("--stop-with-stdin")
    server.stdin.close()
    assert server.wait(60) == 0


def test_without_the_option_an_end_of_input_is_nothing():
    server = started()
    server.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(0.5)
    server.kill()
    server.wait()


def started(*options: str) -> subprocess.Popen:
    server = subprocess.Popen([binary(), *COMMAND, *OFF, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert "ready\n" in iter(server.stdout.readline, "")
    return server
