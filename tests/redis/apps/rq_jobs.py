"""RQ: every job that was accepted is done, though the worker loses its server."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import redis
from rq import Queue, SimpleWorker

PORT = int(os.environ.get("APPLICATION_PORT") or sys.argv[1])
JOBS = 60
SECONDS_MAX = 180
connection = redis.Redis(port=PORT)


def patiently(work):
    """Until the server is there again."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return work()
        except redis.ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def note(number: int) -> int:
    patiently(lambda: connection.sadd("ran", number))
    return number


def work() -> None:
    """A worker that a supervisor starts again whenever it gives up."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            SimpleWorker([Queue(connection=connection)], connection=connection).work(logging_level="ERROR")
        except redis.ConnectionError:
            time.sleep(0.05)


def main() -> None:
    environment = {**os.environ, "APPLICATION_PORT": str(PORT)}
    worker = subprocess.Popen([sys.executable, __file__, "work"], env=environment)
    try:
        queue = Queue(connection=connection)
        jobs = []
        for number in range(JOBS):
            jobs.append(patiently(lambda: queue.enqueue("rq_jobs.note", number)))
            if number == JOBS // 2:
                print("HALFWAY", flush=True)
        deadline = time.monotonic() + SECONDS_MAX
        while (ran := patiently(lambda: connection.scard("ran"))) < JOBS - 1:
            assert time.monotonic() < deadline, f"{ran} of {JOBS} jobs ran"
            time.sleep(0.05)
        # The job that was in the worker's hands when the server went may wait for RQ's own clearing up.
        known = sum(patiently(lambda: job.get_status(refresh=True)) is not None for job in jobs)
        assert known == JOBS, f"{JOBS - known} jobs are gone"
        print(f"DONE {ran} jobs ran, {known} are known", flush=True)
    finally:
        worker.kill()


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
