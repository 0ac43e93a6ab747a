"""boto3 against a `Server`."""

from __future__ import annotations

import threading

import boto3
from botocore.config import Config

from .server import Server

# boto3 makes clients of one session one at a time.
_MAKES = threading.Lock()


def connect(server: Server, service: str = "dynamodb", key: tuple[str, str] = ("test", "test"), make=boto3.client, validates: bool = True, region: str = "us-east-1", seconds: float = 60):
    """A client, or with `make=boto3.resource` a resource, that never retries by itself. With `validates=False` it sends anything."""
    with _MAKES:
        return make(
            service,
            endpoint_url=f"http://{server.host}:{server.dynamodb_port}",
            region_name=region,
            aws_access_key_id=key[0],
            aws_secret_access_key=key[1],
            config=Config(retries={"max_attempts": 0}, connect_timeout=seconds, read_timeout=seconds, max_pool_connections=50, parameter_validation=validates),
        )
