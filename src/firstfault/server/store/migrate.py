"""Brings a database to the newest schema, revision by revision (Alembic), in one transaction."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from firstfault.errors import UsageError

FOLDER = Path(__file__).parent / "migrations"


def config(engine: Engine) -> Config:
    """Alembic's configuration for this database; nothing of it stands in a file."""
    made = Config()
    made.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    made.attributes["engine"] = engine
    return made


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database to a revision. UsageError if it cannot be opened."""
    try:
        command.upgrade(config(engine), revision)
    except OperationalError as error:
        raise UsageError(f"cannot be opened: {error.orig}", where="database", hint="see --database") from error


def present_revision(engine: Engine) -> str | None:
    """The revision that the database is at; None for an empty one. UsageError if it cannot be opened."""
    try:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except OperationalError as error:
        raise UsageError(f"cannot be opened: {error.orig}", where="database", hint="see --database") from error
