"""Runs migrations on the engine that `migrate` hands over: all in one transaction, one console at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

from firstfault.server.store.schema import metadata

LOCK = 0x66697273

engine = context.config.attributes["engine"]
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        if engine.dialect.name == "postgresql":
            # SQLite's transaction keeps other writers out by itself.
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        context.run_migrations()
    connection.commit()
