"""How the parts of the store reach the database, and whose records a principal may see."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, or_
from sqlalchemy.dialects import postgresql, sqlite

from firstfault.server.records import Owner, Principal


class Access:
    """An engine with its two ways in. Transactions that only read do not wait for writers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = engine.execution_options(reads=True)

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction that may write; committed at its end, undone if it raises."""
        return self._engine.begin()

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that only reads."""
        return self._reader.begin()

    def upsert(self, table: Table) -> Any:
        """An INSERT of this database's kind, which knows ON CONFLICT."""
        is_postgresql = self._engine.dialect.name == "postgresql"
        return (postgresql.insert if is_postgresql else sqlite.insert)(table)


def of_owner(table: Table, owner: Owner) -> ColumnElement[bool]:
    """The condition that rows of `table` belong to `owner`."""
    return and_(table.c.owner_kind == owner.kind, table.c.owner_id == owner.id)


def visible(table: Table, principal: Principal) -> ColumnElement[bool]:
    """The condition that rows of `table` belong to one of those whose records the principal may see."""
    return or_(*(of_owner(table, owner) for owner in principal.owners)) if principal.owners else table.c.owner_id.is_(None)


def as_utc(value: datetime | None) -> datetime | None:
    """The time with its zone: SQLite keeps none, and all times here are UTC."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def known_utc(value: datetime) -> datetime:
    """The same for a time that is always there."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value
