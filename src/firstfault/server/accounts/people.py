"""Signing up, in and out; what people do is written to the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from firstfault.lazy_pattern import lazy_pattern
from firstfault.server.accounts.passwords import hash_password, is_outdated, is_password
from firstfault.server.records import Account, AuditLine, Principal
from firstfault.server.settings import Settings
from firstfault.server.store.store import Store

INVITATION_LASTS = timedelta(days=14)
_EMAIL = lazy_pattern(r"[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+\Z")


class SignUpError(ValueError):
    """The account cannot be made; the text says why, for the person who asked."""


class SignInError(ValueError):
    """The address and the password do not belong together, or the account is disabled."""


def sign_up(store: Store, settings: Settings, email: str, password: str, invitation: str | None = None) -> Account:
    """A new account, as far as the console allows it. SignUpError, or TakenError for a known address."""
    found = store.invitations.find(invitation) if invitation else None
    if settings.sign_up == "off" or (settings.sign_up == "invitation" and found is None):
        raise SignUpError(
            "this console takes no new accounts" + (" without an invitation" if settings.sign_up == "invitation" else "")
        )
    if invitation and found is None:
        raise SignUpError("the invitation was used already, or is too old")
    if found is not None and found.email is not None and found.email.casefold() != email.strip().casefold():
        raise SignUpError("the invitation is for another address")
    if len(email) > 320 or not _EMAIL.match(email.strip()):
        raise SignUpError("that is no e-mail address")
    try:
        kept = hash_password(password)
    except ValueError as error:
        raise SignUpError(str(error)) from error
    if found is not None and not store.invitations.use(found.id):
        raise SignUpError("the invitation was used already")
    account = store.accounts.create(email, kept, settings.new_accounts_are)
    if found is not None and found.team_id is not None:
        store.teams.add(found.team_id, account.id)
    note(store, account.id, "sign up", account.id)
    return account


def sign_in(store: Store, settings: Settings, email: str, password: str, agent: str = "") -> tuple[Account, str]:
    """The account and the secret for its cookie. SignInError says the same whatever is wrong."""
    account = store.accounts.by_email(email)
    kept = store.accounts.password_hash(account.id) if account is not None else None
    if not is_password(kept, password) or account is None or kept is None or account.disabled:
        if account is not None:
            note(store, account.id, "sign in refused", account.id)
        raise SignInError("the address and the password do not belong together")
    if is_outdated(kept):
        store.accounts.change(account.id, password=hash_password(password))
    note(store, account.id, "sign in", account.id)
    return account, store.sessions.create(account.id, timedelta(days=settings.session_days), agent)


def change_password(store: Store, principal: Principal, old: str, new: str) -> None:
    """Set a new password and end all other sessions. SignInError for a wrong old one, ValueError for a bad new one."""
    account_id = principal.account_id
    if account_id is None or not is_password(store.accounts.password_hash(account_id), old):
        raise SignInError("that is not the present password")
    store.accounts.change(account_id, password=hash_password(new))
    store.sessions.end(account_id, but=principal.session_id)
    note(store, account_id, "change password", account_id)


def note(store: Store, actor: str, action: str, target: str, detail: str = "") -> None:
    """Write a line of the audit log."""
    store.audit.add(AuditLine(at=datetime.now(UTC), actor=actor, action=action, target=target, detail=detail))
