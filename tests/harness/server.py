"""A real server process on a free loopback port, owned by one test run.

The target is `quartet` (the release binary, QUARTET_BIN overrides it) or, with
QUARTET_TEST_TARGET=redis, the installed redis-server: a client test which does
not hold against real Redis is a wrong test. A process is ended by its pid only.
Data outlives `kill` and `stop`, so `start` again is a recovery.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = os.environ.get("QUARTET_TEST_TARGET", "quartet")
PARTITIONS = os.environ.get("QUARTET_TEST_PARTITIONS")
REST_READ_ONLY_TOKEN = "read-only"
LISTENERS = ("redis", "http", "dynamodb", "fauna", "keyvalue")


def binary() -> str:
    return os.environ.get("QUARTET_BIN", str(ROOT / "target" / "release" / "quartet"))


def next_program() -> str:
    """The program with formats that are one higher: `cargo build -p quartet-next-format` builds it beside the other."""
    return str(Path(binary()).parent / "quartet-next-format")


def falsified_program() -> str:
    """The program whose nodes have another state from their opening on; built with the one above."""
    return str(Path(binary()).parent / "quartet-falsified")


def library() -> Path:
    """The library that bindings of FoundationDB load, built beside the program."""
    return Path(binary()).parent / "libfdb_c.so"


# Two runs beside each other choose from ranges of their own.
_PORTS = [int(port) for port in os.environ.get("QUARTET_TEST_PORTS", "20000-29999").split("-")]
_GIVEN: set[int] = set()
_GIVING = threading.Lock()


def free_port() -> int:
    """Below the ports that the system gives to clients and to listeners on port 0: nobody gets it before its server listens, nor while that is down."""
    while True:
        port = random.randint(*_PORTS)
        with _GIVING, contextlib.suppress(OSError), socket.socket() as probe:
            if port in _GIVEN:
                continue
            probe.bind(("127.0.0.1", port))
            _GIVEN.add(port)
            return port


def faketime() -> str:
    """The library that shows a process another time (Debian: faketime)."""
    return str(next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")))


class Server:
    """`durability` is always | interval | none. `port` (RESP), `http_port`, `dynamodb_port` and
    `fauna_port` may change with each start.

    `listeners` are those of Quartet that are open, each on a port of its own choice; `program` is another build of it than the release.
    `prefix` are words that run the command of Quartet, as a control group's are.

    With QUARTET_TEST_PARTITIONS a server has as many partitions, unless its options say otherwise or it is a node of a cluster.
    `options` go to the command line of the target as they are. `fixed_port` is for clients that know only one port of Redis.
    `open_files` is the limit on open files that the process is given, soft and hard; `preload` a library that it loads first.
    `clock_seconds` is by how much the clock of the next process is ahead of the machine's; it needs libfaketime. With `clock_file` it is what that
    file says, as libfaketime reads it, while the process runs.
    `host` is where it listens; beyond loopback it asks for `root_key`.
    """

    ready_seconds_max = 60.0
    stop_seconds_max = 60.0

    def __init__(
        self,
        durability: str = "none",
        data: str | None = None,
        target: str = TARGET,
        options: Sequence[str] = (),
        fixed_port: int = 0,
        open_files: int | None = None,
        preload: str | None = None,
        listeners: Sequence[str] = LISTENERS,
        program: str | None = None,
        prefix: Sequence[str] = (),
        host: str = "127.0.0.1",
        root_key: str | None = None,
    ):
        self.host = host
        self.root_key = root_key
        self.listeners = listeners
        self.program = program or binary()
        self.prefix = prefix
        self.preload = preload
        self.clock_seconds = 0
        self.clock_file: Path | None = None
        self.open_files = open_files
        self.fixed_port = fixed_port
        # Of HTTP, for who asks before the server says where it listens; 0: one of its own choice.
        self.fixed_http_port = 0
        self.target = target
        self.options = options
        self.durability = durability
        self.own_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="quartet-test-")
        self.process: subprocess.Popen | None = None
        self.port = 0
        self.http_port = 0
        self.dynamodb_port = 0
        self.fauna_port = 0
        self.keyvalue_address = "127.0.0.1:0"
        self.keyvalue_port = 0
        self.output: list[str] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> "Server":
        if self.target == "redis":
            self._start_redis()
        else:
            self._start_quartet()
        return self

    def kill(self) -> None:
        """As a power cut for the process: nothing is flushed, nothing is said."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """A graceful shutdown; answers the exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> "Server":
        if self.process and self.process.poll() is None:
            self.stop()
        return self.start()

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def close(self) -> None:
        self.kill()
        if self.own_data:
            shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *_) -> None:
        self.stop()
        self.close()

    def set_clock(self, seconds: int) -> None:
        """Writes the clock file at once: one that is read while it is empty says the machine's time."""
        whole = self.clock_file.with_name(f"{self.clock_file.name}-whole")
        whole.write_text(f"{seconds:+d}\n")
        whole.replace(self.clock_file)

    def cpu_seconds(self) -> float:
        """Processor time of all threads, also of those that have ended: checkpoints are written by such."""
        # What clock_getcpuclockid would give.
        return time.clock_gettime(~self.pid << 3 | 2)

    def rss_bytes(self) -> int:
        return self._status_bytes("VmRSS")

    def anonymous_bytes(self) -> int:
        """Resident memory without the pages of the program itself, which the kernel takes back when it needs them."""
        return self._status_bytes("RssAnon")

    def _status_bytes(self, name: str) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", text).group(1)) * 1024

    def _start_quartet(self) -> None:
        command = [*self.prefix, self.program, "serve", "--data", self.data]
        command += ["--dev"] if self.root_key is None else ["--root-key", self.root_key]
        addresses = {"redis": f"{self.host}:{self.fixed_port}", "keyvalue": self.keyvalue_address}
        addresses["http"] = f"{self.host}:{self.fixed_http_port}"
        for listener in LISTENERS:
            address = addresses.get(listener, f"{self.host}:0") if listener in self.listeners else "off"
            command += [f"--listen-{listener}", address]
        command += ["--rest-read-only-token", REST_READ_ONLY_TOKEN]
        command += ["--durability", self.durability]
        if PARTITIONS and not {"--partitions", "--log"} & {*self.options}:
            command += ["--partitions", PARTITIONS]
        command += [*os.environ.get("QUARTET_SERVE_OPTIONS", "").split(), *self.options]
        self._spawn(command)
        ready = threading.Event()
        threading.Thread(target=self._read_output, args=(self.process, ready), daemon=True).start()
        # The output also ends, which ends the waiting, when the process gives up.
        if not ready.wait(self.ready_seconds_max) or "ready\n" not in self.output:
            self._end(signal.SIGKILL)
            raise RuntimeError("the server did not say ready:\n" + "".join(self.output[-40:]))

    def _read_output(self, process: subprocess.Popen, ready: threading.Event) -> None:
        self.output = []
        for line in process.stdout:
            self.output.append(line)
            del self.output[:-2000]
            if found := re.match(r"redis\s+redis://.*:(\d+)", line):
                self.port = int(found.group(1))
            if found := re.match(r"http\s+https?://[^:]+:(\d+)", line):
                self.http_port = int(found.group(1))
            if found := re.match(r"dynamodb\s+https?://[^:]+:(\d+)", line):
                self.dynamodb_port = int(found.group(1))
            if found := re.match(r"fauna\s+https?://[^:]+:(\d+)", line):
                self.fauna_port = int(found.group(1))
            if found := re.match(r"keyvalue\s.*:(\d+)", line):
                self.keyvalue_port = int(found.group(1))
            if line.strip() == "ready":
                ready.set()
        ready.set()

    def _start_redis(self) -> None:
        if shutil.which("redis-server") is None:
            raise RuntimeError("redis-server is needed (Debian: redis-server)")
        append = {"always": "always", "interval": "everysec", "none": "no"}[self.durability]
        for _ in range(5):
            self.port = self.fixed_port or free_port()
            command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.data]
            command += ["--save", "", "--appendonly", "no" if append == "no" else "yes"]
            command += ["--appendfsync", append, "--aof-use-rdb-preamble", "no", "--logfile", "log", *self.options]
            self._spawn(command)
            if self._answers_ping():
                return
            self.kill()
        raise RuntimeError("redis-server did not answer PING")

    def _answers_ping(self) -> bool:
        deadline = time.monotonic() + self.ready_seconds_max
        while self.alive() and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(7) == b"+PONG\r\n":
                        return True
            except OSError:
                pass
            time.sleep(0.005)
        return False

    def _spawn(self, command: list[str]) -> None:
        if self.open_files is not None:
            command = ["sh", "-c", f'ulimit -n {self.open_files} && exec "$@"', "sh", *command]
        # A token of the caller's own is none of the server's.
        tokens = re.compile("UPSTASH_REDIS_REST_TOKEN|KV_REST_API_(READ_ONLY_)?TOKEN|SRH_TOKEN")
        environment = {name: value for name, value in os.environ.items() if not tokens.fullmatch(name)}
        if self.preload is not None:
            environment["LD_PRELOAD"] = self.preload
        if self.clock_seconds:
            environment |= {"LD_PRELOAD": faketime(), "FAKETIME": f"{self.clock_seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        if self.clock_file is not None:
            environment |= {"LD_PRELOAD": faketime(), "FAKETIME_TIMESTAMP_FILE": str(self.clock_file), "FAKETIME_CACHE_DURATION": "1"}
            environment |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )

    def _end(self, number: int) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(self.stop_seconds_max)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        return code
