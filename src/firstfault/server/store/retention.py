"""What ends by itself, what an owner may take along, and what is left of him when he goes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from sqlalchemy import delete, select

from firstfault.server.records import Owner
from firstfault.server.settings import Settings
from firstfault.server.store.access import Access, of_owner
from firstfault.server.store.schema import allowances, audit, diagnoses, failures, runs, sessions, submissions, tokens

AUDIT_DAYS = 365
ALLOWANCE_DAYS = 2
_PAGE = 200


class Retention:
    """Expiry, export and erasure, over all kinds of records."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def expire(self, settings: Settings, now: datetime | None = None) -> dict[str, int]:
        """Delete what is older than the settings say; how much of each kind there was."""
        now = now or datetime.now(UTC)
        gone: dict[str, int] = {}
        with self._access.write() as connection:
            anonymous = diagnoses.c.owner_kind == "anonymous"
            for name, days, condition in (
                ("anonymous diagnoses", settings.anonymous_retention_days, anonymous),
                ("diagnoses", settings.retention_days, ~anonymous),
            ):
                if days is not None:
                    old = diagnoses.c.created_at < now - timedelta(days=days)
                    gone[name] = connection.execute(delete(diagnoses).where(old, condition)).rowcount
            for name, days, condition in (
                ("anonymous failures", settings.anonymous_retention_days, failures.c.owner_kind == "anonymous"),
                ("failures", settings.retention_days, failures.c.owner_kind != "anonymous"),
            ):
                if days is not None:
                    old = failures.c.last_seen_at < now - timedelta(days=days)
                    gone[name] = connection.execute(delete(failures).where(old, condition)).rowcount
            old = runs.c.last_at < now - timedelta(days=settings.stream_retention_days)
            gone["runs"] = connection.execute(delete(runs).where(old)).rowcount
            gone["sessions"] = connection.execute(delete(sessions).where(sessions.c.expires_at <= now)).rowcount
            since = (now - timedelta(days=ALLOWANCE_DAYS)).date().isoformat()
            gone["allowances"] = connection.execute(delete(allowances).where(allowances.c.day < since)).rowcount
            old = submissions.c.created_at < now - timedelta(days=1)
            gone["submissions"] = connection.execute(delete(submissions).where(old)).rowcount
            old = audit.c.at < now - timedelta(days=AUDIT_DAYS)
            gone["audit lines"] = connection.execute(delete(audit).where(old)).rowcount
        return gone

    def export(self, owner: Owner) -> Iterator[tuple[str, bytes]]:
        """Everything that is kept of an owner, as names and contents of files."""
        with self._access.read() as connection:
            ids = connection.execute(
                select(diagnoses.c.id).where(of_owner(diagnoses, owner)).order_by(diagnoses.c.created_at)
            ).scalars()
            listed = list(ids)
        for diagnosis_id in listed:
            with self._access.read() as connection:
                row = connection.execute(select(diagnoses).where(diagnoses.c.id == diagnosis_id)).one_or_none()
            if row is not None:
                yield f"diagnoses/{row.id}.diagnosis.json", bytes(row.diagnosis)
                yield f"diagnoses/{row.id}.capsule.json", bytes(row.capsule)
        for name, table in (("failures", failures), ("runs", runs), ("tokens", tokens)):
            hidden = {"digest", "secret"}
            columns = [column for column in table.c if column.name not in hidden]
            with self._access.read() as connection:
                rows = connection.execute(select(*columns).where(of_owner(table, owner))).all()
            yield f"{name}.json", msgspec.json.encode([dict(row._mapping) for row in rows])

    def erase(self, owner: Owner) -> int:
        """Delete everything that is kept of an owner; how many records there were. His account is deleted apart."""
        with self._access.write() as connection:
            found = (diagnoses, failures, runs, tokens, submissions)
            return sum(connection.execute(delete(table).where(of_owner(table, owner))).rowcount for table in found)
