"""A server that speaks S3, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import boto3

from .server import free_port

CREDENTIAL = {"aws_access_key_id": "id", "aws_secret_access_key": "secret", "region_name": "us-east-1"}


@dataclass
class ObjectStore:
    address: str

    def client(self, service: str = "s3"):
        return boto3.client(service, endpoint_url=self.address, **CREDENTIAL)

    @property
    def environment(self) -> dict[str, str]:
        """What `quartet` needs to know of it."""
        return {
            "AWS_ENDPOINT": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": CREDENTIAL["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIAL["aws_secret_access_key"],
            "AWS_REGION": CREDENTIAL["region_name"],
        }


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.05)
        yield ObjectStore(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
