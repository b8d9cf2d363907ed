"""Who did what to what, for those who run the console. Never content."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, select

from firstfault.server.records import AuditLine
from firstfault.server.store.access import Access, known_utc
from firstfault.server.store.schema import audit

MAX_DETAIL_CHARS = 500


class Audit:
    """The log of what people and tokens did."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def add(self, line: AuditLine) -> None:
        """Write a line."""
        values = {"at": line.at, "actor": line.actor, "action": line.action, "target": line.target}
        with self._access.write() as connection:
            connection.execute(insert(audit).values(**values, detail=line.detail[:MAX_DETAIL_CHARS]))

    def list(self, *, actor: str | None = None, limit: int = 200) -> Sequence[AuditLine]:
        """The last lines (of one actor), the newest first."""
        wanted = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if actor is not None:
            wanted = wanted.where(audit.c.actor == actor)
        with self._access.read() as connection:
            rows = connection.execute(wanted).all()
        return [
            AuditLine(at=known_utc(row.at), actor=row.actor, action=row.action, target=row.target, detail=row.detail)
            for row in rows
        ]
