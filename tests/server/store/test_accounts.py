"""Accounts by address, teams that always have an owner, and what leaving one ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from firstfault.server.records import Account, Owner
from firstfault.server.store.accounts import LastOwnerError, TakenError
from firstfault.server.store.store import Store


def account(store: Store, name: str) -> Account:
    return store.accounts.create(f"{name}@example.org", f"hash of {name}", "new")


def test_an_account_comes_back_without_its_password(store: Store) -> None:
    made = store.accounts.create(" Anne@Example.org", "hash", "new", is_admin=True)
    assert made.email == "anne@example.org" and made.is_admin
    assert store.accounts.get(made.id) == store.accounts.by_email("ANNE@example.org ") == made
    assert store.accounts.password_hash(made.id) == "hash"
    assert store.accounts.get("nobody") is None and store.accounts.password_hash("nobody") is None


def test_an_address_is_taken_once(store: Store) -> None:
    account(store, "anne")
    with pytest.raises(TakenError):
        store.accounts.create("ANNE@example.org", "hash", "new")

    def sign_up(_: int) -> bool:
        try:
            account(store, "ben")
        except TakenError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(sign_up, range(6))) == [False] * 5 + [True]
    assert store.accounts.count() == 2


def test_accounts_are_changed_and_deleted(store: Store) -> None:
    made = account(store, "anne")
    assert store.accounts.change(made.id, tier="trusted", disabled=True)
    assert not store.accounts.change("nobody", tier="trusted")
    found = store.accounts.get(made.id)
    assert found is not None and found.disabled and found.tier == "trusted"
    assert store.accounts.list() == [found]
    assert store.accounts.delete(made.id) and not store.accounts.delete(made.id)


def test_a_team_and_its_members(store: Store) -> None:
    anne, ben = account(store, "anne"), account(store, "ben")
    team = store.teams.create("pretraining", anne.id)
    store.teams.add(team.id, ben.id)
    store.teams.add(team.id, anne.id)
    assert store.teams.of_account(anne.id) == [(team, "owner")]
    assert [(one.email, one.role) for one in store.teams.members(team.id)] == [
        ("anne@example.org", "owner"),
        ("ben@example.org", "member"),
    ]
    assert store.teams.set_role(team.id, ben.id, "owner")
    assert store.teams.remove(team.id, anne.id) and not store.teams.remove(team.id, anne.id)
    assert store.teams.of_account(anne.id) == []
    assert store.teams.delete(team.id) and store.teams.members(team.id) == []


def test_a_team_with_members_keeps_an_owner(store: Store) -> None:
    anne, ben = account(store, "anne"), account(store, "ben")
    team = store.teams.create("pretraining", anne.id)
    store.teams.add(team.id, ben.id)
    with pytest.raises(LastOwnerError):
        store.teams.remove(team.id, anne.id)
    with pytest.raises(LastOwnerError):
        store.teams.set_role(team.id, anne.id, "member")
    assert store.teams.remove(team.id, ben.id)
    assert store.teams.remove(team.id, anne.id)


def test_of_two_owners_who_leave_at_once_one_must_stay(store: Store) -> None:
    anne, ben, carl = (account(store, name) for name in ("anne", "ben", "carl"))
    for _ in range(5):
        team = store.teams.create("pretraining", anne.id)
        store.teams.add(team.id, ben.id, "owner")
        store.teams.add(team.id, carl.id)

        def leave(one: Account, team_id: str = team.id) -> bool:
            try:
                return store.teams.remove(team_id, one.id)
            except LastOwnerError:
                return False

        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(leave, (anne, ben))) == [False, True]


def test_who_leaves_a_team_leaves_no_token_of_it_behind(store: Store) -> None:
    anne, ben = account(store, "anne"), account(store, "ben")
    team = store.teams.create("pretraining", anne.id)
    store.teams.add(team.id, ben.id)
    of_team = store.tokens.create(Owner("team", team.id), ben.id, "ci", ("read",))[1]
    of_anne = store.tokens.create(Owner("team", team.id), anne.id, "ci", ("read",))[1]
    own = store.tokens.create(Owner("account", ben.id), ben.id, "ci", ("read",))[1]
    store.teams.remove(team.id, ben.id)
    assert store.tokens.find(of_team) is None
    assert store.tokens.find(of_anne) is not None and store.tokens.find(own) is not None
