"""Failures by fingerprint: how often, since when, and whether they were fixed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, case, delete, func, select, tuple_, update

from firstfault.server.records import Failure, Owner, Page, Principal, State, StoredDiagnosis
from firstfault.server.store.access import Access, as_utc, of_owner, visible
from firstfault.server.store.cursor import decode_cursor, encode_cursor
from firstfault.server.store.schema import diagnoses, failures

_DONE = ("fixed", "verified")


def note_diagnosis(connection: Connection, access: Access, made: StoredDiagnosis) -> None:
    """Count an answer: a new failure is open, one that was fixed or verified came back."""
    values = {
        "owner_kind": made.owner.kind,
        "owner_id": made.owner.id,
        "fingerprint": made.fingerprint,
        "entry": made.entry,
        "title": made.title,
        "project": made.project,
        "count": 1,
        "first_seen_at": made.created_at,
        "last_seen_at": made.created_at,
        "state": "open",
        "last_id": made.id,
    }
    latest = ("entry", "title", "project", "last_seen_at", "last_id")
    changed: dict[str, Any] = {name: values[name] for name in latest}
    if made.follows is None:
        # An answer that continues another is about the same run.
        changed["count"] = failures.c.count + 1
        changed["state"] = case((failures.c.state.in_(_DONE), "came back"), else_=failures.c.state)
    row = access.upsert(failures).values(**values)
    keys = [failures.c.owner_kind, failures.c.owner_id, failures.c.fingerprint]
    connection.execute(row.on_conflict_do_update(index_elements=keys, set_=changed))


def forget_diagnosis(connection: Connection, gone: StoredDiagnosis) -> None:
    """Take a deleted answer out of the account; a failure without any answer left is forgotten."""
    one = (of_owner(failures, gone.owner), failures.c.fingerprint == gone.fingerprint)
    left = (of_owner(diagnoses, gone.owner), diagnoses.c.fingerprint == gone.fingerprint)
    newest = select(diagnoses.c.id, diagnoses.c.created_at).where(*left).order_by(diagnoses.c.created_at.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    if row is None:
        connection.execute(delete(failures).where(*one))
        return
    count = connection.execute(
        select(func.count()).select_from(diagnoses).where(*left, diagnoses.c.follows.is_(None))
    ).scalar_one()
    connection.execute(
        update(failures).where(*one).values(count=max(count, 1), last_id=row.id, last_seen_at=as_utc(row.created_at))
    )


class Failures:
    """The failures of a console, each under its owner."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def list(
        self,
        principal: Principal,
        *,
        entry: str | None = None,
        project: str | None = None,
        state: State | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> tuple[Sequence[Failure], Page]:
        """Those of all owners of the principal, the last seen first; `after` is the cursor of the page before."""
        wanted = [visible(failures, principal)]
        for column, value in ((failures.c.entry, entry), (failures.c.project, project), (failures.c.state, state)):
            if value is not None:
                wanted.append(column == value)
        if after is not None:
            when, last = decode_cursor(after)
            wanted.append(tuple_(failures.c.last_seen_at, failures.c.fingerprint) < tuple_(when, last))
        order = (failures.c.last_seen_at.desc(), failures.c.fingerprint.desc())
        with self._access.read() as connection:
            rows = connection.execute(select(failures).where(*wanted).order_by(*order).limit(limit + 1)).all()
        found = [_record(row) for row in rows[:limit]]
        more = len(rows) > limit and found
        return found, Page(after=encode_cursor(found[-1].last_seen_at, found[-1].fingerprint) if more else None)

    def get(self, owner: Owner, fingerprint: str) -> Failure | None:
        """One failure of one owner."""
        with self._access.read() as connection:
            found = select(failures).where(of_owner(failures, owner), failures.c.fingerprint == fingerprint)
            row = connection.execute(found).one_or_none()
        return _record(row) if row is not None else None

    def set_state(self, owner: Owner, fingerprint: str, state: State) -> bool:
        """Say that it is open, fixed or verified. False if the owner has no such failure."""
        values: dict[str, Any] = {"state": state}
        if state in _DONE:
            values["fixed_at"] = datetime.now(UTC)
        with self._access.write() as connection:
            one = update(failures).where(of_owner(failures, owner), failures.c.fingerprint == fingerprint)
            return connection.execute(one.values(**values)).rowcount == 1


def _record(row: Row[Any]) -> Failure:
    values = dict(row._mapping)
    owner = Owner(values.pop("owner_kind"), values.pop("owner_id"))
    for name in ("first_seen_at", "last_seen_at", "fixed_at"):
        values[name] = as_utc(values[name])
    return Failure(owner=owner, **values)
