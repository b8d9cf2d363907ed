"""The intake of log records as one part of a console: receiver, journal and the thread that looks for findings."""

from __future__ import annotations

from concurrent.futures import Future

from firstfault.knowledge.schema import Pack
from firstfault.server.otlp.decode import Group
from firstfault.server.otlp.findings import Findings
from firstfault.server.otlp.journal import Journal
from firstfault.server.otlp.receive import Receiver
from firstfault.server.records import Owner, Run
from firstfault.server.store.store import Store
from firstfault.server.work import Work


class Logs:
    """Takes requests one after the other; `close` writes what was accepted and stops."""

    def __init__(self, pack: Pack, store: Store, work: Work) -> None:
        self._receiver = Receiver(pack, store.streams.find_run)
        self._journal = Journal(store.streams.write)
        self._findings = Findings(store, work)

    def take(self, owner: Owner, groups: list[Group]) -> Future[None]:
        """Done when what is kept of the records is stored. TooManyStreamsError if a run would have too many."""
        writes, failing = self._receiver.take(owner, groups)
        stored = self._journal.put(writes)
        # Of all runs, not only of those that failed: one may have been deleted meanwhile, and is to be made anew.
        run_ids = {write.run_id for write in writes}
        stored.add_done_callback(lambda done: self._after(done, run_ids, failing))
        return stored

    def close(self) -> None:
        """Write what waits, look once more at what may have failed, then stop."""
        self._journal.close()
        self._findings.close()

    def _after(self, done: Future[None], run_ids: set[str], failing: list[Run]) -> None:
        if done.exception() is not None:
            self._receiver.forget(run_ids)
            return
        for run in failing:
            self._findings.wake(run)
