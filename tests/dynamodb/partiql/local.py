"""DynamoDB Local from Maven's repository, as a server for the time of a `with`."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from harness.server import ROOT, free_port

# `./test dynamodb-partiql` puts the files of `jars.sha256` there.
JARS = ROOT / "target" / "test" / "dynamodb-local"
READY_SECONDS_MAX = 60


def connect(port: int):
    return boto3.client(
        "dynamodb",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"max_attempts": 0}, read_timeout=60, parameter_validation=False),
    )


@contextlib.contextmanager
def started() -> Iterator:
    """Yields a client of a fresh DynamoDB Local that keeps everything in memory."""
    lock = Path(__file__).with_name("jars.sha256")
    files = [JARS / line[66:] for line in lock.read_text().splitlines()]
    if missing := [file for file in files if not file.exists()]:
        raise SystemExit(f"{missing[0]} is missing: run `./test dynamodb-partiql`, which fetches it")
    native = next(file.parent for file in files if file.suffix == ".so")
    port = free_port()
    command = ["java", f"-Dsqlite4java.library.path={native}", "-cp", ":".join(str(file) for file in files if file.suffix == ".jar")]
    command += ["com.amazonaws.services.dynamodbv2.local.main.ServerRunner", "-port", str(port), "-inMemory", "-sharedDb", "-disableTelemetry"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client = connect(port)
            until = time.monotonic() + READY_SECONDS_MAX
            while True:
                with contextlib.suppress(BotoCoreError):
                    client.list_tables()
                    break
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("DynamoDB Local did not start")
                time.sleep(0.1)
            yield client
        finally:
            process.kill()
            process.wait()
