"""Writes accepted requests: those that wait are written together, and each is answered when it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread

from firstfault.server.records import LogWrite

MAX_TOGETHER = 256
_Waiting = tuple[Sequence[LogWrite], "Future[None]"]


class Journal:
    """One thread that writes; `write` gets the writes of many requests and stores all of them or raises."""

    def __init__(self, write: Callable[[Sequence[LogWrite]], None]) -> None:
        self._write = write
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="otlp-journal", daemon=True)
        self._thread.start()

    def put(self, writes: Sequence[LogWrite]) -> Future[None]:
        """Done when the writes are stored; fails with what the store raised."""
        future: Future[None] = Future()
        self._queue.put((writes, future))
        return future

    def close(self) -> None:
        """Write what waits, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            waiting, last = [first], False
            while len(waiting) < MAX_TOGETHER:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                if more is None:
                    last = True
                    break
                waiting.append(more)
            self._store(waiting)
            if last:
                return

    def _store(self, waiting: Sequence[_Waiting]) -> None:
        try:
            self._write([write for writes, _ in waiting for write in writes])
        except Exception as error:
            # Whatever the driver raises. One request must not fail for another: each is tried alone.
            if len(waiting) == 1:
                waiting[0][1].set_exception(error)
                return
            for one in waiting:
                self._store([one])
            return
        for _, future in waiting:
            future.set_result(None)
