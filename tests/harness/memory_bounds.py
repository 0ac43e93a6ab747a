"""A server in a control group of 256 MiB, and another client that is served while requests ask for as much as their bounds allow."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from harness.resp import Connection, ReplyError
from harness.server import Server

MIB = 1 << 20
GROUP = 256 * MIB
BUDGET = GROUP * 4 // 5
# A reply that does not fit; a search that holds too much; a text that is too long.
REFUSALS = ("OOM ", "SEARCH_OOM", "SEARCH_LIMIT")


@contextlib.contextmanager
def control_group(server: Server) -> Iterator[None]:
    """Limits the memory of the server by the kernel where control groups are writable; elsewhere only its resident memory is watched."""
    name = f"quartet-test-{os.getpid()}"
    first = [(Path("/sys/fs/cgroup/memory") / name, "memory.limit_in_bytes"), (Path("/sys/fs/cgroup") / name, "memory.max")]
    group = None
    for folder, limit in first:
        try:
            folder.mkdir()
            group = folder
            (folder / limit).write_text(str(GROUP))
            (folder / "cgroup.procs").write_text(str(server.pid))
            break
        except OSError:
            continue
    try:
        yield
    finally:
        server.close()
        if group is not None:
            with contextlib.suppress(OSError):
                group.rmdir()


@contextlib.contextmanager
def bounded_server() -> Iterator[Server]:
    """A server whose budget and control group have these bounds."""
    server = Server(options=("--memory-bytes", str(BUDGET)))
    server.start()
    with control_group(server):
        yield server


class Watch:
    """Another client that is served meanwhile with its longest wait, and the most memory that the server had."""

    def __init__(self, server: Server):
        self.server, self.is_over, self.served, self.most, self.longest_seconds = server, threading.Event(), 0, 0, 0.0
        self.thread = threading.Thread(target=self.look)

    def look(self) -> None:
        with Connection(self.server.port, timeout_seconds=600) as connection:
            connection.do("SET", "other", "client")
            while not self.is_over.is_set():
                began = time.monotonic()
                # While another request has what is left, a write may be refused; a read never is.
                written = connection.do("SET", "other", "client")
                assert written == "OK" or is_refused(written), written
                assert connection.do("GET", "other") == "client"
                self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)
                self.served += 1
                self.most = max(self.most, self.server.anonymous_bytes())
                time.sleep(0.002)

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.is_over.set()
        self.thread.join()


def until(holds, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def is_refused(reply) -> bool:
    return isinstance(reply, ReplyError) and reply.startswith(REFUSALS)
