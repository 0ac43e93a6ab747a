"""Threads that work beside a block."""

from __future__ import annotations

import threading


class Threads:
    """`count` threads that each call `work(number)` again and again from the beginning of a block to its end.

    `work` is what a subclass gives: one turn, with whatever `begin(number)` has made for its thread. The block ends with the first
    failure that a thread had.
    """

    def __init__(self, count: int):
        self.stop = threading.Event()
        self.broken: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]

    def begin(self, number: int):
        raise NotImplementedError

    def work(self, made) -> None:
        raise NotImplementedError

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        if self.broken:
            raise self.broken[0]

    def _run(self, number: int) -> None:
        try:
            made = self.begin(number)
            while not self.stop.is_set():
                self.work(made)
        except BaseException as error:
            self.broken.append(error)
