"""Migrations lead to the tables of the schema, from nothing and from every revision before."""

from __future__ import annotations

import subprocess
import sys

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, select

from firstfault.errors import UsageError
from firstfault.server.store import schema
from firstfault.server.store.connect import connect
from firstfault.server.store.migrate import config, present_revision, upgrade
from firstfault.server.store.schema import metadata
from firstfault.server.store.store import Store, open_store
from server.store.people import ANNE, NOON, answer


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


def test_what_a_database_holds_survives_every_migration(database_url: str) -> None:
    engine = connect(database_url)
    revisions = [script.revision for script in ScriptDirectory.from_config(config(engine)).walk_revisions()]
    first = revisions[-1]
    upgrade(engine, first)
    assert present_revision(engine) == first
    values = {"id": "a1", "email": "anne@example.org", "password": "hash", "tier": "new", "created_at": NOON}
    invited = {"id": "i1", "digest": "d", "email": "ben@example.org", "expires_at": NOON, "used": False}
    made = answer()
    with engine.begin() as connection:
        # Only columns that the first revision has.
        connection.execute(insert(schema.accounts).values(**values, is_admin=True, disabled=False))
        connection.execute(insert(schema.invitations).values(**invited))
    Store(engine).diagnoses.add(made)
    for revision in reversed(revisions[:-1]):
        upgrade(engine, revision)
        assert present_revision(engine) == revision
    with Store(engine).access.read() as connection:
        row = connection.execute(select(schema.invitations)).one()
    assert (row.email, row.used, row.invited_by) == ("ben@example.org", False, None)
    account = Store(engine).accounts.get("a1")
    assert account is not None and account.is_admin and account.created_at == NOON
    assert Store(engine).diagnoses.get(made.id, ANNE) == made
    engine.dispose()


def test_two_consoles_that_start_at_once_bring_it_up_once(database_url: str) -> None:
    words = [sys.executable, "-m", "firstfault", "admin", "--database", database_url, "migrate"]
    begun = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ended = [(process.communicate(timeout=60), process.returncode) for process in begun]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert len({output.split(" -> ")[1] for (output, _), _ in ended}) == 1


@pytest.mark.parametrize("url", ["nonsense", "mysql://localhost/x", "sqlite:////no/such/folder/x.db"])
def test_a_database_that_cannot_be_used_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)
