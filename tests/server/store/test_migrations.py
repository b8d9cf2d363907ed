"""Migrations lead to the tables of the schema, from nothing and from every revision before."""

from __future__ import annotations

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from firstfault.errors import UsageError
from firstfault.server.store.connect import connect
from firstfault.server.store.migrate import config, upgrade
from firstfault.server.store.schema import metadata
from firstfault.server.store.store import open_store


def test_they_lead_to_the_schema(database_url: str) -> None:
    engine = connect(database_url)
    upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_each_can_be_taken_back_and_made_again(database_url: str) -> None:
    engine = connect(database_url)
    revisions = [script.revision for script in ScriptDirectory.from_config(config(engine)).walk_revisions()]
    assert revisions
    upgrade(engine)
    for _ in revisions:
        command.downgrade(config(engine), "-1")
    upgrade(engine)
    upgrade(engine)
    engine.dispose()


@pytest.mark.parametrize("url", ["nonsense", "mysql://localhost/x", "sqlite:////no/such/folder/x.db"])
def test_a_database_that_cannot_be_used_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)
