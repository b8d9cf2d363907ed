"""Stored answers, and with each the account of its failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, and_, delete, exists, insert, select, tuple_, update

from firstfault.history.fingerprint import NO_FAILURE
from firstfault.server.records import Owner, Page, Principal, StoredDiagnosis, Visibility
from firstfault.server.store.access import Access, as_utc, of_owner, visible
from firstfault.server.store.cursor import decode_cursor, encode_cursor
from firstfault.server.store.failures import forget_diagnosis, note_diagnosis
from firstfault.server.store.schema import diagnoses, failures

MAX_CHAIN = 50
_LISTED = [column for column in diagnoses.c if column.name not in ("diagnosis", "capsule")]


class Diagnoses:
    """The answers of a console. Who may see one is decided here, for every way to reach it."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def add(self, made: StoredDiagnosis) -> None:
        """Keep an answer; its failure is counted, and came back if it was fixed."""
        with self._access.write() as connection:
            connection.execute(insert(diagnoses).values(**_values(made)))
            if made.fingerprint != NO_FAILURE:
                note_diagnosis(connection, self._access, made)

    def get(self, diagnosis_id: str, principal: Principal) -> StoredDiagnosis | None:
        """The answer, if the principal owns it or it is shown to whoever has its id."""
        seen = (diagnoses.c.visibility == "link") | visible(diagnoses, principal)
        with self._access.read() as connection:
            row = connection.execute(select(diagnoses).where(diagnoses.c.id == diagnosis_id, seen)).one_or_none()
        return record_of(row) if row is not None else None

    def list(
        self,
        principal: Principal,
        *,
        entry: str | None = None,
        project: str | None = None,
        fingerprint: str | None = None,
        state: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> tuple[Sequence[StoredDiagnosis], Page]:
        """Those the principal owns, the newest first, without their contents; `after` is the cursor of the page before."""
        wanted = [visible(diagnoses, principal)]
        for column, value in (
            (diagnoses.c.entry, entry),
            (diagnoses.c.project, project),
            (diagnoses.c.fingerprint, fingerprint),
        ):
            if value is not None:
                wanted.append(column == value)
        if state is not None:
            same = (failures.c.owner_kind, failures.c.owner_id, failures.c.fingerprint)
            own = (diagnoses.c.owner_kind, diagnoses.c.owner_id, diagnoses.c.fingerprint)
            joined = and_(*(one == other for one, other in zip(same, own, strict=True)))
            wanted.append(exists().where(joined, failures.c.state == state))
        if after is not None:
            when, last = decode_cursor(after)
            wanted.append(tuple_(diagnoses.c.created_at, diagnoses.c.id) < tuple_(when, last))
        order = (diagnoses.c.created_at.desc(), diagnoses.c.id.desc())
        with self._access.read() as connection:
            rows = connection.execute(select(*_LISTED).where(*wanted).order_by(*order).limit(limit + 1)).all()
        found = [record_of(row) for row in rows[:limit]]
        more = len(rows) > limit and found
        return found, Page(after=encode_cursor(found[-1].created_at, found[-1].id) if more else None)

    def chain(self, diagnosis_id: str, principal: Principal) -> Sequence[StoredDiagnosis]:
        """The answers that this one continues, the first one first; those that the principal may not see are left out."""
        found: list[StoredDiagnosis] = []
        next_id: str | None = diagnosis_id
        while next_id is not None and len(found) <= MAX_CHAIN:
            one = self.get(next_id, principal)
            if one is None or one.id in {other.id for other in found}:
                break
            found.append(one)
            next_id = one.follows
        return found[:0:-1]

    def set_visibility(self, diagnosis_id: str, principal: Principal, visibility: Visibility) -> bool:
        """Show it to whoever has its id, or not any more. False if the principal does not own it."""
        owned = (diagnoses.c.id == diagnosis_id, visible(diagnoses, principal))
        with self._access.write() as connection:
            return connection.execute(update(diagnoses).where(*owned).values(visibility=visibility)).rowcount == 1

    def delete(self, diagnosis_id: str, principal: Principal) -> bool:
        """False if there is none that the principal owns."""
        owned = (diagnoses.c.id == diagnosis_id, visible(diagnoses, principal))
        with self._access.write() as connection:
            row = connection.execute(select(*_LISTED).where(*owned)).one_or_none()
            if row is None:
                return False
            connection.execute(delete(diagnoses).where(diagnoses.c.id == diagnosis_id))
            forget_diagnosis(connection, record_of(row))
        return True

    def delete_all(self, owner: Owner) -> int:
        """All answers of one owner, and the account of their failures; how many there were."""
        with self._access.write() as connection:
            connection.execute(delete(failures).where(of_owner(failures, owner)))
            return connection.execute(delete(diagnoses).where(of_owner(diagnoses, owner))).rowcount


def _values(made: StoredDiagnosis) -> dict[str, Any]:
    return {
        "id": made.id,
        "owner_kind": made.owner.kind,
        "owner_id": made.owner.id,
        "created_at": made.created_at,
        "fingerprint": made.fingerprint,
        "verdict": made.verdict,
        "entry": made.entry,
        "title": made.title,
        "rank": made.rank,
        "project": made.project,
        "visibility": made.visibility,
        "follows": made.follows,
        "facts": made.facts,
        "diagnosis": made.diagnosis,
        "capsule": made.capsule,
    }


def record_of(row: Row[Any]) -> StoredDiagnosis:
    """The answer of a row, whole or as it is listed."""
    values = dict(row._mapping)
    owner = Owner(values.pop("owner_kind"), values.pop("owner_id"))
    created_at = as_utc(values.pop("created_at"))
    assert created_at is not None
    return StoredDiagnosis(owner=owner, created_at=created_at, **values)
