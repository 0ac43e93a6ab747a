"""`quartet healthcheck`, for images without a shell."""

from __future__ import annotations

import os
import subprocess

import pytest

from harness.server import binary, free_port

pytestmark = pytest.mark.quartet_only


def healthcheck(address: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "QUARTET_LISTEN_HTTP": address}
    return subprocess.run([binary(), "healthcheck"], env=environment, capture_output=True, text=True, timeout=60)


def test_a_server_that_answers_is_healthy(server):
    assert healthcheck(f"127.0.0.1:{server.http_port}").returncode == 0
    # As an image has it: the address to listen on is none to connect to.
    assert healthcheck(f"0.0.0.0:{server.http_port}").returncode == 0


def test_where_nobody_listens_it_says_so():
    told = healthcheck(f"127.0.0.1:{free_port()}")
    assert told.returncode == 1 and "no answer from 127.0.0.1" in told.stderr
