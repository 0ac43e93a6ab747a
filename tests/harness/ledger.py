"""A ledger under load: what was acknowledged to its writers is kept, once, through any change of the servers behind their addresses."""

from __future__ import annotations

import contextlib
import threading
import time

import redis

ANSWER_SECONDS = 5.0
CONNECT_SECONDS = 1.0
# Neither the machine nor the ledger is to be the bottleneck.
PAUSE_SECONDS = 0.004


class Ledger:
    """Each writer appends its numbers, one after the other, to a list of its own, at whichever of `ports` takes it.

    `logins`: what redis-py needs for each database; a database has `writers` of them.
    """

    def __init__(self, ports: list[int], logins: list[dict], writers: int = 2):
        self.ports = ports
        self.writers = [Writer(ports, login, number) for number in range(writers) for login in logins]
        self.over = threading.Event()
        self.threads = [threading.Thread(target=writer.run, args=(self.over,), daemon=True) for writer in self.writers]

    def __enter__(self) -> "Ledger":
        for thread in self.threads:
            thread.start()
        self.wait_for(1)
        return self

    def __exit__(self, *_) -> None:
        self.end()

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def acknowledged(self) -> int:
        return sum(len(writer.acknowledged) for writer in self.writers)

    def wait_for(self, more: int) -> None:
        """Until so many more writes of each writer are acknowledged."""
        targets = [len(writer.acknowledged) + more for writer in self.writers]
        deadline = time.monotonic() + 120
        while any(len(writer.acknowledged) < target for writer, target in zip(self.writers, targets)):
            assert time.monotonic() < deadline, [writer.refusals[-3:] for writer in self.writers]
            time.sleep(0.02)

    @contextlib.contextmanager
    def change(self, what: str, seconds_max: float):
        """Times the longest wait of any writer between two acknowledgements over a change, and half a second behind it."""
        began = time.monotonic()
        yield
        self.wait_for(20)
        time.sleep(0.5)
        longest = max(writer.longest_wait(began) for writer in self.writers)
        print(f"{what}: {longest:.2f} s without an acknowledgement, {self.acknowledged()} acknowledged so far", flush=True)
        assert longest < seconds_max, f"{what}: {longest:.1f} s without an acknowledgement"

    def verify(self, port: int) -> None:
        """Every acknowledged write is there once, in its order, and nothing is that nobody wrote."""
        for writer in self.writers:
            writer.verify(port)


class Writer:
    def __init__(self, ports: list[int], login: dict, number: int):
        self.ports, self.login, self.key = ports, login, f"ledger:{number}"
        self.acknowledged: list[tuple[int, float]] = []
        self.unknown: set[int] = set()
        self.refusals: list[str] = []

    def run(self, over: threading.Event) -> None:
        value, place, client = 0, 0, None
        while not over.is_set():
            value += 1
            try:
                client = client or self.connect(self.ports[place % len(self.ports)])
                client.rpush(self.key, value)
                self.acknowledged.append((value, time.monotonic()))
                time.sleep(PAUSE_SECONDS)
            except (redis.RedisError, OSError) as error:
                self.unknown.add(value)
                self.refusals.append(str(error))
                place, client = place + 1, None
                time.sleep(0.01)

    def connect(self, port: int, seconds: float = ANSWER_SECONDS) -> redis.Redis:
        return redis.Redis(port=port, socket_timeout=seconds, socket_connect_timeout=CONNECT_SECONDS, retry=None, **self.login)

    def longest_wait(self, since: float) -> float:
        times = [at for _, at in list(self.acknowledged)]
        waits = (later - earlier for earlier, later in zip(times, times[1:]) if later > since)
        return max(waits, default=0.0)

    def verify(self, port: int) -> None:
        kept = self.read(port)
        assert len(kept) == len({*kept}), f"{self.key} has a write twice"
        assert kept == sorted(kept), f"{self.key} has lost its order"
        acknowledged = {value for value, _ in self.acknowledged}
        lost = acknowledged - {*kept}
        assert not lost, f"{self.key} has lost {len(lost)} acknowledged writes: {sorted(lost)[:10]}"
        invented = {*kept} - acknowledged - self.unknown
        assert not invented, f"{self.key} has what nobody wrote: {sorted(invented)[:10]}"

    def read(self, port: int) -> list[int]:
        deadline = time.monotonic() + 60
        while True:
            try:
                return [int(value) for value in self.connect(port, 60).lrange(self.key, 0, -1)]
            except (redis.RedisError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
