"""A store on SQLite, and people in it; passwords are hashed cheaply here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from firstfault.server.accounts import passwords, people
from firstfault.server.accounts.principal import ALL_SCOPES
from firstfault.server.accounts.throttle import Throttle
from firstfault.server.records import Owner, Principal
from firstfault.server.settings import Settings
from firstfault.server.store.store import Store, open_store

PASSWORD = "correct horse battery"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'console.db'}")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    passwords._nobodys.cache_clear()
    for name, burst in (("_by_address", 20), ("_by_account", 30), ("_sign_ups", 10)):
        monkeypatch.setattr(people, name, Throttle(per_minute=6, burst=burst))


@pytest.fixture
def join_in(store: Store) -> Callable[[str], Principal]:
    """Somebody who signed up and in."""

    def made(name: str) -> Principal:
        email = f"{name}@example.org"
        if store.accounts.by_email(email) is None:
            people.sign_up(store, Settings(), email, PASSWORD)
        account, secret = people.sign_in(store, Settings(), email, PASSWORD, address=name)
        found = store.sessions.find(secret)
        assert found is not None
        own = Owner("account", account.id)
        teams = tuple(Owner("team", team.id) for team, _ in store.teams.of_account(account.id))
        return Principal(
            owner=own, owners=(own, *teams), scopes=ALL_SCOPES, account_id=account.id, email=email, session_id=found[0]
        )

    return made
