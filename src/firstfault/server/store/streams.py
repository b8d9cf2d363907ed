"""Runs whose log records come in over OTLP: their streams, evidence, pseudonyms, and what their page is told."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from firstfault.server.records import LogWrite, Owner, Principal, Run, RunEvent, StoredDiagnosis, StreamLine, StreamState
from firstfault.server.store.access import Access, as_utc, of_owner, visible
from firstfault.server.store.diagnoses import record_of
from firstfault.server.store.ids import new_id
from firstfault.server.store.schema import diagnoses, run_events, run_names, runs, stream_lines, streams

SECRET_BYTES = 32
MAX_EVENTS = 500


class Streams:
    """The runs of a console."""

    def __init__(self, access: Access) -> None:
        self._access = access
        # Made once: to build and compile a statement costs more than to run it.
        more = runs.c.records + bindparam("more")
        self._count = update(runs).where(runs.c.id == bindparam("of_run")).values(last_at=bindparam("heard_at"), records=more)
        state = access.upsert(streams)
        changed = {column.name: state.excluded[column.name] for column in streams.c if not column.primary_key}
        self._set_state = state.on_conflict_do_update(index_elements=[streams.c.run_id, streams.c.name], set_=changed)
        self._add_line = access.upsert(stream_lines).on_conflict_do_nothing()
        self._add_name = access.upsert(run_names).on_conflict_do_nothing()

    def find_run(self, owner: Owner, name: str) -> tuple[Run, Sequence[StreamState], dict[bytes, str]]:
        """The run of that name, made if it is new, with its streams and its pseudonyms by digest."""
        one = select(runs).where(of_owner(runs, owner), runs.c.name == name)
        with self._access.read() as connection:
            row = connection.execute(one).one_or_none()
        if row is None:
            now = datetime.now(UTC)
            values = {"id": new_id(), "owner_kind": owner.kind, "owner_id": owner.id, "name": name}
            try:
                with self._access.write() as connection:
                    made = insert(runs).values(**values, created_at=now, last_at=now, secret=secrets.token_bytes(SECRET_BYTES))
                    connection.execute(made)
            except IntegrityError:
                # Another process made it at the same time.
                pass
            with self._access.read() as connection:
                row = connection.execute(one).one()
        run = _run(row)
        with self._access.read() as connection:
            known = connection.execute(select(run_names.c.digest, run_names.c.name).where(run_names.c.run_id == run.id))
            names = {bytes(digest): name for digest, name in known}
        return run, self.states(run.id), names

    def write(self, writes: Sequence[LogWrite]) -> None:
        """Store all of it in one transaction. What was stored before is not stored twice."""
        with self._access.write() as connection:
            for write in writes:
                self._write(connection, write)

    def _write(self, connection: Connection, write: LogWrite) -> None:
        connection.execute(self._count, {"of_run": write.run_id, "heard_at": write.at, "more": write.records})
        if write.streams:
            connection.execute(self._set_state, [_plain(state) for state in write.streams])
        if write.lines:
            connection.execute(self._add_line, [_plain(line) for line in write.lines])
        if write.names:
            names = [{"run_id": write.run_id, "digest": digest, "name": name} for digest, name in write.names.items()]
            connection.execute(self._add_name, names)

    def runs(self, principal: Principal, limit: int = 100) -> Sequence[Run]:
        """The runs that the principal may see, the last heard of first."""
        found = select(runs).where(visible(runs, principal)).order_by(runs.c.last_at.desc()).limit(limit)
        with self._access.read() as connection:
            return [_run(row) for row in connection.execute(found)]

    def run(self, run_id: str, principal: Principal) -> Run | None:
        """One run that the principal may see."""
        with self._access.read() as connection:
            row = connection.execute(select(runs).where(runs.c.id == run_id, visible(runs, principal))).one_or_none()
        return _run(row) if row is not None else None

    def states(self, run_id: str) -> Sequence[StreamState]:
        """The streams of a run by name."""
        with self._access.read() as connection:
            rows = connection.execute(select(streams).where(streams.c.run_id == run_id).order_by(streams.c.name)).all()
        return [StreamState(**{**row._mapping, "last_at": as_utc(row.last_at)}) for row in rows]

    def lines(self, run_id: str) -> Sequence[StreamLine]:
        """The evidence of a run, by stream and number."""
        order = (stream_lines.c.stream, stream_lines.c.number)
        with self._access.read() as connection:
            rows = connection.execute(select(stream_lines).where(stream_lines.c.run_id == run_id).order_by(*order)).all()
        return [StreamLine(**{**row._mapping, "at": as_utc(row.at)}) for row in rows]

    def finding(self, run_id: str) -> StoredDiagnosis | None:
        """The last answer about the run."""
        joined = select(diagnoses).join(runs, runs.c.diagnosis_id == diagnoses.c.id).where(runs.c.id == run_id)
        with self._access.read() as connection:
            row = connection.execute(joined).one_or_none()
        return record_of(row) if row is not None else None

    def set_finding(self, run_id: str, diagnosis_id: str) -> None:
        """Note the last answer about the run."""
        with self._access.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(diagnosis_id=diagnosis_id))

    def add_event(self, event: RunEvent) -> None:
        """Tell those who follow the run."""
        with self._access.write() as connection:
            connection.execute(insert(run_events).values(run_id=event.run_id, kind=event.kind, data=event.data))

    def events(self, run_id: str, after: int) -> Sequence[RunEvent]:
        """What those who follow the run are told after the event with that id."""
        wanted = select(run_events).where(run_events.c.run_id == run_id, run_events.c.id > after)
        with self._access.read() as connection:
            rows = connection.execute(wanted.order_by(run_events.c.id).limit(MAX_EVENTS)).all()
        return [RunEvent(**row._mapping) for row in rows]

    def delete(self, run_id: str, principal: Principal) -> bool:
        """Forget a run with all that was kept of it; its answers stay. False if the principal has no such run."""
        with self._access.write() as connection:
            return connection.execute(delete(runs).where(runs.c.id == run_id, visible(runs, principal))).rowcount == 1

    def expire(self, before: datetime) -> int:
        """Forget the runs that were not heard of since; how many there were."""
        with self._access.write() as connection:
            return connection.execute(delete(runs).where(runs.c.last_at < before)).rowcount

    def count(self) -> int:
        """How many runs are kept."""
        with self._access.read() as connection:
            return connection.execute(select(func.count()).select_from(runs)).scalar_one()


def _plain(record: StreamState | StreamLine) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def _run(row: Row[Any]) -> Run:
    values = dict(row._mapping)
    owner = Owner(values.pop("owner_kind"), values.pop("owner_id"))
    for name in ("created_at", "last_at"):
        values[name] = as_utc(values[name])
    return Run(owner=owner, **values)
