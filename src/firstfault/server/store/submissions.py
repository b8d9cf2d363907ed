"""What was submitted under which key: the same key with the same content gets the same answer, for a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from firstfault.server.records import Owner
from firstfault.server.store.access import Access, of_owner
from firstfault.server.store.schema import submissions

KEPT = timedelta(hours=24)


class Submissions:
    """Idempotency keys by owner."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def find(self, owner: Owner, key: str) -> tuple[str, str] | None:
        """The digest of what was submitted under the key and the id of its answer."""
        since = datetime.now(UTC) - KEPT
        wanted = (of_owner(submissions, owner), submissions.c.key == key, submissions.c.created_at > since)
        with self._access.read() as connection:
            row = connection.execute(select(submissions.c.digest, submissions.c.diagnosis_id).where(*wanted)).one_or_none()
        return (row.digest, row.diagnosis_id) if row is not None else None

    def remember(self, owner: Owner, key: str, digest: str, diagnosis_id: str) -> bool:
        """False if the key is taken already; an expired one is taken over."""
        now = datetime.now(UTC)
        one = (of_owner(submissions, owner), submissions.c.key == key)
        try:
            with self._access.write() as connection:
                connection.execute(delete(submissions).where(*one, submissions.c.created_at <= now - KEPT))
                values = {"owner_kind": owner.kind, "owner_id": owner.id, "key": key, "digest": digest}
                connection.execute(insert(submissions).values(**values, diagnosis_id=diagnosis_id, created_at=now))
        except IntegrityError:
            return False
        return True

    def forget(self, owner: Owner, key: str) -> None:
        """Free the key: what was submitted under it was not answered."""
        with self._access.write() as connection:
            connection.execute(delete(submissions).where(of_owner(submissions, owner), submissions.c.key == key))
