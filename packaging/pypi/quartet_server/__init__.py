"""Starts a Quartet server for a test or a development session, and ends it with the process that asked for it.

The binary is part of this package. The server's standard input is a pipe that this process holds: however this process
ends, the pipe closes, and the server stops (`--stop-with-stdin`).
"""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

READY_SECONDS = 30.0
LOG_LINES_KEPT = 40
# Variables that applications have for their own server; ours would take its token from them.
OF_THE_APPLICATION = re.compile("UPSTASH_REDIS_REST_TOKEN|KV_REST_API_(READ_ONLY_)?TOKEN|SRH_TOKEN")


def binary() -> str:
    """The path of the server's binary; QUARTET_BIN names another one."""
    return os.environ.get("QUARTET_BIN") or str(Path(__file__).parent / "bin" / "quartet")


def library() -> str:
    """The path of `libfdb_c`, which bindings of FoundationDB load: `ctypes.CDLL(library())` before `import fdb`."""
    (found,) = (Path(__file__).parent / "lib").iterdir()
    return str(found)


class Quartet:
    """A running server. All addresses are on the loopback interface, and any client on this machine may come in.

    redis_url     redis://127.0.0.1:PORT
    rest_url      Redis over REST, for `upstash-redis`, with rest_token; also /metrics
    dynamodb_url  the endpoint for AWS SDKs; any region and any key will do
    fauna_url     the endpoint for FaunaDB's drivers, with fauna_secret
    cluster_file  path of a cluster file for clients of FoundationDB
    """

    redis_url: str
    rest_url: str
    rest_token: str
    dynamodb_url: str
    fauna_url: str
    fauna_secret = "secret"
    cluster_file: str

    def __init__(
        self,
        data: str = "memory",
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        ready_seconds: float = READY_SECONDS,
    ):
        command = [binary(), "serve", "--dev", "--stop-with-stdin", "--data", data]
        for listener in ("redis", "http", "dynamodb", "fauna", "keyvalue"):
            command += [f"--listen-{listener}", "127.0.0.1:0"]
        own = {name: value for name, value in os.environ.items() if not OF_THE_APPLICATION.fullmatch(name)}
        self._folder = tempfile.mkdtemp(prefix="quartet-")
        self._log: collections.deque[str] = collections.deque(maxlen=LOG_LINES_KEPT)
        self._process = subprocess.Popen(
            [*command, *arguments],
            env={**own, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._wait(ready_seconds)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The addresses as the variables that the usual clients read."""
        return {
            "REDIS_URL": self.redis_url,
            "UPSTASH_REDIS_REST_URL": self.rest_url,
            "UPSTASH_REDIS_REST_TOKEN": self.rest_token,
            "AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb_url,
            "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": self.dynamodb_url,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "quartet",
            "AWS_SECRET_ACCESS_KEY": "quartet",
            "FAUNA_ENDPOINT": self.fauna_url,
            "FAUNA_SECRET": self.fauna_secret,
            "FDB_CLUSTER_FILE": self.cluster_file,
        }

    def stop(self) -> None:
        """Ends the server; returns when it is gone."""
        self._process.terminate()
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Quartet:
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def _wait(self, seconds: float) -> None:
        self._is_ready = False
        said = threading.Event()
        # Both pipes are read to their end, so that the server never waits for its output to be taken.
        self._readers = [
            threading.Thread(target=self._read_output, args=(said,), daemon=True),
            threading.Thread(target=self._log.extend, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        if said.wait(seconds) and self._is_ready:
            return
        reason = "ended before it was ready" if said.is_set() else f"was not ready within {seconds} s"
        self._process.kill()
        self.stop()
        raise RuntimeError(f"the Quartet server {reason}\n{''.join(self._log)}")

    def _read_output(self, said: threading.Event) -> None:
        for line in self._process.stdout:
            if line.strip() == "ready":
                self._is_ready = True
                said.set()
            else:
                self._note(line.strip())
        said.set()

    def _note(self, line: str) -> None:
        """Takes an address from a line that the server prints when it starts."""
        listener, _, address = line.partition(" ")
        address = address.strip()
        if listener == "http":
            self.rest_url = address
        elif listener in ("redis", "dynamodb", "fauna"):
            setattr(self, f"{listener}_url", address)
        elif listener == "rest" and (token := re.search(r"UPSTASH_REDIS_REST_TOKEN=(\S+)", address)):
            self.rest_token = token.group(1)
        elif listener == "keyvalue":
            self.cluster_file = os.path.join(self._folder, "fdb.cluster")
            Path(self.cluster_file).write_text(address + "\n")


def start_quartet(**options) -> Quartet:
    """Starts a server on free ports, with its data in memory; returns when it answers. Also a context manager."""
    return Quartet(**options)


def main() -> None:
    """`quartet ...` is the binary itself."""
    os.execv(binary(), ["quartet", *sys.argv[1:]])
