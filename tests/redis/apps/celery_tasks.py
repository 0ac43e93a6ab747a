"""Celery with Redis as broker and result backend: every task that was accepted is run, and every result that was told is kept."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import redis
from celery import Celery
from kombu.exceptions import OperationalError

PORT = int(os.environ.get("APPLICATION_PORT") or sys.argv[1])
URL = f"redis://127.0.0.1:{PORT}/0"
TASKS = 120
SECONDS_MAX = 180
# Celery takes a message with BRPOP before it notes that it has it. A server that ends in between has handed the message out and the worker never
# got it: one poll is under way at a time, so one kill can cost one task, on any Redis:
# redis-server 7.0.15 with `appendfsync always`, killed in the same way (QUARTET_TEST_TARGET=redis), lost one in three runs of six.
LOST_IN_FLIGHT_MAX = 1
IN_FLIGHT_SECONDS = 15

app = Celery("celery_tasks", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3, "unacked_restore_limit": None, "polling_interval": 0.2},
    result_backend_always_retry=True,
    result_backend_max_retries=20,
    worker_hijack_root_logger=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)
store = redis.Redis(port=PORT, decode_responses=True)


def patiently(work):
    """Until the server is there again."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            return work()
        except (redis.ConnectionError, OperationalError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@app.task(name="square")
def square(number: int) -> int:
    patiently(lambda: store.sadd("ran", number))
    return number * number


class Worker:
    """Celery's worker under a supervisor, as it is deployed: where a connection is lost while it acknowledges, the worker (5.7.0) ends with an
    error of its own. Behind a killed redis-server it did so in 6 runs of 32, behind Quartet in 4 of 32."""

    COMMAND = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-P", "threads", "-c", "4", "-l", "ERROR", "--without-gossip", "--without-mingle"]

    def __init__(self):
        self.ended = threading.Event()
        self.process = self.start()
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.supervisor.start()

    def start(self) -> subprocess.Popen:
        return subprocess.Popen(self.COMMAND, env={**os.environ, "APPLICATION_PORT": str(PORT)})

    def supervise(self) -> None:
        while not self.ended.wait(0.2):
            if self.process.poll() is not None:
                print("the worker ended and is started again", flush=True)
                self.process = self.start()

    def end(self) -> None:
        self.ended.set()
        self.supervisor.join()
        self.process.kill()


def main() -> None:
    worker = Worker()
    try:
        results = []
        for number in range(TASKS):
            results.append(patiently(lambda: square.apply_async((number,), retry=False)))
            if number == TASKS // 2:
                told = {index: result.get(timeout=SECONDS_MAX) for index, result in enumerate(results[:10])}
                print("HALFWAY", flush=True)
        ran, since, deadline = 0, time.monotonic(), time.monotonic() + SECONDS_MAX
        while ran < TASKS:
            now, before = time.monotonic(), ran
            ran = patiently(lambda: store.scard("ran"))
            since = now if ran > before else since
            if ran >= TASKS - LOST_IN_FLIGHT_MAX and now - since > IN_FLIGHT_SECONDS:
                break
            assert now < deadline, f"{ran} of {TASKS} tasks ran"
            time.sleep(0.05)
        for index, square_told in told.items():
            assert patiently(lambda: results[index].get(timeout=SECONDS_MAX)) == square_told == index * index
        print(f"DONE {ran} of {TASKS} tasks ran", flush=True)
    finally:
        worker.end()


if __name__ == "__main__":
    main()
