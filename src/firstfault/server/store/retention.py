"""What ends by itself, what an owner may take along, and what is left of him when he goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, Table, delete, select

from firstfault.server.records import Owner
from firstfault.server.settings import Settings
from firstfault.server.store.access import Access, as_utc, of_owner
from firstfault.server.store.schema import (
    accounts,
    allowances,
    audit,
    diagnoses,
    failures,
    invitations,
    memberships,
    runs,
    sessions,
    stream_lines,
    streams,
    submissions,
    teams,
    tokens,
)
from firstfault.server.store.submissions import KEPT

AUDIT_DAYS = 365
ALLOWANCE_DAYS = 2
_NEVER_SHOWN = frozenset({"password", "digest", "secret", "diagnosis", "capsule"})
"""Secrets; and contents, which are files of their own."""


class Retention:
    """Expiry, export and erasure, over all kinds of records."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def expire(self, settings: Settings, now: datetime | None = None) -> dict[str, int]:
        """Delete what is older than the settings say; how much of each kind there was."""
        now = now or datetime.now(UTC)
        gone: dict[str, int] = {}
        with self._access.write() as connection:
            for name, table, condition in _ended(settings, now):
                gone[name] = gone.get(name, 0) + connection.execute(delete(table).where(*condition)).rowcount
        return gone

    def export(self, owner: Owner) -> Iterator[tuple[str, bytes]]:
        """Everything that is kept of an owner, as names and contents of files."""
        yield from self._tables(_about(owner))
        with self._access.read() as connection:
            mine = select(diagnoses.c.id).where(of_owner(diagnoses, owner)).order_by(diagnoses.c.created_at)
            ids = list(connection.execute(mine).scalars())
        for diagnosis_id in ids:
            one = select(diagnoses.c.diagnosis, diagnoses.c.capsule).where(diagnoses.c.id == diagnosis_id)
            with self._access.read() as connection:
                row = connection.execute(one).one_or_none()
            if row is not None:
                yield f"diagnoses/{diagnosis_id}.diagnosis.json", bytes(row.diagnosis)
                yield f"diagnoses/{diagnosis_id}.capsule.json", bytes(row.capsule)
        with self._access.read() as connection:
            run_ids = list(connection.execute(select(runs.c.id).where(of_owner(runs, owner))).scalars())
        for run_id in run_ids:
            of_run = ((table, (table.c.run_id == run_id,)) for table in (streams, stream_lines))
            yield from self._tables(
                (f"runs/{run_id}.{table.name}.json", _shown(table).where(*wanted)) for table, wanted in of_run
            )

    def erase(self, owner: Owner, *, tokens_too: bool = True) -> int:
        """Delete everything that is kept of an owner; how many records there were. His account is deleted apart."""
        with self._access.write() as connection:
            found = (diagnoses, failures, runs, submissions, *((tokens,) if tokens_too else ()))
            return sum(connection.execute(delete(table).where(of_owner(table, owner))).rowcount for table in found)

    def _tables(self, wanted: Iterator[tuple[str, Select[Any]]]) -> Iterator[tuple[str, bytes]]:
        for name, rows in wanted:
            with self._access.read() as connection:
                found = [_plain(row._mapping) for row in connection.execute(rows)]
            if found:
                yield name, msgspec.json.encode(found)


def _ended(settings: Settings, now: datetime) -> Iterator[tuple[str, Table, Sequence[ColumnElement[bool]]]]:
    """What of which table has ended by now."""
    for table, when in ((diagnoses, diagnoses.c.created_at), (failures, failures.c.last_seen_at)):
        anonymous = table.c.owner_kind == "anonymous"
        for days, whose in ((settings.anonymous_retention_days, anonymous), (settings.retention_days, ~anonymous)):
            if days is not None:
                yield table.name, table, (when < now - timedelta(days=days), whose)
    yield "runs", runs, (runs.c.last_at < now - timedelta(days=settings.stream_retention_days),)
    yield "sessions", sessions, (sessions.c.expires_at <= now,)
    yield "invitations", invitations, (invitations.c.used | (invitations.c.expires_at <= now),)
    yield "tokens", tokens, (tokens.c.expires_at <= now,)
    yield "allowances", allowances, (allowances.c.day < (now - timedelta(days=ALLOWANCE_DAYS)).date().isoformat(),)
    yield "submissions", submissions, (submissions.c.created_at <= now - KEPT,)
    yield "audit", audit, (audit.c.at < now - timedelta(days=AUDIT_DAYS),)


def _about(owner: Owner) -> Iterator[tuple[str, Select[Any]]]:
    """The tables that speak of an owner, by the file they become."""
    if owner.kind == "account":
        yield "account.json", _shown(accounts).where(accounts.c.id == owner.id)
        yield "sessions.json", _shown(sessions).where(sessions.c.account_id == owner.id)
        yield "audit.json", _shown(audit).where(audit.c.actor == owner.id).order_by(audit.c.id)
        yield "memberships.json", _shown(memberships).where(memberships.c.account_id == owner.id)
        yield "invitations.json", _shown(invitations).where(invitations.c.invited_by == owner.id)
    if owner.kind == "team":
        yield "team.json", _shown(teams).where(teams.c.id == owner.id)
        yield "memberships.json", _shown(memberships).where(memberships.c.team_id == owner.id)
    for table in (diagnoses, failures, runs, tokens, submissions):
        yield f"{table.name}.json", _shown(table).where(of_owner(table, owner))


def _shown(table: Table) -> Select[Any]:
    return select(*(column for column in table.c if column.name not in _NEVER_SHOWN))


def _plain(row: Any) -> dict[str, Any]:
    return {name: as_utc(value) if isinstance(value, datetime) else value for name, value in row.items()}
