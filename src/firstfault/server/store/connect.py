"""A database by its URL, as the console needs it: SQLite that waits for other writers, or PostgreSQL through psycopg."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from firstfault.errors import UsageError

BUSY_MS = 15_000
POOL = 10


def connect(url: str) -> Engine:
    """An engine for `sqlite:///FILE` or `postgresql+psycopg://...`. UsageError for any other URL."""
    try:
        found = make_url(url)
        if found.drivername in ("postgresql", "postgres"):
            found = found.set(drivername="postgresql+psycopg")
        if found.get_backend_name() not in ("sqlite", "postgresql"):
            raise UsageError(
                f"`{found.get_backend_name()}` is not supported", where="database", hint="use sqlite or postgresql"
            )
        if found.get_backend_name() == "sqlite":
            engine = create_engine(found, connect_args={"timeout": BUSY_MS / 1000, "check_same_thread": False})
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_immediate)
            return engine
        return create_engine(found, pool_size=POOL, max_overflow=POOL, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise UsageError(f"is no database URL: {error}", where="database", hint="sqlite:///firstfault.db") from error


def _prepare_sqlite(connection: Any, _: Any) -> None:
    # The driver would begin transactions by itself, and only at the first write: two that read first could not both write.
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_immediate(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if not connection.get_execution_options().get("reads") else "BEGIN")
