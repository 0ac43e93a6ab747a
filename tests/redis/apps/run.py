"""`python tests/redis/apps/run.py [NAME...]`: applications that people run on Redis, with the server killed in their middle.

Each application is a program beside this file that gets the server's port. It works, acknowledging to itself what the server has
acknowledged to it, and says HALFWAY when about half is done; the server is killed at once (SIGKILL) and started again on the same data
and port. The application goes on, checks that nothing acknowledged is lost, and says DONE with what it has counted. All run side by side,
each with a server of its own, so that together they take no longer than the slowest.

The Python applications run in the interpreter that runs this file, the others in node and in Java, whose jars are in the folder that
QUARTET_TEST_JARS names; `./test redis-apps` installs everything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from harness.server import Server, free_port  # noqa: E402

JARS = Path(os.environ.get("QUARTET_TEST_JARS", HERE.parents[2] / "target" / "test" / "jars"))


def java(program: str) -> list[str]:
    """A program of one file, which Java compiles as it starts."""
    lines = (HERE / "java" / "jars.sha256").read_text().splitlines()
    class_path = ":".join(str(JARS / line.split("  ", 1)[1]) for line in lines)
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp", class_path, f"java/{program}.java"]


APPLICATIONS = {
    "celery": [sys.executable, "celery_tasks.py"],
    "rq": [sys.executable, "rq_jobs.py"],
    "bullmq": ["node", "node/bullmq.js"],
    "bull": ["node", "node/bull.js"],
    "rate-limiter-flexible": ["node", "node/limiter.js"],
    "socket.io": ["node", "node/socket_io.js"],
    "redisson": java("RedissonApplication"),
    "spring-data": java("SpringApplication"),
}
SECONDS_MAX = 300


class Run(threading.Thread):
    """One application with its server."""

    def __init__(self, name: str):
        super().__init__(daemon=True)
        self.name = name
        self.output: list[str] = []
        self.said = ""
        self.seconds = 0.0
        self.failure = "it did not end"

    def run(self) -> None:
        started = time.monotonic()
        try:
            self.failure = self.attempt()
        except Exception as error:
            self.failure = repr(error)
        self.seconds = time.monotonic() - started

    def attempt(self) -> str:
        server = Server(durability="always", fixed_port=free_port()).start()
        command = [*APPLICATIONS[self.name], str(server.port)]
        # Without the folder of the tests, whose `redis` would hide the client of that name.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            command, cwd=HERE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        ender = threading.Timer(SECONDS_MAX, process.kill)
        ender.start()
        kills = 0
        try:
            for line in process.stdout:
                self.output.append(line)
                if line.strip() == "HALFWAY":
                    server.kill()
                    server.start()
                    kills += 1
                if line.startswith("DONE"):
                    self.said = line.strip()
            code = process.wait()
        finally:
            ender.cancel()
            process.kill()
            server.close()
        if code != 0 or not self.said:
            return f"it ended with {code} and without DONE" if not self.said else f"it ended with {code}"
        return "" if kills == 1 else f"{kills} kills"


def main() -> int:
    runs = [Run(name) for name in sys.argv[1:] or APPLICATIONS]
    for run in runs:
        run.start()
    failed = 0
    for run in runs:
        run.join()
        if run.failure:
            failed += 1
            print("".join(run.output[-60:]))
        print(f"{run.name}: {run.failure or run.said} ({run.seconds:.0f} s)")
    print(f"{len(runs) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
