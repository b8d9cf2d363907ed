"""Deletes in the background what is older than the console keeps."""

from __future__ import annotations

import logging
from threading import Event, Thread

from firstfault.server.settings import Settings
from firstfault.server.store.store import Store

EVERY_S = 6 * 3600.0
_LOG = logging.getLogger("firstfault.server")


class Keeper:
    """A thread that expires records when the console starts, and then every few hours until it is closed."""

    def __init__(self, store: Store, settings: Settings, every_s: float = EVERY_S) -> None:
        self._store = store
        self._settings = settings
        self._every_s = every_s
        self._stop = Event()
        self._thread = Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, after the deletion that runs."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                self._store.retention.expire(self._settings)
            except Exception:
                # A database that is away for a while must not end the deletions for ever.
                _LOG.exception("what is too old could not be deleted; the next try is in %.0f s", self._every_s)
            if self._stop.wait(self._every_s):
                return
