"""Signing up as far as the console allows it, signing in without giving hints, and passwords that change."""

from __future__ import annotations

from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from msgspec.structs import replace

from firstfault.server.accounts import passwords
from firstfault.server.accounts.people import SignInError, SignUpError, change_password, sign_in, sign_out, sign_up
from firstfault.server.accounts.throttle import ThrottledError
from firstfault.server.settings import Settings
from firstfault.server.store.accounts import TakenError

DAY = timedelta(days=1)
PASSWORD = "correct horse battery"
EMAIL = "anne@example.org"
OPEN, BY_INVITATION, OFF = Settings(sign_up="open"), Settings(sign_up="invitation"), Settings(sign_up="off")


def test_a_new_account_has_the_tier_of_new_accounts(store) -> None:
    assert sign_up(store, replace(OPEN, new_accounts_are="trusted"), EMAIL, PASSWORD).tier == "trusted"
    with pytest.raises(TakenError):
        sign_up(store, OPEN, EMAIL.upper(), PASSWORD)


@pytest.mark.parametrize(
    "email", ["", "anne", "anne@", "@example.org", "anne@localhost", "a b@example.org", "a" * 65 + "@x.org"]
)
def test_what_is_no_address_is_refused(store, email) -> None:
    with pytest.raises(SignUpError):
        sign_up(store, OPEN, email, PASSWORD)


@pytest.mark.parametrize("password", ["", "short", "x" * 1001])
def test_a_password_is_neither_short_nor_endless(store, password) -> None:
    with pytest.raises(SignUpError):
        sign_up(store, OPEN, EMAIL, password)


def test_where_it_is_off_nobody_signs_up(store) -> None:
    with pytest.raises(SignUpError):
        sign_up(store, OFF, EMAIL, PASSWORD, store.invitations.create(DAY)[1])


def test_by_invitation_only_who_has_one_signs_up_and_once(store) -> None:
    secret = store.invitations.create(DAY)[1]
    for wrong in (None, "", "x", store.invitations.create(-DAY)[1]):
        with pytest.raises(SignUpError):
            sign_up(store, BY_INVITATION, EMAIL, PASSWORD, wrong)
    assert sign_up(store, BY_INVITATION, EMAIL, PASSWORD, secret).email == EMAIL
    with pytest.raises(SignUpError):
        sign_up(store, BY_INVITATION, "ben@example.org", PASSWORD, secret)


def test_an_invitation_for_an_address_is_for_no_other_and_leads_into_its_team(store, join_in) -> None:
    team = store.teams.create("pretraining", join_in("carl").account_id)
    secret = store.invitations.create(DAY, email=EMAIL, team_id=team.id)[1]
    with pytest.raises(SignUpError):
        sign_up(store, OPEN, "ben@example.org", PASSWORD, secret)
    made = sign_up(store, OPEN, "Anne@example.org", PASSWORD, secret)
    assert store.teams.of_account(made.id) == [(team, "member")]


def test_an_invitation_is_not_lost_by_a_slip(store) -> None:
    secret = store.invitations.create(DAY)[1]
    for email, password in ((EMAIL, "short"), ("anne", PASSWORD)):
        with pytest.raises(SignUpError):
            sign_up(store, BY_INVITATION, email, password, secret)
    assert sign_up(store, BY_INVITATION, EMAIL, PASSWORD, secret)


def test_the_refusal_is_the_same_whatever_is_wrong(store) -> None:
    made = sign_up(store, OPEN, EMAIL, PASSWORD)
    said = []
    for email, password in ((EMAIL, "wrong password"), ("ben@example.org", PASSWORD), ("", ""), (EMAIL, "")):
        with pytest.raises(SignInError) as refused:
            sign_in(store, OPEN, email, password, address="a")
        said.append(str(refused.value))
    store.accounts.change(made.id, disabled=True)
    with pytest.raises(SignInError) as refused:
        sign_in(store, OPEN, EMAIL, PASSWORD, address="a")
    assert {*said, str(refused.value)} == {"the address and the password do not belong together"}


def test_a_hash_is_checked_although_there_is_no_account(store, monkeypatch) -> None:
    checked = []

    class Counting(PasswordHasher):
        def verify(self, *words):
            checked.append(words)
            return super().verify(*words)

    monkeypatch.setattr(passwords, "_hasher", Counting(time_cost=1, memory_cost=8, parallelism=1))
    with pytest.raises(SignInError):
        sign_in(store, OPEN, "nobody@example.org", PASSWORD, address="a")
    assert len(checked) == 1


def test_passwords_cannot_be_guessed_from_one_address_nor_for_one_account(store) -> None:
    sign_up(store, OPEN, EMAIL, PASSWORD)
    for number in range(20):
        with pytest.raises(SignInError):
            sign_in(store, OPEN, f"{number}@example.org", PASSWORD, address="a")
    with pytest.raises(ThrottledError):
        sign_in(store, OPEN, EMAIL, PASSWORD, address="a")
    for number in range(30):
        with pytest.raises(SignInError):
            sign_in(store, OPEN, EMAIL, f"guess number {number}", address=f"b{number}")
    with pytest.raises(ThrottledError):
        sign_in(store, OPEN, " ANNE@example.org", PASSWORD, address="c")


def test_who_knows_the_password_may_sign_in_often(store) -> None:
    sign_up(store, OPEN, EMAIL, PASSWORD)
    assert len({sign_in(store, OPEN, EMAIL, PASSWORD, address="a")[1] for _ in range(40)}) == 40


def test_many_accounts_are_not_made_from_one_address(store) -> None:
    for number in range(10):
        sign_up(store, OPEN, f"a{number}@example.org", PASSWORD, address="a")
    with pytest.raises(ThrottledError):
        sign_up(store, OPEN, EMAIL, PASSWORD, address="a")
    assert sign_up(store, OPEN, EMAIL, PASSWORD, address="b")


def test_a_weak_hash_is_made_anew_when_the_password_is_known(store) -> None:
    made = sign_up(store, OPEN, EMAIL, PASSWORD)
    weak = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1).hash(PASSWORD)
    store.accounts.change(made.id, password=weak)
    sign_in(store, OPEN, EMAIL, PASSWORD, address="a")
    kept = store.accounts.password_hash(made.id)
    assert kept != weak and not passwords.is_outdated(kept)


def test_a_new_password_ends_all_other_sessions_and_renews_this_one(store, join_in) -> None:
    anne = join_in("anne")
    other = sign_in(store, OPEN, EMAIL, PASSWORD, address="a")[1]
    with pytest.raises(SignInError):
        change_password(store, anne, "wrong password", "another long word")
    with pytest.raises(SignUpError):
        change_password(store, anne, PASSWORD, "short")
    with pytest.raises(SignInError):
        change_password(store, replace(anne, session_id=None), PASSWORD, "another long word")
    assert store.sessions.find(other) is not None
    secret = change_password(store, anne, PASSWORD, "another long word")
    assert store.sessions.find(other) is None
    found = store.sessions.find(secret)
    assert found is not None and found[0] == anne.session_id
    assert sign_in(store, OPEN, EMAIL, "another long word", address="a")
    sign_out(store, anne)
    assert store.sessions.find(secret) is None


def test_what_people_do_is_written_down_without_content(store, join_in) -> None:
    anne = join_in("anne")
    with pytest.raises(SignInError):
        sign_in(store, OPEN, EMAIL, "wrong password", address="a")
    change_password(store, anne, PASSWORD, "another long word")
    sign_out(store, anne)
    lines = store.audit.list(actor=anne.account_id)
    assert [line.action for line in lines] == ["sign out", "change password", "sign in refused", "sign in", "make account"]
    assert not any(word in str(lines) for word in (EMAIL, PASSWORD, "another long word"))
