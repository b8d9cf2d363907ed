"""Sessions, tokens and invitations: found by their secret only, kept as digests, ended when they should be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from firstfault.server.records import Account, Owner
from firstfault.server.store.schema import invitations, sessions, tokens
from firstfault.server.store.store import Store

DAY = timedelta(days=1)


def account(store: Store, name: str = "anne") -> Account:
    return store.accounts.create(f"{name}@example.org", "hash", "new")


def test_a_session_is_found_by_its_secret_until_it_ends(store: Store) -> None:
    anne, ben = account(store), account(store, "ben")
    secret, other = (store.sessions.create(anne.id, DAY, "browser") for _ in range(2))
    found = store.sessions.find(secret)
    assert found is not None and found[1] == anne
    assert store.sessions.find(found[0]) is None and store.sessions.find("") is None
    assert {one.agent for one in store.sessions.list(anne.id)} == {"browser"}
    assert store.sessions.list(ben.id) == []
    assert store.sessions.end(ben.id, found[0]) == 0
    assert store.sessions.end(anne.id, but=found[0]) == 1
    assert store.sessions.find(other) is None and store.sessions.find(secret) is not None
    assert store.sessions.end(anne.id) == 1
    assert store.sessions.find(secret) is None


def test_a_session_that_is_over_or_whose_account_is_disabled_is_none(store: Store) -> None:
    anne = account(store)
    assert store.sessions.find(store.sessions.create(anne.id, -DAY)) is None
    secret = store.sessions.create(anne.id, DAY)
    store.accounts.change(anne.id, disabled=True)
    assert store.sessions.find(secret) is None
    store.accounts.delete(anne.id)
    assert store.sessions.find(secret) is None


def test_a_rotated_session_has_a_new_secret(store: Store) -> None:
    anne, ben = account(store), account(store, "ben")
    secret = store.sessions.create(anne.id, DAY)
    found = store.sessions.find(secret)
    assert found is not None
    assert store.sessions.rotate(ben.id, found[0]) is None
    new = store.sessions.rotate(anne.id, found[0])
    assert new is not None and store.sessions.find(new) == found and store.sessions.find(secret) is None


def test_a_token_is_found_by_its_secret_until_it_ends(store: Store) -> None:
    anne = account(store)
    owner = Owner("account", anne.id)
    token, secret = store.tokens.create(owner, anne.id, "ci", ("diagnose", "read"))
    assert secret.startswith("ff_") and secret.startswith(token.prefix)
    found = store.tokens.find(secret)
    assert found is not None and found[0].scopes == ("diagnose", "read") and found[1] == anne
    assert store.tokens.list(owner)[0].last_used_at is not None
    assert store.tokens.revoke(Owner("account", "ben"), token.id) == 0
    assert store.tokens.revoke(owner, token.id) == 1
    assert store.tokens.find(secret) is None


def test_a_token_ends_with_its_time_and_with_its_maker(store: Store) -> None:
    anne = account(store)
    owner, now = Owner("account", anne.id), datetime.now(UTC)
    assert store.tokens.find(store.tokens.create(owner, anne.id, "old", ("read",), now - DAY)[1]) is None
    secret = store.tokens.create(owner, anne.id, "new", ("read",), now + DAY)[1]
    assert store.tokens.find(secret) is not None
    store.accounts.change(anne.id, disabled=True)
    assert store.tokens.find(secret) is None
    store.accounts.change(anne.id, disabled=False)
    assert store.tokens.find(secret) is not None
    assert store.tokens.revoke_made_by(anne.id) == 2
    store.tokens.create(owner, anne.id, "last", ("read",))
    store.accounts.delete(anne.id)
    assert store.tokens.list(owner) == []


def test_an_invitation_works_once(store: Store) -> None:
    anne = account(store)
    team = store.teams.create("pretraining", anne.id)
    made, secret = store.invitations.create(DAY, email="ben@example.org", team_id=team.id, invited_by=anne.id)
    assert store.invitations.find(secret) == made and store.invitations.find(made.id) is None
    assert store.invitations.list(team.id) == store.invitations.list() == [made]
    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(lambda _: store.invitations.use(made.id), range(6))) == [False] * 5 + [True]
    assert store.invitations.find(secret) is None and store.invitations.list() == []
    store.invitations.give_back(made.id)
    assert store.invitations.find(secret) == made
    assert not store.invitations.revoke(made.id, None) and store.invitations.revoke(made.id, team.id)
    assert store.invitations.find(secret) is None
    assert store.invitations.find(store.invitations.create(-DAY)[1]) is None


def test_no_secret_lies_in_the_database(store: Store) -> None:
    anne = account(store)
    secrets = [
        store.sessions.create(anne.id, DAY),
        store.tokens.create(Owner("account", anne.id), anne.id, "ci", ("read",))[1],
        store.invitations.create(DAY)[1],
    ]
    with store.access.read() as connection:
        kept = " ".join(
            str(row) for table in (sessions, tokens, invitations) for row in connection.execute(select(table)).all()
        )
    assert not any(secret in kept for secret in secrets)
    assert all(len(secret) >= 43 for secret in secrets)
