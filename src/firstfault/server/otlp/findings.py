"""Looks at a run again when its streams brought a message that can start a failure, and tells its page what it found."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from threading import Condition, Thread
from time import monotonic

import msgspec

from firstfault.history.fingerprint import NO_FAILURE, fingerprint
from firstfault.server.otlp.evidence import capsule_of
from firstfault.server.records import Run, RunEvent, StoredDiagnosis
from firstfault.server.store.ids import new_id
from firstfault.server.store.store import Store
from firstfault.server.work import Work

QUIET_S = 1.0
"""A run is looked at when it brought nothing new to look at for so long: the ranks of a failing run speak together."""
LATEST_S = 10.0
"""But no later than this after the first message."""
_LOG = logging.getLogger(__name__)


class Findings:
    """One thread; runs that are woken again while they wait are looked at once."""

    def __init__(self, store: Store, work: Work) -> None:
        self._store = store
        self._work = work
        self._waiting: dict[str, tuple[Run, float, float]] = {}
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="otlp-findings", daemon=True)
        self._thread.start()

    def wake(self, run: Run) -> None:
        """Look at this run soon."""
        with self._changed:
            now = monotonic()
            first = self._waiting[run.id][1] if run.id in self._waiting else now
            self._waiting[run.id] = (run, first, now)
            self._changed.notify()

    def close(self) -> None:
        """Look at what waits, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (run := self._next()) is not None:
            try:
                look_at(run, self._store, self._work)
            except Exception:
                # One run that cannot be looked at must not end the thread; the next message wakes it again.
                _LOG.exception("run %s could not be looked at", run.id)

    def _next(self) -> Run | None:
        with self._changed:
            while True:
                now = monotonic()
                due = {key: min(last + QUIET_S, first + LATEST_S) for key, (_, first, last) in self._waiting.items()}
                ready = [key for key, at in due.items() if at <= now or self._closing]
                if ready:
                    return self._waiting.pop(ready[0])[0]
                if self._closing:
                    return None
                self._changed.wait(min(due.values()) - now if due else None)


def look_at(run: Run, store: Store, work: Work) -> StoredDiagnosis | None:
    """Diagnose what is kept of the run; stores the answer and tells the run's page if it differs from the one before."""
    capsule = capsule_of(run, store.streams.states(run.id), store.streams.lines(run.id))
    diagnosis = work.diagnose(capsule, {})
    mark = fingerprint(diagnosis)
    before = store.streams.finding(run.id)
    if mark == NO_FAILURE or (before is not None and (before.fingerprint, before.verdict) == (mark, diagnosis.verdict)):
        return None
    stored = StoredDiagnosis(
        id=new_id(),
        owner=run.owner,
        created_at=datetime.now(UTC),
        fingerprint=mark,
        verdict=diagnosis.verdict,
        entry=diagnosis.entry,
        title=diagnosis.title,
        rank=diagnosis.initiating.rank if diagnosis.initiating else None,
        project=run.name,
        follows=before.id if before else None,
        diagnosis=msgspec.json.encode(diagnosis),
        capsule=msgspec.json.encode(capsule),
    )
    store.diagnoses.add(stored)
    store.streams.set_finding(run.id, stored.id)
    told = {"id": stored.id, "verdict": stored.verdict, "title": stored.title, "entry": stored.entry, "rank": stored.rank}
    store.streams.add_event(RunEvent(run_id=run.id, kind="finding", data=msgspec.json.encode(told).decode()))
    return stored
