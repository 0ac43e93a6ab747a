"""A way to the members of etcd on which every answer takes a while longer, as to one whose disks or network are slow."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

PIECE_BYTES = 1 << 16


class SlowWay:
    """`addresses` are those of the members; `endpoints` lead to them. `seconds` may change at any time."""

    def __init__(self, addresses: Sequence[str]):
        self.addresses = addresses
        self.seconds = 0.0
        self.endpoints: list[str] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result(10)

    async def _listen(self) -> None:
        for address in self.addresses:
            server = await asyncio.start_server(lambda reader, writer, address=address: self._serve(reader, writer, address), "127.0.0.1", 0)
            self.endpoints.append("127.0.0.1:%d" % server.sockets[0].getsockname()[1])

    async def _serve(self, reader, writer, address: str) -> None:
        host, port = address.rsplit(":", 1)
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(self._carry(reader, far_writer, 0.0), self._carry(far_reader, writer, 1.0))
        writer.close()

    async def _carry(self, reader, writer, share: float) -> None:
        """Each piece leaves its time after it has come, in order: what is under way at once is not slower for that."""
        waiting: asyncio.Queue = asyncio.Queue()

        async def send() -> None:
            while piece := await waiting.get():
                due, data = piece
                await asyncio.sleep(due - self.loop.time())
                writer.write(data)
                await writer.drain()
            writer.close()

        sending = asyncio.ensure_future(send())
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                waiting.put_nowait((self.loop.time() + share * self.seconds, data))
        waiting.put_nowait(None)
        with contextlib.suppress(OSError):
            await sending

    def close(self) -> None:
        async def cancel() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        asyncio.run_coroutine_threadsafe(cancel(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
