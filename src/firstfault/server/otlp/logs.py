"""The intake of log records as one part of a console: receiver, journal and the thread that looks for findings."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from firstfault.knowledge.schema import Pack
from firstfault.server.otlp.decode import Group
from firstfault.server.otlp.findings import Findings
from firstfault.server.otlp.journal import Journal
from firstfault.server.otlp.receive import Receiver, Request
from firstfault.server.records import Owner
from firstfault.server.store.store import Store
from firstfault.server.work import Work

_LINE_BYTES = 64
"""What a line takes in memory beside its characters."""


class Logs:
    """Takes requests; they are read and stored on a thread of their own. `close` stores what was accepted and stops."""

    def __init__(self, pack: Pack, store: Store, work: Work) -> None:
        self._receiver = Receiver(pack, store.streams.find_run)
        self._streams = store.streams
        self._findings = Findings(store, work)
        self._journal = Journal(self._store)

    def take(self, owner: Owner, groups: list[Group]) -> Future[None]:
        """Done when what is kept of the records is stored; fails with TooManyStreamsError if a run would have too many.

        BusyError if more waits than may.
        """
        size_bytes = sum(_LINE_BYTES * len(group.lines) + sum(map(len, group.lines)) for group in groups)
        return self._journal.put((owner, groups), size_bytes)

    def close(self) -> None:
        """Store what waits, look once more at what may have failed, then stop."""
        self._journal.close()
        self._findings.close()

    def _store(self, requests: Sequence[Request]) -> None:
        writes, failing = self._receiver.take(requests)
        try:
            self._streams.write(writes)
        except Exception:
            # All runs, not only those that failed: one may have been deleted meanwhile, and is to be made anew.
            self._receiver.forget({write.run_id for write in writes})
            raise
        for run in failing:
            self._findings.wake(run)
