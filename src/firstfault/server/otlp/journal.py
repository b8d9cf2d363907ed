"""Stores accepted requests: those that wait are taken together, and each is answered when it is on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread

from firstfault.server.otlp.receive import Request

MAX_TOGETHER = 256
MAX_WAITING_BYTES = 64 << 20
"""More is not taken in: senders keep what is not acknowledged and send it again."""
_Waiting = tuple[Request, int, "Future[None]"]


class BusyError(RuntimeError):
    """Too much waits to be stored."""


class Journal:
    """One thread that stores; `store` gets many requests and stores all of them or raises and has stored none."""

    def __init__(self, store: Callable[[Sequence[Request]], None]) -> None:
        self._store_all = store
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._waiting_bytes = 0
        self._lock = Lock()
        self._thread = Thread(target=self._run, name="otlp-journal", daemon=True)
        self._thread.start()

    def put(self, request: Request, size_bytes: int) -> Future[None]:
        """Done when the request is stored; fails with what the store raised. BusyError if too much waits before it."""
        with self._lock:
            if self._waiting_bytes and self._waiting_bytes + size_bytes > MAX_WAITING_BYTES:
                raise BusyError(f"{self._waiting_bytes:,} bytes wait to be stored")
            self._waiting_bytes += size_bytes
        future: Future[None] = Future()
        self._queue.put((request, size_bytes, future))
        return future

    def close(self) -> None:
        """Store what waits, then stop."""
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
            with self._lock:
                self._waiting_bytes -= sum(size_bytes for _, size_bytes, _ in waiting)
            if last:
                return

    def _store(self, waiting: Sequence[_Waiting]) -> None:
        try:
            self._store_all([request for request, _, _ in waiting])
        except Exception as error:
            # Whatever the driver raises. One request must not fail for another: each is tried alone.
            if len(waiting) == 1:
                waiting[0][2].set_exception(error)
                return
            for one in waiting:
                self._store([one])
            return
        for _, _, future in waiting:
            future.set_result(None)
